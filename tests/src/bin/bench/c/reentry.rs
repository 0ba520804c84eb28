//! A nested acquire and release of the thread that holds the lock.

use std::hint::black_box;
use std::time::Duration;

use redlatch::{LockOptions, Released};
use redlatch_tests::Monitor;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, mean_of_block, patient_client};

use super::player::{Player, Stage};

const CALLS: u32 = 5_000;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let client = patient_client(stage.server);
    // So long that no renewal is due within the measurement.
    let options = LockOptions::new().ttl(Duration::from_secs(3600));
    let lock = client.lock_with("bench:nested-rust", options).expect("the options are valid");
    let outer = lock.acquire().expect("the lock is granted");
    let player = Player::start(stage);
    let command = format!("nested {CALLS}");
    player.times(&command);

    let monitor = Monitor::start(stage.server);
    let [rust, c] = in_turns(
        extent.pick(Duration::from_millis(500), Duration::from_secs(6)),
        &mut [
            &mut || {
                mean_of_block(CALLS, || {
                    let inner = lock.acquire().expect("the thread has the lock");
                    let left = black_box(inner).release().expect("the lease is live");
                    assert_eq!(left, Released::StillHeld(1));
                })
            },
            &mut || player.times(&command)[0],
        ],
    );
    monitor.wait_idle();
    // Each block acquires and releases the lock around its nested pairs.
    let around = 2 * (c.len() + 1);
    let commands = monitor.client_commands().len() - around;
    drop(monitor);
    assert_eq!(outer.release().expect("the lock is released"), Released::Released);

    report.row("nested acquire + release by Rust", Unit::Nanos, Spread::of(rust.clone()));
    report.row("nested acquire + release by C", Unit::Nanos, Spread::of(c.clone()));
    report.ratio("c_reentry_per_rust_reentry", Spread::of_ratios(&c, &rust), Limit::AtMost(2.0));
    report.value("commands_of_c_reentry", commands as f64, Limit::Exactly(0.0));
}
