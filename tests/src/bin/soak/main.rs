//! Soak test: many processes on one lock, killed and stopped at random, and nothing may go wrong.
//!
//! Four processes of four threads take one lock of a private server over and over and hold it for 0.2 to 5 ms, at a
//! ttl of 1 s. Every 0.7 s one of them is killed with SIGKILL and started again, or now and then stopped for longer
//! than the ttl. Each thread writes down what it does on the clock that all processes share, and at the end the
//! journals are checked:
//!
//! | value | limit |
//! |---|---|
//! | overlaps: two threads could rely on the lock at once | 0 |
//! | regressions: a fence not larger than that of the holder before | 0 |
//! | orphans: keys left after ttl + turn, but for fence and tombstones | 0 |
//! | hung: live waiters without the lock for ttl + turn + 2 s while others had it, or that never end | 0 |
//! | taken: leases that the server gave to someone else before their deadline | 0 |
//! | failures: errors of an acquire, although the server is always there | 0 |
//! | longest gap without a holder | ttl + turn + 0.5 s |
//! | least share of a thread compared with the largest, without faults only | 0.95 |
//!
//! `--seconds N` (60), `--seed N` (random), `--threads N` of each process (4), `--calm` for a run without faults,
//! `--keep` for the journals. The exit status is 1 when a value is over its limit; the journals are then kept too.

#![forbid(unsafe_code)]

mod checker;
mod faults;
mod worker;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use redlatch_tests::history::{self, Story};
use redlatch_tests::{Server, any_server, eventually};

use checker::Findings;
use faults::{Crew, SETTLED};

const LOCK: &str = "soak";
const WORKERS: usize = 4;
/// Of each worker, unless told otherwise.
const THREADS: usize = 4;
const TTL: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(1);
const LONGEST_GAP: Duration = Duration::from_millis(2_500);
const PATIENCE: Duration = Duration::from_secs(4);
const LEAST_SHARE: f64 = 0.95;

struct Options {
    seconds: f64,
    seed: u64,
    threads: usize,
    calm: bool,
    keep: bool,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Options> {
        let seed = fastrand::u64(..1_000_000_000);
        let mut options = Options { seconds: 60.0, seed, threads: THREADS, calm: false, keep: false };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => {
                    options.seconds = words.next()?.parse().ok().filter(|it| (1.0..=86_400.0).contains(it))?
                }
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--threads" => options.threads = words.next()?.parse().ok().filter(|it| (1..=1_000).contains(it))?,
                "--calm" => options.calm = true,
                "--keep" => options.keep = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "worker").is_some() {
        let orders = worker::Orders::parse(words).expect("the soak test starts its workers itself");
        worker::run(&orders);
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(words) else {
        eprintln!("usage: soak [--seconds N] [--seed N] [--threads N] [--calm] [--keep]");
        return ExitCode::from(2);
    };
    let Some(kind) = any_server() else {
        eprintln!("soak: no server is installed; `make setup` installs one");
        return ExitCode::from(2);
    };
    let server = Server::start(kind);
    println!("{}; {} s, seed {}", server.kind(), options.seconds, options.seed);
    let dir = std::env::temp_dir().join(format!("redlatch-soak-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("the temporary directory is writable");
    let good = run(&server, &options, &dir);
    if good && !options.keep {
        let _ = fs::remove_dir_all(&dir);
    } else {
        println!("seed {}, journals in {}", options.seed, dir.display());
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether every value is within its limit.
fn run(server: &Server, options: &Options, dir: &Path) -> bool {
    let mut crew = Crew::start(server.url(), dir, options);
    crew.work_until(Instant::now() + Duration::from_secs_f64(options.seconds), !options.calm);
    let end = history::now();
    let hanging = crew.end();
    let mut left = Vec::new();
    eventually(SETTLED, || {
        left = server.lock_leftovers();
        left.is_empty()
    });
    let (kills, stops) = (crew.kills, crew.stops);
    let found = checker::check(Story::of(&crew.lives(), end), PATIENCE);
    println!("kills {kills}, stops {stops}, acquisitions {}", found.acquisitions);
    let least_share = least_share(&found, options.threads);
    describe(&found, least_share, &left);

    let mut limits = Limits(true);
    limits.at_most("overlaps", found.overlaps.len() as f64, 0.0);
    limits.at_most("regressions", found.regressions.len() as f64, 0.0);
    limits.at_most("orphans", left.len() as f64, 0.0);
    limits.at_most("hung", (found.hung.len() + hanging) as f64, 0.0);
    limits.at_most("failures", found.failures.len() as f64, 0.0);
    limits.at_most("taken", taken(&found) as f64, 0.0);
    limits.at_most("longest_gap_s", found.longest_gap.as_secs_f64(), LONGEST_GAP.as_secs_f64());
    if options.calm {
        limits.at_least("least_share", least_share, LEAST_SHARE);
    }
    limits.0 && found.acquisitions > 0
}

/// Nobody deletes the key here: only time may end a lease that its holder has not released.
fn taken(found: &Findings) -> usize {
    let explained = ["expired", "Released", "Unconfirmed"];
    let ends = found.lost.iter().chain(&found.releases);
    ends.filter(|(how, _)| !explained.contains(&how.as_str())).map(|(_, count)| count).sum()
}

fn least_share(found: &Findings, threads: usize) -> f64 {
    let threads = (0..WORKERS).flat_map(|worker| (0..threads).map(move |thread| (worker, thread)));
    let shares: Vec<usize> = threads.map(|it| found.shares.get(&it).copied().unwrap_or(0)).collect();
    let most = shares.iter().max().copied().unwrap_or(0);
    shares.iter().min().copied().unwrap_or(0) as f64 / most.max(1) as f64
}

fn describe(found: &Findings, least_share: f64, left: &[String]) {
    let shares: Vec<String> = found.shares.values().map(usize::to_string).collect();
    println!("shares by worker and thread: {}; least / largest {:.3}", shares.join(" "), least_share);
    println!("releases {:?}, lost {:?}, stale grants {}", found.releases, found.lost, found.stale);
    println!("longest wait of a live waiter {:.3} s", found.longest_wait.as_secs_f64());
    println!("longest gap from {}", found.longest_gap_from);
    found.overlaps.iter().take(10).for_each(|(one, other)| println!("overlap: {one:?} {other:?}"));
    found.regressions.iter().take(10).for_each(|(one, other)| println!("regression: {one:?} {other:?}"));
    found.hung.iter().take(10).for_each(|wait| println!("hung: {wait:?}"));
    found.failures.iter().take(10).for_each(|error| println!("failure: {error}"));
    left.iter().take(10).for_each(|key| println!("orphan: {key}"));
}

struct Limits(bool);

impl Limits {
    fn at_most(&mut self, name: &str, value: f64, limit: f64) {
        self.note(name, value, limit, value <= limit);
    }

    fn at_least(&mut self, name: &str, value: f64, limit: f64) {
        self.note(name, value, limit, value >= limit);
    }

    fn note(&mut self, name: &str, value: f64, limit: f64, good: bool) {
        println!("SOAK {name} {value} {limit} {}", if good { "ok" } else { "over" });
        self.0 &= good;
    }
}
