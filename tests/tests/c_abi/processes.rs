//! What more than one process, or more than one unit, has to do with.

use redlatch_tests::c::{Program, Recipe, has_tool};
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
