//! The C ABI, side by side with the Rust library. The library and the programs are built first, as this program was.

mod cpp;
mod hiredis;
mod pair;
mod player;
mod reentry;

use std::sync::OnceLock;

use redlatch_tests::bench::Report;
use redlatch_tests::c::{Build, Program, Recipe};

use crate::Stage;

/// A ratio between two profiles would say nothing about the languages.
const BUILD: Build = if cfg!(debug_assertions) { Build::Plain } else { Build::Release };

/// Builds what these sections need.
pub(crate) fn build(sections: &[&str]) {
    if sections.iter().any(|section| ["c-pair", "cpp-pair", "c-re-entry", "cold-start"].contains(section)) {
        // A failure is told where the program is needed.
        let _ = std::panic::catch_unwind(c_program);
    }
}

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    let program = c_program();
    let extent = stage.extent;
    let stage = player::Stage { program, server: &stage.server, placement: stage.placement };
    match section {
        "c-pair" => pair::run(&stage, extent, report),
        "cpp-pair" => cpp::run(&stage, extent, report),
        _ => reentry::run(&stage, extent, report),
    }
}

/// `tests/c/bench_player.c`.
pub(crate) fn c_program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        eprintln!("bench: building the library for C");
        Program::new(&Recipe { flags: &["-O2"], build: BUILD, ..Recipe::c11(&["bench_player", "support"]) })
    })
}
