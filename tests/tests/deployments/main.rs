//! Servers as people run them: over a Unix socket, with logins and databases, behind sentinels, and in a cluster.
#![allow(clippy::disallowed_methods)]

mod access;
#[path = "../wire_faults/authority.rs"]
#[allow(dead_code, reason = "shared with another target, which uses all of it")]
mod authority;
mod checking;
mod cluster;
mod databases;
mod departures;
mod fake;
mod ipv6;
mod logins;
mod nodes;
mod sentinel;
mod sockets;
mod support;
mod tls;
