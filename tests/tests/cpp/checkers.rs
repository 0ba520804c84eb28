//! The scenarios under valgrind and the compilers' sanitizers.

use redlatch_tests::c::{
    Leaks, Program, Recipe, SANITIZED, assert_clean, assert_found, has_tool, under_sanitizers, under_valgrind,
};
use redlatch_tests::{Server, any_server};

use crate::UNITS;
use crate::scenarios::shared;

/// Without `waits`, which measures time.
const CHECKED: &str = "mutexes,guards,operators,checks,leases,cancels,errors,options,callbacks,logs,lifetimes";

const DELIBERATE: [&str; 1] = ["cpp/deliberate.cpp"];

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    let (true, Some(program)) = (has_tool("valgrind"), shared()) else { return };
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    assert_clean(under_valgrind(program, Leaks::Found, &[CHECKED, &server.url()]));
}

#[test]
fn valgrind_is_on() {
    if !has_tool("valgrind") || !has_tool("g++") {
        return;
    }
    let program = Program::new(&Recipe::cpp17(&DELIBERATE));
    assert_clean(under_valgrind(&program, Leaks::Found, &["none"]));
    assert_found(under_valgrind(&program, Leaks::Found, &["leak"]), "definitely lost");
    assert_found(under_valgrind(&program, Leaks::Found, &["use-after-free"]), "Invalid read");
}

#[test]
fn the_sanitizers_find_no_error_and_no_leak() {
    if !has_tool("g++") {
        return;
    }
    let program = Program::new(&Recipe { flags: &SANITIZED, ..Recipe::cpp17(&UNITS) });
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    assert_clean(under_sanitizers(&program, Leaks::Found, &[CHECKED, &server.url()]));
    assert_clean(under_sanitizers(&program, Leaks::Found, &["waits,counter", &server.url()]));
}

#[test]
fn the_sanitizers_are_on() {
    if !has_tool("g++") {
        return;
    }
    let program = Program::new(&Recipe { flags: &SANITIZED, ..Recipe::cpp17(&DELIBERATE) });
    assert_clean(under_sanitizers(&program, Leaks::Found, &["none"]));
    assert_found(under_sanitizers(&program, Leaks::Found, &["leak"]), "LeakSanitizer");
    assert_found(under_sanitizers(&program, Leaks::Found, &["use-after-free"]), "heap-use-after-free");
    assert_found(under_sanitizers(&program, Leaks::Found, &["overflow"]), "signed integer overflow");
}
