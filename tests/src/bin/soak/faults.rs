//! Starts the workers, and kills and stops them at random.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use redlatch_tests::Process;
use redlatch_tests::history::{Life, Worker, now};

use crate::worker::Orders;
use crate::{Options, TTL, TURN, WORKERS};

/// Time from one fault to the next.
const EVERY: Duration = Duration::from_millis(700);
/// One fault in this many is a stop instead of a kill.
const STOPS: u64 = 4;
/// How long a process is stopped, in ms: always longer than the ttl, and often so long that others have passed over its
/// waiters and hold the lock when it goes on.
const STOPPED: std::ops::Range<u64> = 1_100..3_600;
/// How long a worker may take to end once it is told to, with every thread still in need of the lock.
const END_LIMIT: Duration = Duration::from_secs(8);

/// All workers of a run.
pub(crate) struct Crew<'a> {
    url: String,
    dir: &'a Path,
    threads: usize,
    dice: fastrand::Rng,
    running: Vec<Running>,
    ended: Vec<Worker>,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
}

struct Running {
    worker: Worker,
    /// When it goes on, while it is stopped.
    resumes: Option<Instant>,
}

impl<'a> Crew<'a> {
    pub(crate) fn start(url: String, dir: &'a Path, options: &Options) -> Crew<'a> {
        let (dice, threads) = (fastrand::Rng::with_seed(options.seed), options.threads);
        let mut crew = Crew { url, dir, threads, dice, running: Vec::new(), ended: Vec::new(), kills: 0, stops: 0 };
        for worker in 0..WORKERS {
            let started = crew.worker(worker);
            crew.running.push(started);
        }
        crew
    }

    fn worker(&mut self, worker: usize) -> Running {
        let number = self.ended.len() + self.running.len();
        let journal = self.dir.join(format!("worker-{worker}-life-{number}.log"));
        let (url, seed, threads) = (self.url.clone(), self.dice.u64(..), self.threads);
        let orders = Orders { url, journal: journal.clone(), seed, threads };
        let program = std::env::current_exe().expect("this program has a path");
        let process = Process::start(program, std::iter::once("worker".to_owned()).chain(orders.words()));
        Running { worker: Worker::new(worker, process, journal), resumes: None }
    }

    /// Lets the workers work until `end`, without or with faults.
    pub(crate) fn work_until(&mut self, end: Instant, faults: bool) {
        let mut next_fault = Instant::now() + EVERY;
        loop {
            let resumes = self.running.iter().filter_map(|it| it.resumes);
            let next = resumes.min().unwrap_or(end).min(if faults { next_fault } else { end }).min(end);
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            if now >= end {
                break;
            }
            self.running.iter_mut().filter(|it| it.resumes.is_some_and(|at| at <= now)).for_each(Running::resume);
            if faults && now >= next_fault {
                self.fault();
                next_fault += EVERY;
            }
        }
        self.running.iter_mut().for_each(Running::resume);
    }

    fn fault(&mut self) {
        let awake: Vec<usize> = (0..WORKERS).filter(|it| self.running[*it].resumes.is_none()).collect();
        let Some(worker) = self.dice.choice(awake) else { return };
        if self.dice.u64(..STOPS) == 0 {
            let span = Duration::from_millis(self.dice.u64(STOPPED));
            self.note(format_args!("stop worker {worker} for {span:?}"));
            self.running[worker].stop(span);
            self.stops += 1;
        } else {
            self.note(format_args!("kill worker {worker}"));
            let next = self.worker(worker);
            let mut killed = std::mem::replace(&mut self.running[worker], next);
            killed.worker.kill();
            self.ended.push(killed.worker);
            self.kills += 1;
        }
    }

    /// Writes a fault down, for whoever reads the journals.
    fn note(&self, what: std::fmt::Arguments<'_>) {
        let file = File::options().append(true).create(true).open(self.dir.join("faults.log"));
        let written = file.and_then(|mut file| writeln!(file, "{} {what}", now()));
        written.expect("the directory of the journals is writable");
    }

    /// Tells the workers to end; how many had to be killed.
    pub(crate) fn end(&mut self) -> usize {
        self.running.iter_mut().for_each(|it| it.worker.close_input());
        let limit = Instant::now() + END_LIMIT;
        let mut hanging = 0;
        for mut it in self.running.drain(..) {
            if let Err(complaint) = it.worker.end(limit) {
                hanging += 1;
                eprintln!("soak: {complaint}");
            }
            self.ended.push(it.worker);
        }
        hanging
    }

    /// Every life with its journal, once all have ended.
    pub(crate) fn lives(self) -> Vec<Life> {
        self.ended.into_iter().map(Worker::into_life).collect()
    }
}

impl Running {
    fn stop(&mut self, span: Duration) {
        self.resumes = Some(Instant::now() + span);
        self.worker.stop();
    }

    fn resume(&mut self) {
        self.resumes = None;
        self.worker.resume();
    }
}

/// How long keys of dead waiters and holders may stay.
pub(crate) const SETTLED: Duration = TTL.saturating_add(TURN);
