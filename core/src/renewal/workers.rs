//! The renewing threads, and how threads of a client start and end.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::error::LostReason;
use crate::events::{Count, Counters};
use crate::lease::{Grant, View};
use crate::protocol::{Renew, Renewal};
use crate::signals::block_sigpipe;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle};
use crate::transport::Transport;

use super::due::{Batch, Done};
use super::{Keeper, contained, renew_at};

/// Gap between two tries of a renewal that got no answer, jittered between these.
const RETRY_GAP: std::ops::Range<u64> = 50..250;

/// The shortest such gap.
const SHORTEST_GAP: Duration = Duration::from_millis(5);

/// Threads of one client.
#[derive(Debug, Default)]
pub(crate) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    /// Starts a thread that runs `work` to its end; false when the system refuses. A panic in `work` is counted and `work` runs on elsewhere.
    pub(crate) fn start(
        &self,
        name: &str,
        clock: &Clock,
        counters: &Arc<Counters>,
        work: impl FnOnce() + Send + 'static,
    ) -> bool {
        let running = clock.background();
        let counters = counters.clone();
        let named = thread::Builder::new().name(name.to_owned());
        // Locked before: whoever joins after the thread has begun finds it.
        let mut handles = self.0.lock();
        // A thread that ends without work is followed by another: their handles must not pile up.
        handles.retain(|handle| !handle.is_finished());
        let started = named.spawn(move || {
            let _running = running;
            block_sigpipe();
            contained(&counters, Count::ThreadPanicked, "a thread of redlatch", work);
        });
        match started {
            Ok(handle) => {
                handles.push(handle);
                true
            }
            Err(error) => {
                drop(handles);
                tracing::error!(thread = name, %error, "cannot start a thread: leases may be lost until it can");
                false
            }
        }
    }

    /// Waits for the end of all threads but the calling one.
    pub(crate) fn join(&self) {
        let handles = std::mem::take(&mut *self.0.lock());
        let me = thread::current().id();
        for handle in handles.into_iter().filter(|handle| handle.thread().id() != me) {
            // A panic was counted where it was caught.
            let _ = handle.join();
        }
    }
}

/// How a renewal went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Every lease has its answer.
    Answered,
    /// At least one is tried again.
    Failed,
}

impl Outcome {
    fn and(self, other: Outcome) -> Outcome {
        if self == Outcome::Answered { other } else { Outcome::Failed }
    }
}

impl Keeper {
    pub(super) fn renew_loop(&self, lane: &dyn Transport) {
        let mut last = None;
        while let Some(Batch { node, grants }) = self.due.take(last) {
            let mut outcome = None;
            contained(&self.counters, Count::ThreadPanicked, "a renewal", || {
                outcome = Some(self.renew(lane, &grants));
            });
            if outcome.is_none() {
                self.retry(&grants);
            }
            last = Some(Done { node, failed: outcome != Some(Outcome::Answered) });
        }
    }

    fn renew(&self, lane: &dyn Transport, batch: &[Arc<Grant>]) -> Outcome {
        let now = self.clock.now();
        // What has ended by now is the watch's business; nothing is sent for its token any more.
        let live: Vec<Arc<Grant>> = batch.iter().filter(|grant| grant.state.is_live(now)).cloned().collect();
        let Some(limit) = live.iter().map(|grant| self.try_limit(grant)).min() else { return Outcome::Answered };
        // Those that end within the try go first and alone: nothing is sent for a lease whose deadline has passed.
        let ends_soon = |grant: &Arc<Grant>| grant.state.remaining(now) < limit;
        let (soon, later): (Vec<_>, Vec<_>) = live.into_iter().partition(ends_soon);
        if !soon.is_empty() && !later.is_empty() {
            return self.renew(lane, &soon).and(self.renew(lane, &later));
        }
        let live = if soon.is_empty() { later } else { soon };
        self.note_late(&live, now);
        let requests: Vec<Renew<'_>> =
            live.iter().map(|grant| Renew { key: &grant.spec.key, token: &grant.token, ttl: grant.ttl() }).collect();
        let deadline = live.iter().filter_map(|grant| grant.deadline()).min().unwrap_or(now);
        let before: Vec<bool> = live.iter().map(|grant| grant.renewal_begins()).collect();
        match lane.renew(&requests, now.after(limit).min(deadline)) {
            Ok(answer) => self.answered(&live, &before, &answer.reply, answer.sent),
            Err(fault) if !fault.is_retryable() && live.len() > 1 => {
                // One lease that is refused must not take the others with it.
                live.iter().zip(before).for_each(|(grant, before)| grant.renewal_failed(before));
                live.chunks(1).map(|one| self.renew(lane, one)).fold(Outcome::Answered, Outcome::and)
            }
            Err(fault) => {
                self.note_failed(&live, &fault.detail);
                let each = live.iter().zip(before);
                each.for_each(|(grant, before)| grant.renewal_failed(before || fault.unanswered));
                self.retry(&live);
                Outcome::Failed
            }
        }
    }

    fn note_failed(&self, live: &[Arc<Grant>], error: &str) {
        self.counters.add(Count::RenewalFailed, live.len() as u64);
        tracing::debug!(leases = live.len(), error, "renewal without an answer, will retry");
    }

    /// Tells of renewals that this process sends late, because it stalled or has too few threads. Repeated tries of an
    /// unanswered one are late too, but for the server's sake.
    fn note_late(&self, live: &[Arc<Grant>], now: Moment) {
        let late = live.iter().filter(|grant| {
            let certain = matches!(grant.state.view(), View::Live { certain: true, .. });
            certain && now.since(grant.sent()) > grant.ttl() / 3 * 2
        });
        let late: Vec<&Arc<Grant>> = late.collect();
        let Some(worst) = late.iter().min_by_key(|grant| grant.sent()) else { return };
        self.counters.add(Count::RenewalLate, late.len() as u64);
        let (name, since_ms) = (worst.spec.name(), now.since(worst.sent()).as_millis() as u64);
        tracing::warn!(lock = name, leases = late.len(), since_ms, "late renewal");
    }

    /// Limit of one try, so that several fit between the first and the deadline.
    fn try_limit(&self, grant: &Grant) -> Duration {
        (grant.ttl() / 6).min(self.options.io_timeout)
    }

    fn answered(&self, live: &[Arc<Grant>], before: &[bool], renewed: &[Renewal], sent: Moment) -> Outcome {
        let now = self.clock.now();
        let mut delays = Vec::with_capacity(live.len());
        let mut unknown = Vec::new();
        for ((grant, before), renewal) in live.iter().zip(before).zip(renewed) {
            let due = renew_at(grant);
            match renewal {
                Renewal::NotOurs => {
                    self.lose(grant, LostReason::Taken);
                }
                Renewal::Renewed if grant.renewed(now, sent) => {
                    delays.push(sent.since(due));
                    self.queue(grant, renew_at(grant));
                }
                Renewal::Renewed => {
                    grant.renewal_failed(true);
                    self.expire(grant);
                }
                Renewal::Unknown { unanswered } => {
                    grant.renewal_failed(*before || *unanswered);
                    unknown.push(grant.clone());
                }
            }
        }
        self.counters.renewed(&delays);
        if unknown.is_empty() {
            return Outcome::Answered;
        }
        self.note_failed(&unknown, "others of the same request were answered");
        self.retry(&unknown);
        Outcome::Failed
    }

    fn retry(&self, batch: &[Arc<Grant>]) {
        let now = self.clock.now();
        for grant in batch {
            let Some(deadline) = grant.deadline() else { continue };
            let gap = Duration::from_millis(fastrand::u64(RETRY_GAP));
            // Near the deadline, or with a short ttl, more tries count for more than a calm server.
            let gap = gap.min(deadline.since(now) / 8).max(SHORTEST_GAP);
            self.counters.one(Count::RenewalRetried);
            self.queue(grant, now.after(gap));
        }
    }
}
