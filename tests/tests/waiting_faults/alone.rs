//! Tests that must not be disturbed, or would disturb others.

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redlatch_tests::Process;

use crate::support::SECOND;

/// Held by tests that load the machine and by tests that measure short times, so that none of them run side by side.
pub(crate) fn machine_to_myself() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` in a process in which no other test runs; `test` is the calling test's full path.
#[track_caller]
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    const VARIABLE: &str = "REDLATCH_TEST_ALONE";
    let test = test.strip_prefix("waiting_faults::").unwrap_or(test);
    if env::var_os(VARIABLE).is_some_and(|name| name == test) {
        return body();
    }
    let program = env::current_exe().expect("the test program has a path");
    let mut process = Process::start_with(program, |command| {
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, test);
    });
    let status = process.wait_exit(60 * SECOND);
    let report = [process.lines(), process.error_lines()].concat().join("\n");
    assert!(status.is_some_and(|status| status.success()), "{test} in a process of its own: {status:?}\n{report}");
    assert!(report.contains(" 1 passed"), "no test is named {test}\n{report}");
}
