//! The lock at work on a real server: the classic fault, the same workers on redlatch, and a killed holder.
//!
//! Every number it prints is measured in this run. It exits with 0 only when every claim came true.

#![forbid(unsafe_code)]

mod crash;
mod messages;
mod orders;
mod results;
mod server;
mod stall;
mod table;
mod timeline;
mod worker;

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use crash::{Crash, WAITERS};
use orders::{Kind, Orders};
use server::{DemoServer, NoServer};
use stall::STALLS;
use table::Cleanup;
use timeline::{Timeline, Tone};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The sizes of a run.
#[derive(Clone, Copy)]
struct Scale {
    /// In whole seconds, which is all that `SET … EX` knows.
    lease: Duration,
    /// How long an order waits for its payment.
    payment: Duration,
    orders: u32,
    workers: usize,
}

impl Scale {
    const FULL: Scale =
        Scale { lease: Duration::from_secs(2), payment: Duration::from_millis(300), orders: 12, workers: 5 };
    const QUICK: Scale =
        Scale { lease: Duration::from_secs(1), payment: Duration::from_millis(100), orders: 8, workers: 5 };
}

const USAGE: &str = "usage: demo [--quick]\n\n\
    Uses the server of REDIS_URL if that is set, else a redis-server or valkey-server on PATH or in\n\
    target/servers/venv, which it starts and stops.";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let scale = match args.as_slice() {
        [] => Scale::FULL,
        ["--quick"] => Scale::QUICK,
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [worker::SUBCOMMAND, rest @ ..] => return worker::main(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(scale) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing was shown yet when there is no server: then this is the only line.
            if !error.is::<NoServer>() {
                println!();
            }
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(scale: Scale) -> Outcome<bool> {
    let server = DemoServer::find()?;
    let timeline = Timeline::start();
    introduce(&timeline, &server, scale);

    timeline.heading("1. SET NX EX + DEL");
    let cleanup = Cleanup::new(&server.url, "plain", scale.orders)?;
    let plain = Orders::new(&timeline, &server.url, cleanup.keys(), Kind::Plain, scale).run()?;
    drop(cleanup);

    timeline.heading("2. redlatch: the same workers, the same stalls");
    timeline.text("worker-1 and worker-2 call guard.check() before they write; worker-3 deliberately does not.");
    timeline.text("The table keeps the highest fence of each order and refuses a lower one.");
    let cleanup = Cleanup::new(&server.url, "redlatch", scale.orders)?;
    let redlatch = Orders::new(&timeline, &server.url, cleanup.keys(), Kind::Redlatch, scale).run()?;
    drop(cleanup);

    timeline.heading("3. redlatch: a holder is killed with -9");
    let cleanup = Cleanup::new(&server.url, "crash", 0)?;
    let crash = Crash::run(&timeline, &server.url, cleanup.keys(), scale.lease)?;
    drop(cleanup);

    timeline.heading("Results of this run");
    results::show(&timeline, scale, &plain, &redlatch, &crash);
    let claims = results::claims(scale, &plain, &redlatch, &crash);
    for (claim, _) in claims.iter().filter(|(_, came_true)| !came_true) {
        timeline.toned(Tone::Bad, &format!("NOT TRUE in this run: {claim}"));
    }
    Ok(claims.iter().all(|(_, came_true)| *came_true))
}

fn introduce(timeline: &Timeline, server: &DemoServer, scale: Scale) {
    let Scale { lease, payment, orders, workers } = scale;
    let (lease, payment) = (lease.as_secs_f64(), payment.as_secs_f64());
    timeline.bold("redlatch demo");
    timeline.text(&format!(
        "\
Server: {server}

{workers} worker processes share {orders} orders; each order takes one piece from a stock. Under the order's
lock a worker reads that the order is new, waits {payment} s for its payment, and writes: order done,
stock less one. Table and stock are keys of the same server; each read and each write is atomic,
but only the lock ties the write to the read.
The lease is {lease} s, and {STALLS} workers stall for longer between read and write: the demo stops these
processes with SIGSTOP and lets them go on with SIGCONT, as a slow disk, a long garbage collection
or a suspended machine would. In the last part it kills the holder of a lock with {WAITERS} waiters.
Times are seconds since the start, as the demo sees them.",
        server = server.shown
    ));
}
