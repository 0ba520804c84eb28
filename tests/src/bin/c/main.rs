//! Benchmark of the C ABI against one private server, side by side with the Rust library.
//!
//! | section | measures | compared with |
//! |---|---|---|
//! | pair | uncontended acquire + release by C | the same by Rust |
//! | re-entry | a nested acquire + release by C | the same by Rust |
//!
//! The server runs on one core and everything else on another. What is compared takes turns in short blocks. Each limited
//! value ends as a line `RATIO <name> <value> <limit> <ok|over>`, and the exit status is 1 when one is over. The library
//! and the C program are built first, in release.
//!
//! `--quick` stays below a minute; `--report-only` exits with 0 whatever the values are; `--only SECTION` runs one
//! section.

#![forbid(unsafe_code)]

mod pair;
mod player;
mod reentry;

use std::process::ExitCode;

use redlatch_tests::bench::{Arguments, Placement, Report};
use redlatch_tests::c::{Build, Program, Recipe};
use redlatch_tests::{Server, any_server};

use player::Stage;

const SECTIONS: [&str; 2] = ["pair", "re-entry"];

fn main() -> ExitCode {
    let arguments = match Arguments::parse("c", &SECTIONS, std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let Some(kind) = any_server() else {
        eprintln!("c: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    eprintln!("c: building the library");
    let recipe = Recipe { flags: &["-O2"], build: Build::Release, ..Recipe::c11(&["bench_player", "support"]) };
    let program = Program::new(&recipe);
    let extent = arguments.extent();
    // The server starts before this process is pinned: what this thread starts inherits the pin.
    let server = Server::start(kind);
    let placement = Placement::choose();
    placement.pin_client();
    placement.pin_server(server.pid());

    let mut report = Report::new(&server, placement, extent);
    let stage = Stage { program: &program, server: &server, placement };
    for section in SECTIONS.into_iter().filter(|section| arguments.wants(section)) {
        eprintln!("c: {section}");
        match section {
            "pair" => pair::run(&stage, extent, &mut report),
            _ => reentry::run(&stage, extent, &mut report),
        }
    }
    report.finish("c", "c.json", arguments.report_only())
}
