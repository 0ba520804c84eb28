//! A chaos run of two minutes, long enough for every kind of fault.

use std::time::Duration;

use redlatch_tests::{Process, any_server};

const CHAOS: &str = env!("CARGO_BIN_EXE_chaos");
/// What each part adds to its time, and a busy machine to all; and the first build of libredlatch for C++.
const LIMIT: Duration = Duration::from_secs(120 + 120 + 300);

#[test]
fn processes_in_all_languages_keep_the_promises_while_server_network_and_processes_fail() {
    if any_server().is_none() {
        return;
    }
    let mut chaos = Process::start(CHAOS, ["--minutes", "2"]);
    let status = chaos.wait_exit(LIMIT).expect("the run is bounded");
    // What was left out, the seed and the counts are worth reading also when all is well.
    chaos.lines().iter().for_each(|line| println!("{line}"));
    assert!(status.success(), "{}", chaos.error_lines().join("\n"));
}
