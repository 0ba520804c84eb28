//! Servers as people run them: behind sentinels, and in a cluster.
#![allow(clippy::disallowed_methods)]

mod access;
mod checking;
mod cluster;
mod fake;
mod sentinel;
mod support;
mod tls;
