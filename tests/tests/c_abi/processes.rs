//! What more than one process, or more than one unit, has to do with.

use std::fs;

use redlatch_tests::c::{Program, Recipe, has_tool, scratch, workspace};
use redlatch_tests::{Server, any_server};

use crate::SCENARIOS;

#[test]
fn a_lease_moves_from_one_process_to_another() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let program = Program::new(&SCENARIOS);
    let token = program.run(&["give", &server.url()]).pop().expect("a token");
    assert!(server.query::<bool>(&["EXISTS", "lock:handed over"]), "it is held by nobody's handle");
    program.run(&["take", &server.url(), &token]);
    assert!(!server.query::<bool>(&["EXISTS", "lock:handed over"]));
}

#[test]
fn the_header_is_c99_and_c11_and_cpp17_in_any_number_of_units() {
    let units = ["header_one", "header_two"];
    for standard in ["c99", "c11", "c17"] {
        Program::new(&Recipe { standard, ..Recipe::c11(&units) }).run(&[]);
    }
    if has_tool("g++") {
        for standard in ["c++17", "c++20"] {
            Program::new(&Recipe { compiler: "g++", standard, ..Recipe::c11(&units) }).run(&[]);
        }
    }
}

#[test]
fn the_first_program_of_the_page_does_what_it_says() {
    let page = fs::read_to_string(workspace().join("docs/c.md")).expect("the page is there");
    let (_, code) = page.split_once("```c\n").expect("a program");
    let (code, _) = code.split_once("```").expect("its end");
    let source = scratch().join("first.c");
    fs::create_dir_all(scratch()).and_then(|()| fs::write(&source, code)).expect("the target directory is writable");
    let program = Program::new(&Recipe::c11(&[source.to_str().expect("a path of text")]));
    let printed = program.run(&["memory://"]);
    assert!(printed[0].starts_with("UPDATE orders SET fence = ") && printed[1].contains("'paid'"), "{printed:?}");

    let mut away = program.start(&["redis://127.0.0.1:1/"]);
    let status = away.wait_exit(std::time::Duration::from_secs(30)).expect("it ends");
    assert_eq!(status.code(), Some(1));
    let said = away.error_lines().join(" ");
    assert!(said.starts_with("acquire: REDLATCH_UNAVAILABLE cannot acquire \"order:17\""), "{said}");
}
