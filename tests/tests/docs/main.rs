//! What the documentation says, checked: the protocol, the access rules, and every name it refers to.

#![allow(clippy::disallowed_methods, reason = "tests measure time by the machine's clock")]

mod acl;
mod benchmarks;
mod client;
mod inbox;
mod migrating;
mod mutations;
mod names;
mod protocol;
