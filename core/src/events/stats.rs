//! The counters and timings as callers read them.

use std::fmt;
use std::time::Duration;

use crate::error::LostReason;

use super::counters::{Count, Counters};

/// A snapshot of what a client has done since it was built (in a forked child: since the fork).
///
/// Counters only grow. The snapshot is not atomic across counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Leases granted; nested acquires are not counted.
    pub acquired: u64,
    /// Tries that found the lock busy and did not wait.
    pub busy: u64,
    /// Waits that ended with the lock still busy.
    pub timed_out: u64,
    /// Acquires that ended without a usable answer from the server.
    pub unavailable: u64,
    /// Acquires that were granted and given up, because too few replicas acknowledged them.
    pub not_replicated: u64,
    /// Acquires that ended with another error: credentials, permission, foreign data, closed.
    pub acquire_failed: u64,
    /// Waits that were called off by their cancel token.
    pub cancelled: u64,
    /// Requests that waiters sent because the server woke them.
    pub push_wakeups: u64,
    /// Requests that waiters sent because it was time to ask again.
    pub poll_wakeups: u64,
    /// Messages that arrived in this client's inbox.
    pub pushes: u64,
    /// Failures to open the inbox or to keep it connected, during which waiters poll.
    pub inbox_lost: u64,
    /// 1 when the server's access rules forbid to subscribe or to publish, so that waiters poll for good.
    pub push_denied: u64,
    /// Leases renewed in the background.
    pub renewed: u64,
    /// Background renewals sent again after one without an answer.
    pub renewal_retried: u64,
    /// Background renewals without an answer, one for each lease and try.
    pub renewal_failed: u64,
    /// Background renewals sent later than two thirds of the ttl after the last good one.
    pub renewal_late: u64,
    /// Leases released by their holder and confirmed by the server.
    pub released: u64,
    /// Releases that ended with an error other than a lost lease.
    pub release_failed: u64,
    /// Releases that the server did not confirm in time and that went on in the background.
    pub release_unconfirmed: u64,
    /// Background releases that the server confirmed.
    pub background_released: u64,
    /// Background releases given up: the key lapses by its ttl.
    pub background_gave_up: u64,
    /// Leases whose thread ended without releasing them.
    pub abandoned: u64,
    /// Releases whose wake-up the server's access rules forbade to publish.
    pub publish_denied: u64,
    /// Panics caught in `on_lost` callbacks.
    pub callback_panicked: u64,
    /// Panics caught in the library's own threads.
    pub thread_panicked: u64,
    /// Leases held now, re-entrant locks counted once.
    pub held_now: u64,
    /// Callers blocked in an acquire now.
    pub waiting_now: u64,
    /// Releases waiting for the background now.
    pub background_now: u64,
    /// The lease held longest now.
    pub longest_hold_now: Option<LongestHold>,
    /// Time from call to grant or to giving up, in µs.
    pub wait_micros: Histogram,
    /// Time from grant to release or loss, in µs.
    pub hold_micros: Histogram,
    /// Hold time in percent of the lock's ttl: above 100 only renewal kept the lease.
    pub hold_percent_of_ttl: Histogram,
    /// For each lease renewed in the background, how long after it was due, a third of the ttl after the last good renewal,
    /// the request that renewed it was sent, in µs; 0 when it was sent early along with others.
    pub renewal_delay_micros: Histogram,
    /// Names that were waited for most, with upper bounds of how often; at most 64.
    pub hottest: Vec<HotName>,
    lost: [u64; LostReason::ALL.len()],
}

/// A name and how often it was waited for, at most.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotName {
    /// The lock's name.
    pub name: String,
    /// Waits, an upper bound.
    pub waits: u64,
}

/// The lease held longest at the time of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongestHold {
    /// The lock's name.
    pub name: String,
    /// For how long it has been held.
    pub held: Duration,
}

/// Gauges that other parts of a client know.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) held_now: u64,
    pub(crate) background_now: u64,
    pub(crate) longest_hold_now: Option<LongestHold>,
}

impl Stats {
    pub(crate) fn read(counters: &Counters, gauges: Gauges) -> Stats {
        // Counts first, timings last: whoever counts has recorded the timing before.
        let lost = counters.lost_counts();
        let counts = counters.counts();
        let count = |which: Count| counts[which as usize];
        let timings = counters.timings();
        let hottest = timings.hot.ranked().into_iter().map(|(name, waits)| HotName { name, waits }).collect();
        Stats {
            acquired: count(Count::Acquired),
            busy: count(Count::Busy),
            timed_out: count(Count::TimedOut),
            unavailable: count(Count::Unavailable),
            not_replicated: count(Count::NotReplicated),
            acquire_failed: count(Count::AcquireFailed),
            cancelled: count(Count::Cancelled),
            push_wakeups: count(Count::PushWakeups),
            poll_wakeups: count(Count::PollWakeups),
            pushes: count(Count::Pushes),
            inbox_lost: count(Count::InboxLost),
            push_denied: count(Count::PushDenied),
            renewed: count(Count::Renewed),
            renewal_retried: count(Count::RenewalRetried),
            renewal_failed: count(Count::RenewalFailed),
            renewal_late: count(Count::RenewalLate),
            released: count(Count::Released),
            release_failed: count(Count::ReleaseFailed),
            release_unconfirmed: count(Count::ReleaseUnconfirmed),
            background_released: count(Count::BackgroundReleased),
            background_gave_up: count(Count::BackgroundGaveUp),
            abandoned: count(Count::Abandoned),
            publish_denied: count(Count::PublishDenied),
            callback_panicked: count(Count::CallbackPanicked),
            thread_panicked: count(Count::ThreadPanicked),
            held_now: gauges.held_now,
            waiting_now: counters.waiting_now(),
            background_now: gauges.background_now,
            longest_hold_now: gauges.longest_hold_now,
            wait_micros: timings.wait,
            hold_micros: timings.hold,
            hold_percent_of_ttl: timings.hold_percent_of_ttl,
            renewal_delay_micros: timings.renewal_delay,
            hottest,
            lost,
        }
    }

    /// The counters by name, for metrics systems and bindings; those of [`lost`](Stats::lost) apart.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        // Names every field, so that a new one is not forgotten here.
        let Stats {
            acquired,
            busy,
            timed_out,
            unavailable,
            not_replicated,
            acquire_failed,
            cancelled,
            push_wakeups,
            poll_wakeups,
            pushes,
            inbox_lost,
            push_denied,
            renewed,
            renewal_retried,
            renewal_failed,
            renewal_late,
            released,
            release_failed,
            release_unconfirmed,
            background_released,
            background_gave_up,
            abandoned,
            publish_denied,
            callback_panicked,
            thread_panicked,
            held_now: _,
            waiting_now: _,
            background_now: _,
            longest_hold_now: _,
            wait_micros: _,
            hold_micros: _,
            hold_percent_of_ttl: _,
            renewal_delay_micros: _,
            hottest: _,
            lost: _,
        } = self;
        vec![
            ("acquired", *acquired),
            ("busy", *busy),
            ("timed_out", *timed_out),
            ("unavailable", *unavailable),
            ("not_replicated", *not_replicated),
            ("acquire_failed", *acquire_failed),
            ("cancelled", *cancelled),
            ("push_wakeups", *push_wakeups),
            ("poll_wakeups", *poll_wakeups),
            ("pushes", *pushes),
            ("inbox_lost", *inbox_lost),
            ("push_denied", *push_denied),
            ("renewed", *renewed),
            ("renewal_retried", *renewal_retried),
            ("renewal_failed", *renewal_failed),
            ("renewal_late", *renewal_late),
            ("released", *released),
            ("release_failed", *release_failed),
            ("release_unconfirmed", *release_unconfirmed),
            ("background_released", *background_released),
            ("background_gave_up", *background_gave_up),
            ("abandoned", *abandoned),
            ("publish_denied", *publish_denied),
            ("callback_panicked", *callback_panicked),
            ("thread_panicked", *thread_panicked),
        ]
    }

    /// What is so now, by name, for metrics systems and bindings.
    pub fn gauges(&self) -> Vec<(&'static str, u64)> {
        vec![("held_now", self.held_now), ("waiting_now", self.waiting_now), ("background_now", self.background_now)]
    }

    /// Leases lost for `reason`; `MaxHold` is how often `max_hold` was reached.
    pub fn lost(&self, reason: LostReason) -> u64 {
        let position = LostReason::ALL.iter().position(|known| *known == reason);
        position.map_or(0, |position| self.lost[position])
    }

    /// Leases lost for any reason.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().sum()
    }
}

/// A distribution of whole numbers with a relative error of at most 1 %. Each client keeps some, in 16 KiB each.
#[derive(Clone)]
pub struct Histogram(hdrhistogram::Histogram<u32>);

impl Histogram {
    /// The largest value that is told apart: 24 h in µs. Larger ones count as this.
    const MAX: u64 = 24 * 3600 * 1_000_000;

    pub(crate) fn new() -> Histogram {
        match hdrhistogram::Histogram::new_with_bounds(1, Histogram::MAX, 2) {
            Ok(histogram) => Histogram(histogram),
            Err(_) => unreachable!("constant bounds that the constructor accepts"),
        }
    }

    pub(crate) fn record(&mut self, value: u64) {
        self.0.saturating_record(value);
    }

    /// Recorded values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Mean; 0 when empty.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Largest value; 0 when empty.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The value below or at which `quantile` (0.0 to 1.0) of all values lie; 0 when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(quantile.clamp(0.0, 1.0)) }
    }

    /// How many values are at most `value`: for cumulative buckets of metrics systems.
    pub fn count_at_most(&self, value: u64) -> u64 {
        self.0.count_between(0, value.min(Histogram::MAX))
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::new();
        (1..=10_000).for_each(|value| histogram.record(value));
        let median = histogram.quantile(0.5) as f64;
        assert!((median - 5_000.0).abs() <= 50.0, "{median}");
        assert_eq!(histogram.count(), 10_000);
        assert!(histogram.count_at_most(100).abs_diff(100) <= 1);
        assert_eq!(Histogram::new().quantile(0.99), 0);
    }

    #[test]
    fn values_beyond_the_range_are_counted_at_its_end() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 1);
    }
}
