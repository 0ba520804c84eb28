//! From the start of a process to its first lock, acquired and released.

use std::process::Command;

use redlatch::{Client, Released};
use redlatch_tests::Interpreter;
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, rounds_in_turns};
use rustix::time::{ClockId, clock_gettime};

use crate::{Stage, c};

/// The first argument that makes this program the one in Rust, so that no other need be built.
pub(crate) const PROGRAM: &str = "first-lock";

pub(crate) fn run(stage: &Stage, report: &mut Report) -> Result<(), String> {
    let interpreter = Interpreter::find("src/bin/bench/python/player.py")?;
    report.about(interpreter.about());
    let (url, extent) = (stage.server.url(), stage.extent);
    let c_program = c::c_program();
    let mut rust = Command::new(std::env::current_exe().expect("this program has a path"));
    rust.args([PROGRAM, &url]);
    let mut c = Command::new(c_program.path());
    c.args([&url, "first"]);
    let python = |script: &'static str| {
        let mut command = Command::new(interpreter.program());
        command.args(Interpreter::arguments_of(script, &url));
        command
    };
    let mut redlatch = python("src/bin/bench/start/first_redlatch.py");
    let mut redis_py = python("src/bin/bench/start/first_redis_py.py");
    measure(extent, [&mut rust, &mut c, &mut redlatch, &mut redis_py], report);
    Ok(())
}

fn measure(extent: Extent, [rust, c, redlatch, redis_py]: [&mut Command; 4], report: &mut Report) {
    let starts = rounds_in_turns(
        extent.pick(5, 100),
        &mut [&mut || Start::of(rust), &mut || Start::of(c), &mut || Start::of(redlatch), &mut || Start::of(redis_py)],
    );
    let names = ["Rust", "C", "Python", "Python, redis-py's Lock"];
    let mut rows = |what: &str, pick: fn(&Start) -> u64| {
        for (name, starts) in names.iter().zip(&starts) {
            report.row(format!("{name}: {what}"), Unit::Millis, spread(starts, pick));
        }
    };
    rows("process start to first lock, released", |it| it.released - it.begun);
    rows("open to first grant", |it| it.granted - it.ready);
    let [rust, c, redlatch, redis_py] = &starts;
    report.row("Python: until its first line", Unit::Millis, spread(redlatch, |it| it.started - it.begun));
    report.row("Python: import redlatch", Unit::Millis, spread(redlatch, |it| it.ready - it.started));
    report.row("Python: import redis", Unit::Millis, spread(redis_py, |it| it.ready - it.started));
    let whole = |starts: &[Start]| starts.iter().map(|it| (it.released - it.begun) as f64).collect::<Vec<f64>>();
    report.ratio("cold_start_c_per_rust", Spread::of_ratios(&whole(c), &whole(rust)), Limit::None);
    report.ratio("cold_start_python_per_redis_py", Spread::of_ratios(&whole(redlatch), &whole(redis_py)), Limit::None);
}

fn spread(starts: &[Start], pick: fn(&Start) -> u64) -> Spread {
    Spread::of(starts.iter().map(|it| pick(it) as f64).collect())
}

/// Instants on the clock that all processes share, in nanoseconds.
struct Start {
    /// Just before the process is started.
    begun: u64,
    /// Its own first instruction, or first line.
    started: u64,
    /// Everything is loaded, and no client is open yet.
    ready: u64,
    granted: u64,
    released: u64,
}

impl Start {
    /// Runs a program that tells its own four; on the core of this thread.
    fn of(command: &mut Command) -> Start {
        let begun = now();
        let output = command.output().expect("the program can be started");
        let told = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
        let instants: Vec<u64> = told.split_whitespace().map(|word| word.parse().expect("an instant")).collect();
        let [started, ready, granted, released] = instants[..] else { panic!("four instants: {told:?}") };
        assert!([begun, started, ready, granted, released].is_sorted(), "in their order: {told:?}");
        Start { begun, started, ready, granted, released }
    }
}

/// The program in Rust.
pub(crate) fn program(url: &str) {
    let started = now();
    let client = Client::open(url).expect("the URL is valid");
    let lock = client.lock("bench:first").expect("the name is valid");
    let guard = lock.acquire().expect("the lock is granted");
    let granted = now();
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
    println!("{started} {started} {granted} {}", now());
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
