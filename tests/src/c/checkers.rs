//! Programs under valgrind and the compilers' sanitizers.

use std::time::Duration;

use super::Program;
use crate::Process;

/// What a checker makes the program end with.
const FOUND: i32 = 99;

/// Programs run some ten times slower here.
const LIMIT: Duration = Duration::from_secs(120);

/// Exit code and standard error.
#[track_caller]
fn end_of(mut process: Process) -> (i32, String) {
    let status = process.wait_exit(LIMIT);
    let errors = process.error_lines().join("\n");
    let Some(status) = status else { panic!("still runs after {LIMIT:?}\n{errors}") };
    (status.code().unwrap_or(-1), errors)
}

/// Whether leaks are errors. A forked child leaks what was its parent's, because its locks may be taken for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaks {
    /// They are.
    Found,
    /// They are not.
    Ignored,
}

/// Runs the program under valgrind; its exit code and standard error.
pub fn under_valgrind(program: &Program, leaks: Leaks, args: &[&str]) -> (i32, String) {
    end_of(Process::start_with("valgrind", |command| {
        command.args(["--quiet", "--child-silent-after-fork=no"]);
        if leaks == Leaks::Found {
            command.args(["--leak-check=full", "--show-leak-kinds=definite,indirect"]);
            command.arg("--errors-for-leak-kinds=definite,indirect");
        } else {
            command.arg("--leak-check=no");
        }
        command.arg(format!("--error-exitcode={FOUND}")).arg(program.path()).args(args);
    }))
}

/// Runs a program that was compiled with [`SANITIZED`]; its exit code and standard error.
pub fn under_sanitizers(program: &Program, leaks: Leaks, args: &[&str]) -> (i32, String) {
    let detect_leaks = i32::from(leaks == Leaks::Found);
    end_of(Process::start_with(program.path(), |command| {
        command.args(args);
        command.env("ASAN_OPTIONS", format!("exitcode={FOUND}:detect_leaks={detect_leaks}:abort_on_error=0"));
        command.env("LSAN_OPTIONS", format!("exitcode={FOUND}"));
        command.env("UBSAN_OPTIONS", format!("exitcode={FOUND}:halt_on_error=1:print_stacktrace=1"));
    }))
}

/// Flags of the compilers that build AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer in.
pub const SANITIZED: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"];

/// The program ended well, and nothing was said.
#[track_caller]
pub fn assert_clean((code, errors): (i32, String)) {
    assert_eq!(code, 0, "{errors}");
    assert_eq!(errors, "");
}

/// The checker found `what`.
#[track_caller]
pub fn assert_found((code, errors): (i32, String), what: &str) {
    assert_eq!(code, FOUND, "{what} was not found: {errors}");
    assert!(errors.contains(what), "{what}: {errors}");
}
