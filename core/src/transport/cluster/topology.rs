//! Finds out which node has which slot, in the time of whoever needs to know.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::clock::{Clock, Moment};
use crate::transport::opener::{Opener, Way};
use crate::transport::slot::Slot;
use crate::transport::{Endpoint, Fault, FaultKind, Limits, Seeds};

use super::map::{Map, Node, Range, read_slots};

/// The shortest time between two questions of one client.
const GAP: Duration = Duration::from_millis(100);

/// A cluster as one client knows it.
#[derive(Debug)]
pub(super) struct Topology {
    seeds: Seeds,
    pub(super) limits: Limits,
    pub(super) clock: Clock,
    map: RwLock<Map>,
    /// When the cluster was last asked.
    asked: AtomicU64,
    round: Mutex<Round>,
}

/// The asking of nodes: one thread at a time.
#[derive(Default)]
struct Round {
    /// Connections to those that were asked before.
    slots: HashMap<String, (Opener, Slot)>,
    /// Goes on with each question, so that a node that is cut off from the others is not asked again and again.
    turn: usize,
    failure: Option<(FaultKind, String)>,
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Round { slots: _, turn, failure: _ } = self;
        f.debug_struct("Round").field("turn", turn).finish_non_exhaustive()
    }
}

impl Topology {
    /// Asks nobody yet.
    pub(super) fn new(seeds: &Seeds, limits: Limits, clock: &Clock) -> Topology {
        Topology {
            seeds: seeds.clone(),
            limits,
            clock: clock.clone(),
            map: RwLock::new(Map::empty()),
            asked: AtomicU64::new(0),
            round: Mutex::default(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        self.seeds.as_str()
    }

    /// The node that has `slot`. The cluster is asked where none is known, or where the known one has failed: callers
    /// of other nodes do not wait for that.
    pub(super) fn owner(&self, slot: u16, by: Moment) -> Result<Arc<Node>, Fault> {
        match self.known_owner(slot) {
            Some(node) if !node.has_failed() => Ok(node),
            Some(node) => {
                // An answer or none: the node itself will tell whether it is back.
                let _ = self.ask(by);
                Ok(self.known_owner(slot).unwrap_or(node))
            }
            None => {
                self.ask(by)?;
                self.known_owner(slot).ok_or_else(|| Fault::refusing(format!("CLUSTERDOWN no node serves slot {slot}")))
            }
        }
    }

    /// As [`owner`](Topology::owner), without asking anybody.
    pub(super) fn known_owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.read().owner(slot)
    }

    /// The nodes that have slots; empty before the first answer.
    pub(super) fn owners(&self) -> Vec<Arc<Node>> {
        self.map.read().owners()
    }

    /// Whether the node has any slots.
    pub(super) fn is_owner(&self, node: &Node) -> bool {
        self.map.read().is_owner(node)
    }

    /// How many slots no node has, as far as is known.
    pub(super) fn uncovered(&self) -> usize {
        self.map.read().uncovered()
    }

    /// Counts the changes of what is known.
    pub(super) fn version(&self) -> u64 {
        self.map.read().version
    }

    /// The node at an address that `from` has named; without a host it is that of `from`.
    pub(super) fn at(&self, host: &str, port: u16, from: &Node) -> Arc<Node> {
        let host = if host.is_empty() { from.endpoint.host() } else { host };
        self.map.write().node(from.endpoint.at(host, port))
    }

    /// Takes in that a slot is there now.
    pub(super) fn moved(&self, slot: u16, to: &Node) {
        self.map.write().set_owner(slot, to);
    }

    /// Asks one node after another for its account, in half of the time until `by`. Does nothing when that was done just
    /// now, or when another thread does it and there is a map.
    pub(super) fn ask(&self, by: Moment) -> Result<(), Fault> {
        self.ask_but(None, by)
    }

    /// As [`ask`](Topology::ask), with this node asked last: what it says of itself may be out of date.
    pub(super) fn ask_others(&self, node: &Node, by: Moment) -> Result<(), Fault> {
        self.ask_but(Some(node), by)
    }

    fn ask_but(&self, last: Option<&Node>, by: Moment) -> Result<(), Fault> {
        let began = self.clock.now();
        let first = self.map.read().is_empty();
        let half = began.after(by.since(began) / 2);
        let round = if first { self.round.try_lock_for(half.since(began)) } else { self.round.try_lock() };
        let Some(mut round) = round else {
            return if first { Err(Fault::unreachable("another thread was still asking the cluster")) } else { Ok(()) };
        };
        let asked = Moment::from_nanos(self.asked.load(Ordering::Acquire));
        if asked > began || self.clock.now().since(asked) < GAP {
            return match &round.failure {
                Some((kind, detail)) if first => Err(Fault { kind: *kind, ..Fault::unreachable(detail.clone()) }),
                _ => Ok(()),
            };
        }
        let mut candidates = self.candidates(round.turn);
        if let Some(last) = last {
            // A stable sort.
            candidates.sort_by_key(|endpoint| endpoint.as_str() == last.endpoint.as_str());
        }
        let outcome = round.go(&candidates, self, half);
        self.asked.store(self.clock.now().nanos(), Ordering::Release);
        round.turn = round.turn.wrapping_add(1);
        round.failure = outcome.as_ref().err().map(|fault| (fault.kind, fault.detail.clone()));
        self.map.write().replace(&outcome?, &self.seeds.nodes[0]);
        Ok(())
    }

    /// Ends the connections over which nodes were asked.
    pub(super) fn close(&self) {
        if let Some(mut round) = self.round.try_lock() {
            round.slots.clear();
        }
    }

    /// Whom to ask, in this order: nodes that have slots, a different one first each time, then the seeds, then nodes
    /// that failed.
    fn candidates(&self, turn: usize) -> Vec<Endpoint> {
        let mut nodes = self.owners();
        if !nodes.is_empty() {
            let count = nodes.len();
            nodes.rotate_left(turn % count);
        }
        let (failed, well): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.has_failed());
        let mut order: Vec<Endpoint> = well.iter().map(|node| node.endpoint.clone()).collect();
        let failed: Vec<Endpoint> = failed.iter().map(|node| node.endpoint.clone()).collect();
        let same = |one: &Endpoint, list: &[Endpoint]| list.iter().any(|other| other.as_str() == one.as_str());
        let mut seeds: Vec<&Endpoint> = self.seeds.nodes.iter().collect();
        let count = seeds.len();
        seeds.rotate_left(turn % count);
        for seed in seeds {
            if !same(seed, &order) && !same(seed, &failed) {
                order.push(seed.clone());
            }
        }
        order.extend(failed);
        order
    }
}

impl Round {
    /// The first account that names any slot. Everyone asked gets an equal share of the time.
    fn go(&mut self, candidates: &[Endpoint], of: &Topology, by: Moment) -> Result<Vec<Range>, Fault> {
        let (mut said, mut kinds) = (Vec::new(), Vec::new());
        for (turn, endpoint) in candidates.iter().enumerate() {
            let now = of.clock.now();
            let share = by.since(now) / u32::try_from(candidates.len() - turn).unwrap_or(u32::MAX);
            match self.ask_one(endpoint, of, now.after(share)) {
                Ok(ranges) => return Ok(ranges),
                Err(fault) => {
                    said.push(fault.detail);
                    kinds.push(fault.kind);
                }
            }
        }
        // Only what all of them refuse does not pass.
        let kind = match kinds.first() {
            Some(first) if kinds.iter().all(|kind| kind == first) => *first,
            _ => FaultKind::Unreachable,
        };
        Err(Fault { kind, ..Fault::unreachable(format!("no node told of its cluster: {}", said.join("; "))) })
    }

    fn ask_one(&mut self, endpoint: &Endpoint, of: &Topology, by: Moment) -> Result<Vec<Range>, Fault> {
        let (opener, slot) = self.slots.entry(endpoint.as_str().to_owned()).or_insert_with(|| {
            let way = Way::Node(endpoint.clone());
            (Opener { way, limits: of.limits, clock: of.clock.clone() }, Slot::empty())
        });
        let request = redis::cmd("CLUSTER").arg("SLOTS").get_packed_command();
        let mut answer = slot.exchange(opener, &request, 1, by);
        // It may have closed a connection that was idle for long.
        if matches!(&answer, Err(fault) if fault.is_worth_repeating()) {
            answer = slot.exchange(opener, &request, 1, by);
        }
        match read_slots(&answer?.reply, endpoint.host()) {
            Some(ranges) if !ranges.is_empty() => Ok(ranges),
            Some(_) => Err(Fault::refusing("it knows of no slots").at(endpoint.as_str())),
            None => {
                slot.taint();
                Err(Fault::unreachable("the reply to CLUSTER SLOTS is of another shape").at(endpoint.as_str()))
            }
        }
    }
}
