//! Servers as people run them: over a Unix socket, with logins and databases, behind sentinels, and in a cluster.
#![allow(clippy::disallowed_methods)]

mod access;
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
