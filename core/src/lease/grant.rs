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

/// What a lock's handles, leases and waits share: its name, key and validated options.
#[derive(Debug)]
pub(crate) struct LockSpec {
    pub(crate) name: Box<str>,
    pub(crate) key: Key,
    pub(crate) options: LockOptions,
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
        LostInfo::new(&self.spec.name, &self.token, self.fence, reason)
    }
}

fn limit(options: &LockOptions, granted: Moment) -> Option<Moment> {
    options.max_hold.map(|max_hold| granted.after(max_hold))
}
