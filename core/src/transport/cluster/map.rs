//! Which node has which slot, as far as is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;

use crate::transport::Endpoint;
use crate::transport::words::is_host;

use super::hash::SLOTS;

/// A node that has been heard of.
#[derive(Debug)]
pub(crate) struct Node {
    /// The same as long as the client lives.
    pub(crate) id: u32,
    pub(crate) endpoint: Endpoint,
    failed: AtomicBool,
}

impl Node {
    /// Whether its last request failed, other than by a redirection.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn set_failed(&self, failed: bool) {
        // Most of the time it is so already.
        if self.has_failed() != failed {
            self.failed.store(failed, Ordering::Release);
        }
    }
}

/// Nodes by slot.
#[derive(Debug)]
pub(crate) struct Map {
    /// All that have been heard of, by their id.
    nodes: Vec<Arc<Node>>,
    /// For each slot the id of its node.
    owners: Vec<Option<u32>>,
    /// Counts the changes.
    pub(crate) version: u64,
}

/// A part of a cluster's own account: these slots are at this primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Map {
    pub(crate) fn empty() -> Map {
        Map { nodes: Vec::new(), owners: vec![None; SLOTS], version: 0 }
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let id = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(id as usize).cloned()
    }

    /// How many slots have no node.
    pub(super) fn uncovered(&self) -> usize {
        self.owners.iter().filter(|owner| owner.is_none()).count()
    }

    /// Whether any slot has a node.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node at an address, which may be a new one.
    pub(crate) fn node(&mut self, endpoint: Endpoint) -> Arc<Node> {
        if let Some(known) = self.nodes.iter().find(|node| node.endpoint.as_str() == endpoint.as_str()) {
            return known.clone();
        }
        let id = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node = Arc::new(Node { id, endpoint, failed: AtomicBool::new(false) });
        self.nodes.push(node.clone());
        node
    }

    pub(crate) fn set_owner(&mut self, slot: u16, node: &Node) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(node.id);
            self.version += 1;
        }
    }

    /// Takes in a cluster's account of itself; `login` carries what else a connection needs.
    pub(crate) fn replace(&mut self, ranges: &[Range], login: &Endpoint) {
        self.owners.fill(None);
        for range in ranges {
            let id = self.node(login.at(&range.host, range.port)).id;
            if let Some(owners) = self.owners.get_mut(usize::from(range.first)..=usize::from(range.last)) {
                owners.fill(Some(id));
            }
        }
        self.version += 1;
    }

    /// Whether the node has any slots.
    pub(super) fn is_owner(&self, node: &Node) -> bool {
        self.owners.contains(&Some(node.id))
    }

    /// The nodes that have slots, by id.
    pub(crate) fn owners(&self) -> Vec<Arc<Node>> {
        let mut has = vec![false; self.nodes.len()];
        for id in self.owners.iter().flatten() {
            if let Some(has) = has.get_mut(*id as usize) {
                *has = true;
            }
        }
        self.nodes.iter().filter(|node| has.get(node.id as usize) == Some(&true)).cloned().collect()
    }
}

/// The reply to `CLUSTER SLOTS` of a node at `host`; `None` for a reply of another shape.
pub(crate) fn read_slots(value: &Value, host: &str) -> Option<Vec<Range>> {
    let Value::Array(rows) = value else { return None };
    // More ranges than slots overlap, and would cost a write to the whole map each.
    if rows.len() > SLOTS {
        return None;
    }
    rows.iter().map(|row| read_row(row, host)).collect()
}

fn read_row(row: &Value, host: &str) -> Option<Range> {
    let Value::Array(fields) = row else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = fields.as_slice() else { return None };
    let [address, Value::Int(port), ..] = primary.as_slice() else { return None };
    let address = match address {
        // The node that was asked does not know, or does not tell, by which address it is reached.
        Value::Nil => host,
        Value::BulkString(bytes) if bytes.is_empty() => host,
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().filter(|host| is_host(host))?,
        _ => return None,
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let fits = first <= last && usize::from(last) < SLOTS;
    let range = Range { first, last, host: address.to_owned(), port: u16::try_from(*port).ok()? };
    fits.then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Target;

    fn login() -> Endpoint {
        match Target::parse("redis://h:1").unwrap() {
            Target::Server(endpoint) => *endpoint,
            other => panic!("{other:?}"),
        }
    }

    fn row(first: i64, last: i64, host: Value, port: i64) -> Value {
        let replica = Value::Array(vec![host.clone(), Value::Int(9), Value::Nil]);
        let primary = Value::Array(vec![host, Value::Int(port), Value::Nil, Value::Array(Vec::new())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary, replica])
    }

    fn name(host: &str) -> Value {
        Value::BulkString(host.as_bytes().to_vec())
    }

    #[test]
    fn the_account_of_a_cluster_is_understood() {
        let value = Value::Array(vec![row(0, 99, name("a"), 7000), row(100, 16_383, name(""), 7001)]);
        let ranges = read_slots(&value, "asked").unwrap();
        assert_eq!((ranges[0].host.as_str(), ranges[1].host.as_str()), ("a", "asked"));
        let mut map = Map::empty();
        map.replace(&ranges, &login());
        let owner = |map: &Map, slot| map.owner(slot).map(|node| node.endpoint.as_str().to_owned());
        assert_eq!(owner(&map, 99).as_deref(), Some("redis://a:7000/0"));
        assert_eq!(owner(&map, 100).as_deref(), Some("redis://asked:7001/0"));
        assert_eq!(map.owners().len(), 2);

        let new = map.node(login().at("b", 7002));
        map.set_owner(99, &new);
        assert_eq!((owner(&map, 98), owner(&map, 99).as_deref()), (owner(&map, 0), Some("redis://b:7002/0")));
        assert_eq!(map.node(login().at("a", 7000)).id, 0, "a node keeps its number");

        map.replace(&ranges[1..], &login());
        assert_eq!((owner(&map, 99), map.owners().len()), (None, 1));
        assert_eq!(map.uncovered(), 100);
    }

    #[test]
    fn accounts_of_another_shape_are_none() {
        let wrong = [
            Value::Nil,
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![row(5, 4, name("a"), 1)]),
            Value::Array(vec![row(0, 16_384, name("a"), 1)]),
            Value::Array(vec![row(0, 1, name("a"), 70_000)]),
            Value::Array(vec![row(0, 1, Value::Int(1), 1)]),
        ];
        assert!(wrong.iter().all(|value| read_slots(value, "h").is_none()));
        let rows = |count| Value::Array(vec![row(0, 16_383, name("a"), 1); count]);
        assert!(read_slots(&rows(SLOTS + 1), "h").is_none() && read_slots(&rows(SLOTS), "h").is_some());
    }
}
