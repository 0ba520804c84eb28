//! Benchmark of the Python package against one private server, side by side with the Rust library and with other locks
//! for Python.
//!
//! | section | measures | compared with |
//! |---|---|---|
//! | pair | uncontended acquire + release, and a `with` block | the same by the Rust library; by redis-py's `Lock` |
//! | re-entry | a nested acquire + release | `threading.RLock` |
//! | hand-over | from just before a release to the return of acquire in another process | redis-py's `Lock`; python-redis-lock |
//! | threads | threads and losses of a process that holds 1,000 locks | the limits of the specification |
//!
//! The server runs on one core and everything else on another. What is compared takes turns in short blocks. The other
//! locks are used with their defaults, and with the time limits of redlatch's client: longer ones than by default, because
//! a stall of the machine is no part of what is measured. Each limited value ends as a line `RATIO <name> <value> <limit> <ok|over>`, and the
//! exit status is 1 when one is over.
//!
//! The interpreter is that of the variable `REDLATCH_PYTHON`, else that of an environment in `target/py`: one with the
//! wheel of redlatch and the packages of `py/requirements/bench.txt`. Without one the exit status is 2.
//!
//! `--quick` stays below a minute; `--report-only` exits with 0 whatever the values are; `--only SECTION` runs one
//! section.

#![forbid(unsafe_code)]

mod handover;
mod pair;
mod player;
mod reentry;
mod threads;

use std::process::ExitCode;

use redlatch_tests::bench::{Arguments, Placement, Report};
use redlatch_tests::{Interpreter, Server, any_server};

use player::Stage;

const SECTIONS: [&str; 4] = ["pair", "re-entry", "hand-over", "threads"];

fn main() -> ExitCode {
    let arguments = match Arguments::parse("python", &SECTIONS, std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let Some(kind) = any_server() else {
        eprintln!("python: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    let interpreter = match Interpreter::find("python/player.py") {
        Ok(interpreter) => interpreter,
        Err(missing) => {
            eprintln!("python: {missing}");
            return ExitCode::from(2);
        }
    };
    let extent = arguments.extent();
    // The server starts before this process is pinned: what this thread starts inherits the pin.
    let server = Server::start(kind);
    let placement = Placement::choose();
    placement.pin_client();
    placement.pin_server(server.pid());

    let mut report = Report::new(&server, placement, extent);
    report.about(interpreter.about());
    let stage = Stage { interpreter: &interpreter, server: &server, placement };
    for section in SECTIONS.into_iter().filter(|section| arguments.wants(section)) {
        eprintln!("python: {section}");
        match section {
            "pair" => pair::run(&stage, extent, &mut report),
            "re-entry" => reentry::run(&stage, extent, &mut report),
            "hand-over" => handover::run(&stage, extent, &mut report),
            _ => threads::run(&stage, extent, &mut report),
        }
    }
    report.finish("python", "python.json", arguments.report_only())
}
