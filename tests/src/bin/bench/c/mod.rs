//! The C ABI, side by side with the Rust library. The library and the C program are built first, in release.

mod pair;
mod player;
mod reentry;

use redlatch_tests::bench::Report;
use redlatch_tests::c::{Build, Program, Recipe};

use crate::Stage;

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    eprintln!("bench: building the library for C");
    let recipe = Recipe { flags: &["-O2"], build: Build::Release, ..Recipe::c11(&["bench_player", "support"]) };
    let program = Program::new(&recipe);
    let extent = stage.extent;
    let stage = player::Stage { program: &program, server: &stage.server, placement: stage.placement };
    match section {
        "c-pair" => pair::run(&stage, extent, report),
        _ => reentry::run(&stage, extent, report),
    }
}
