//! Benchmark of the hand-over between waiters, against one private server.
//!
//! | section | measures | compared with |
//! |---|---|---|
//! | pair | from just before a release to the grant in another process, at holds of 1 ms | the same messages sent bare |
//! | fair | shares and commands of 16 threads in 4 processes | the limits of the specification |
//! | crowd | connections, messages and polls of 2,000 waiters in one process | the limits of the specification |
//!
//! The server runs on one core and everything else on another. Blocks of the library and of the bare messages take
//! turns. Each limited value ends as a line `RATIO <name> <value> <limit> <ok|over>`, and the exit status is 1 when one
//! is over.
//!
//! `--quick` stays below half a minute; `--report-only` exits with 0 whatever the values are; `--only SECTION` runs
//! one section.

#![forbid(unsafe_code)]

mod chain;
mod crowd;
mod fair;
mod pair;
#[path = "../bench/placement.rs"]
mod placement;
mod player;
mod report;
mod samples;

use std::process::ExitCode;

use redlatch_tests::{Server, any_server};

use placement::Placement;
use report::Report;

const SECTIONS: [&str; 3] = ["pair", "fair", "crowd"];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Extent {
    quick: bool,
}

impl Extent {
    fn pick<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

fn main() -> ExitCode {
    let (mut quick, mut report_only, mut only) = (false, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "player" => {
                player::run(&arguments.next().expect("a player is given its server"));
                return ExitCode::SUCCESS;
            }
            "--quick" => quick = true,
            "--report-only" => report_only = true,
            "--only" => only = arguments.next().filter(|section| SECTIONS.contains(&section.as_str())),
            _ => only = None,
        }
        if !matches!(argument.as_str(), "--quick" | "--report-only") && only.is_none() {
            eprintln!("usage: handover [--quick] [--report-only] [--only {}]", SECTIONS.join("|"));
            return ExitCode::from(2);
        }
    }
    let wanted = |section: &str| only.as_deref().is_none_or(|only| only == section);
    let Some(kind) = any_server() else {
        eprintln!("handover: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    let extent = Extent { quick };
    // The server starts before this process is pinned: what it starts inherits the pin.
    let server = Server::start(kind);
    let placement = Placement::choose();
    placement.pin_client();
    placement.pin_server(server.pid());

    let mut report = Report::new(&server, placement, quick);
    for section in SECTIONS.into_iter().filter(|section| wanted(section)) {
        match section {
            "pair" => pair::run(&server, extent, &mut report),
            "fair" => fair::run(&server, extent, &mut report),
            _ => crowd::run(&server, extent, &mut report),
        }
    }
    report.print();
    match report.write() {
        Ok(path) => println!("\nwritten to {}", path.display()),
        Err(error) => eprintln!("handover: the JSON report could not be written: {error}"),
    }
    if report.any_over() && !report_only { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
