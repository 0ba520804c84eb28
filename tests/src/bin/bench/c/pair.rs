//! An uncontended acquire and release of one thread.

use std::time::Duration;

use redlatch::Lock;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, patient_client};

use super::player::{Player, Stage};
use crate::core::pair::median_of_pairs;

/// As the player's.
pub(crate) const NAME: &str = "bench:uncontended";
/// Pairs in a block, of which the median counts.
pub(crate) const CALLS: usize = 50;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let client = patient_client(stage.server);
    let lock = client.lock(NAME).expect("the name is valid");
    let player = Player::start(stage);
    // Opens the connections, loads the scripts, starts the threads.
    block_of_rust(&lock);
    block(&player);

    stage.server.reset_stats();
    let span = extent.pick(Duration::from_secs(1), Duration::from_secs(36));
    let [rust, c] = in_turns(span, &mut [&mut || block_of_rust(&lock), &mut || block(&player)]);
    // All scripts of the measured rounds, and of the one before them: nothing was repeated unseen, or left out.
    let pairs = ((rust.len() + 1) * CALLS) as u64;
    let scripts = stage.server.command_counts().get("evalsha").copied();
    assert_eq!(scripts, Some(4 * pairs), "two scripts of each");

    report.row("acquire + release by Rust", Unit::Micros, Spread::of(rust.clone()));
    report.row("acquire + release by C", Unit::Micros, Spread::of(c.clone()));
    report.ratio("c_pair_per_rust_pair", Spread::of_ratios(&c, &rust), Limit::AtMost(1.10));
}

pub(crate) fn block_of_rust(lock: &Lock) -> f64 {
    median_of_pairs(lock, CALLS)
}

/// Of the program that plays.
pub(crate) fn block(player: &Player) -> f64 {
    let times = player.times(&format!("pair {CALLS}"));
    assert_eq!(times.len(), CALLS);
    Spread::of(times).median
}
