//! What every C++ program may rely on, on every server.

use std::process::Command;
use std::sync::OnceLock;

use redlatch_tests::c::{Program, Recipe, has_tool, run_tool, workspace};
use redlatch_tests::each_server;

use crate::UNITS;

const BEHAVIOUR: &str = "mutexes,guards,operators,checks,leases,waits,cancels,errors,options,callbacks,logs,lifetimes";

/// C++17 against the shared library, from several units; `None` without a compiler.
pub(crate) fn shared() -> Option<&'static Program> {
    static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();
    PROGRAM.get_or_init(|| has_tool("g++").then(|| Program::new(&Recipe::cpp17(&UNITS)))).as_ref()
}

#[test]
fn every_member_does_what_the_header_says() {
    let Some(program) = shared() else { return };
    each_server(|server| {
        program.run(&[BEHAVIOUR, &server.url()]);
    });
}

#[test]
fn a_store_inside_the_process_does_the_same() {
    let Some(program) = shared() else { return };
    program.run(&[BEHAVIOUR, "memory://cpp"]);
}

#[test]
fn fifty_threads_count_without_a_lost_update() {
    let Some(program) = shared() else { return };
    each_server(|server| {
        program.run(&["counter", &server.url()]);
    });
}

/// Further warnings that a user's build may turn into errors, beside those of each test program.
const STRICT: [&str; 6] = [
    "-Wsign-conversion",
    "-Wold-style-cast",
    "-Wuseless-cast",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wnull-dereference",
];

#[track_caller]
fn assert_compiles(compiler: &str, flags: &[&str]) {
    let mut command = Command::new(compiler);
    command.args([
        "-fsyntax-only",
        "-x",
        "c++",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wshadow",
        "-Wconversion",
        "-Werror",
    ]);
    command.args(flags).arg("-I").arg(workspace().join("include")).arg(workspace().join("tests/cpp/header_only.cpp"));
    run_tool(command);
}

#[test]
fn the_header_compiles_without_a_warning_in_each_standard() {
    if !has_tool("g++") {
        return;
    }
    for standard in ["-std=c++17", "-std=c++20", "-std=c++23", "-std=gnu++17"] {
        assert_compiles("g++", &[&[standard][..], &STRICT].concat());
    }
    assert_compiles("g++", &["-std=c++17", "-fno-rtti", "-O2"]);
    // Not a part of what must be there: whoever has it sees its warnings too.
    if Command::new("clang++").arg("--version").output().is_ok() {
        assert_compiles("clang++", &["-std=c++17"]);
        assert_compiles("clang++", &["-std=c++20"]);
    }
}

#[test]
fn results_that_must_not_be_lost_are_warned_about() {
    if !has_tool("g++") {
        return;
    }
    for statement in [
        "lock.try_lock()",
        "lock.release()",
        "lease.into_token()",
        "client.check_server()",
        "client.adopt(\"a\", \"b\")",
        "lock.fence()",
    ] {
        let mut command = Command::new("g++");
        command.args(["-fsyntax-only", "-std=c++17", "-Werror=unused-result", "-x", "c++", "-I"]);
        command.arg(workspace().join("include")).arg(workspace().join("tests/cpp/discards.cpp"));
        command.arg(format!("-DSTATEMENT={statement}"));
        let output = command.output().expect("g++ runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("nodiscard"), "{statement}: {errors}");
    }
}
