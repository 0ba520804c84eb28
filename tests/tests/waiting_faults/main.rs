//! Faults of waiting by push: who is woken, in which order and when, and what is left behind when something goes wrong.
#![allow(clippy::disallowed_methods)]

mod alone;
mod logs;
mod support;

mod cancelling;
mod closing;
mod crowds;
mod dead_waiters;
mod denied;
mod late_copies;
mod limits;
mod memory;
mod migrating;
mod order;
mod plain_clients;
mod reconnecting;
mod shares;
mod wake_ups;
