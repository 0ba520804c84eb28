//! Renewal by hand.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::fork;
use crate::lease::{Ended, Grant};
use crate::protocol::{Renew, Renewal};
use crate::signals::Quiet;
use crate::transport::Fault;

/// Resets a lease to its full ttl, on the caller's thread, within `io_timeout`.
pub(crate) fn renew(engine: &Engine, grant: &Arc<Grant>) -> Result<()> {
    fork::detect();
    engine.check(grant)?;
    let clock = &engine.config.clock;
    let began = clock.now();
    let by = began.after(engine.config.io_timeout);
    let request = [Renew { key: &grant.spec.key, token: &grant.token, ttl: grant.ttl() }];
    let before = grant.renewal_begins();
    let mut outcome = engine.transport.renew(&request, by);
    // Each retry empties a slot, so that they end, however many connections have ended while idle; a signal's end with
    // the time.
    while let Err(fault) = &outcome
        && fault.is_worth_repeating()
        && clock.now() < by
    {
        let _quiet = fault.interrupted.then(Quiet::begin);
        outcome = engine.transport.renew(&request, by);
    }
    let outcome = outcome.and_then(|answer| match answer.reply.first() {
        Some(Renewal::Unknown { .. }) | None => Err(Fault { unanswered: true, ..Fault::unreachable("no answer") }),
        Some(renewal) => Ok((*renewal, answer.sent)),
    });
    let ended = match outcome {
        Ok((Renewal::NotOurs, _)) => engine.keeper.lose(grant, LostReason::Taken),
        Ok((_, sent)) if grant.renewed(clock.now(), sent) => return Ok(()),
        Ok(_) => {
            grant.renewal_failed(true);
            engine.keeper.expire(grant).unwrap_or(Ended::Before(LostReason::Expired))
        }
        Err(fault) => {
            grant.renewal_failed(before || fault.unanswered);
            // The lease may have ended meanwhile, which is what its holder has to know first.
            engine.check(grant)?;
            return Err(engine.error("renew", &grant.spec, fault, clock.now().since(began)));
        }
    };
    match ended {
        Ended::Now(reason) | Ended::Before(reason) => Err(Error::Lost(grant.lost_info(reason))),
        Ended::Released => Err(engine.not_held(grant.spec.name(), "it was released meanwhile")),
    }
}
