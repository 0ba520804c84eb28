//! What a worker writes down, one line an event, so that every line outlives the worker's own death.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::Nanos;

/// One line of a journal: which thread, which lock, and what happened.
///
/// As text: `<thread> <verb> <at> <key> <rest>`, where the rest of most verbs is [`NOTHING`]. Workers in other languages
/// write the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the thread in its process, from 0.
    pub thread: usize,
    /// Number of the lock, from 0.
    pub key: usize,
    /// What happened.
    pub event: Event,
}

/// Events of one thread. Each is written before the thread goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `waits`: it is about to ask for the lock.
    Waits {
        /// Read before the call.
        at: Nanos,
    },
    /// `granted`, deadline, fence: the lock was granted and said, after `at` was read, that it is valid.
    Granted {
        /// Read before the lock was asked.
        at: Nanos,
        /// Until when it is valid, as far as is known now.
        deadline: Nanos,
        /// The fence of the lease.
        fence: u64,
    },
    /// `stale`: the lock was granted, but the thread stalled so long that it was lost at the first look.
    Stale {
        /// Read before the lock was asked.
        at: Nanos,
    },
    /// `holds`, deadline: the lease was still valid after `at` was read, and its deadline had moved.
    Holds {
        /// Read before the lock was asked.
        at: Nanos,
        /// Until when it is valid, as far as is known now.
        deadline: Nanos,
    },
    /// `refused`: a fenced store refused the holder, and after that the lease was still valid.
    Refused {
        /// Read before the lock was asked.
        at: Nanos,
    },
    /// `ends`, reason of the loss: it could rely on the lock until `at`, read just before release is called; a lost
    /// lease: until its last known deadline, or until the loss was noticed.
    Ends {
        /// The end of its validity.
        at: Nanos,
        /// Why the lease was lost, [`NOTHING`] when it was not.
        lost: String,
    },
    /// `released`, outcome: how the release went.
    Released {
        /// Read after the call.
        at: Nanos,
        /// In words.
        outcome: String,
    },
    /// `busy`: the time to wait was over, and someone else had the lock.
    Busy {
        /// Read after the call.
        at: Nanos,
    },
    /// `failed`, error: the acquire failed.
    Failed {
        /// Read after the call.
        at: Nanos,
        /// The first word is the kind of the error.
        error: String,
    },
    /// `done`: the thread has ended in good order.
    Done {
        /// The last thing it does.
        at: Nanos,
    },
}

/// What stands where there is nothing to tell.
pub const NOTHING: &str = "-";

impl Record {
    fn parse(line: &str) -> Option<Record> {
        let mut words = line.splitn(5, ' ');
        let (thread, verb, at) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
        let (key, rest) = (words.next()?.parse().ok()?, words.next()?);
        let event = match verb {
            "waits" => Event::Waits { at },
            "granted" => {
                let (deadline, fence) = rest.split_once(' ')?;
                Event::Granted { at, deadline: deadline.parse().ok()?, fence: fence.parse().ok()? }
            }
            "stale" => Event::Stale { at },
            "holds" => Event::Holds { at, deadline: rest.parse().ok()? },
            "refused" => Event::Refused { at },
            "ends" => Event::Ends { at, lost: rest.to_owned() },
            "released" => Event::Released { at, outcome: rest.to_owned() },
            "busy" => Event::Busy { at },
            "failed" => Event::Failed { at, error: rest.to_owned() },
            "done" => Event::Done { at },
            _ => return None,
        };
        Some(Record { thread, key, event })
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, at, rest) = match &self.event {
            Event::Waits { at } => ("waits", at, NOTHING.to_owned()),
            Event::Granted { at, deadline, fence } => ("granted", at, format!("{deadline} {fence}")),
            Event::Stale { at } => ("stale", at, NOTHING.to_owned()),
            Event::Holds { at, deadline } => ("holds", at, deadline.to_string()),
            Event::Refused { at } => ("refused", at, NOTHING.to_owned()),
            Event::Ends { at, lost } => ("ends", at, lost.clone()),
            Event::Released { at, outcome } => ("released", at, outcome.clone()),
            Event::Busy { at } => ("busy", at, NOTHING.to_owned()),
            Event::Failed { at, error } => ("failed", at, error.clone()),
            Event::Done { at } => ("done", at, NOTHING.to_owned()),
        };
        write!(f, "{} {verb} {at} {} {rest}", self.thread, self.key)
    }
}

/// A worker's open journal, shared by its threads.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens a journal that does not exist yet.
    pub fn create(path: &Path) -> io::Result<Journal> {
        File::options().append(true).create_new(true).open(path).map(Journal)
    }

    /// Appends one line by one system call: it is whole or it is not there, whenever the process is killed. Panics when
    /// the file cannot be written.
    pub fn note(&self, thread: usize, key: usize, event: Event) {
        let mut line = Record { thread, key, event }.to_string().replace('\n', " ");
        line.push('\n');
        let written = (&self.0).write(line.as_bytes()).expect("the journal is writable");
        assert_eq!(written, line.len(), "a line is written at once");
    }
}

/// Reads a journal back; panics on a line that no worker writes.
pub fn read_journal(path: &Path) -> Vec<Record> {
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
            Event::Holds { at: 6, deadline: 7 },
            Event::Refused { at: 8 },
            Event::Ends { at: 9, lost: NOTHING.to_owned() },
            Event::Released { at: 10, outcome: "Ok(Released)".to_owned() },
            Event::Busy { at: 11 },
            Event::Failed { at: 12, error: "no usable answer for 3 s".to_owned() },
            Event::Done { at: 13 },
        ];
        for event in events {
            let record = Record { thread: 3, key: 7, event };
            assert_eq!(Record::parse(&record.to_string()), Some(record));
        }
        for line in ["", "1 waits", "1 waits 1", "1 waits 1 0", "x waits 1 0 -", "1 granted 2 0 3", "1 sleeps 2 0 -"] {
            assert_eq!(Record::parse(line), None, "{line:?}");
        }
    }
}
