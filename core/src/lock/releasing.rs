//! The end of a lease by its holder.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{LostReason, Result};
use crate::events::Count;
use crate::fork;
use crate::lease::{Grant, View};
use crate::protocol::{Release, tombstone_life};
use crate::renewal::Job;
use crate::signals::Quiet;
use crate::waiting::Wake;

/// How a release went. A lost lease is [`Error::Lost`](crate::Error::Lost) instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "Unconfirmed means that others may have to wait for the ttl"]
pub enum Released {
    /// The lock is free for others.
    Released,
    /// An inner release: the thread still holds the lock this often.
    StillHeld(u32),
    /// The server did not confirm within `io_timeout`. The lease is over for this client and its renewal has
    /// stopped; the background goes on releasing until the key has lapsed by its ttl, and longer while a copy of an
    /// unanswered acquire may still set it.
    Unconfirmed,
}

/// Ends a lease: no more renewal from here on, then compare-and-delete within `io_timeout`.
///
/// The lease is over whatever comes back.
pub(crate) fn release(engine: &Engine, grant: &Arc<Grant>) -> Result<Released> {
    fork::detect();
    if engine.is_inherited() {
        return Err(grant.lost_info(LostReason::Forked).into());
    }
    let clock = &engine.config.clock;
    // A lease whose time is over is lost, even if nobody has looked at the clock since.
    let _ = engine.check(grant);
    let ended = grant.state.release();
    engine.keeper.forget(grant);
    let lost = match ended {
        Ok(()) => None,
        Err(View::Lost(reason)) => Some(reason),
        Err(View::Released | View::Live { .. }) => {
            return Err(engine.not_held(grant.spec.name(), "it was released before"));
        }
    };
    let began = clock.now();
    if lost.is_none() {
        engine.counters.held(began.since(grant.granted), grant.ttl());
    }
    if lost == Some(LostReason::Closed) {
        return Err(grant.lost_info(LostReason::Closed).into());
    }
    let outcome = send(engine, grant, lost.is_some());
    match (lost, outcome) {
        (Some(reason), _) => Err(grant.lost_info(reason).into()),
        (None, Outcome::Confirmed) => {
            engine.counters.one(Count::Released);
            Ok(Released::Released)
        }
        (None, Outcome::NotOurs) => {
            let reason = if clock.now() < grant.trusted_until() { LostReason::Taken } else { LostReason::Expired };
            engine.counters.lost(reason);
            crate::events::log_loss(grant, reason);
            Err(grant.lost_info(reason).into())
        }
        (None, Outcome::Unknown) => {
            engine.counters.one(Count::ReleaseUnconfirmed);
            Ok(Released::Unconfirmed)
        }
        (None, Outcome::Refused(fault)) => {
            engine.counters.one(Count::ReleaseFailed);
            Err(engine.error("release", &grant.spec, fault, clock.now().since(began)))
        }
    }
}

enum Outcome {
    Confirmed,
    /// The server says that the key is not this token's, and every try before was answered.
    NotOurs,
    /// No answer; the background has taken over.
    Unknown,
    /// The server refuses for good.
    Refused(crate::transport::Fault),
}

/// Compare-and-delete, repeated within `io_timeout`; for a lost lease once, because little depends on it.
fn send(engine: &Engine, grant: &Arc<Grant>, lost: bool) -> Outcome {
    let clock = &engine.config.clock;
    let by = clock.now().after(engine.config.io_timeout);
    let request = Release {
        key: &grant.spec.key,
        token: &grant.token,
        tombstone: grant.acquire_unanswered.then(|| tombstone_life(grant.ttl())),
        turn: engine.config.turn,
    };
    // A try that got no answer may have done it, if it left while the lease was surely ours.
    let mut may_be_done = false;
    let mut closing = false;
    let mut quiet = None;
    loop {
        let live = clock.now() < grant.trusted_until();
        let fault = match engine.transport.release(&request, by) {
            Ok(answer) => {
                note(engine, grant, &answer.reply);
                return if answer.reply.released || may_be_done { Outcome::Confirmed } else { Outcome::NotOurs };
            }
            Err(fault) => fault,
        };
        may_be_done |= fault.unanswered && live;
        if fault.interrupted {
            quiet.get_or_insert_with(Quiet::begin);
        }
        if !fault.is_retryable() {
            return Outcome::Refused(fault);
        }
        let now = clock.now();
        let pause = if fault.is_worth_repeating() { Duration::ZERO } else { RETRY_GAP };
        if lost || closing || now.after(pause) >= by {
            let until = now.after(grant.ttl());
            let job = Job::new(&grant.spec, &grant.token, grant.acquire_unanswered, now, until);
            engine.janitor.release(job);
            tracing::warn!(
                lock = grant.spec.name(),
                server = engine.transport.server(),
                error = fault.detail,
                "release not confirmed; it goes on in the background"
            );
            return Outcome::Unknown;
        }
        if !pause.is_zero() {
            closing = engine.waiters.nap(&grant.token).sleep(now.after(pause), None) == Some(Wake::Closed);
        }
    }
}

/// Gap between two tries while the caller waits.
const RETRY_GAP: Duration = Duration::from_millis(50);

/// Takes in what else an answer says.
fn note(engine: &Engine, grant: &Grant, answer: &crate::protocol::ReleaseAnswer) {
    if answer.publish_denied {
        engine.inbox.publish_denied();
    }
    if let Some(role) = answer.damaged {
        let key = grant.spec.key.of(role).to_string();
        tracing::warn!(lock = grant.spec.name(), key, "foreign data under a key of this lock: nobody was woken");
    }
}
