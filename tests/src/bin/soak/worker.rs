//! A worker process: threads that take one lock, hold it shortly, release it, and write everything down.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Client, Guard, Lock, LockOptions, LostReason};
use redlatch_tests::history::{Event, Journal, NOTHING, now};

use crate::{LOCK, TTL};

/// How long the lock is held, in µs.
const HOLD: std::ops::RangeInclusive<u64> = 200..=5_000;

/// What a worker is told on its command line, after the subcommand.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) journal: PathBuf,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

impl Orders {
    pub(crate) fn words(&self) -> [String; 4] {
        let journal = self.journal.display().to_string();
        [self.url.clone(), journal, self.seed.to_string(), self.threads.to_string()]
    }

    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Option<Orders> {
        let (url, journal) = (words.next()?, words.next()?.into());
        let (seed, threads) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Orders { url, journal, seed, threads })
    }
}

/// Works until standard input ends, then until every thread has had the lock once more.
pub(crate) fn run(orders: &Orders) {
    let client = Client::open(&orders.url).expect("the URL is valid");
    let lock = client.lock_with(LOCK, LockOptions::new().ttl(TTL)).expect("the options are valid");
    let journal = Arc::new(Journal::create(&orders.journal).expect("the journal is new"));
    let stopping = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..orders.threads)
        .map(|thread| {
            let (lock, journal, stopping) = (lock.clone(), journal.clone(), stopping.clone());
            let mut holds = fastrand::Rng::with_seed(orders.seed.wrapping_add(thread as u64));
            thread::spawn(move || {
                while !stopping.load(Ordering::Relaxed) {
                    take(&lock, &journal, thread, Duration::from_micros(holds.u64(HOLD)));
                }
                journal.note(thread, 0, Event::Done { at: now() });
            })
        })
        .collect();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    stopping.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a thread of a worker does not panic");
    }
}

fn take(lock: &Lock, journal: &Journal, thread: usize, hold: Duration) {
    journal.note(thread, 0, Event::Waits { at: now() });
    match lock.acquire() {
        Ok(guard) => keep(guard, journal, thread, hold),
        Err(error) => {
            journal.note(thread, 0, Event::Failed { at: now(), error: error.to_string() });
            // An error that comes at once must not fill the disk.
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Every time that is written down is read before the guard is asked, so that the answer holds for it.
fn keep(guard: Guard, journal: &Journal, thread: usize, hold: Duration) {
    let granted = now();
    let deadline = granted + guard.remaining().as_nanos() as u64;
    if guard.is_held() {
        journal.note(thread, 0, Event::Granted { at: granted, deadline, fence: guard.fence() });
        thread::sleep(hold);
        let before = now();
        let (at, lost) = match guard.lost() {
            None => (before, NOTHING),
            Some(reason @ LostReason::Expired) => (before.min(deadline), reason.as_str()),
            Some(reason) => (before, reason.as_str()),
        };
        journal.note(thread, 0, Event::Ends { at, lost: lost.to_owned() });
    } else {
        journal.note(thread, 0, Event::Stale { at: granted });
    }
    let outcome = match guard.release() {
        Ok(released) => format!("{released:?}"),
        Err(redlatch::Error::Lost(info)) => info.reason().as_str().to_owned(),
        Err(error) => format!("error: {error}"),
    };
    journal.note(thread, 0, Event::Released { at: now(), outcome });
}
