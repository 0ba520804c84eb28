//! What the fault tests share: one clock for all processes, losses as callbacks report them, and the worker.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redlatch::{LockOptions, LostInfo, LostReason};
use redlatch_tests::{Monitor, MonitorLine, Process, Server, ServerKind, any_server, assert_eventually, available};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Runs against one server: the timelines are the same on each kind.
pub(crate) fn with_server(body: impl FnOnce(&Server)) {
    if let Some(kind) = any_server() {
        body(&Server::start(kind));
    }
}

/// Runs against every kind at once, for timelines in which servers differ.
pub(crate) fn every_kind_at_once(body: impl Fn(ServerKind) + Sync) {
    thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> = available().into_iter().map(|kind| (kind, scope.spawn(move || body(kind)))).collect();
        for (kind, thread) in running {
            if let Err(panic) = thread.join() {
                eprintln!("on {kind}:");
                resume_unwind(panic);
            }
        }
    });
}

pub(crate) fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Time on the suspend-aware clock of the machine, which all processes share, in ms.
pub(crate) fn now_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Sleeps until an instant of [`now_ms`]: a step of a timeline.
pub(crate) fn sleep_until_ms(instant: f64) {
    thread::sleep(Duration::from_secs_f64(((instant - now_ms()) / 1e3).max(0.0)));
}

/// What a holder gives up of its ttl: the deadline lies this much before the last good send plus ttl.
pub(crate) fn margin_ms(ttl: Duration) -> f64 {
    ttl.as_secs_f64() * 10.0 + 2.0
}

/// The deadline of a lease, from a look at what remains of it, as an instant of [`now_ms`].
pub(crate) fn deadline_ms(remaining: impl FnOnce() -> Duration) -> f64 {
    let now = now_ms();
    now + remaining().as_secs_f64() * 1e3
}

/// Losses as `on_lost` callbacks report them, each with its time.
#[derive(Clone, Default)]
pub(crate) struct Losses(Arc<Mutex<Vec<(LostInfo, f64)>>>);

impl Losses {
    /// Options with this ttl and a callback that records here.
    pub(crate) fn options(&self, ttl: Duration) -> LockOptions {
        let losses = self.clone();
        LockOptions::new().ttl(ttl).on_lost(move |info| losses.record(info))
    }

    pub(crate) fn record(&self, info: &LostInfo) {
        let at = now_ms();
        self.0.lock().unwrap().push((info.clone(), at));
    }

    pub(crate) fn all(&self) -> Vec<(LostInfo, f64)> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for the first loss of this lock, and returns its reason and time.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str, timeout: Duration) -> (LostReason, f64) {
        let find = || self.all().into_iter().find(|(info, _)| info.name() == name);
        assert_eventually(&format!("{name} is reported as lost"), timeout, || find().is_some());
        find().map(|(info, at)| (info.reason(), at)).unwrap()
    }

    #[track_caller]
    pub(crate) fn assert_none(&self) {
        assert!(self.all().is_empty(), "{:?}", self.all());
    }
}

/// Whether a command is a renewal: its keys are locks and a probe, while acquire and release name a tombstone as well.
pub(crate) fn is_renewal(line: &MonitorLine) -> bool {
    let script = line.is("EVALSHA") || line.is("EVAL");
    script && line.mentions(":redlatch:probe") && !line.mentions(":redlatch:gone:")
}

/// How many renewals clients have sent since the monitor began or was cleared.
pub(crate) fn renewals(monitor: &Monitor) -> usize {
    monitor.wait_idle();
    monitor.count(is_renewal)
}

/// The helper process, steered by lines; `tests/src/bin/worker.rs` documents them.
pub(crate) struct Worker(Process);

/// A line of the worker: `word name=value …`.
#[derive(Clone, Debug)]
pub(crate) struct Line(String);

impl Worker {
    /// Starts a worker with a client of this URL and these options of `open`.
    pub(crate) fn start(url: &str, options: &str) -> Worker {
        let mut worker = Worker(Process::start(env!("CARGO_BIN_EXE_worker"), [""; 0]));
        worker.0.expect("ready", 10 * SECOND);
        worker.ask(&format!("open {url} {options}"), "opened");
        worker
    }

    /// Sends a command and waits for the answer that begins with `word`.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str, word: &str) -> Line {
        self.0.send(command);
        self.expect(word, 60 * SECOND)
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, word: &str, timeout: Duration) -> Line {
        Line(self.0.expect(&format!("{word} "), timeout))
    }

    /// All lines with this word so far.
    pub(crate) fn all(&self, word: &str) -> Vec<Line> {
        let mut lines = self.0.lines();
        lines.retain(|line| line.split(' ').next() == Some(word));
        lines.into_iter().map(Line).collect()
    }

    /// Lines of its log.
    pub(crate) fn log(&self) -> Vec<String> {
        self.0.error_lines()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.0
    }
}

impl Line {
    /// The text of a field; panics when the line has none of this name.
    #[track_caller]
    pub(crate) fn text(&self, field: &str) -> &str {
        if let ("text", Some((_, text))) = (field, self.0.split_once(" text=")) {
            return text;
        }
        let value = self.0.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {field} in {:?}", self.0))
    }

    /// Whether the line has a field of this name.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.split(' ').any(|word| word.strip_prefix(field).is_some_and(|rest| rest.starts_with('=')))
    }

    /// A field as a number.
    #[track_caller]
    pub(crate) fn number(&self, field: &str) -> f64 {
        self.text(field).parse().unwrap_or_else(|_| panic!("{field} is no number in {:?}", self.0))
    }

    /// A field as a whole number.
    #[track_caller]
    pub(crate) fn count(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or_else(|_| panic!("{field} is no whole number in {:?}", self.0))
    }
}
