//! A worker process with a journal, which is stopped, killed and started again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Life, Nanos, now, read_journal};
use crate::Process;

/// A running worker, and when what was done to it.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    journal: PathBuf,
    life: Life,
    stopped: Option<Nanos>,
}

impl Worker {
    /// Watches `process`, which is number `worker` of the workers and writes `journal`.
    pub fn new(worker: usize, process: Process, journal: PathBuf) -> Worker {
        let life = Life { worker, pid: process.pid(), ..Life::default() };
        Worker { process, journal, life, stopped: None }
    }

    /// Which of the workers.
    pub fn number(&self) -> usize {
        self.life.worker
    }

    /// Stops it with SIGSTOP.
    pub fn stop(&mut self) {
        self.stopped = Some(now());
        self.process.pause();
    }

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Lets it go on, if it is stopped.
    pub fn resume(&mut self) {
        if let Some(from) = self.stopped.take() {
            self.process.resume();
            self.life.stops.push((from, now()));
        }
    }

    /// Kills it with SIGKILL, stopped or not.
    pub fn kill(&mut self) {
        self.process.kill9();
        // Read after the process is gone: until then it could rely on what it held.
        let dead = now();
        if let Some(from) = self.stopped.take() {
            self.life.stops.push((from, dead));
        }
        self.life.killed = Some(dead);
    }

    /// Closes its standard input, which tells it to end.
    pub fn close_input(&mut self) {
        self.process.close_input();
    }

    /// Waits until `limit` for its end in good order. Where that does not come it is killed, and the error says how it
    /// ended and what it had to say.
    pub fn end(&mut self, limit: Instant) -> Result<(), String> {
        let status = self.process.wait_exit(limit.saturating_duration_since(Instant::now()));
        if status.is_some_and(|status| status.success()) {
            return Ok(());
        }
        let ended = status.map_or("still ran".to_owned(), |status| status.to_string());
        let complaint = format!("worker {}: {ended}: {:?}", self.life.worker, self.process.error_lines());
        self.kill();
        self.life.hung = true;
        Err(complaint)
    }

    /// Waits at most `timeout` for a line of standard output that begins with `prefix`.
    pub fn says(&mut self, prefix: &str, timeout: Duration) -> bool {
        self.process.try_expect(prefix, timeout).is_some()
    }

    /// Its life with its journal, once it has ended.
    pub fn into_life(self) -> Life {
        Life { records: read_journal(&self.journal), ..self.life }
    }
}
