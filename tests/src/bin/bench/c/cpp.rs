//! An uncontended acquire and release of one thread by C++, beside those by C and Rust, and the floor of both in C.

use std::time::Duration;

use redlatch::Lock;
use redlatch_tests::Monitor;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, patient_client};
use redlatch_tests::c::{Program, Recipe};

use super::pair::{CALLS, NAME, block, block_of_rust};
use super::player::{Player, Stage};
use super::{BUILD, hiredis};
use crate::core::bare::Bare;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let recipe = Recipe { flags: &["-O2"], build: BUILD, ..Recipe::cpp17(&["cpp/bench_player.cpp"]) };
    let cpp_program = Program::new(&recipe);
    let client = patient_client(stage.server);
    let lock = client.lock(NAME).expect("the name is valid");
    let c = Player::start(stage);
    let cpp = Player::start(&Stage { program: &cpp_program, ..*stage });
    // Opens the connections, loads the scripts, starts the threads.
    block_of_rust(&lock);
    block(&c);
    block(&cpp);
    let bare_program = hiredis::program();
    let bare = match &bare_program {
        Ok(program) => Some(hiredis::start(stage, program, &replayed(stage, &lock))),
        Err(missing) => {
            report.note(missing.as_str());
            None
        }
    };

    stage.server.reset_stats();
    let [rust, c, cpp, bare] = in_turns(
        extent.pick(Duration::from_millis(1_000), Duration::from_secs(30)),
        &mut [&mut || block_of_rust(&lock), &mut || block(&c), &mut || block(&cpp), &mut || {
            bare.as_ref().map_or(f64::NAN, block)
        }],
    );
    // All scripts of the measured rounds, and of the one before them: nothing was repeated unseen, or left out.
    let subjects = if bare_program.is_ok() { 4 } else { 3 };
    let pairs = ((rust.len() + 1) * CALLS) as u64 * subjects;
    let scripts = stage.server.command_counts().get("evalsha").copied();
    assert_eq!(scripts, Some(2 * pairs), "two scripts of each");

    report.row("acquire + release by Rust", Unit::Micros, Spread::of(rust.clone()));
    report.row("acquire + release by C", Unit::Micros, Spread::of(c.clone()));
    report.row("acquire + release by C++", Unit::Micros, Spread::of(cpp.clone()));
    report.ratio("cpp_pair_per_rust_pair", Spread::of_ratios(&cpp, &rust), Limit::AtMost(1.10));
    report.ratio("cpp_pair_per_c_pair", Spread::of_ratios(&cpp, &c), Limit::None);
    if bare_program.is_ok() {
        report.row("the two scripts bare through hiredis", Unit::Micros, Spread::of(bare.clone()));
        report.ratio("c_pair_per_hiredis_scripts", Spread::of_ratios(&c, &bare), Limit::None);
    }
}

/// What the library sends for a pair.
fn replayed(stage: &Stage<'_>, lock: &Lock) -> Bare {
    let monitor = Monitor::start(stage.server);
    let guard = lock.acquire().expect("the lock is granted");
    let _ = guard.release().expect("the lock is released");
    monitor.wait_idle();
    Bare::replaying(stage.server, &monitor.client_commands())
}
