//! A nested acquire and release of the thread that holds the lock.

use std::hint::black_box;
use std::time::Duration;

use redlatch::{LockOptions, Released};
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, mean_of_block, patient_client};
use redlatch_tests::{Monitor, Server};
use rustix::time::{ClockId, clock_gettime};

const CALLS: u32 = 5_000;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = patient_client(server);
    // So long that no renewal is due within the measurement: what reaches the server comes from re-entry.
    let options = LockOptions::new().ttl(Duration::from_secs(3600));
    let lock = client.lock_with("bench:nested", options).expect("the options are valid");
    let outer = lock.acquire().expect("the lock is granted");

    let monitor = Monitor::start(server);
    let [nested, clock, check] = in_turns(
        extent.pick(Duration::from_millis(500), Duration::from_secs(6)),
        &mut [
            &mut || {
                mean_of_block(CALLS, || {
                    let inner = lock.acquire().expect("the thread has the lock");
                    let left = black_box(inner).release().expect("the lease is live");
                    assert_eq!(left, Released::StillHeld(1));
                })
            },
            &mut || {
                mean_of_block(CALLS, || {
                    black_box(clock_gettime(ClockId::Boottime));
                })
            },
            &mut || mean_of_block(CALLS, || black_box(&outer).check().expect("the lease is live")),
        ],
    );
    monitor.wait_idle();
    let commands = monitor.client_commands().len();
    drop(monitor);
    assert_eq!(outer.release().expect("the lock is released"), Released::Released);

    report.row("nested acquire + release".to_owned(), Unit::Nanos, Spread::of(nested.clone()));
    report.row("one read of CLOCK_BOOTTIME".to_owned(), Unit::Nanos, Spread::of(clock.clone()));
    report.row("check()".to_owned(), Unit::Nanos, Spread::of(check));
    report.ratio("nested_pair_per_clock_read", Spread::of_ratios(&nested, &clock), Limit::AtMost(4.0));
    report.value("commands_of_nested_pairs", commands as f64, Limit::Exactly(0.0));
}
