//! Releases that could not be confirmed at once go on here, on a time budget and a connection of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment, Monitor, MonitorGuard};
use crate::events::{Count, Counters};
use crate::lease::{Grant, LockSpec};
use crate::protocol::{Release, tombstone_life};
use crate::token::Token;
use crate::transport::Transport;

use super::contained;
use super::workers::Threads;

/// Gap between two tries of one release, in ms, jittered between these: a key is free within 100 ms of its
/// server's return.
const RETRY_GAP: std::ops::Range<u64> = 25..75;

/// How long the thread stays without work: one release that is not confirmed seldom comes alone.
const IDLE: Duration = Duration::from_secs(5);

/// How many threads there are at most: one for each node with releases, so that none waits for another node. In a cluster
/// of more nodes some share one.
const LANES: u32 = 16;

/// What ended while it held a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Abandoned {
    /// A thread, or whatever else a binding takes for a holder.
    Holder,
    /// The value that was the lease.
    Lease,
    /// The last handle of the client.
    Client,
}

/// A release for the background.
#[derive(Debug)]
pub(crate) struct Job {
    spec: Arc<LockSpec>,
    token: Token,
    /// A late copy of this token's acquire must be refused.
    tombstone: bool,
    not_before: Moment,
    /// When trying has no use any more.
    until: Moment,
    /// The fence of a lease whose holder ended without releasing it, and what kind of holder that was: to be logged here,
    /// because the log's own thread-local state may have ended before that thread's redlatch did.
    abandoned: Option<(u64, Abandoned)>,
}

impl Job {
    pub(crate) fn new(spec: &Arc<LockSpec>, token: &Token, tombstone: bool, now: Moment, until: Moment) -> Job {
        // A copy of the acquire sets the key whenever the server reads it: its release outlasts that.
        let ttl = spec.options.ttl;
        let until = if tombstone { until.max(now.after(tombstone_life(ttl)).after(ttl)) } else { until };
        Job { spec: spec.clone(), token: token.clone(), tombstone, not_before: now, until, abandoned: None }
    }

    pub(crate) fn of_ended_holder(grant: &Grant, what: Abandoned, now: Moment, until: Moment) -> Job {
        let abandoned = Some((grant.fence, what));
        Job { abandoned, ..Job::new(&grant.spec, &grant.token, grant.acquire_unanswered, now, until) }
    }

    pub(crate) fn of_lost_lease(grant: &Grant, not_before: Moment, until: Moment) -> Job {
        Job { not_before, ..Job::new(&grant.spec, &grant.token, grant.acquire_unanswered, not_before, until) }
    }
}

/// The queues and their threads: one each for each server.
#[derive(Debug)]
pub(crate) struct Janitor {
    clock: Clock,
    io_timeout: Duration,
    turn: Duration,
    transport: Arc<dyn Transport>,
    counters: Arc<Counters>,
    state: Monitor<State>,
    threads: Threads,
}

#[derive(Debug, Default)]
struct State {
    lanes: BTreeMap<u32, Lane>,
    next: u64,
    /// After this the threads end, earlier when nothing is left.
    stop_at: Option<Moment>,
    /// The time is over: no thread will come any more.
    ended: bool,
}

/// The releases of one server.
#[derive(Debug, Default)]
struct Lane {
    jobs: BTreeMap<(Moment, u64), Job>,
    /// A job that is being tried.
    busy: bool,
    /// It has a thread.
    started: bool,
}

impl Janitor {
    pub(crate) fn new(
        clock: &Clock,
        io_timeout: Duration,
        turn: Duration,
        transport: Arc<dyn Transport>,
        counters: Arc<Counters>,
    ) -> Arc<Janitor> {
        let state = Monitor::new(clock, true, State::default());
        let threads = Threads::default();
        Arc::new(Janitor { clock: clock.clone(), io_timeout, turn, transport, counters, state, threads })
    }

    /// Takes over a release. Never blocks.
    pub(crate) fn release(self: &Arc<Self>, job: Job) {
        let state = self.state.lock();
        if state.ended {
            // The client is closed; the key lapses by its ttl.
            self.counters.one(Count::BackgroundGaveUp);
            return;
        }
        let number = self.lane_of(&job);
        self.push(state, number, job);
    }

    /// That of its server, as far as that is known.
    fn lane_of(&self, job: &Job) -> u32 {
        self.transport.node(&job.spec.key) % LANES
    }

    fn push(self: &Arc<Self>, mut state: MonitorGuard<'_, State>, number: u32, job: Job) {
        state.next += 1;
        let at = (job.not_before, state.next);
        let lane = state.lanes.entry(number).or_default();
        lane.jobs.insert(at, job);
        let first = !std::mem::replace(&mut lane.started, true);
        drop(state);
        self.state.notify_all();
        if first {
            let janitor = self.clone();
            let transport = self.transport.dedicated();
            let working = move || janitor.work(number, &*transport);
            if !self.threads.start("redlatch-janitor", &self.clock, &self.counters, working) {
                self.state.lock().lanes.entry(number).or_default().started = false;
            }
        }
    }

    /// Releases not confirmed yet.
    pub(crate) fn pending(&self) -> u64 {
        let state = self.state.lock();
        state.lanes.values().map(|lane| lane.jobs.len() as u64 + u64::from(lane.busy)).sum()
    }

    /// Has the threads end when their queues are empty, at `by` at the latest (plus one try).
    pub(crate) fn end(&self, by: Moment) {
        let mut state = self.state.lock();
        state.stop_at = Some(by);
        drop(state);
        self.state.notify_all();
    }

    /// Waits for their end.
    pub(crate) fn join(&self) {
        self.threads.join();
    }

    fn work(self: &Arc<Self>, number: u32, transport: &dyn Transport) {
        while let Some(job) = self.next(number) {
            let mut left = None;
            let attempt = || left = self.attempt(transport, job);
            contained(&self.counters, Count::ThreadPanicked, "a background release", attempt);
            let mut state = self.state.lock();
            state.lanes.entry(number).or_default().busy = false;
            if let Some(job) = left {
                // It may have moved; at the end of the client no other thread is started.
                let number = if state.stop_at.is_some() { number } else { self.lane_of(&job) };
                self.push(state, number, job);
            }
        }
    }

    /// The next job that is due; `None` ends the lane and its thread.
    fn next(&self, number: u32) -> Option<Job> {
        let mut state = self.state.lock();
        let idle_until = self.clock.now().after(IDLE);
        loop {
            let now = self.clock.now();
            let stop_at = state.stop_at;
            let lane = state.lanes.entry(number).or_default();
            if let Some(stop_at) = stop_at
                && (lane.jobs.is_empty() || now >= stop_at)
            {
                // A waiter that leaves before the time is over starts another thread.
                let left = state.lanes.remove(&number).map_or(0, |lane| lane.jobs.len());
                state.ended = now >= stop_at;
                drop(state);
                if left > 0 {
                    self.counters.add(Count::BackgroundGaveUp, left as u64);
                    tracing::warn!(releases = left, "client closed with unconfirmed releases: their keys lapse by ttl");
                }
                return None;
            }
            if lane.jobs.is_empty() && now >= idle_until {
                // The next job starts another thread.
                state.lanes.remove(&number);
                return None;
            }
            let first = lane.jobs.first_key_value().map_or(idle_until, |((at, _), _)| *at);
            if first <= now {
                lane.busy = true;
                return lane.jobs.pop_first().map(|(_, job)| job);
            }
            let until = stop_at.map_or(first, |stop_at| first.min(stop_at));
            state = state.wait_until(until);
        }
    }

    /// Tries once; gives the job back when it has to be tried again.
    fn attempt(&self, transport: &dyn Transport, mut job: Job) -> Option<Job> {
        let now = self.clock.now();
        let (name, tombstone) = (job.spec.name(), job.tombstone.then(|| tombstone_life(job.spec.options.ttl)));
        match job.abandoned.take() {
            Some((fence, Abandoned::Holder)) => tracing::warn!(
                lock = name,
                fence,
                "a holder ended without releasing its lock: it is released in the background"
            ),
            Some((fence, Abandoned::Lease)) => tracing::warn!(
                lock = name,
                fence,
                "a lease was dropped without being released: it is released in the background"
            ),
            Some((fence, Abandoned::Client)) => tracing::warn!(
                lock = name,
                fence,
                "a client was dropped while a lock of it was held: it is released in the background"
            ),
            None => {}
        }
        let request = Release { key: &job.spec.key, token: &job.token, tombstone, turn: self.turn };
        match transport.release(&request, now.after(self.io_timeout)) {
            Ok(_) => {
                self.counters.one(Count::BackgroundReleased);
                tracing::debug!(lock = name, "released in the background");
                None
            }
            Err(fault) if fault.is_retryable() && now < job.until => {
                job.not_before = self.clock.now().after(Duration::from_millis(fastrand::u64(RETRY_GAP)));
                Some(job)
            }
            Err(fault) => {
                self.counters.one(Count::BackgroundGaveUp);
                let server = transport.server();
                tracing::warn!(
                    lock = name,
                    server,
                    error = fault.detail,
                    "background release given up: key lapses by ttl"
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::options::LockOptions;
    use crate::protocol::Key;
    use crate::transport::MemoryServer;

    #[test]
    fn a_thread_without_work_ends_and_the_next_release_starts_another() {
        let manual = ManualClock::new();
        let clock = Clock::Manual(manual.clone());
        let counters = Arc::new(Counters::new());
        let second = Duration::from_secs(1);
        let transport = Arc::new(MemoryServer::open(None, &clock).unwrap());
        let janitor = Janitor::new(&clock, second, second, transport, counters);
        let spec = LockSpec { key: Key::new("lock:", "a").unwrap(), options: LockOptions::new() };
        let spec = Arc::new(spec);
        for _ in 0..2 {
            let now = clock.now();
            janitor.release(Job::new(&spec, &Token::foreign("t"), false, now, now.after(second)));
            let started = || janitor.state.lock().lanes.values().any(|lane| lane.started);
            assert!(started());
            manual.advance(second);
            assert_eq!(janitor.pending(), 0);
            assert!(started(), "another release may come soon");
            manual.advance(IDLE);
            assert!(!started());
        }
        janitor.end(clock.now());
        janitor.join();
    }
}
