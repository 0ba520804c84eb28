//! The same programs under valgrind and the compilers' sanitizers.

use redlatch_tests::c::{
    Leaks, Program, Recipe, SANITIZED, assert_clean, assert_found, has_tool, under_sanitizers, under_valgrind,
};
use redlatch_tests::{Server, any_server};

use crate::SCENARIOS;

const DELIBERATE: [&str; 2] = ["deliberate", "support"];

const BEHAVIOUR: &str = "lock,threads,names,order,operator,stats,check,lease,callbacks,destroy,cancel,log,losses";

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
    assert_clean(under_sanitizers(&program, Leaks::Found, &["counter,reopen", &server.url()]));
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
