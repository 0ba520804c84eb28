//! What a held lease costs the client in memory.

use std::mem::size_of;
use std::time::Duration;

use allocation_counter::measure;
use redlatch::{Client, Guard, LockOptions};
use redlatch_tests::bench::{Extent, Limit, Report, patient_client};
use redlatch_tests::{Server, rss_bytes};

const STEP: usize = 1_000;
/// Below this many leases the client's fixed parts would count.
const LEAST: usize = 10_000;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = patient_client(server);
    // Renewals move entries between threads, while the counter counts by thread: none is due within the measurement.
    let options = LockOptions::new().ttl(Duration::from_secs(3600));
    drop(acquire(&client, &options, 0));

    let steps = extent.pick(12, 50);
    let mut guards = Vec::with_capacity(steps * STEP);
    let (mut live, mut most) = (0, 0.0_f64);
    let resident = rss_bytes();
    for step in 1..=steps {
        let counted = measure(|| {
            for _ in 0..STEP {
                guards.push(acquire(&client, &options, guards.len() + 1));
            }
        });
        live += counted.bytes_current;
        // Tables double in size, so that the share of a lease depends on when it is asked for: the worst counts.
        if step * STEP >= LEAST {
            most = most.max(live as f64 / (step * STEP) as f64);
        }
    }
    let count = guards.len() as f64;
    let resident = rss_bytes().saturating_sub(resident) as f64 / count;
    let released = measure(|| {
        for guard in guards.drain(..) {
            let _ = guard.release().expect("the lock is released");
        }
    });
    let left = (live + released.bytes_current) as f64 / count;

    // A guard lies where its holder keeps it.
    let guard = size_of::<Guard>() as f64;
    report.value("heap_bytes_per_held_lease", most + guard, Limit::AtMost(512.0));
    report.value("resident_bytes_per_held_lease", resident + guard, Limit::None);
    report.value("heap_bytes_left_per_released_lease", left, Limit::None);
}

/// A lock of its own, with a name of 20 bytes.
fn acquire(client: &Client, options: &LockOptions, number: usize) -> Guard {
    let lock = client.lock_with(&format!("order:item:{number:09}"), options.clone()).expect("the name is valid");
    lock.acquire().expect("the lock is granted")
}
