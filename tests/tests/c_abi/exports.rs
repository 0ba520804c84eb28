//! What the shared library shows to the linker.

use std::fs;
use std::process::Command;

use redlatch_tests::c::{Build, library, run_tool, workspace};

#[test]
fn only_the_listed_symbols_are_exported() {
    let listed = fs::read_to_string(workspace().join("ffi-c/symbols.txt")).expect("the list is there");
    let listed: Vec<&str> = listed.lines().collect();
    assert!(listed.is_sorted(), "ffi-c/symbols.txt is sorted");
    let mut command = Command::new("nm");
    command.args(["-D", "--defined-only", "--format=posix"]).arg(library(Build::Plain).join("libredlatch.so"));
    let printed = run_tool(command);
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
    let printed = run_tool(command);
    assert!(printed.contains("Library soname: [libredlatch.so.0]"), "{printed}");
    assert!(printed.contains("NODELETE"), "{printed}");
}

/// What stands above a declaration in the header, and the declaration.
fn declarations() -> Vec<(String, String)> {
    let header = fs::read_to_string(workspace().join("include/redlatch.h")).expect("the header is there");
    let (_, functions) = header.split_once("extern \"C\" {").expect("functions");
    let blocks = functions.split("/**").skip(1).filter_map(|block| block.split_once(" */\n"));
    blocks.map(|(comment, code)| (comment.to_owned(), code.to_owned())).collect()
}

#[test]
fn every_function_says_its_statuses_its_threads_and_since_when_it_exists() {
    let declarations = declarations();
    assert!(declarations.len() > 50, "{}", declarations.len());
    for (comment, code) in declarations {
        assert!(comment.contains("Thread-safe.") || comment.contains("Only the thread that acquired."), "{code}");
        assert!(comment.trim_end().ends_with("Since 0.1."), "{code}");
        let status = code.contains("int32_t redlatch_") && !code.contains("(void)");
        assert!(!status || comment.contains("REDLATCH_"), "{code}");
    }
}

#[test]
fn every_function_and_every_status_is_met_by_a_program() {
    let files = fs::read_dir(workspace().join("tests/c")).expect("the programs are there");
    let programs: String = files.map(|file| fs::read_to_string(file.unwrap().path()).expect("text")).collect();
    let listed = fs::read_to_string(workspace().join("ffi-c/symbols.txt")).expect("the list is there");
    for name in listed.lines() {
        assert!(programs.contains(&format!("{name}(")), "{name} is called by no program of tests/c");
    }
    let header = fs::read_to_string(workspace().join("include/redlatch.h")).expect("the header is there");
    let faults = fs::read_to_string(workspace().join("tests/tests/c_abi/faults.rs")).expect("the tests are there");
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define REDLATCH_")?.split_once(' '));
    let statuses = defined.skip_while(|(name, _)| *name != "OK").take_while(|(name, _)| !name.starts_with("LOST_"));
    let statuses: Vec<&str> = statuses.map(|(name, _)| name).collect();
    assert_eq!((statuses.first(), statuses.last()), (Some(&"OK"), Some(&"INTERNAL")));
    for name in statuses {
        let met = programs.contains(&format!("(REDLATCH_{name}, ")) || faults.contains(&format!("\"REDLATCH_{name}\""));
        assert!(met, "no call is expected to return REDLATCH_{name}");
    }
}
