//! The counters and timings as they are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::LostReason;

use super::hot::HotNames;
use super::stats::Histogram;

/// Everything that is counted, one word each; [`Stats`](super::Stats) documents them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Acquired,
    Busy,
    TimedOut,
    Unavailable,
    NotReplicated,
    AcquireFailed,
    Cancelled,
    PollWakeups,
    PushWakeups,
    Pushes,
    InboxLost,
    PushDenied,
    Renewed,
    RenewalRetried,
    RenewalFailed,
    RenewalLate,
    Released,
    ReleaseFailed,
    ReleaseUnconfirmed,
    BackgroundReleased,
    BackgroundGaveUp,
    Abandoned,
    PublishDenied,
    CallbackPanicked,
    ThreadPanicked,
}

const COUNTS: usize = Count::ThreadPanicked as usize + 1;

/// Written by every thread of a client. What is timed and counted is timed first, and whoever reads both reads counts
/// first: nothing is ever seen counted without its timing.
#[derive(Debug)]
pub(crate) struct Counters {
    counts: [AtomicU64; COUNTS],
    lost: [AtomicU64; LostReason::ALL.len()],
    waiting: AtomicI64,
    timings: Mutex<Timings>,
}

/// The timings and hot names, written together.
#[derive(Clone, Debug)]
pub(crate) struct Timings {
    pub(crate) wait: Histogram,
    pub(crate) hold: Histogram,
    pub(crate) hold_percent_of_ttl: Histogram,
    pub(crate) renewal_delay: Histogram,
    pub(crate) hot: HotNames,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let timings = Timings {
            wait: Histogram::new(),
            hold: Histogram::new(),
            hold_percent_of_ttl: Histogram::new(),
            renewal_delay: Histogram::new(),
            hot: HotNames::default(),
        };
        Counters {
            counts: [const { AtomicU64::new(0) }; COUNTS],
            lost: [const { AtomicU64::new(0) }; LostReason::ALL.len()],
            waiting: AtomicI64::new(0),
            timings: Mutex::new(timings),
        }
    }

    pub(crate) fn add(&self, count: Count, n: u64) {
        self.counts[count as usize].fetch_add(n, Ordering::Release);
    }

    pub(crate) fn one(&self, count: Count) {
        self.add(count, 1);
    }

    pub(crate) fn lost(&self, reason: LostReason) {
        if let Some(position) = LostReason::ALL.iter().position(|known| *known == reason) {
            self.lost[position].fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn counts(&self) -> [u64; COUNTS] {
        std::array::from_fn(|position| self.counts[position].load(Ordering::Acquire))
    }

    pub(crate) fn lost_counts(&self) -> [u64; LostReason::ALL.len()] {
        std::array::from_fn(|position| self.lost[position].load(Ordering::Acquire))
    }

    /// A grant after `wait`; `contended` when it was busy at first.
    pub(crate) fn granted(&self, name: &str, wait: Duration, contended: bool) {
        let mut timings = self.timings.lock();
        timings.wait.record(micros(wait));
        if contended {
            timings.hot.waited(name);
        }
        drop(timings);
        self.one(Count::Acquired);
    }

    /// A wait that ended without a grant.
    pub(crate) fn waited_in_vain(&self, name: &str, wait: Duration) {
        let mut timings = self.timings.lock();
        timings.wait.record(micros(wait));
        timings.hot.waited(name);
    }

    /// The end of a hold.
    pub(crate) fn held(&self, hold: Duration, ttl: Duration) {
        let percent = hold.as_micros().saturating_mul(100) / ttl.as_micros().max(1);
        let mut timings = self.timings.lock();
        timings.hold.record(micros(hold));
        timings.hold_percent_of_ttl.record(u64::try_from(percent).unwrap_or(u64::MAX));
    }

    /// Background renewals that were answered, each sent so long after it was due.
    pub(crate) fn renewed(&self, delays: &[Duration]) {
        let mut timings = self.timings.lock();
        delays.iter().for_each(|delay| timings.renewal_delay.record(micros(*delay)));
        drop(timings);
        self.add(Count::Renewed, delays.len() as u64);
    }

    pub(crate) fn timings(&self) -> Timings {
        self.timings.lock().clone()
    }

    /// Counts a waiter until the returned value is dropped.
    pub(crate) fn waiting(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }

    pub(crate) fn waiting_now(&self) -> u64 {
        u64::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// See [`Counters::waiting`].
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Counters>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
