//! Benchmark of the Rust core against one private server: the costs that the specification limits, measured
//! side by side in one run.
//!
//! | section | compares | with |
//! |---|---|---|
//! | pair | uncontended acquire + release | the same two scripts sent bare; `SET NX PX` + compare-and-delete; 2 × PING |
//! | re-entry | a nested acquire + release | one read of `CLOCK_BOOTTIME` |
//! | memory | live heap bytes of the client for each held lease | 1 KiB |
//! | leases | threads, losses and renewing commands of 10,000 leases | the limits of the specification |
//! | outage | first acquire after the server was away | 1 s |
//!
//! The server runs on one core and everything else on another. What is compared takes turns in short blocks, so
//! that a slow phase of the machine hits all of it. Each limited value ends as a line
//! `RATIO <name> <value> <limit> <ok|over>`, and the exit status is 1 when one is over.
//!
//! `--quick` stays below a minute; `--report-only` exits with 0 whatever the values are; `--only SECTION` runs one
//! section.

#![forbid(unsafe_code)]

mod bare;
mod leases;
mod memory;
mod outage;
mod pair;
mod reentry;

use std::process::ExitCode;
use std::time::Duration;

use redlatch::Client;
use redlatch_tests::bench::{Arguments, Placement, Report, patient_client};
use redlatch_tests::{Server, any_server, assert_eventually};

/// The parts of a run, in their order. The outage comes last, because it restarts the server.
const SECTIONS: [&str; 5] = ["pair", "re-entry", "memory", "leases", "outage"];

fn main() -> ExitCode {
    let arguments = match Arguments::parse("bench", &SECTIONS, std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let Some(kind) = any_server() else {
        eprintln!("bench: no server is installed; `make setup` installs one");
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
        eprintln!("bench: {section}");
        match section {
            "pair" => pair::run(&server, extent, &mut report),
            "re-entry" => reentry::run(&server, extent, &mut report),
            "memory" => memory::run(&server, extent, &mut report),
            "leases" => leases::run(&server, &mut report),
            _ => outage::run(&server, placement, extent, &mut report),
        }
    }
    report.finish("bench", "core.json", arguments.report_only())
}

/// Has `client` wait for a lock in vain, after which its waiters are woken by push: its inbox is open.
fn open_inbox(server: &Server, client: &Client) {
    let other = patient_client(server);
    let held = other.lock("bench:contended").and_then(|lock| lock.acquire()).expect("the lock is granted");
    let lock = client.lock("bench:contended").expect("the name is valid");
    let waited = lock.try_acquire_for(Duration::from_millis(100)).expect("the server answers");
    assert!(waited.is_none(), "the lock has a holder");
    let subscribed = || !server.query::<Vec<String>>(&["PUBSUB", "CHANNELS"]).is_empty();
    assert_eventually("the inbox is open", Duration::from_secs(10), subscribed);
    drop(held);
}
