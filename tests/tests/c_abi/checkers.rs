//! The same programs under valgrind and the compilers' sanitizers.

use std::time::Duration;

use redlatch_tests::c::{Program, Recipe, has_tool};
use redlatch_tests::{Process, Server, any_server};

use crate::SCENARIOS;

/// What a checker makes the program end with.
const FOUND: i32 = 99;

/// Programs run some ten times slower here.
const LIMIT: Duration = Duration::from_secs(120);

const DELIBERATE: [&str; 2] = ["deliberate", "support"];

const BEHAVIOUR: &str = "lock,threads,names,order,operator,stats,lease,callbacks,destroy,cancel,log,losses";

/// Exit code and standard error.
#[track_caller]
fn end_of(mut process: Process) -> (i32, String) {
    let status = process.wait_exit(LIMIT);
    let errors = process.error_lines().join("\n");
    let Some(status) = status else { panic!("still runs after {LIMIT:?}\n{errors}") };
    (status.code().unwrap_or(-1), errors)
}

/// Whether leaks are errors. A forked child leaks what was its parent's, because its locks may be taken for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaks {
    Found,
    Ignored,
}

fn under_valgrind(program: &Program, leaks: Leaks, args: &[&str]) -> (i32, String) {
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

fn under_sanitizers(program: &Program, leaks: Leaks, args: &[&str]) -> (i32, String) {
    let detect_leaks = i32::from(leaks == Leaks::Found);
    end_of(Process::start_with(program.path(), |command| {
        command.args(args);
        command.env("ASAN_OPTIONS", format!("exitcode={FOUND}:detect_leaks={detect_leaks}:abort_on_error=0"));
        command.env("LSAN_OPTIONS", format!("exitcode={FOUND}"));
        command.env("UBSAN_OPTIONS", format!("exitcode={FOUND}:halt_on_error=1:print_stacktrace=1"));
    }))
}

const SANITIZED: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"];

#[track_caller]
fn assert_clean((code, errors): (i32, String)) {
    assert_eq!(code, 0, "{errors}");
    assert_eq!(errors, "");
}

#[track_caller]
fn assert_found((code, errors): (i32, String), what: &str) {
    assert_eq!(code, FOUND, "{what} was not found: {errors}");
    assert!(errors.contains(what), "{what}: {errors}");
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !has_tool("valgrind") {
        return;
    }
    let program = Program::new(&SCENARIOS);
    assert_clean(under_valgrind(&program, Leaks::Found, &["arguments,options", "memory://"]));
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    assert_clean(under_valgrind(&program, Leaks::Found, &[BEHAVIOUR, &server.url()]));
    assert_clean(under_valgrind(&program, Leaks::Ignored, &["fork", &server.url()]));
}

#[test]
fn valgrind_is_on() {
    if !has_tool("valgrind") {
        return;
    }
    let program = Program::new(&Recipe::c11(&DELIBERATE));
    assert_clean(under_valgrind(&program, Leaks::Found, &["none", "memory://"]));
    assert_found(under_valgrind(&program, Leaks::Found, &["leak", "memory://"]), "definitely lost");
    assert_found(under_valgrind(&program, Leaks::Found, &["use-after-free", "memory://"]), "Invalid read");
}

#[test]
fn the_sanitizers_find_no_error_and_no_leak() {
    let program = Program::new(&Recipe { flags: &SANITIZED, ..SCENARIOS });
    assert_clean(under_sanitizers(&program, Leaks::Found, &["arguments,options", "memory://"]));
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    assert_clean(under_sanitizers(&program, Leaks::Found, &[BEHAVIOUR, &server.url()]));
    assert_clean(under_sanitizers(&program, Leaks::Found, &["counter", &server.url()]));
    assert_clean(under_sanitizers(&program, Leaks::Ignored, &["fork", &server.url()]));
}

#[test]
fn the_sanitizers_are_on() {
    let program = Program::new(&Recipe { flags: &SANITIZED, ..Recipe::c11(&DELIBERATE) });
    assert_clean(under_sanitizers(&program, Leaks::Found, &["none", "memory://"]));
    assert_found(under_sanitizers(&program, Leaks::Found, &["leak", "memory://"]), "LeakSanitizer");
    assert_found(under_sanitizers(&program, Leaks::Found, &["use-after-free", "memory://"]), "heap-use-after-free");
    assert_found(under_sanitizers(&program, Leaks::Found, &["overflow", "memory://"]), "signed integer overflow");
}
