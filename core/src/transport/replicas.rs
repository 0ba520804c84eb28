//! The wait for replicas that may follow a grant.

use std::time::Duration;

use crate::clock::Moment;
use crate::protocol::{Acquired, Replication, SERVER_TICK, decode_wait, encode_wait};

use super::opener::Opener;
use super::slot::Slot;
use super::{Answered, Exchange, Fault};

/// How much of the time that is left is kept for a late reply: half of it, this at most.
const FOR_THE_REPLY: Duration = SERVER_TICK.saturating_add(Duration::from_millis(25));

/// Has the server wait until enough replicas have what `slot`'s connection has just been granted, for a lease of `ttl`.
///
/// Only that connection will do: the server waits for what its own client has written. The answer counts from the
/// grant's own send instant.
pub(crate) fn await_replicas(
    slot: &mut Slot,
    open: &Opener,
    granted: Answered<Acquired>,
    replication: Replication,
    ttl: Duration,
    by: Moment,
) -> Exchange<Acquired> {
    let began = open.clock.now();
    let limit = limit(replication.within, by.since(began), granted.sent.after(ttl).since(began));
    let answered_by = began.after(limit).after(SERVER_TICK).after(open.limits.io).min(by);
    let answer = slot.follow_up(open, &encode_wait(replication.wanted, limit), answered_by);
    let acknowledged = decode_wait(&answer.map_err(Fault::after_grant)?.reply).map_err(|malformed| {
        slot.taint();
        Fault::garbled(malformed).after_grant()
    })?;
    let waited = whole_millis(open.clock.now().since(began));
    let enough = acknowledged >= replication.wanted;
    let reply = if enough { granted.reply } else { Acquired::NotReplicated { acknowledged, waited } };
    Ok(Answered { reply, sent: granted.sent })
}

/// How long the server may wait, in whole milliseconds: no longer than the caller has time, and not beyond the lease.
fn limit(within: Duration, left: Duration, lease: Duration) -> Duration {
    let limit = within.min(left.saturating_sub(FOR_THE_REPLY.min(left / 2))).min(lease);
    whole_millis(limit).max(Duration::from_millis(1))
}

fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_server_waits_no_longer_than_the_caller_has_time_for_its_reply() {
        assert_eq!(limit(ms(100), ms(2_000), ms(30_000)), ms(100));
        assert_eq!(limit(ms(1_000), ms(1_000), ms(30_000)), ms(875));
        assert_eq!(limit(ms(100), ms(100), ms(30_000)), ms(50));
        assert_eq!(limit(ms(100), ms(10), ms(30_000)), ms(5));
        assert_eq!(limit(ms(60_000), ms(61_000), ms(200)), ms(200), "not beyond the lease");
    }

    #[test]
    fn a_wait_without_time_is_not_one_without_limit() {
        assert_eq!(limit(ms(100), Duration::ZERO, ms(30_000)), ms(1));
        assert_eq!(limit(ms(100), ms(2_000), Duration::ZERO), ms(1));
    }
}
