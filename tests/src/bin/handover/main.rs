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
mod player;

use std::process::ExitCode;

use redlatch_tests::bench::{Arguments, Placement, Report};
use redlatch_tests::{Server, any_server};

const SECTIONS: [&str; 3] = ["pair", "fair", "crowd"];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "player").is_some() {
        player::run(&words.next().expect("a player is given its server"));
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse("handover", &SECTIONS, words) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let Some(kind) = any_server() else {
        eprintln!("handover: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    let extent = arguments.extent();
    // The server starts before this process is pinned: what it starts inherits the pin.
    let server = Server::start(kind);
    let placement = Placement::choose();
    placement.pin_client();
    placement.pin_server(server.pid());

    let mut report = Report::new(&server, placement, extent);
    for section in SECTIONS.into_iter().filter(|section| arguments.wants(section)) {
        match section {
            "pair" => pair::run(&server, extent, &mut report),
            "fair" => fair::run(&server, extent, &mut report),
            _ => crowd::run(&server, extent, &mut report),
        }
    }
    report.finish("handover", "handover.json", arguments.report_only())
}
