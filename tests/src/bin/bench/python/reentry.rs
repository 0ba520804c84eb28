//! A nested acquire and release of the thread that holds the lock.

use std::cell::RefCell;
use std::time::Duration;

use redlatch_tests::Monitor;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns};

use super::player::{Player, Stage};

const CALLS: usize = 5_000;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let player = RefCell::new(Player::start(stage));
    let block = |subject: &str| -> f64 {
        let mut player = player.borrow_mut();
        player.send(&format!("nested {subject} {CALLS}"));
        player.expect("took")[0]
    };
    block("library");

    let monitor = Monitor::start(stage.server);
    let span = extent.pick(Duration::from_millis(500), Duration::from_secs(6));
    let [nested, rlock] = in_turns(span, &mut [&mut || block("library"), &mut || block("rlock")]);
    monitor.wait_idle();
    // Each block acquires and releases the lock around its nested pairs.
    let around = 2 * (nested.len() + 1);
    let commands = monitor.client_commands().len() - around;

    report.row("nested acquire + release by Python", Unit::Nanos, Spread::of(nested.clone()));
    report.row("nested acquire + release of threading.RLock", Unit::Nanos, Spread::of(rlock.clone()));
    report.ratio("python_reentry_per_rlock", Spread::of_ratios(&nested, &rlock), Limit::AtMost(5.0));
    report.value("commands_of_python_reentry", commands as f64, Limit::Exactly(0.0));
}
