//! Servers as people run them: behind sentinels, and in a cluster.
#![allow(clippy::disallowed_methods)]

mod access;
#[path = "../wire_faults/authority.rs"]
#[allow(dead_code, reason = "shared with another target, which uses all of it")]
mod authority;
mod checking;
mod cluster;
mod fake;
mod sentinel;
mod support;
mod tls;
