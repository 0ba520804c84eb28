//! A short run of the soak test.

use std::time::Duration;

use redlatch_tests::{Process, any_server};

// Faults 1, 3, 20, 25 and 26 in one: processes that share a lock die and stall at random moments.
#[test]
fn processes_that_are_killed_and_stopped_leave_no_overlap_orphan_or_hung_waiter() {
    if any_server().is_none() {
        return;
    }
    let mut soak = Process::start(env!("CARGO_BIN_EXE_soak"), ["--seconds", "10"]);
    let status = soak.wait_exit(Duration::from_secs(60)).expect("the run is bounded");
    assert!(status.success(), "{}\n{}", soak.lines().join("\n"), soak.error_lines().join("\n"));
}
