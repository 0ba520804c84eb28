//! Chaos run: processes in several languages on twenty locks, behind a proxy that spoils their traffic, on a server that is
//! stopped, killed and set wrong; and nothing may go wrong that is promised not to.
//!
//! | part | what is done to the server, beside what is done to connections and workers |
//! |---|---|
//! | faithful, three fifths of the time or two | it is stopped, paused, killed and started again with its data: nothing is forgiven |
//! | forgetful, a fifth | it is killed and starts again with nothing, or with a snapshot |
//! | stepping, a fifth | its clock jumps, where the server `valkey-9.1` and libfaketime are there |
//! | failover, a fifth, in runs of 100 s and more | it is killed, and sentinels put a replica in its place; no proxy here. One that the sentinels begin by themselves, because a busy machine kept the server from answering, is forgiven as well, and counted |
//!
//! Every worker notes on the clock that all processes share when it asked, when it was granted, until when it could rely on
//! the lease, and the fence; and writes under the lock to a fenced store. At the end a checker reads all of it:
//!
//! | value | limit |
//! |---|---|
//! | overlaps: two workers could rely on a lock at once; forgiven for a ttl from a loss of data, a failover or a step forward on | 0 |
//! | regressions: a fence not larger than that of a lease before | 0 |
//! | stale_writes, wrong_refusals: the store accepted what is stale, or refused what is not | 0 |
//! | refused_holders: it refused the holder of a valid lease | 0 |
//! | taken: a lease that ended before its deadline, although the server kept its data | 0 |
//! | slept: waiters that slept on for longer than a turn and a poll while the lock was free | 0 |
//! | overdue: calls that outlasted their time | 0 |
//! | failures: errors that no fault explains | 0 |
//! | outlived: locks without a ttl, with a longer one than they were given, or still there a ttl after the end | 0 |
//! | leftovers: what is left in queues and turns once each lock was taken and released | 0 |
//! | hanging: processes that do not end | 0 |
//! | missing: kinds of faults that never happened, in parts that are long enough for all | 0 |
//!
//! `--seconds N` (120) or `--minutes N`, `--seed N` (random), `--keep` for the journals,
//! `--only faithful` and so on for one part. The same seed gives the same schedule of faults. The
//! exit status is 1 when a value is over its limit, and the journals are then kept too; it is 2 when the run cannot begin.

#![forbid(unsafe_code)]

mod arena;
mod checker;
mod crew;
mod following;
mod leftovers;
mod options;
mod phases;
mod plan;
mod report;
mod store;
mod witness;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use options::Options;

/// How many locks there are.
const KEYS: usize = 20;
const TTL: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(1);
/// The longest wait that a worker asks for.
const WAIT: Duration = Duration::from_secs(4);
/// Also the limit of connecting.
const IO_TIMEOUT: Duration = Duration::from_millis(400);
/// What clients need after an outage: requests that still wait for their answer, and whatever was put off meanwhile.
const RECOVERY: Duration = Duration::from_secs(1);
/// What a busy machine adds to any time.
const SLACK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "worker").is_some() {
        let orders = worker::Orders::parse(words).expect("the chaos run starts its workers itself");
        worker::run(&orders);
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(words) else {
        eprintln!("usage: chaos [--seconds N | --minutes N] [--seed N] [--only PART] [--keep]");
        return ExitCode::from(2);
    };
    match phases::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(missing) => {
            eprintln!("chaos: {missing}");
            ExitCode::from(2)
        }
    }
}
