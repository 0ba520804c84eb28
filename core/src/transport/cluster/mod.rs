//! A cluster: each request goes to the node that has the slot of its lock.
//!
//! A node that does not have it says who does, and is believed. A node that fails has the cluster asked again, by its own
//! callers and in their time.

mod hash;
mod map;
mod redirect;
mod renewing;
mod topology;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;

use crate::clock::{Clock, Moment};
use crate::protocol::{
    Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, Renewal, encode_inspection_parts,
};

use super::listening::listen;
use super::opener::{Opener, Way};
use super::pool::Slots;
use super::server::{Lead, Server, inspected};
use super::{Answered, Deployment, Exchange, Fault, FaultKind, Limits, Listener, Respondent, Seeds, Transport};
#[cfg(any(test, fuzzing))]
pub(crate) use hash::SLOTS;
pub(crate) use hash::slot_of;
use map::Node;
#[cfg(any(test, fuzzing))]
pub(crate) use map::{Map, read_slots};
pub(crate) use redirect::Redirect;
use topology::Topology;

/// How often one request is sent elsewhere at most.
const REDIRECTIONS: usize = 5;

/// How often the cluster is asked whether the node of a subscription still belongs to it: one that has left it keeps its
/// connections, and hears no messages any more.
const MEMBERSHIP: Duration = Duration::from_secs(3);

/// The longest time that such a question may hold up a message.
const ASKING: Duration = Duration::from_millis(200);

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    topology: Arc<Topology>,
    /// Size of the pool of each node; without one, each has one slot of a thread's own.
    pool_size: Option<u32>,
    servers: Mutex<Servers>,
    /// Goes on with each node that a subscription was lost at.
    listened: AtomicUsize,
    closed: AtomicBool,
}

/// Nodes that requests were sent to.
#[derive(Debug, Default)]
struct Servers {
    by_id: HashMap<u32, Arc<Server>>,
    /// Of the map by which nodes without slots were last dropped.
    version: u64,
}

impl Cluster {
    /// A cluster of which `seeds` are known, with a pool of `size` slots for each node. Opens nothing and starts no
    /// thread.
    pub(crate) fn pooled(seeds: &Seeds, limits: Limits, clock: &Clock, size: u32) -> Cluster {
        Cluster::new(Arc::new(Topology::new(seeds, limits, clock)), Some(size))
    }

    fn new(topology: Arc<Topology>, pool_size: Option<u32>) -> Cluster {
        let (servers, closed) = (Mutex::default(), AtomicBool::new(false));
        Cluster { topology, pool_size, servers, listened: AtomicUsize::new(0), closed }
    }

    /// The way to a node.
    fn server_of(&self, node: &Node) -> Arc<Server> {
        let mut servers = self.servers.lock();
        let version = self.topology.version();
        if servers.version != version {
            servers.version = version;
            let owners = self.topology.owners();
            servers.by_id.retain(|id, _| *id == node.id || owners.iter().any(|owner| owner.id == *id));
        }
        let server = servers.by_id.entry(node.id).or_insert_with(|| {
            let slots = self.pool_size.map_or_else(Slots::own, Slots::pooled);
            if self.closed.load(Ordering::Acquire) {
                slots.close();
            }
            Arc::new(Server::new(Arc::new(self.opener(node)), slots))
        });
        server.clone()
    }

    fn opener(&self, node: &Node) -> Opener {
        let Topology { limits, clock, .. } = &*self.topology;
        Opener { way: Way::Node(node.endpoint.clone()), limits: *limits, clock: clock.clone() }
    }

    /// Sends a request to the node that has the slot of `key`, and to where that sends it.
    fn routed<T>(&self, key: &Key, by: Moment, send: impl Fn(&Server, Lead) -> Exchange<T>) -> Exchange<T> {
        let mut node = self.topology.owner(slot_of(key.as_str()), by)?;
        let mut lead = Lead::Nothing;
        for _ in 0..=REDIRECTIONS {
            let answer = send(&self.server_of(&node), lead);
            let Some(redirect) = answer.as_ref().err().and_then(Redirect::of) else {
                note(&node, answer.as_ref().err());
                return answer;
            };
            (node, lead) = match redirect {
                Redirect::Moved { slot, host, port } => {
                    let owner = self.topology.at(&host, port, &node);
                    self.topology.moved(slot, &owner);
                    (owner, Lead::Nothing)
                }
                Redirect::Ask { host, port } => (self.topology.at(&host, port, &node), Lead::Asking),
            };
        }
        Err(Fault::refusing(format!("sent from node to node more than {REDIRECTIONS} times")))
    }

    /// Release by commands on one key each, which a slot in migration serves at one node or the other: the tombstone
    /// first, so that no late copy of the acquire can be granted after the delete.
    fn release_by_single_keys(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        if let Some(life) = request.tombstone {
            self.routed(request.key, by, |server, lead| server.bury(lead, request, life, by))?;
        }
        self.routed(request.key, by, |server, lead| server.unlock(lead, request, by))
    }
}

impl Cluster {
    /// Inspection without a transaction, of a slot in migration.
    fn inspect_by_single_keys(&self, key: &Key, by: Moment) -> Exchange<Inspection> {
        let sent = self.topology.clock.now();
        let mut replies = Vec::new();
        for (role, command) in encode_inspection_parts(key) {
            let answer = self.routed(key, by, |server, lead| server.ask(lead, &command, by));
            replies.push(answer.map_err(|fault| fault.of_key(role))?.reply);
        }
        Ok(Answered { reply: inspected(&Value::Array(replies))?, sent })
    }
}

/// Takes in whether a node serves.
fn note(node: &Node, fault: Option<&Fault>) {
    let fails = |fault: &Fault| fault.is_retryable() && !fault.interrupted && !fault.stale && !is_migrating(fault);
    node.set_failed(fault.is_some_and(fails));
}

/// Whether a node refused a script because its keys are not all there while their slot is being migrated.
fn is_migrating(fault: &Fault) -> bool {
    fault.is_code("TRYAGAIN")
}

impl Transport for Cluster {
    fn acquire(&self, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired> {
        self.routed(request.key, by, |server, lead| server.acquire(lead, request, by))
    }

    fn release(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        match self.routed(request.key, by, |server, lead| server.release(lead, request, by)) {
            Err(fault) if is_migrating(&fault) => self.release_by_single_keys(request, by),
            answer => answer,
        }
    }

    fn renew(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<Renewal>> {
        self.renew_all(batch, by)
    }

    fn inspect(&self, key: &Key, by: Moment) -> Exchange<Inspection> {
        match self.routed(key, by, |server, lead| server.inspect(lead, key, by)) {
            Err(fault) if is_migrating(&fault) => self.inspect_by_single_keys(key, by),
            answer => answer,
        }
    }

    /// At any node: messages reach all of them.
    fn listen(&self, channel: &str, listener: &dyn Listener) -> Result<(), Fault> {
        let Topology { limits, clock, .. } = &*self.topology;
        let mut nodes = self.topology.owners();
        if nodes.is_empty() {
            self.topology.ask(clock.now().after(limits.connect.min(limits.io)))?;
            nodes = self.topology.owners();
        }
        let well: Vec<_> = nodes.iter().filter(|node| !node.has_failed()).cloned().collect();
        let nodes = if well.is_empty() { nodes } else { well };
        let turn = self.listened.load(Ordering::Acquire);
        let Some(node) = nodes.get(turn % nodes.len().max(1)) else {
            return Err(Fault::unreachable("no node of the cluster is known"));
        };
        let asked = Cell::new(clock.now());
        let belongs = || {
            let now = clock.now();
            if now.since(asked.get()) >= MEMBERSHIP {
                asked.set(now);
                // An answer or none: messages come meanwhile, and wait.
                let _ = self.topology.ask_others(node, now.after(limits.io.min(ASKING)));
            }
            self.topology.is_owner(node)
        };
        let outcome = listen(&self.opener(node), channel, listener, &belongs);
        if let Err(fault) = &outcome {
            self.listened.fetch_add(1, Ordering::AcqRel);
            if fault.kind == FaultKind::Unreachable {
                node.set_failed(true);
            }
        }
        outcome
    }

    /// Nothing to do: a listener looks by itself several times a second.
    fn nudge(&self, _channel: &str) {}

    fn is_several(&self) -> bool {
        true
    }

    fn node(&self, key: &Key) -> u32 {
        self.topology.known_owner(slot_of(key.as_str())).map_or(0, |node| node.id)
    }

    fn dedicated(&self) -> Box<dyn Transport> {
        Box::new(Cluster::new(self.topology.clone(), None))
    }

    fn deployment(&self, by: Moment) -> Result<Deployment, Fault> {
        self.topology.ask(by)?;
        let respondent = |node: &Arc<Node>| Respondent::new(Arc::new(self.opener(node)));
        let nodes = self.topology.owners().iter().map(respondent).collect();
        Ok(Deployment::Cluster { nodes, uncovered: self.topology.uncovered() })
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.servers.lock().by_id.values().for_each(|server| server.close());
        self.topology.close();
    }

    fn server(&self) -> &str {
        self.topology.as_str()
    }
}
