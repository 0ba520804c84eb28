//! A cluster of primaries with a replica each.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use redis::Value;

use super::{ADMIN_PASSWORD, ADMIN_USER, Server, ServerBuilder, ServerKind};
use crate::assert_eventually;

/// How many primaries.
const PRIMARIES: usize = 3;
/// How many slots a cluster has.
const SLOTS: usize = 16_384;
/// How long a node is silent before another takes it for down.
const NODE_TIMEOUT: &str = "2000";
/// Time for everything that nodes agree on.
const AGREED: Duration = Duration::from_secs(60);

/// Three primaries, each with a third of the slots and one replica.
///
/// A slot without a node that serves it leaves the others serving. The methods panic when the nodes do not agree within
/// 60 s.
#[derive(Debug)]
pub struct ServerCluster {
    /// First the primaries, then their replicas in the same order.
    nodes: Vec<Server>,
}

impl ServerCluster {
    /// Starts and joins the nodes, and waits until all of them know all of it.
    pub fn start(kind: ServerKind) -> Self {
        Self::start_with(kind, |builder| builder)
    }

    /// As [`start`](Self::start), with nodes set up by `configure`.
    pub fn start_with(kind: ServerKind, configure: impl Fn(ServerBuilder) -> ServerBuilder) -> Self {
        let node = || {
            let builder = Server::builder(kind)
                .config("cluster-enabled", "yes")
                .config("cluster-node-timeout", NODE_TIMEOUT)
                .config("cluster-require-full-coverage", "no")
                .config("masteruser", ADMIN_USER)
                .config("masterauth", ADMIN_PASSWORD);
            configure(builder).start()
        };
        let cluster = Self { nodes: (0..2 * PRIMARIES).map(|_| node()).collect() };
        let (primaries, replicas) = cluster.nodes.split_at(PRIMARIES);
        for (n, primary) in primaries.iter().enumerate() {
            let range = SLOTS * n / PRIMARIES..SLOTS * (n + 1) / PRIMARIES;
            let slots: Vec<String> = range.map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
            primary.query::<()>(&words.collect::<Vec<_>>());
        }
        // Only possible as long as they know nobody.
        for (n, node) in cluster.nodes.iter().enumerate() {
            node.query::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
        }
        for (n, node) in cluster.nodes.iter().enumerate() {
            for other in &cluster.nodes[n + 1..] {
                node.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
            }
        }
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id: String = primary.query(&["CLUSTER", "MYID"]);
            // It is refused until the replica has heard of the primary.
            let follows = || replica.try_query::<()>(&["CLUSTER", "REPLICATE", &id]).is_ok();
            assert_eventually("the replica knows its primary", AGREED, follows);
        }
        cluster.wait_settled();
        cluster
    }

    /// All nodes: first those that began as primaries, then their replicas in the same order.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// URL for the default user, with its password if there is one; it names the nodes that began as primaries.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes[..PRIMARIES].iter().map(|it| it.addr().to_string()).collect();
        format!("redis+cluster://{}{}", self.nodes[0].credentials(), hosts.join(","))
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        self.running().next().expect("a node runs").query(&["CLUSTER", "KEYSLOT", key])
    }

    /// The node that has the slot of a key, as most running nodes see it.
    pub fn owner(&self, key: &str) -> &Server {
        let slot = self.slot(key);
        let mut votes: HashMap<u16, usize> = HashMap::new();
        for node in self.running() {
            if let Some(port) = ports(node).get(usize::from(slot)).copied().flatten() {
                *votes.entry(port).or_default() += 1;
            }
        }
        let winner = votes.into_iter().max_by_key(|(_, count)| *count).map(|(port, _)| port);
        self.nodes.iter().find(|node| Some(node.port()) == winner).expect("a node has the slot")
    }

    /// Whether a key is at `node`, whatever that would answer to a client.
    pub fn has(&self, node: &Server, key: &str) -> bool {
        let keys: Vec<String> = node.query(&["CLUSTER", "GETKEYSINSLOT", &self.slot(key).to_string(), "10000"]);
        keys.iter().any(|it| it == key)
    }

    /// Begins to move the slot of a key from its node to `to`; its keys stay where they are.
    pub fn begin_move(&self, key: &str, to: &Server) {
        let slot = self.slot(key).to_string();
        let from = self.owner(key);
        let [from_id, to_id]: [String; 2] = [from, to].map(|node| node.query(&["CLUSTER", "MYID"]));
        to.query::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.query::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Moves the keys of a slot that is being moved.
    pub fn move_keys(&self, key: &str, to: &Server) {
        let slot = self.slot(key).to_string();
        let from = self.owner(key);
        let keys: Vec<String> = from.query(&["CLUSTER", "GETKEYSINSLOT", &slot, "10000"]);
        let port = to.port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000"].into_iter();
        let login = ["AUTH2", ADMIN_USER, ADMIN_PASSWORD, "KEYS"];
        let words: Vec<&str> = words.chain(login).chain(keys.iter().map(String::as_str)).collect();
        if !keys.is_empty() {
            from.query::<()>(&words);
        }
    }

    /// Ends a move: the slot is at `to`.
    pub fn end_move(&self, key: &str, to: &Server) {
        let slot = self.slot(key).to_string();
        let id: String = to.query(&["CLUSTER", "MYID"]);
        let from = self.owner(key);
        for node in [to, from] {
            node.query::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }

    /// Calls a move off.
    pub fn call_off(&self, key: &str) {
        let slot = self.slot(key).to_string();
        for node in &self.nodes[..PRIMARIES] {
            node.query::<()>(&["CLUSTER", "SETSLOT", &slot, "STABLE"]);
        }
    }

    /// Waits until every running node has all slots at nodes that run, and every replica follows its primary.
    pub fn wait_settled(&self) {
        let running: Vec<u16> = self.running().map(Server::port).collect();
        for node in self.running() {
            let settled = || {
                let ports = ports(node);
                let info: String = node.query(&["CLUSTER", "INFO"]);
                let follows = node.info("replication", "role") == "master"
                    || node.info("replication", "master_link_status") == "up";
                let known = format!("cluster_known_nodes:{}", self.nodes.len());
                let covered = ports.iter().all(|port| port.is_some_and(|port| running.contains(&port)));
                covered && follows && info.contains("cluster_state:ok") && info.contains(&known)
            };
            assert_eventually("the nodes know each other", AGREED, settled);
        }
        // A replica that nobody else knows of could not take over.
        let slots_with_replicas = || {
            self.running().all(|node| {
                let rows: Vec<Value> = node.query(&["CLUSTER", "SLOTS"]);
                let complete = |row: &Value| matches!(row, Value::Array(fields) if fields.len() >= 4);
                running.len() < self.nodes.len() || rows.iter().all(complete)
            })
        };
        assert_eventually("every node knows all replicas", AGREED, slots_with_replicas);
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running() && !node.is_paused())
    }
}

/// Runs `body` on a cluster of each kind, all at once: most of the time goes into forming them.
pub fn each_cluster(body: impl Fn(&ServerCluster) + Sync) {
    thread::scope(|scope| {
        for kind in super::available() {
            let body = &body;
            let run = move || body(&ServerCluster::start(kind));
            thread::Builder::new()
                .name(format!("on {kind}"))
                .spawn_scoped(scope, run)
                .expect("a thread can be started");
        }
    });
}

/// For each slot the port of its primary, as `node` sees it.
fn ports(node: &Server) -> Vec<Option<u16>> {
    let rows: Vec<(usize, usize, Vec<Value>)> = node
        .query::<Vec<Value>>(&["CLUSTER", "SLOTS"])
        .into_iter()
        .filter_map(|row| {
            let Value::Array(fields) = row else { return None };
            match fields.as_slice() {
                [Value::Int(first), Value::Int(last), Value::Array(primary), ..] => {
                    Some((usize::try_from(*first).ok()?, usize::try_from(*last).ok()?, primary.clone()))
                }
                _ => None,
            }
        })
        .collect();
    let mut ports = vec![None; SLOTS];
    for (first, last, primary) in rows {
        let port = if let Some(Value::Int(port)) = primary.get(1) { u16::try_from(*port).ok() } else { None };
        ports[first..=last].fill(port);
    }
    ports
}
