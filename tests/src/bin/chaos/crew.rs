//! The workers, in every language that is there.

use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redlatch_tests::c::{self, Recipe};
use redlatch_tests::history::{Life, Worker};
use redlatch_tests::{Interpreter, Process};

use crate::worker::Orders;
use crate::{IO_TIMEOUT, KEYS, TTL, WAIT};

/// Threads of each worker.
pub(crate) const THREADS: usize = 5;
/// How long a worker may take to end once it is told to: a wait, a long hold, and closing its client.
const END_LIMIT: Duration = Duration::from_secs(12);

/// A program that a worker can be.
pub(crate) enum Program {
    /// This one.
    Rust,
    /// `worker.py`.
    Python(Interpreter),
    /// `tests/cpp/chaos_worker.cpp`.
    Cpp(c::Program),
}

impl Program {
    /// Of all languages that are there, twice Rust and twice Python; and what is missing, in words.
    pub(crate) fn all() -> (Vec<Program>, Vec<String>) {
        let (mut programs, mut missing) = (vec![Program::Rust, Program::Rust], Vec::new());
        for _ in 0..2 {
            match Interpreter::find("src/bin/chaos/worker.py") {
                Ok(interpreter) => programs.push(Program::Python(interpreter)),
                Err(reason) => missing = vec![format!("no worker in Python: {reason}")],
            }
        }
        if c::has_tool(COMPILER) {
            programs.push(Program::Cpp(c::Program::new(&Recipe::cpp17(&["cpp/chaos_worker.cpp"]))));
        } else {
            missing.push(format!("no worker in C++: {COMPILER} is not installed"));
        }
        (programs, missing)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Program::Rust => "Rust",
            Program::Python(_) => "Python",
            Program::Cpp(_) => "C++",
        }
    }

    fn start(&self, orders: &Orders) -> Process {
        match self {
            Program::Rust => {
                let program = std::env::current_exe().expect("this program has a path");
                Process::start(program, std::iter::once("worker".to_owned()).chain(orders.words()))
            }
            Program::Python(python) => {
                Process::start(python.program(), python.arguments("work").into_iter().chain(orders.words()))
            }
            Program::Cpp(program) => Process::start(program.path(), orders.words()),
        }
    }
}

/// That of the recipe for C++.
const COMPILER: &str = "g++";

/// All workers of a phase.
pub(crate) struct Crew<'a> {
    programs: &'a [Program],
    url: String,
    store: &'a Path,
    dir: &'a Path,
    dice: Rng,
    running: Vec<Worker>,
    ended: Vec<Worker>,
}

impl<'a> Crew<'a> {
    pub(crate) fn start(programs: &'a [Program], url: String, store: &'a Path, dir: &'a Path, seed: u64) -> Crew<'a> {
        let (dice, running, ended) = (Rng::with_seed(seed), Vec::new(), Vec::new());
        let mut crew = Crew { programs, url, store, dir, dice, running, ended };
        for worker in 0..programs.len() {
            let started = crew.worker(worker);
            crew.running.push(started);
        }
        crew
    }

    fn worker(&mut self, worker: usize) -> Worker {
        let program = &self.programs[worker];
        let number = self.ended.len() + self.running.len();
        let journal = self.dir.join(format!("worker-{worker}-{}-life-{number}.log", program.name()));
        let orders = Orders {
            url: self.url.clone(),
            journal: journal.clone(),
            store: self.store.to_owned(),
            seed: self.dice.u64(..1 << 60),
            threads: THREADS,
            keys: KEYS,
            ttl: TTL,
            io_timeout: IO_TIMEOUT,
            wait: WAIT,
        };
        Worker::new(worker, program.start(&orders), journal)
    }

    /// Kills a worker and starts another one in its place.
    pub(crate) fn kill(&mut self, worker: usize) {
        let next = self.worker(worker);
        let mut killed = std::mem::replace(&mut self.running[worker], next);
        killed.kill();
        self.ended.push(killed);
    }

    pub(crate) fn stop(&mut self, worker: usize) {
        self.running[worker].stop();
    }

    pub(crate) fn resume(&mut self, worker: usize) {
        self.running[worker].resume();
    }

    /// Tells the workers to end; what those had to say that did not.
    pub(crate) fn end(&mut self) -> Vec<String> {
        self.running.iter_mut().for_each(Worker::close_input);
        let limit = Instant::now() + END_LIMIT;
        let mut hanging = Vec::new();
        for mut it in self.running.drain(..) {
            hanging.extend(it.end(limit).err());
            self.ended.push(it);
        }
        hanging
    }

    /// Every life with its journal, once all have ended.
    pub(crate) fn lives(self) -> Vec<Life> {
        self.ended.into_iter().map(Worker::into_life).collect()
    }
}
