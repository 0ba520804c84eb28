//! Leases by their deadline, and the callbacks of lost ones: the state of the `redlatch-events` thread.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::{Clock, Moment, Monitor};
use crate::error::LostReason;
use crate::events::Count;
use crate::lease::{Ended, Grant};
use crate::sync::Ordering;

use super::timeline::{Timed, Timeline};
use super::{Keeper, contained};

/// All live leases of a client.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Monitor<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each lease under its deadline as it was when last looked at; renewals move it later.
    leases: Timeline,
    callbacks: VecDeque<(Arc<Grant>, LostReason)>,
    asleep_until: Option<Moment>,
    started: bool,
    stopped: bool,
}

/// What the thread does next.
enum Task {
    Callback(Arc<Grant>, LostReason),
    Ended(Vec<(Arc<Grant>, Ended)>),
    Stop,
}

impl Watch {
    pub(crate) fn new(clock: &Clock) -> Watch {
        Watch { state: Monitor::new(clock, true, State::default()) }
    }

    /// Adds a lease; true for the first one ever, whose caller starts the thread.
    pub(crate) fn add(&self, grant: &Arc<Grant>) -> bool {
        let mut state = self.state.lock();
        let Some(deadline) = grant.deadline() else { return false };
        state.insert(grant, deadline);
        let earlier = state.asleep_until.is_some_and(|until| deadline < until);
        let first = !std::mem::replace(&mut state.started, true);
        drop(state);
        if earlier {
            self.state.notify_all();
        }
        first
    }

    /// Takes in that no thread could be started: the next lease tries again.
    pub(crate) fn not_started(&self) {
        self.state.lock().started = false;
    }

    pub(crate) fn remove(&self, grant: &Arc<Grant>) {
        let mut state = self.state.lock();
        let at = Moment::from_nanos(grant.watch_at.load(Ordering::Relaxed));
        state.leases.remove(at, grant);
    }

    pub(crate) fn queue_callback(&self, grant: &Arc<Grant>, reason: LostReason) {
        self.state.lock().callbacks.push_back((grant.clone(), reason));
        self.state.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Arc<Grant>> {
        self.state.lock().leases.iter().map(|timed| timed.grant.clone()).collect()
    }

    /// How many there are, and the oldest.
    pub(crate) fn held(&self) -> (u64, Option<Arc<Grant>>) {
        let state = self.state.lock();
        let oldest = state.leases.iter().min_by_key(|timed| timed.grant.granted);
        (state.leases.len() as u64, oldest.map(|timed| timed.grant.clone()))
    }

    /// Ends the thread once it has run the callbacks that are queued.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.state.notify_all();
    }

    /// Blocks until there is something to do.
    fn next(&self, clock: &Clock) -> Task {
        let mut state = self.state.lock();
        loop {
            if let Some((grant, reason)) = state.callbacks.pop_front() {
                return Task::Callback(grant, reason);
            }
            let ended = state.take_ended(clock.now());
            if !ended.is_empty() {
                return Task::Ended(ended);
            }
            if state.stopped {
                return Task::Stop;
            }
            let until = state.leases.first().map_or(Moment::FAR, |first| first.at);
            state.asleep_until = Some(until);
            state = state.wait_until(until);
            state.asleep_until = None;
        }
    }
}

impl State {
    fn insert(&mut self, grant: &Arc<Grant>, at: Moment) {
        grant.watch_at.store(at.nanos(), Ordering::Relaxed);
        self.leases.insert(at, grant);
    }

    /// Takes out the leases whose time is over; those that were renewed meanwhile move to their new deadline.
    fn take_ended(&mut self, now: Moment) -> Vec<(Arc<Grant>, Ended)> {
        let mut ended = Vec::new();
        while self.leases.first().is_some_and(|first| first.at <= now)
            && let Some(Timed { grant, .. }) = self.leases.pop_first()
        {
            match grant.expire(now) {
                Some(end) => ended.push((grant, end)),
                None => {
                    if let Some(deadline) = grant.deadline() {
                        self.insert(&grant, deadline);
                    }
                }
            }
        }
        ended
    }
}

impl Keeper {
    pub(super) fn watch_loop(&self) {
        let mut running = true;
        while running {
            contained(&self.counters, Count::ThreadPanicked, "the deadline watch", || {
                running = self.watch_once();
            });
        }
    }

    /// Waits for one task and does it; false when the thread should end.
    fn watch_once(&self) -> bool {
        match self.watch.next(&self.clock) {
            Task::Stop => return false,
            Task::Callback(grant, reason) => self.call_back(&grant, reason),
            Task::Ended(ended) => {
                for (grant, end) in &ended {
                    self.report(grant, *end, false);
                }
                for (grant, end) in &ended {
                    if let Ended::Now(reason) = end {
                        self.call_back(grant, *reason);
                    }
                }
            }
        }
        true
    }

    fn call_back(&self, grant: &Grant, reason: LostReason) {
        let Some(callback) = grant.spec.options.loss_callback() else { return };
        let info = grant.lost_info(reason);
        contained(&self.counters, Count::CallbackPanicked, "an on_lost callback", || callback(&info));
    }
}
