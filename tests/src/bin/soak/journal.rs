//! What a worker writes down, one line an event, so that every line outlives the worker's own death.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock that all processes of the machine share and that counts suspended time.
pub(crate) type Nanos = u64;

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One line of a journal: which thread, and what happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) thread: usize,
    pub(crate) event: Event,
}

/// Events of one thread. Each is written before the thread goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is about to ask for the lock.
    Waits { at: Nanos },
    /// The lock was granted and its guard said, after `at` was read, that it is valid.
    Granted { at: Nanos, deadline: Nanos, fence: u64 },
    /// The lock was granted, but the thread stalled so long that its guard called it lost at the first look.
    Stale { at: Nanos },
    /// It holds the lock until `at`, read just before release is called; a lost lease: until its deadline, or until the
    /// loss was noticed.
    Ends { at: Nanos, lost: String },
    /// How the release went.
    Released { at: Nanos, outcome: String },
    /// The acquire failed.
    Failed { at: Nanos, error: String },
    /// The thread has ended in good order.
    Done { at: Nanos },
}

/// What stands where there is nothing to tell.
pub(crate) const NOTHING: &str = "-";

impl Record {
    fn parse(line: &str) -> Option<Record> {
        let mut words = line.splitn(4, ' ');
        let (thread, verb, at) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
        let rest = words.next()?;
        let event = match verb {
            "waits" => Event::Waits { at },
            "granted" => {
                let (deadline, fence) = rest.split_once(' ')?;
                Event::Granted { at, deadline: deadline.parse().ok()?, fence: fence.parse().ok()? }
            }
            "stale" => Event::Stale { at },
            "ends" => Event::Ends { at, lost: rest.to_owned() },
            "released" => Event::Released { at, outcome: rest.to_owned() },
            "failed" => Event::Failed { at, error: rest.to_owned() },
            "done" => Event::Done { at },
            _ => return None,
        };
        Some(Record { thread, event })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread;
        match &self.event {
            Event::Waits { at } => write!(f, "{thread} waits {at} {NOTHING}"),
            Event::Granted { at, deadline, fence } => write!(f, "{thread} granted {at} {deadline} {fence}"),
            Event::Stale { at } => write!(f, "{thread} stale {at} {NOTHING}"),
            Event::Ends { at, lost } => write!(f, "{thread} ends {at} {lost}"),
            Event::Released { at, outcome } => write!(f, "{thread} released {at} {outcome}"),
            Event::Failed { at, error } => write!(f, "{thread} failed {at} {error}"),
            Event::Done { at } => write!(f, "{thread} done {at} {NOTHING}"),
        }
    }
}

/// A worker's open journal, shared by its threads.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn create(path: &Path) -> io::Result<Journal> {
        File::options().append(true).create_new(true).open(path).map(Journal)
    }

    /// Appends one line by one system call: it is whole or it is not there, whenever the process is killed.
    pub(crate) fn note(&self, thread: usize, event: Event) {
        let mut line = Record { thread, event }.to_string().replace('\n', " ");
        line.push('\n');
        let written = (&self.0).write(line.as_bytes()).expect("the journal is writable");
        assert_eq!(written, line.len(), "a line is written at once");
    }
}

/// Reads a journal back; panics on a line that no worker writes.
pub(crate) fn read(path: &Path) -> Vec<Record> {
    // A worker that was killed at once has none.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let record = |line: &str| Record::parse(line).unwrap_or_else(|| panic!("{}: {line:?}", path.display()));
    text.lines().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_as_it_was_written() {
        let events = [
            Event::Waits { at: 1 },
            Event::Granted { at: 2, deadline: 3, fence: 4 },
            Event::Stale { at: 5 },
            Event::Ends { at: 6, lost: NOTHING.to_owned() },
            Event::Released { at: 7, outcome: "Ok(Released)".to_owned() },
            Event::Failed { at: 8, error: "no usable answer for 3 s".to_owned() },
            Event::Done { at: 9 },
        ];
        for event in events {
            let record = Record { thread: 3, event };
            assert_eq!(Record::parse(&record.to_string()), Some(record));
        }
        for line in ["", "1 waits", "x waits 1 -", "1 granted 2 3", "1 sleeps 2 -"] {
            assert_eq!(Record::parse(line), None, "{line:?}");
        }
    }
}
