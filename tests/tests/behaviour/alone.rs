//! Tests that look at all threads or all logs of their process.

use std::env;

use redlatch_tests::Process;

use crate::store::SECOND;

/// Runs `body` in a process in which no other test runs; `test` is the calling test's full path.
#[track_caller]
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    alone_with(test, &[], body);
}

/// As [`alone`], with variables of the environment.
#[track_caller]
pub(crate) fn alone_with(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    const VARIABLE: &str = "REDLATCH_TEST_ALONE";
    let test = test.strip_prefix("behaviour::").unwrap_or(test);
    if env::var_os(VARIABLE).is_some_and(|name| name == test) {
        return body();
    }
    let program = env::current_exe().expect("the test program has a path");
    let mut process = Process::start_with(program, |command| {
        command
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, test)
            .envs(variables.iter().copied());
    });
    let status = process.wait_exit(60 * SECOND);
    let report = [process.lines(), process.error_lines()].concat().join("\n");
    assert!(status.is_some_and(|status| status.success()), "{test} in a process of its own: {status:?}\n{report}");
    assert!(report.contains(" 1 passed"), "no test is named {test}\n{report}");
}
