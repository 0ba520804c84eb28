//! One lease's state and time arithmetic: pure, the clock is the caller's.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::LostReason;
use crate::sync::{AtomicU64, Ordering};

/// What a holder gives up of its ttl for rates of clocks that differ and for the time between looking
/// at the deadline and acting on it: 1 % of the ttl and 2 ms.
pub(crate) fn margin(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// Until when a lease may be trusted whose granting or renewing request was sent at `sent`.
///
/// Counted from before the request left, never from its reply: the server's clock for the key may start
/// at any instant after `sent`.
pub(crate) fn deadline(sent: Moment, ttl: Duration) -> Moment {
    sent.after(ttl.saturating_sub(margin(ttl)))
}

/// A lease's state and deadline in one word, so that a check costs one load and every transition is
/// one compare-and-swap.
///
/// | state | set by | next |
/// |---|---|---|
/// | Held | a grant | Held (renewed), Uncertain, Lost, Released |
/// | Uncertain | a renewal that got no answer | Held, Lost, Released |
/// | Lost(reason) | deadline passed, server said 0, max_hold, fork, close | – |
/// | Released | release by the holder | – |
///
/// Held and Uncertain carry the deadline; the clock alone ends them once it has passed.
#[derive(Debug)]
pub(crate) struct LeaseState(AtomicU64);

const TAG_BITS: u32 = 4;
const HELD: u64 = 0;
const UNCERTAIN: u64 = 1;
const RELEASED: u64 = 2;
const LOST: u64 = 8;

/// A [`LeaseState`] as read at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Valid until the deadline; `certain` unless a renewal got no answer.
    Live {
        deadline: Moment,
        certain: bool,
    },
    Released,
    Lost(LostReason),
}

/// Tells who made the transition to lost: that caller, and only that one, reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Now(LostReason),
    Before(LostReason),
    Released,
}

fn pack(deadline: Moment, tag: u64) -> u64 {
    (deadline.nanos() << TAG_BITS) | tag
}

fn unpack(word: u64) -> View {
    let deadline = Moment::from_nanos(word >> TAG_BITS);
    match word & ((1 << TAG_BITS) - 1) {
        HELD => View::Live { deadline, certain: true },
        UNCERTAIN => View::Live { deadline, certain: false },
        RELEASED => View::Released,
        tag => View::Lost(reason_of(tag)),
    }
}

fn tag_of(reason: LostReason) -> u64 {
    let index = LostReason::ALL.iter().position(|known| *known == reason);
    LOST + index.unwrap_or(LostReason::ALL.len() - 1) as u64
}

fn reason_of(tag: u64) -> LostReason {
    let index = tag.saturating_sub(LOST) as usize;
    LostReason::ALL.get(index).copied().unwrap_or(LostReason::Internal)
}

impl LeaseState {
    /// A lease granted until `deadline`.
    pub(crate) fn granted(deadline: Moment) -> LeaseState {
        LeaseState(AtomicU64::new(pack(deadline, HELD)))
    }

    pub(crate) fn view(&self) -> View {
        unpack(self.0.load(Ordering::Acquire))
    }

    /// Time left at `now`; zero when it is not live.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        match self.view() {
            View::Live { deadline, .. } => deadline.since(now),
            View::Released | View::Lost(_) => Duration::ZERO,
        }
    }

    pub(crate) fn is_live(&self, now: Moment) -> bool {
        !self.remaining(now).is_zero()
    }

    /// Moves the deadline to `later` if the lease is live at `now`; never moves it back.
    ///
    /// A renewal whose answer comes after the deadline finds the lease over: the holder may have been told.
    pub(crate) fn renewed(&self, now: Moment, later: Moment) -> bool {
        self.change(|view| match view {
            View::Live { deadline, .. } if now < deadline => Some(pack(deadline.max(later), HELD)),
            _ => None,
        })
        .is_ok()
    }

    /// Notes that a renewal got no answer.
    pub(crate) fn unanswered(&self) {
        let _ = self.change(|view| match view {
            View::Live { deadline, .. } => Some(pack(deadline, UNCERTAIN)),
            _ => None,
        });
    }

    /// Ends a lease whose deadline has passed; `limit` is the instant of `max_hold`, if any.
    /// `None` while it is live.
    pub(crate) fn expire(&self, now: Moment, limit: Option<Moment>) -> Option<Ended> {
        let View::Live { deadline, .. } = self.view() else { return Some(self.lose(LostReason::Expired)) };
        if now < deadline && limit.is_none_or(|limit| now < limit) {
            return None;
        }
        // The deadline is never later than the limit: where they are one, it is max_hold that ended it.
        let reached = limit.is_some_and(|limit| limit <= deadline);
        Some(self.lose(if reached { LostReason::MaxHold } else { LostReason::Expired }))
    }

    /// Ends it for `reason`, unless it has ended before.
    pub(crate) fn lose(&self, reason: LostReason) -> Ended {
        let changed = self.change(|view| match view {
            View::Live { deadline, .. } => Some(pack(deadline, tag_of(reason))),
            _ => None,
        });
        match changed {
            Ok(()) => Ended::Now(reason),
            Err(View::Lost(before)) => Ended::Before(before),
            Err(_) => Ended::Released,
        }
    }

    /// Ends it by its holder's release; fails with what ended it before.
    pub(crate) fn release(&self) -> Result<(), View> {
        self.change(|view| match view {
            View::Live { deadline, .. } => Some(pack(deadline, RELEASED)),
            _ => None,
        })
    }

    fn change(&self, next: impl Fn(View) -> Option<u64>) -> Result<(), View> {
        let changed = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| next(unpack(word)));
        changed.map(|_| ()).map_err(unpack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    const TTL: Duration = Duration::from_secs(3);

    #[test]
    fn a_late_renewal_reply_does_not_revive_an_expired_lease() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        assert!(!state.renewed(at(3_000), at(9_000)));
        assert_eq!(state.expire(at(3_000), None), Some(Ended::Now(LostReason::Expired)));
        assert!(!state.renewed(at(100), at(9_000)), "lost is lost, whatever the clock says");
    }

    #[test]
    fn the_first_reason_stays() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        assert_eq!(state.lose(LostReason::Taken), Ended::Now(LostReason::Taken));
        assert_eq!(state.lose(LostReason::Closed), Ended::Before(LostReason::Taken));
        assert_eq!(state.release(), Err(View::Lost(LostReason::Taken)));
    }

    #[test]
    fn a_lease_that_expired_before_max_hold_has_expired_whenever_that_is_noticed() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        assert_eq!(state.expire(at(6_000), Some(at(5_000))), Some(Ended::Now(LostReason::Expired)));
    }

    #[test]
    fn max_hold_ends_a_lease_that_renewals_keep_alive() {
        let state = LeaseState::granted(at(5_000));
        assert_eq!(state.expire(at(4_999), Some(at(5_000))), None);
        assert_eq!(state.expire(at(5_000), Some(at(5_000))), Some(Ended::Now(LostReason::MaxHold)));
    }

    #[test]
    fn an_unanswered_renewal_keeps_the_deadline() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        state.unanswered();
        let expected = View::Live { deadline: deadline(at(0), TTL), certain: false };
        assert_eq!(state.view(), expected);
        assert!(state.renewed(at(1), deadline(at(1), TTL)));
    }

    // A clock that runs 1 % slower than the server's, and 2 ms between the look at the deadline and what follows it.
    #[test]
    fn the_deadline_lies_a_margin_before_the_end_of_the_ttl() {
        let deadline_of = |ttl: u64| deadline(at(0), Duration::from_millis(ttl));
        assert_eq!(deadline_of(100), at(97));
        assert_eq!(deadline_of(30_000), at(29_698));
        assert_eq!(deadline_of(1), at(0), "never before the request was sent");
    }

    #[test]
    fn a_renewal_that_was_sent_before_another_does_not_shorten_the_lease() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        assert!(state.renewed(at(2_000), deadline(at(1_500), TTL)));
        assert!(state.renewed(at(2_001), deadline(at(1_000), TTL)));
        assert_eq!(state.view(), View::Live { deadline: deadline(at(1_500), TTL), certain: true });
    }

    #[test]
    fn release_is_final_and_no_loss() {
        let state = LeaseState::granted(deadline(at(0), TTL));
        assert_eq!(state.release(), Ok(()));
        assert_eq!(state.release(), Err(View::Released));
        assert_eq!(state.lose(LostReason::Expired), Ended::Released);
        assert!(!state.renewed(at(1), at(9)));
    }

    #[test]
    fn every_reason_survives_packing() {
        for reason in LostReason::ALL {
            assert_eq!(unpack(pack(at(7), tag_of(reason))), View::Lost(reason));
        }
    }

    proptest! {
        // Whatever the ttl and however late the reply: nothing is held with no time left, the deadline
        // lies before the server's own, and nothing overflows.
        #[test]
        fn never_held_with_nothing_left(ttl in 0u64..=2_000, delay in 0u64..=2_000, later in 0u64..=4_000) {
            let ttl = Duration::from_millis(ttl);
            let state = LeaseState::granted(deadline(at(0), ttl));
            let now = at(delay + later);
            prop_assert_eq!(state.is_live(now), !state.remaining(now).is_zero());
            if state.is_live(now) {
                prop_assert!(now < at(0).after(ttl));
                prop_assert_eq!(state.expire(now, None), None);
            } else {
                prop_assert_eq!(state.expire(now, None), Some(Ended::Now(LostReason::Expired)));
            }
        }

        #[test]
        fn extremes_saturate(sent in any::<u64>(), secs in any::<u64>(), nanos in 0u32..1_000_000_000) {
            let ttl = Duration::new(secs, nanos);
            let end = deadline(Moment::from_nanos(sent), ttl);
            prop_assert!(end >= Moment::from_nanos(sent));
            prop_assert_eq!(LeaseState::granted(end).view(), View::Live { deadline: end, certain: true });
        }
    }
}
