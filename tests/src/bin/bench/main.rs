//! The benchmark: one run against one private server, in which what is compared takes turns in short blocks, so that a slow
//! phase of the machine hits all of it.
//!
//! | section | measures | compared with |
//! |---|---|---|
//! | pair | uncontended acquire + release | the same two scripts sent bare; `SET NX PX` + compare-and-delete; 2 × PING |
//! | costs | what the largest costs of a pair were, each added to the two scripts sent bare | the two scripts sent bare |
//! | re-entry | a nested acquire + release | one read of `CLOCK_BOOTTIME` |
//! | memory | live heap bytes of the client for each held lease | the limit |
//! | hand-over | from just before a release to the grant in another process or thread, at holds of 1 ms | the same messages sent bare; one bare PUBLISH |
//! | fair | shares and commands of 16 threads in 4 processes | the limits |
//! | contention | acquisitions, shares and commands of 1 to 64 threads of one process on one lock | |
//! | scaling | acquire + release of 1 to 64 threads on separate locks | the two scripts sent bare on as many connections |
//! | crowd | connections, messages and polls of 2,000 waiters in one process | the limits |
//! | waiters | load, memory and first wake-up of 1 to 10,000 waiters in one process | the limit |
//! | python-pair | uncontended acquire + release, and a `with` block | the same by Rust; by redis-py's `Lock` |
//! | python-re-entry | a nested acquire + release | `threading.RLock` |
//! | python-threads | threads and losses of a process that holds 1,000 locks | the limits |
//! | c-pair, c-re-entry | the same by C | the same by Rust |
//! | cpp-pair | the same by C++ and C | the same by Rust; the two scripts sent bare through hiredis |
//! | cold-start | from the start of a process to its first lock, acquired and released | redis-py's `Lock` |
//! | peers-pair | uncontended acquire + release, and its commands | each other lock for Python and Rust |
//! | peers-hand-over | from just before a release to the return of acquire in another process | the same |
//! | peers-contention | grants, shares and commands of 8 threads in 4 processes | the same |
//! | leases | threads, losses and renewing commands of 10,000 leases | the limits |
//! | held | cost, memory and lateness of renewing 1 to 100,000 leases | the limits |
//! | outage | first acquire after the server was away | the limit |
//!
//! The server runs on one core and everything else on another, and a process of the lowest priority keeps each awake. Each limited value ends as a line
//! `RATIO <name> <value> <limit> <ok|over>`, and the exit status is 1 when one is over. Python is that of the variable
//! `REDLATCH_PYTHON`, else that of an environment in `target/py`: one with the wheel of redlatch and the packages of
//! `py/requirements/bench.txt`.
//!
//! `--quick` stays below a minute; `--report-only` exits with 0 whatever the values are; `--only SECTION` runs one
//! section; `--document` has docs/benchmarks.md show this run; `--redraw` writes that page anew from the run that is kept beside
//! it, where only its words have changed.

#![forbid(unsafe_code)]

mod c;
mod core;
mod handover;
mod load;
mod peers;
mod python;
mod start;
mod waiters;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redlatch_tests::bench::{Arguments, Awake, Extent, Placement, Report};
use redlatch_tests::{Server, any_server};

/// The parts of a run, in their order. The outage comes last, because it restarts the server.
const SECTIONS: [&str; 23] = [
    "pair",
    "costs",
    "re-entry",
    "memory",
    "hand-over",
    "fair",
    "contention",
    "scaling",
    "crowd",
    "waiters",
    "python-pair",
    "python-re-entry",
    "python-threads",
    "c-pair",
    "c-re-entry",
    "cpp-pair",
    "cold-start",
    "peers-pair",
    "peers-hand-over",
    "peers-contention",
    "leases",
    "held",
    "outage",
];

/// Where a section runs.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) placement: Placement,
    pub(crate) extent: Extent,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == Awake::WORD).is_some() {
        Awake::run(&words.next().expect("it is given a core"));
    }
    if words.next_if(|word| word == start::PROGRAM).is_some() {
        start::program(&words.next().expect("the program is given its server"));
        return ExitCode::SUCCESS;
    }
    if words.next_if(|word| word == "player").is_some() {
        handover::player::run(&words.next().expect("a player is given its server"));
        return ExitCode::SUCCESS;
    }
    if words.next_if(|word| word == waiters::player::WORD).is_some() {
        waiters::player::run(&words.collect::<Vec<String>>());
        return ExitCode::SUCCESS;
    }
    if words.next_if(|word| word == "peer").is_some() {
        peers::ours::run(&words.next().expect("a player is given its server"));
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse("bench", &SECTIONS, words) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    if arguments.redraw() {
        let redrawn = fs::read_to_string(docs().join("benchmarks/run.json"))
            .and_then(|json| Ok(Report::read(&json)?))
            .and_then(|kept| kept.write_page(&docs()));
        return written(redrawn).unwrap_or(ExitCode::SUCCESS);
    }
    let Some(kind) = any_server() else {
        eprintln!("bench: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    // Before this process is pinned: what it starts inherits the pin, and the machine would seem to have one core.
    let stage = Stage { server: Server::start(kind), placement: Placement::choose(), extent: arguments.extent() };
    let sections: Vec<&str> = SECTIONS.into_iter().filter(|section| arguments.wants(section)).collect();
    // On all cores, and not in the middle of what is measured.
    c::build(&sections);
    peers::build(&sections);
    let _awake = Awake::start(stage.placement);
    let mut report = Report::new(&stage.server, stage.placement, stage.extent);
    if cfg!(debug_assertions) {
        report.about("a build for development, whose times mean little");
    }
    stage.placement.pin_client();
    stage.placement.pin_server(stage.server.pid());

    for section in sections {
        eprintln!("bench: {section}");
        report.section(section);
        // What one section lacks, or a check that it fails, is no reason to lose the others.
        let measured = catch_unwind(AssertUnwindSafe(|| measure(section, &stage, &mut report)));
        match measured {
            Ok(Ok(())) => {}
            Ok(Err(missing)) => report.failed(format!("{section} is left out: {missing}")),
            Err(_) => report.failed(format!("{section} ended early: its output says why")),
        }
        stage.server.flush();
    }
    let status = report.finish("bench", arguments.report_only());
    if arguments.document() { written(report.write_page(&docs())).unwrap_or(status) } else { status }
}

/// Where the page stands.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The exit status when the page could not be written.
fn written(page: io::Result<()>) -> Option<ExitCode> {
    let error = page.err()?;
    eprintln!("bench: docs/benchmarks.md could not be written: {error}");
    Some(ExitCode::FAILURE)
}

/// An error says what is missing on this machine.
fn measure(section: &str, stage: &Stage, report: &mut Report) -> Result<(), String> {
    match section {
        "hand-over" | "fair" | "crowd" => handover::run(section, stage, report),
        "waiters" => waiters::run(stage, report),
        "contention" | "scaling" => load::run(section, stage, report),
        "cold-start" => return start::run(stage, report),
        "c-pair" | "c-re-entry" | "cpp-pair" => c::run(section, stage, report),
        _ if section.starts_with("peers-") => peers::run(section, stage, report),
        _ if section.starts_with("python-") => return python::run(section, stage, report),
        _ => core::run(section, stage, report),
    }
    Ok(())
}
