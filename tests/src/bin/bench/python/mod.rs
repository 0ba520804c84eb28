//! The Python package, side by side with the Rust library and with redis-py's `Lock`.
//!
//! That is used with its defaults, and with the time limits of redlatch's client: longer ones than by default, because a
//! stall of the machine is no part of what is measured.

mod pair;
mod player;
mod reentry;
mod threads;

use redlatch_tests::Interpreter;
use redlatch_tests::bench::Report;

use crate::Stage;

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) -> Result<(), String> {
    let interpreter = Interpreter::find("src/bin/bench/python/player.py")?;
    report.about(interpreter.about());
    let extent = stage.extent;
    let stage = player::Stage { interpreter: &interpreter, server: &stage.server, placement: stage.placement };
    match section {
        "python-pair" => pair::run(&stage, extent, report),
        "python-re-entry" => reentry::run(&stage, extent, report),
        _ => threads::run(&stage, extent, report),
    }
    Ok(())
}
