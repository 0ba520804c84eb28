//! Keeps leases alive until they end: renewal in the background, loss in time, releases that could not be
//! confirmed at once.
//!
//! Threads, each started when first needed: `redlatch-renew-N` renew; `redlatch-events` watches deadlines and
//! runs `on_lost` callbacks, and never talks to a server, so that no network call can delay a loss;
//! `redlatch-janitor` releases.

mod due;
#[cfg(all(test, shuttle))]
mod interleavings;
mod janitor;
mod timeline;
mod watch;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::error::LostReason;
use crate::events::{Count, Counters, log_loss};
use crate::lease::{Ended, Grant, margin};
use crate::transport::Transport;

use due::{DueQueue, Spread};
pub(crate) use janitor::{Abandoned, Janitor, Job};
use watch::Watch;
pub(crate) use workers::Threads;

/// What the background needs to know of a client's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeeperOptions {
    pub(crate) threads: u32,
    pub(crate) io_timeout: Duration,
}

/// Knows every live lease of a client and ends those that are lost.
#[derive(Debug)]
pub(crate) struct Keeper {
    clock: Clock,
    options: KeeperOptions,
    transport: Arc<dyn Transport>,
    counters: Arc<Counters>,
    janitor: Arc<Janitor>,
    due: DueQueue,
    watch: Watch,
    threads: Threads,
}

impl Keeper {
    pub(crate) fn new(
        clock: &Clock,
        options: KeeperOptions,
        transport: Arc<dyn Transport>,
        counters: Arc<Counters>,
        janitor: Arc<Janitor>,
    ) -> Arc<Keeper> {
        let spread = if transport.is_several() { Spread::Nodes { threads: options.threads } } else { Spread::One };
        Arc::new(Keeper {
            clock: clock.clone(),
            options,
            transport,
            counters,
            janitor,
            due: DueQueue::new(clock, spread),
            watch: Watch::new(clock),
            threads: Threads::default(),
        })
    }

    /// Takes a new lease into care: watched, and renewed if its options say so.
    pub(crate) fn keep(self: &Arc<Self>, grant: &Arc<Grant>) {
        if self.watch.add(grant) {
            let keeper = self.clone();
            let watching = move || keeper.watch_loop();
            if !self.threads.start("redlatch-events", &self.clock, &self.counters, watching) {
                self.watch.not_started();
            }
        }
        if grant.spec.options.auto_renew && self.queue(grant, renew_at(grant)) {
            let started = (0..self.options.threads).filter(|n| {
                let keeper = self.clone();
                let lane = self.transport.dedicated();
                let name = format!("redlatch-renew-{n}");
                self.threads.start(&name, &self.clock, &self.counters, move || keeper.renew_loop(&*lane))
            });
            if started.count() == 0 {
                self.due.not_started();
            }
        }
    }

    /// Queues a renewal, by the server that has its key; true for the first one ever.
    fn queue(&self, grant: &Arc<Grant>, at: Moment) -> bool {
        self.due.add(grant, self.transport.node(&grant.spec.key), at)
    }

    /// Stops renewing and watching a lease that its holder gives up. At most one renewal is still on its way.
    pub(crate) fn forget(&self, grant: &Arc<Grant>) {
        self.due.remove(grant);
        self.watch.remove(grant);
    }

    /// Stops renewing a lease that stays watched: it ends by its ttl.
    pub(crate) fn renew_no_more(&self, grant: &Arc<Grant>) {
        self.due.remove(grant);
    }

    /// Ends a lease for `reason`, or finds out what ended it before; reports it if this call ended it.
    pub(crate) fn lose(&self, grant: &Arc<Grant>, reason: LostReason) -> Ended {
        let ended = grant.state.lose(reason);
        self.report(grant, ended, true);
        ended
    }

    /// Ends a lease whose time is over; `None` while it is live.
    pub(crate) fn expire(&self, grant: &Arc<Grant>) -> Option<Ended> {
        let ended = grant.expire(self.clock.now())?;
        self.report(grant, ended, true);
        Some(ended)
    }

    /// Everything that follows a loss. `queue_callback`: from any thread but the one that runs callbacks.
    fn report(&self, grant: &Arc<Grant>, ended: Ended, queue_callback: bool) {
        let Ended::Now(reason) = ended else { return };
        self.forget(grant);
        let now = self.clock.now();
        self.counters.held(now.since(grant.granted), grant.ttl());
        self.counters.lost(reason);
        log_loss(grant, reason);
        if reason == LostReason::Expired && grant.renewal_is_unanswered() {
            // The renewal may have been executed; whoever waits should not wait for that ttl as well.
            let not_before = now.after(margin(grant.ttl()));
            self.janitor.release(Job::of_lost_lease(grant, not_before, not_before.after(grant.ttl())));
        }
        if queue_callback && grant.spec.options.loss_callback().is_some() {
            self.watch.queue_callback(grant, reason);
        }
    }

    /// Ends every live lease of the lock `name`, which has been taken away.
    pub(crate) fn lose_named(&self, name: &str) {
        for grant in self.watch.all().iter().filter(|grant| grant.spec.name() == name) {
            self.lose(grant, LostReason::Taken);
        }
    }

    /// Ends every live lease for `reason`.
    pub(crate) fn lose_all(&self, reason: LostReason) {
        for grant in self.watch.all() {
            self.lose(&grant, reason);
        }
    }

    /// Live leases, and the one held longest.
    pub(crate) fn held(&self) -> (u64, Option<(String, Duration)>) {
        let (count, oldest) = self.watch.held();
        let longest = oldest.map(|grant| (grant.spec.name().to_string(), self.clock.now().since(grant.granted)));
        (count, longest)
    }

    /// Has the threads end: at once, but for a socket that one is blocked on and for a callback that runs.
    pub(crate) fn end(&self) {
        self.due.stop();
        self.watch.stop();
    }

    /// Waits for their end.
    pub(crate) fn join(&self) {
        self.threads.join();
    }
}

/// When a lease is renewed next: a third of its ttl after the last good send.
fn renew_at(grant: &Grant) -> Moment {
    grant.sent().after(grant.ttl() / 3)
}

/// Runs a callback, or a step of a thread, and counts a panic instead of spreading it.
fn contained(counters: &Counters, count: Count, what: &str, work: impl FnOnce()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    if let Err(panic) = outcome {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        counters.one(count);
        tracing::error!(panic = text, "a panic in {what} was caught");
    }
}
