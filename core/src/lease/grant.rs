//! The record of one granted lease.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::{LostInfo, LostReason};
use crate::options::LockOptions;
use crate::protocol::Key;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::token::Token;

use super::{Ended, LeaseState, View, deadline};

/// What a lock's handles, leases and waits share: its key with its name, and its validated options.
#[derive(Debug)]
pub(crate) struct LockSpec {
    pub(crate) key: Key,
    pub(crate) options: LockOptions,
}

impl LockSpec {
    /// The lock's name.
    pub(crate) fn name(&self) -> &str {
        self.key.name()
    }
}

/// One lease of one lock, from its grant to its end.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) spec: Arc<LockSpec>,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) state: LeaseState,
    pub(crate) granted: Moment,
    /// An acquire of this token got no answer: a copy may still be on its way, so its release leaves a tombstone.
    pub(crate) acquire_unanswered: bool,
    /// A renewal got no answer, and none since has got one.
    renewal_unanswered: AtomicBool,
    /// When the last request that set the full ttl was sent.
    sent: AtomicU64,
    /// Where the renewal queue has it; written under that queue's lock only.
    pub(crate) due_at: AtomicU64,
    /// In the queue of which server.
    pub(crate) due_node: AtomicU32,
    /// Where the deadline watch has it; written under that watch's lock only.
    pub(crate) watch_at: AtomicU64,
    /// Orders leases that are due at the same instant.
    pub(crate) id: u64,
}

static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Grant {
    pub(crate) fn new(spec: Arc<LockSpec>, token: Token, fence: u64, sent: Moment, unanswered: bool) -> Grant {
        let limit = limit(&spec.options, sent);
        let end = deadline(sent, spec.options.ttl).min(limit.unwrap_or(Moment::FAR));
        Grant {
            spec,
            token,
            fence,
            state: LeaseState::granted(end),
            granted: sent,
            acquire_unanswered: unanswered,
            renewal_unanswered: AtomicBool::new(false),
            sent: AtomicU64::new(sent.nanos()),
            due_at: AtomicU64::new(0),
            due_node: AtomicU32::new(0),
            watch_at: AtomicU64::new(0),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.spec.options.ttl
    }

    /// When `max_hold` ends it.
    pub(crate) fn limit(&self) -> Option<Moment> {
        limit(&self.spec.options, self.granted)
    }

    /// When the last request that set the full ttl was sent.
    pub(crate) fn sent(&self) -> Moment {
        Moment::from_nanos(self.sent.load(Ordering::Acquire))
    }

    /// Its deadline by time alone, whatever has ended it.
    pub(crate) fn trusted_until(&self) -> Moment {
        deadline(self.sent(), self.ttl()).min(self.limit().unwrap_or(Moment::FAR))
    }

    /// Takes in a renewal that was sent at `sent` and answered by `now`; false when it came too late.
    pub(crate) fn renewed(&self, now: Moment, sent: Moment) -> bool {
        let end = deadline(sent, self.ttl()).min(self.limit().unwrap_or(Moment::FAR));
        let in_time = self.state.renewed(now, end);
        if in_time {
            self.sent.fetch_max(sent.nanos(), Ordering::AcqRel);
            self.renewal_unanswered.store(false, Ordering::Release);
        }
        in_time
    }

    /// A renewal is about to be sent: until it is answered it may be executed at any time. Tells whether one before it
    /// was unanswered already.
    pub(crate) fn renewal_begins(&self) -> bool {
        self.renewal_unanswered.swap(true, Ordering::AcqRel)
    }

    /// Takes in a renewal that failed; `unanswered` if it or one before it may still be executed.
    pub(crate) fn renewal_failed(&self, unanswered: bool) {
        self.state.unanswered();
        self.renewal_unanswered.store(unanswered, Ordering::Release);
    }

    pub(crate) fn renewal_is_unanswered(&self) -> bool {
        self.renewal_unanswered.load(Ordering::Acquire)
    }

    /// Ends it if its deadline or `max_hold` has passed.
    pub(crate) fn expire(&self, now: Moment) -> Option<Ended> {
        self.state.expire(now, self.limit())
    }

    /// When something about it must be looked at next: its deadline as it is now.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self.state.view() {
            View::Live { deadline, .. } => Some(deadline),
            View::Released | View::Lost(_) => None,
        }
    }

    pub(crate) fn lost_info(&self, reason: LostReason) -> LostInfo {
        LostInfo::new(self.spec.name(), &self.token, self.fence, reason)
    }
}

fn limit(options: &LockOptions, granted: Moment) -> Option<Moment> {
    options.longest_hold().map(|max_hold| granted.after(max_hold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::margin;

    const TTL: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    /// Granted by a request that was sent at 0.
    fn grant(max_hold: Option<Duration>) -> Grant {
        let options = LockOptions::new().ttl(TTL);
        let options = max_hold.map_or(options.clone(), |max_hold| options.max_hold(max_hold));
        let key = Key::new("lock:", "a").unwrap();
        let spec = Arc::new(LockSpec { key, options });
        Grant::new(spec, Token::foreign("t"), 7, at(0), false)
    }

    #[test]
    fn a_renewal_counts_from_its_send_and_only_before_the_deadline() {
        let grant = grant(None);
        let end = |sent: u64| at(sent).after(TTL).nanos() - margin(TTL).as_nanos() as u64;
        assert_eq!(grant.trusted_until().nanos(), end(0));
        assert!(grant.renewed(at(4_000), at(3_000)));
        assert_eq!((grant.sent(), grant.trusted_until().nanos()), (at(3_000), end(3_000)));
        assert_eq!(grant.deadline(), Some(grant.trusted_until()));
        assert!(!grant.renewed(at(13_000), at(12_000)), "its answer came after the deadline");
        assert_eq!(grant.sent(), at(3_000), "and changed nothing");
    }

    #[test]
    fn max_hold_counts_from_the_grant_and_no_renewal_moves_it() {
        let grant = grant(Some(Duration::from_secs(12)));
        assert_eq!(grant.limit(), Some(at(12_000)));
        assert!(grant.renewed(at(9_000), at(9_000)));
        assert_eq!((grant.deadline(), grant.trusted_until()), (Some(at(12_000)), at(12_000)));
        assert_eq!(grant.expire(at(11_999)), None);
        assert_eq!(grant.expire(at(12_000)), Some(Ended::Now(LostReason::MaxHold)));
        assert_eq!(grant.deadline(), None);
    }

    // It may be executed for as long as the connection lives that it was sent over, whatever later tries are answered with.
    #[test]
    fn an_unanswered_renewal_is_remembered_until_one_is_answered() {
        let grant = grant(None);
        assert!(!grant.renewal_is_unanswered());
        let before = grant.renewal_begins();
        assert!(!before && grant.renewal_is_unanswered(), "under way, it may be executed");
        grant.renewal_failed(true);
        // The next one is refused, and so was not executed.
        let before = grant.renewal_begins();
        assert!(before, "the one before it still may be");
        grant.renewal_failed(before);
        assert!(grant.renewal_is_unanswered());
        let _ = grant.renewal_begins();
        assert!(grant.renewed(at(4_000), at(3_000)));
        assert!(!grant.renewal_is_unanswered());
        assert!(!grant.renewal_begins());
        grant.renewal_failed(false);
        assert!(!grant.renewal_is_unanswered(), "refused: nothing is on its way");
    }
}
