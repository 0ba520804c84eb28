//! Leases by the time of their next renewal.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment, Monitor};
use crate::lease::{Grant, View};
use crate::protocol::RENEW_BATCH;
use crate::sync::Ordering;

use super::timeline::{Timed, Timeline};

/// Entries that a worker looks at to fill a batch with leases of a similar ttl.
const SCANNED: usize = 4 * RENEW_BATCH;

/// The queue that renewing threads take from.
///
/// One of the idle threads sleeps until the first lease is due, the others until they are called: a due lease
/// wakes one thread.
///
/// Where several servers share the leases, each has a queue of its own, and the last idle thread works only for a server
/// for which no other thread does, and whose last try did not fail: one that stalls holds up no other.
#[derive(Debug)]
pub(crate) struct DueQueue {
    clock: Clock,
    spread: Spread,
    state: Monitor<State>,
}

/// How many servers the leases are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    One,
    /// Several, for which that many threads work.
    Nodes {
        threads: u32,
    },
}

/// Leases that are renewed together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) node: u32,
    pub(crate) grants: Vec<Arc<Grant>>,
}

/// How a batch went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) node: u32,
    pub(crate) failed: bool,
}

#[derive(Debug, Default)]
struct State {
    nodes: Vec<Node>,
    /// Threads that have a batch; counted only where there are several nodes.
    busy: u32,
    /// Until when the leading idle thread sleeps; `None` while there is none.
    leader_until: Option<Moment>,
    started: bool,
    stopped: bool,
}

/// The queue of one server.
#[derive(Debug)]
struct Node {
    id: u32,
    leases: Timeline,
    /// Threads that have a batch of its leases.
    busy: u32,
    /// Its last batch was not answered.
    failed: bool,
}

impl DueQueue {
    pub(crate) fn new(clock: &Clock, spread: Spread) -> DueQueue {
        DueQueue { clock: clock.clone(), spread, state: Monitor::new(clock, true, State::default()) }
    }

    /// Queues a live lease on server `node` for `at`; true for the first one ever, whose caller starts the threads.
    pub(crate) fn add(&self, grant: &Arc<Grant>, node: u32, at: Moment) -> bool {
        let mut state = self.state.lock();
        if state.stopped || grant.deadline().is_none() {
            return false;
        }
        grant.due_at.store(at.nanos(), Ordering::Relaxed);
        grant.due_node.store(node, Ordering::Relaxed);
        state.node(node).leases.insert(at, grant);
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

    pub(crate) fn remove(&self, grant: &Arc<Grant>) {
        let mut state = self.state.lock();
        let at = Moment::from_nanos(grant.due_at.load(Ordering::Relaxed));
        let node = grant.due_node.load(Ordering::Relaxed);
        if let Some(node) = state.nodes.iter_mut().find(|queue| queue.id == node) {
            node.leases.remove(at, grant);
        }
    }

    /// Takes in how the calling thread's last batch went. Blocks until a lease is due, then takes it and others that can
    /// be renewed along with it; `None` when the queue is stopped.
    ///
    /// A thread whose last batch was answered goes on with the next one if that is due soon, a fiftieth of the ttl ahead: of
    /// many leases it renews one batch after another and then none for a while, where the server, and this process, would
    /// wake and warm up for each. A batch that failed is not followed at once by what comes after it, and what is tried again
    /// is not tried ahead, whoever goes on.
    pub(crate) fn take(&self, last: Option<Done>) -> Option<Batch> {
        let mut state = self.state.lock();
        let mut goes_on = last.is_some_and(|done| !done.failed);
        if let (Some(done), Spread::Nodes { .. }) = (last, self.spread) {
            state.done(done);
            // The leader may sleep for what it may do alone; now there is one thread more.
            let next = state.next(self.spread).map_or(Moment::FAR, |(at, _)| at);
            if state.leader_until.is_some_and(|until| next < until) {
                self.state.notify_all();
            }
        }
        loop {
            if state.stopped {
                return None;
            }
            let now = self.clock.now();
            let next = state.next(self.spread);
            let first = next.map_or(Moment::FAR, |(at, _)| at);
            let ahead = next.filter(|_| goes_on).map_or(Duration::ZERO, |(_, index)| state.ahead(index));
            if let Some((at, index)) = next
                && at <= now.after(ahead)
            {
                let batch = state.take_batch(index, now, self.spread);
                let others = state.nodes.iter().any(|node| !node.leases.is_empty()) && state.leader_until.is_none();
                drop(state);
                if others {
                    self.state.notify_one();
                }
                return Some(batch);
            }
            goes_on = false;
            if state.leader_until.is_some() {
                state = state.wait_until(Moment::FAR);
            } else {
                state.leader_until = Some(first);
                state = state.wait_until(first);
                state.leader_until = None;
            }
        }
    }

    /// Leases in the queue.
    #[cfg(all(test, shuttle))]
    pub(super) fn len(&self) -> usize {
        self.state.lock().nodes.iter().map(|node| node.leases.len()).sum()
    }

    /// Wakes every thread in [`take`](DueQueue::take) to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.state.notify_all();
    }
}

impl State {
    fn node(&mut self, id: u32) -> &mut Node {
        let index = self.nodes.iter().position(|node| node.id == id).unwrap_or_else(|| {
            self.nodes.push(Node { id, leases: Timeline::default(), busy: 0, failed: false });
            self.nodes.len() - 1
        });
        &mut self.nodes[index]
    }

    fn done(&mut self, done: Done) {
        self.busy = self.busy.saturating_sub(1);
        let node = self.node(done.node);
        node.busy = node.busy.saturating_sub(1);
        node.failed = done.failed;
    }

    /// When the first lease is due that an idle thread may take, and in which queue.
    fn next(&self, spread: Spread) -> Option<(Moment, usize)> {
        let last_thread = match spread {
            Spread::One => false,
            Spread::Nodes { threads } => threads > 1 && self.busy + 1 >= threads,
        };
        let open = self.nodes.iter().enumerate().filter(|(_, node)| !last_thread || (node.busy == 0 && !node.failed));
        open.filter_map(|(index, node)| Some((node.leases.first()?.at, index))).min()
    }

    /// The ttl of the first lease of a queue.
    fn ttl_of_first(&self, index: usize) -> Duration {
        self.nodes[index].leases.first().map_or(Duration::ZERO, |first| first.grant.ttl())
    }

    /// How much too early the first lease of a queue may be renewed by a thread that goes on.
    fn ahead(&self, index: usize) -> Duration {
        let first = self.nodes[index].leases.first();
        let certain = first.filter(|first| matches!(first.grant.state.view(), View::Live { certain: true, .. }));
        certain.map_or(Duration::ZERO, |first| first.grant.ttl() / 50)
    }

    /// The first lease of a queue and those after it that are due within a twelfth of their ttl and have at least half
    /// and at most twice its ttl, so that one limit suits all.
    fn take_batch(&mut self, index: usize, now: Moment, spread: Spread) -> Batch {
        let ttl = self.ttl_of_first(index);
        let node = &mut self.nodes[index];
        let mut chosen: Vec<Timed> = Vec::new();
        for timed @ Timed { at, grant } in node.leases.iter().take(SCANNED) {
            if *at > now.after(grant.ttl() / 12) || chosen.len() == RENEW_BATCH {
                break;
            }
            if grant.ttl() >= ttl / 2 && grant.ttl() <= ttl * 2 {
                chosen.push(timed.clone());
            }
        }
        chosen.iter().for_each(|Timed { at, grant }| node.leases.remove(*at, grant));
        let grants = chosen.into_iter().map(|Timed { grant, .. }| grant).collect();
        let id = node.id;
        if spread != Spread::One {
            node.busy += 1;
            self.busy += 1;
        }
        Batch { node: id, grants }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::lease::LockSpec;
    use crate::options::LockOptions;
    use crate::protocol::Key;
    use crate::token::Token;

    fn grant(clock: &Clock) -> Arc<Grant> {
        grant_for(LockOptions::new().ttl, clock)
    }

    fn grant_for(ttl: Duration, clock: &Clock) -> Arc<Grant> {
        let key = Key::new("lock:", "a").unwrap();
        let spec = LockSpec { key, options: LockOptions::new().ttl(ttl) };
        Arc::new(Grant::new(Arc::new(spec), Token::foreign("t"), 1, clock.now(), false))
    }

    #[test]
    fn a_lease_that_comes_while_the_leading_thread_is_in_a_request_wakes_the_other() {
        let clock = Clock::System;
        let queue = Arc::new(DueQueue::new(&clock, Spread::One));
        let (took, taken) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (queue, took) = (queue.clone(), took.clone());
                // Each takes one batch and is in a request for ever after.
                thread::spawn(move || took.send(queue.take(None).map_or(0, |batch| batch.grants.len())).unwrap())
            })
            .collect();
        let (first, second) = (grant(&clock), grant(&clock));
        for grant in [&first, &second] {
            queue.add(grant, 0, clock.now().after(Duration::from_millis(10)));
            assert_eq!(taken.recv_timeout(Duration::from_secs(2)), Ok(1), "the other thread sleeps on");
        }
        queue.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_thread_goes_on_with_what_is_due_soon_unless_its_batch_failed() {
        let clock = Clock::System;
        let queue = DueQueue::new(&clock, Spread::One);
        // So long a ttl that a busy machine does not get to the end of its fiftieth.
        let ttl = Duration::from_secs(3_600);
        let ahead = ttl / 50;
        let (soon, begun) = (grant_for(ttl, &clock), clock.now());
        queue.add(&soon, 0, begun.after(ahead));
        assert_eq!(queue.take(Some(Done { node: 0, failed: false })).unwrap().grants.len(), 1);
        assert!(clock.now() < begun.after(ahead), "it has waited");
        let begun = clock.now();
        queue.add(&soon, 0, begun.after(Duration::from_millis(50)));
        assert_eq!(queue.take(Some(Done { node: 0, failed: true })).unwrap().grants.len(), 1);
        assert!(clock.now() >= begun.after(Duration::from_millis(50)), "it has not waited");
    }

    #[test]
    fn a_lease_that_is_tried_again_was_taken_before_its_gap_was_over() {
        let clock = Clock::System;
        for spread in [Spread::One, Spread::Nodes { threads: 2 }] {
            let queue = DueQueue::new(&clock, spread);
            let (failed, begun) = (grant(&clock), clock.now());
            failed.renewal_failed(true);
            queue.add(&failed, 1, begun.after(Duration::from_millis(50)));
            // Another batch was answered: of another server, or by another thread.
            assert_eq!(queue.take(Some(Done { node: 0, failed: false })).unwrap().grants.len(), 1);
            assert!(clock.now() >= begun.after(Duration::from_millis(50)), "{spread:?}: it has not waited");
        }
    }

    fn due(queue: &DueQueue, clock: &Clock, node: u32) -> Arc<Grant> {
        let grant = grant(clock);
        queue.add(&grant, node, clock.now());
        grant
    }

    /// The node that an idle thread would work for.
    fn next(queue: &DueQueue) -> Option<u32> {
        let state = queue.state.lock();
        state.next(queue.spread).map(|(_, index)| state.nodes[index].id)
    }

    #[test]
    fn the_last_idle_thread_leaves_alone_a_node_that_stalls() {
        let clock = Clock::System;
        let queue = DueQueue::new(&clock, Spread::Nodes { threads: 2 });
        let _stalled = (due(&queue, &clock, 7), queue.take(None).unwrap());
        // More of its leases come due while one thread is stuck.
        let _more: Vec<_> = (0..2_000).map(|_| due(&queue, &clock, 7)).collect();
        assert_eq!(next(&queue), None);
        let _healthy = due(&queue, &clock, 8);
        let batch = queue.take(None).unwrap();
        assert_eq!((batch.node, batch.grants.len()), (8, 1));
        // It is done; the other thread is still stuck.
        let _healthy = due(&queue, &clock, 8);
        let batch = queue.take(Some(Done { node: 8, failed: false })).unwrap();
        assert_eq!(batch.node, 8);
        queue.state.lock().done(Done { node: 8, failed: false });
        // The stuck one comes back without an answer: only one thread tries again.
        queue.state.lock().done(Done { node: 7, failed: true });
        assert_eq!(queue.take(None).unwrap().node, 7);
        assert_eq!(next(&queue), None);
        // It answers again: it is a node like any other.
        queue.state.lock().done(Done { node: 7, failed: false });
        assert_eq!(next(&queue), Some(7));
    }

    #[test]
    fn a_node_that_failed_is_not_tried_by_the_last_idle_thread() {
        let clock = Clock::System;
        let queue = DueQueue::new(&clock, Spread::Nodes { threads: 2 });
        let _leases = (due(&queue, &clock, 1), due(&queue, &clock, 2));
        queue.state.lock().node(1).failed = true;
        queue.state.lock().node(3).failed = true;
        assert_eq!(queue.take(None).unwrap().node, 1, "with another thread idle it is");
        let _lease = due(&queue, &clock, 3);
        assert_eq!(queue.take(None).unwrap().node, 2);
        assert_eq!(next(&queue), None);
        queue.state.lock().done(Done { node: 2, failed: false });
        assert_eq!(next(&queue), None, "one is idle, one is in a request");
        queue.state.lock().done(Done { node: 1, failed: true });
        assert_eq!(next(&queue), Some(3));
    }

    #[test]
    fn one_thread_alone_serves_every_node() {
        let clock = Clock::System;
        let queue = DueQueue::new(&clock, Spread::Nodes { threads: 1 });
        let _lease = due(&queue, &clock, 1);
        queue.state.lock().node(1).failed = true;
        assert_eq!(queue.take(None).unwrap().node, 1);
    }

    #[test]
    fn a_thread_that_comes_back_wakes_the_one_that_slept_past_a_failed_node() {
        let clock = Clock::System;
        let queue = Arc::new(DueQueue::new(&clock, Spread::Nodes { threads: 2 }));
        let _first = due(&queue, &clock, 1);
        let batch = queue.take(None).unwrap();
        let (took, taken) = mpsc::channel();
        let idle = |last: Option<Done>| {
            let (queue, took) = (queue.clone(), took.clone());
            thread::spawn(move || took.send(queue.take(last).map(|batch| batch.node)).unwrap())
        };
        let asleep = idle(None);
        while queue.state.lock().leader_until.is_none() {
            thread::yield_now();
        }
        let again = grant(&clock);
        queue.add(&again, 1, clock.now().after(Duration::from_millis(300)));
        let back = idle(Some(Done { node: batch.node, failed: true }));
        assert_eq!(taken.recv_timeout(Duration::from_secs(5)), Ok(Some(1)), "both sleep on");
        queue.stop();
        [asleep, back].into_iter().for_each(|thread| thread.join().unwrap());
    }
}
