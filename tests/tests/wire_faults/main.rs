//! Faults of the wire and of servers: lost, late and broken replies, connections that end, servers that refuse.
#![allow(clippy::disallowed_methods)]

mod access;
mod broken_replies;
mod certificates;
mod chaos;
mod checks;
mod connections;
mod dead_servers;
mod fake;
mod late_copies;
mod lost_replies;
mod pool;
mod refusals;
mod relay;
mod replicas;
mod slow_servers;
mod support;
mod tls;
mod wrong_servers;
