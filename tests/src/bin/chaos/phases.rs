//! The parts of a run, one after another, each with a server of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use redlatch_tests::history::{self, Story};
use redlatch_tests::{ServerKind, available};

use crate::arena::Arena;
use crate::checker::{self, Evidence, Rules, Violation};
use crate::crew::{Crew, Program};
use crate::following::follow;
use crate::leftovers::leftovers;
use crate::options::Options;
use crate::plan::{self, Fault, Phase, Planned};
use crate::report::{Limits, Part};
use crate::store::Store;
use crate::{SLACK, TTL, TURN, WAIT};

/// At the end of each part, without faults: who waits must be served.
const CALM: Duration = Duration::from_secs(2);
/// Sentinels take their time: with fewer seconds than these there is no failover.
const LONG: f64 = 100.0;
const RULES: Rules =
    Rules { ttl: TTL, stepped: Duration::ZERO, turn: TURN, wait: WAIT, poll: Duration::from_millis(240), slack: SLACK };
/// Where Debian and others put libfaketime.
const FAKETIME: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// Runs all parts; whether every value is within its limit. An error says why the run cannot begin.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let kinds = available();
    let Some(first) = kinds.get(options.seed as usize % kinds.len().max(1)).copied() else {
        return Err("no server is installed; `make setup` installs one".to_owned());
    };
    let (programs, mut missing) = Program::all();
    let python = python_of(&programs)?;
    let faketime = FAKETIME.into_iter().map(Path::new).find(|path| path.is_file());
    let stepping = if !kinds.contains(&ServerKind::Valkey91) {
        Err(format!("no steps of the clock: {} is not installed", ServerKind::Valkey91))
    } else {
        faketime.ok_or("no steps of the clock: libfaketime is not installed".to_owned())
    };
    let mut parts = vec![(Phase::Faithful, first, None), (Phase::Forgetful, first, None)];
    match stepping {
        Ok(library) => parts.push((Phase::Stepping, ServerKind::Valkey91, Some(library))),
        Err(reason) => missing.push(reason),
    }
    if options.seconds >= LONG || options.only == Some(Phase::Failover) {
        parts.push((Phase::Failover, first, None));
    } else {
        missing.push(format!("no failover: it takes a run of {LONG} s"));
    }
    parts.retain(|(phase, ..)| options.only.is_none_or(|only| *phase == only));
    let languages: Vec<&str> = programs.iter().map(Program::name).collect();
    println!("seed {}, {} s, workers {}", options.seed, options.seconds, languages.join(" "));
    missing.iter().for_each(|what| println!("left out: {what}"));

    let dir = std::env::temp_dir().join(format!("redlatch-chaos-{}", std::process::id()));
    let mut limits = Limits::default();
    for (number, (phase, kind, library)) in parts.into_iter().enumerate() {
        let dir = dir.join(phase.name());
        fs::create_dir_all(&dir).expect("the temporary directory is writable");
        let length = Duration::from_secs_f64(
            options.seconds * if options.only.is_some() { 1.0 } else { share(phase, options.seconds) },
        );
        let seed = options.seed.wrapping_mul(31).wrapping_add(number as u64);
        let schedule = plan::draw(phase, length.saturating_sub(CALM), programs.len(), seed);
        let arena = Arena::start(phase, kind, library, &dir);
        let part = play(phase, length, &schedule, arena, &programs, &python, &dir, seed);
        part.describe(kind);
        limits.take(&part);
    }
    let good = limits.judge();
    if good && !options.keep {
        let _ = fs::remove_dir_all(&dir);
    } else {
        println!("seed {}, journals in {}", options.seed, dir.display());
    }
    Ok(good)
}

/// Which part of the time a phase gets.
fn share(phase: Phase, seconds: f64) -> f64 {
    match phase {
        Phase::Faithful if seconds < LONG => 0.6,
        Phase::Faithful => 0.4,
        Phase::Forgetful | Phase::Stepping | Phase::Failover => 0.2,
    }
}

/// Any Python 3 serves the store, which needs nothing but the standard library.
fn python_of(programs: &[Program]) -> Result<PathBuf, String> {
    let found = programs.iter().find_map(|program| match program {
        Program::Python(interpreter) => Some(interpreter.program().to_owned()),
        _ => None,
    });
    let on_path = || {
        let asked = std::process::Command::new("python3").arg("--version").output();
        asked.ok().filter(|asked| asked.status.success()).map(|_| PathBuf::from("python3"))
    };
    found.or_else(on_path).ok_or_else(|| "no python3 on PATH, which the fenced store needs".to_owned())
}

#[expect(clippy::too_many_arguments, reason = "called once, with everything that a part consists of")]
fn play(
    phase: Phase,
    length: Duration,
    schedule: &[Planned],
    mut arena: Arena,
    programs: &[Program],
    python: &Path,
    dir: &Path,
    seed: u64,
) -> Part {
    let store = Store::start(python, dir);
    let mut crew = Crew::start(programs, arena.url(), store.socket(), dir, seed);
    follow(schedule, length, &mut arena, &mut crew);
    let complaints = crew.end();
    let end = history::now();
    // A step back lets keys from before stay for longer.
    let stepped = if phase == Phase::Stepping { Duration::from_millis(2_500) } else { Duration::ZERO };
    let rules = Rules { stepped, ..RULES };
    arena.look_now();
    thread::sleep(TTL + stepped + SLACK);
    arena.look_now();
    let unplanned = arena.close(dir);
    let lives = crew.lives();
    let killed: Vec<u32> = lives.iter().filter(|life| life.killed.is_some()).map(|life| life.pid).collect();
    let leftovers = leftovers(arena.server(), &killed);
    let stops = lives.iter().flat_map(|life| life.stops.iter().map(|span| (life.worker, *span))).collect();
    let story = Story::of(&lives, end);
    let mut evidence = Evidence {
        story,
        stops,
        outages: std::mem::take(&mut arena.outages),
        forgiven: std::mem::take(&mut arena.forgiven),
        served: store.end(),
        seen: std::mem::take(&mut arena.seen),
        ended: end,
    };
    let found = checker::check(&evidence, &rules);
    let watched = checker::watched(&evidence, &rules);
    evidence.forgiven.clear();
    let strict = checker::check(&evidence, &rules);
    let overlaps = strict.iter().filter(|it| matches!(it, Violation::Overlap(..))).count();
    let missing = if length >= phase.full_round() + CALM { missing(phase, &arena.happened) } else { Vec::new() };
    let happened = std::mem::take(&mut arena.happened);
    Part { phase, evidence, found, overlaps, watched, happened, missing, leftovers, complaints, unplanned }
}

fn missing(phase: Phase, happened: &BTreeMap<Fault, usize>) -> Vec<Fault> {
    let wanted = phase.deck().iter().chain(&[Fault::KillWorker, Fault::StopWorker]);
    wanted.filter(|fault| !happened.contains_key(fault)).copied().collect()
}
