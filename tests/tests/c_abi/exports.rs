//! What the shared library shows to the linker.

use std::fs;
use std::process::Command;

use crate::library::{Build, library, run, workspace};

#[test]
fn only_the_listed_symbols_are_exported() {
    let listed = fs::read_to_string(workspace().join("ffi-c/symbols.txt")).expect("the list is there");
    let listed: Vec<&str> = listed.lines().collect();
    assert!(listed.is_sorted(), "ffi-c/symbols.txt is sorted");
    let mut command = Command::new("nm");
    command.args(["-D", "--defined-only", "--format=posix"]).arg(library(Build::Plain).join("libredlatch.so"));
    let printed = run(command);
    let mut found: Vec<&str> = printed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    found.sort_unstable();
    assert_eq!(found, listed, "exported, and in ffi-c/symbols.txt");
    assert!(found.iter().all(|name| name.starts_with("redlatch_")));
}

#[test]
fn the_header_declares_what_is_exported() {
    let header = fs::read_to_string(workspace().join("include/redlatch.h")).expect("the header is there");
    let listed = fs::read_to_string(workspace().join("ffi-c/symbols.txt")).expect("the list is there");
    for name in listed.lines() {
        let declared =
            header.lines().filter(|line| !line.starts_with(" *") && line.contains(&format!("{name}("))).count();
        assert_eq!(declared, 1, "{name}");
    }
}

#[test]
fn the_library_is_named_after_its_abi_and_stays_loaded() {
    let mut command = Command::new("readelf");
    command.arg("-d").arg(library(Build::Plain).join("libredlatch.so"));
    let printed = run(command);
    assert!(printed.contains("Library soname: [libredlatch.so.0]"), "{printed}");
    assert!(printed.contains("NODELETE"), "{printed}");
}
