//! Clusters of a few nodes without replicas, for what needs no more.

use redlatch_tests::{Server, ServerBuilder, ServerKind, assert_eventually};

use crate::support::AGREED;

/// How many slots a cluster has.
pub(crate) const SLOTS: u32 = 16_384;

/// A cluster of nodes at `host`, each with the slots from its first one to that of the next node.
pub(crate) fn cluster_of(
    kind: ServerKind,
    host: &str,
    firsts: &[u32],
    configure: impl Fn(ServerBuilder) -> ServerBuilder,
) -> Vec<Server> {
    let node = |_| configure(Server::builder(kind).config("cluster-enabled", "yes")).start();
    let nodes: Vec<Server> = firsts.iter().map(node).collect();
    for (n, node) in nodes.iter().enumerate() {
        let slots: Vec<String> = (firsts[n]..*firsts.get(n + 1).unwrap_or(&SLOTS)).map(|it| it.to_string()).collect();
        let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        node.query::<()>(&words);
        node.query::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
    }
    for other in &nodes[1..] {
        nodes[0].query::<()>(&["CLUSTER", "MEET", host, &other.port().to_string()]);
    }
    for node in &nodes {
        let agree = || {
            let info: String = node.query(&["CLUSTER", "INFO"]);
            let wanted = ["cluster_state:ok".to_owned(), format!("cluster_slots_ok:{SLOTS}\r")];
            wanted.iter().all(|it| info.contains(it))
                && info.contains(&format!("cluster_known_nodes:{}\r", nodes.len()))
        };
        assert_eventually("the nodes know each other", AGREED, agree);
    }
    nodes
}

/// The slot of a key.
pub(crate) fn slot(node: &Server, key: &str) -> u32 {
    node.query(&["CLUSTER", "KEYSLOT", key])
}

/// Names whose keys have slots that are `wanted`.
pub(crate) fn names(node: &Server, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = String> {
    (0..).map(|n| format!("n{n}")).filter(move |name| wanted(slot(node, &crate::support::key(name))))
}

/// Gives a slot to another node, as all nodes see it at once.
pub(crate) fn give(nodes: &[&Server], slot: u32, to: &Server) {
    let id: String = to.query(&["CLUSTER", "MYID"]);
    for node in nodes {
        node.query::<()>(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id]);
    }
}
