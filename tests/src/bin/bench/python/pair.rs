//! An uncontended acquire and release of one thread.

use std::cell::RefCell;
use std::time::Duration;

use redlatch::Lock;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, patient_client};

use super::player::{Player, Stage};
use crate::core::pair::median_of_pairs;

/// As the player's.
const NAME: &str = "bench:uncontended";
/// Pairs in a block, of which the median counts.
const CALLS: usize = 50;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let client = patient_client(stage.server);
    let lock = client.lock(NAME).expect("the name is valid");
    let player = RefCell::new(Player::start(stage));
    // Opens the connections, loads the scripts, starts the threads.
    block_of_rust(&lock);
    for subject in ["library", "with", "redis-py", "commands"] {
        block_of_python(&player, subject);
    }

    stage.server.reset_stats();
    let [rust, python, with, redis_py, commands] = in_turns(
        extent.pick(Duration::from_secs(2), Duration::from_secs(36)),
        &mut [
            &mut || block_of_rust(&lock),
            &mut || block_of_python(&player, "library"),
            &mut || block_of_python(&player, "with"),
            &mut || block_of_python(&player, "redis-py"),
            &mut || block_of_python(&player, "commands"),
        ],
    );
    // All scripts of the measured rounds, and of the one before them: nothing was repeated unseen, or left out.
    let pairs = ((rust.len() + 1) * CALLS) as u64;
    let scripts = stage.server.command_counts().get("evalsha").copied();
    assert_eq!(scripts, Some((2 + 2 + 2 + 1 + 1) * pairs), "two scripts of each of ours, one of the others");

    report.row("acquire + release by Rust", Unit::Micros, Spread::of(rust.clone()));
    report.row("acquire + release by Python", Unit::Micros, Spread::of(python.clone()));
    report.row("with block by Python", Unit::Micros, Spread::of(with.clone()));
    report.row("acquire + release by redis-py's Lock", Unit::Micros, Spread::of(redis_py.clone()));
    report.row("SET NX PX + compare-and-delete through redis-py", Unit::Micros, Spread::of(commands.clone()));
    report.ratio("python_pair_per_rust_pair", Spread::of_ratios(&python, &rust), Limit::AtMost(1.25));
    report.ratio("redis_py_pair_per_python_pair", Spread::of_ratios(&redis_py, &python), Limit::AtLeast(1.8));
    report.ratio("redis_py_commands_per_python_pair", Spread::of_ratios(&commands, &python), Limit::None);
    report.ratio("python_with_pair_per_rust_pair", Spread::of_ratios(&with, &rust), Limit::None);
}

fn block_of_rust(lock: &Lock) -> f64 {
    median_of_pairs(lock, CALLS)
}

fn block_of_python(player: &RefCell<Player>, subject: &str) -> f64 {
    let mut player = player.borrow_mut();
    player.send(&format!("pair {subject} {CALLS}"));
    let times: Vec<f64> = player.expect("took");
    assert_eq!(times.len(), CALLS);
    Spread::of(times).median
}
