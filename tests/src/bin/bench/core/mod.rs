//! The Rust core.

pub(crate) mod bare;
mod costs;
mod held;
mod leases;
mod memory;
mod outage;
pub(crate) mod pair;
mod reentry;

use std::time::Duration;

use redlatch::Client;
use redlatch_tests::bench::{Report, patient_client};
use redlatch_tests::{Server, assert_eventually, thread_names};
use rustix::time::{ClockId, clock_gettime};

use crate::Stage;

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    let Stage { server, placement, extent } = stage;
    match section {
        "pair" => pair::run(server, *extent, report),
        "costs" => costs::run(server, *extent, report),
        "re-entry" => reentry::run(server, *extent, report),
        "memory" => memory::run(server, *extent, report),
        "leases" => leases::run(server, *extent, report),
        "held" => held::run(server, *extent, report),
        _ => outage::run(server, *placement, *extent, report),
    }
}

/// Has `client` wait for a lock in vain, after which its waiters are woken by push: its inbox is open.
pub(crate) fn open_inbox(server: &Server, client: &Client) {
    let other = patient_client(server);
    let held = other.lock("bench:contended").and_then(|lock| lock.acquire()).expect("the lock is granted");
    let lock = client.lock("bench:contended").expect("the name is valid");
    let waited = lock.try_acquire_for(Duration::from_millis(100)).expect("the server answers");
    assert!(waited.is_none(), "the lock has a holder");
    let subscribed = || !server.query::<Vec<String>>(&["PUBSUB", "CHANNELS"]).is_empty();
    assert_eventually("the inbox is open", Duration::from_secs(10), subscribed);
    drop(held);
}

/// Threads of clients in this process.
fn threads() -> usize {
    thread_names().iter().filter(|name| name.starts_with("redlatch-")).count()
}

/// Of this process, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
