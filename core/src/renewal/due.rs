//! Leases by the time of their next renewal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock::{Clock, Moment, Monitor};
use crate::lease::Grant;
use crate::protocol::RENEW_BATCH;

/// Entries that a worker looks at to fill a batch with leases of a similar ttl.
const SCANNED: usize = 4 * RENEW_BATCH;

/// The queue that renewing threads take from.
///
/// One of the idle threads sleeps until the first lease is due, the others until they are called: a due lease
/// wakes one thread.
#[derive(Debug)]
pub(crate) struct DueQueue {
    clock: Clock,
    state: Monitor<State>,
}

#[derive(Debug, Default)]
struct State {
    leases: BTreeMap<(Moment, u64), Arc<Grant>>,
    /// Until when the leading idle thread sleeps; `None` while there is none.
    leader_until: Option<Moment>,
    started: bool,
    stopped: bool,
}

impl DueQueue {
    pub(crate) fn new(clock: &Clock) -> DueQueue {
        DueQueue { clock: clock.clone(), state: Monitor::new(clock, true, State::default()) }
    }

    /// Queues a live lease for `at`; true for the first one ever, whose caller starts the threads.
    pub(crate) fn add(&self, grant: &Arc<Grant>, at: Moment) -> bool {
        let mut state = self.state.lock();
        if state.stopped || grant.deadline().is_none() {
            return false;
        }
        grant.due_at.store(at.nanos(), Ordering::Relaxed);
        state.leases.insert((at, grant.id), grant.clone());
        // Without a leader, every thread is in a request or a follower sleeps that must lead now.
        let earlier = state.leader_until.is_none_or(|until| at < until);
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

    pub(crate) fn remove(&self, grant: &Grant) {
        let mut state = self.state.lock();
        let at = Moment::from_nanos(grant.due_at.load(Ordering::Relaxed));
        state.leases.remove(&(at, grant.id));
    }

    /// Blocks until a lease is due, then takes it and others that can be renewed along with it; `None` when
    /// the queue is stopped.
    pub(crate) fn take(&self) -> Option<Vec<Arc<Grant>>> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let now = self.clock.now();
            let first = state.leases.first_key_value().map_or(Moment::FAR, |((at, _), _)| *at);
            if first <= now {
                let batch = state.take_batch(now);
                let others = !state.leases.is_empty() && state.leader_until.is_none();
                drop(state);
                if others {
                    self.state.notify_one();
                }
                return Some(batch);
            }
            if state.leader_until.is_some() {
                state = state.wait_until(Moment::FAR);
            } else {
                state.leader_until = Some(first);
                state = state.wait_until(first);
                state.leader_until = None;
            }
        }
    }

    /// Wakes every thread in [`take`](DueQueue::take) to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.state.notify_all();
    }
}

impl State {
    /// The first lease and those after it that are due within a twelfth of their ttl and have at least half
    /// and at most twice its ttl, so that one limit suits all.
    fn take_batch(&mut self, now: Moment) -> Vec<Arc<Grant>> {
        let Some(ttl) = self.leases.first_key_value().map(|(_, first)| first.ttl()) else { return Vec::new() };
        let mut keys = Vec::new();
        for ((at, id), grant) in self.leases.iter().take(SCANNED) {
            if *at > now.after(grant.ttl() / 12) || keys.len() == RENEW_BATCH {
                break;
            }
            if grant.ttl() >= ttl / 2 && grant.ttl() <= ttl * 2 {
                keys.push((*at, *id));
            }
        }
        keys.iter().filter_map(|key| self.leases.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::lease::LockSpec;
    use crate::options::LockOptions;
    use crate::protocol::Key;
    use crate::token::Token;

    fn grant(clock: &Clock) -> Arc<Grant> {
        let key = Key::new("lock:", "a").unwrap();
        let spec = LockSpec { name: "a".into(), key, options: LockOptions::new() };
        Arc::new(Grant::new(Arc::new(spec), Token::foreign("t"), 1, clock.now(), false))
    }

    #[test]
    fn a_lease_that_comes_while_the_leading_thread_is_in_a_request_wakes_the_other() {
        let clock = Clock::System;
        let queue = Arc::new(DueQueue::new(&clock));
        let (took, taken) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (queue, took) = (queue.clone(), took.clone());
                // Each takes one batch and is in a request for ever after.
                thread::spawn(move || took.send(queue.take().map_or(0, |batch| batch.len())).unwrap())
            })
            .collect();
        let (first, second) = (grant(&clock), grant(&clock));
        for grant in [&first, &second] {
            queue.add(grant, clock.now().after(Duration::from_millis(10)));
            assert_eq!(taken.recv_timeout(Duration::from_secs(2)), Ok(1), "the other thread sleeps on");
        }
        queue.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
