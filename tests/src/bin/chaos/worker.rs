//! A worker process: threads that take locks at random, write to the fenced store under them, and note what they do.
//!
//! Workers in other languages do the same, told the same on their command line: URL, journal, socket of the store, seed,
//! number of threads, number of locks, ttl in ms, I/O timeout in ms, longest wait in ms. They work until standard input ends.
//! The lock with number `n` is named `chaos:n`, and the lines of the journal are those of [`Record`](redlatch_tests::history::Record).

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Client, Error, Guard, Lock, LockOptions, LostReason, Released};
use redlatch_tests::history::{Event, Journal, NOTHING, now};

use crate::store::Connection;

/// Time from one look at a held lock to the next.
const LOOK: Duration = Duration::from_millis(20);

/// What a worker is told.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) journal: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) keys: usize,
    pub(crate) ttl: Duration,
    pub(crate) io_timeout: Duration,
    pub(crate) wait: Duration,
}

impl Orders {
    pub(crate) fn words(&self) -> Vec<String> {
        let millis = |time: Duration| time.as_millis().to_string();
        vec![
            self.url.clone(),
            self.journal.display().to_string(),
            self.store.display().to_string(),
            self.seed.to_string(),
            self.threads.to_string(),
            self.keys.to_string(),
            millis(self.ttl),
            millis(self.io_timeout),
            millis(self.wait),
        ]
    }

    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Option<Orders> {
        let (url, journal, store) = (words.next()?, words.next()?.into(), words.next()?.into());
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seed, threads, keys) = (number()?, number()? as usize, number()? as usize);
        let mut millis = || number().map(Duration::from_millis);
        let (ttl, io_timeout, wait) = (millis()?, millis()?, millis()?);
        Some(Orders { url, journal, store, seed, threads, keys, ttl, io_timeout, wait })
    }
}

/// Works until standard input ends.
pub(crate) fn run(orders: &Orders) {
    let builder = Client::builder(&orders.url).connect_timeout(orders.io_timeout).io_timeout(orders.io_timeout);
    let client = builder.build().expect("the options are valid");
    let options = LockOptions::new().ttl(orders.ttl);
    let lock = |key| client.lock_with(&format!("chaos:{key}"), options.clone()).expect("the name is valid");
    let locks: Vec<Lock> = (0..orders.keys).map(lock).collect();
    let journal = Journal::create(&orders.journal).expect("the journal is new");
    let stopping = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..orders.threads {
            let dice = Rng::with_seed(orders.seed.wrapping_add(thread as u64));
            let store = Connection::open(&orders.store).expect("the store serves");
            let mut hand = Hand { thread, wait: orders.wait, locks: &locks, journal: &journal, store, dice };
            let stopping = &stopping;
            scope.spawn(move || {
                while !stopping.load(Ordering::Relaxed) {
                    hand.turn();
                }
                hand.journal.note(thread, 0, Event::Done { at: now() });
            });
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopping.store(true, Ordering::Relaxed);
    });
    client.close();
}

/// One thread of a worker.
struct Hand<'a> {
    thread: usize,
    wait: Duration,
    locks: &'a [Lock],
    journal: &'a Journal,
    store: Connection,
    dice: Rng,
}

impl Hand<'_> {
    fn turn(&mut self) {
        thread::sleep(Duration::from_millis(self.dice.u64(..20)));
        let key = self.choose();
        self.note(key, Event::Waits { at: now() });
        match self.locks[key].try_acquire_for(self.wait) {
            Ok(Some(guard)) => self.keep(key, guard),
            Ok(None) => self.note(key, Event::Busy { at: now() }),
            Err(error) => {
                let kind = if matches!(error, Error::Unavailable { .. }) { "unavailable" } else { "other" };
                self.note(key, Event::Failed { at: now(), error: format!("{kind} {error}") });
            }
        }
    }

    /// The first fifth of the locks is crowded. Those of the last fifth are quiet: seldom asked for and held for long, so that
    /// nobody comes along who would wake a waiter that sleeps on.
    fn choose(&mut self) -> usize {
        let fifth = self.locks.len().div_ceil(5);
        match self.dice.u8(..100) {
            0..4 => self.locks.len() - 1 - self.dice.usize(..fifth),
            4..24 => self.dice.usize(..fifth),
            _ => self.dice.usize(..self.locks.len() - fifth),
        }
    }

    /// Every time that is written down is read before the guard is asked, so that the answer holds for it.
    fn keep(&mut self, key: usize, guard: Guard) {
        let granted = now();
        let mut deadline = granted + guard.remaining().as_nanos() as u64;
        if guard.is_held() {
            self.note(key, Event::Granted { at: granted, deadline, fence: guard.fence() });
            self.work(key, &guard, &mut deadline);
            let before = now();
            let (at, lost) = match guard.lost() {
                None => (before, NOTHING),
                Some(reason @ LostReason::Expired) => (before.min(deadline), reason.as_str()),
                Some(reason) => (before, reason.as_str()),
            };
            self.note(key, Event::Ends { at, lost: lost.to_owned() });
        } else {
            self.note(key, Event::Stale { at: granted });
        }
        let outcome = match guard.release() {
            Ok(Released::Released) => "released".to_owned(),
            Ok(Released::Unconfirmed) => "unconfirmed".to_owned(),
            Ok(Released::StillHeld(_)) => "still_held".to_owned(),
            Err(Error::Lost(info)) => info.reason().as_str().to_owned(),
            Err(error) => format!("error {error}"),
        };
        self.note(key, Event::Released { at: now(), outcome });
    }

    /// Reads the row and writes it some time later; a reckless one does not ask in between whether it still may.
    fn work(&mut self, key: usize, guard: &Guard, deadline: &mut u64) {
        let Some(version) = self.store.begin(key, guard.fence()).expect("the store serves") else {
            return self.refused(key, guard);
        };
        self.hold(key, guard, deadline);
        let reckless = self.dice.bool();
        if (reckless || guard.check().is_ok())
            && self.store.write(key, guard.fence(), version).expect("the store serves").is_none()
        {
            self.refused(key, guard);
        }
    }

    /// Mostly short; now and then longer than the ttl, so that the lease is renewed.
    fn hold(&mut self, key: usize, guard: &Guard, deadline: &mut u64) {
        let quiet = key >= self.locks.len() - self.locks.len().div_ceil(5);
        let mut left = Duration::from_micros(match self.dice.u8(..100) {
            _ if quiet => self.dice.u64(300_000..900_000),
            0..85 => self.dice.u64(200..8_000),
            85..98 => self.dice.u64(20_000..120_000),
            _ => self.dice.u64(1_300_000..1_900_000),
        });
        while !left.is_zero() && guard.is_held() {
            let step = left.min(LOOK);
            thread::sleep(step);
            left -= step;
            let at = now();
            let later = at + guard.remaining().as_nanos() as u64;
            if later > *deadline + LOOK.as_nanos() as u64 && guard.is_held() {
                *deadline = later;
                self.note(key, Event::Holds { at, deadline: later });
            }
        }
    }

    fn refused(&self, key: usize, guard: &Guard) {
        let at = now();
        if guard.is_held() {
            self.note(key, Event::Refused { at });
        }
    }

    fn note(&self, key: usize, event: Event) {
        self.journal.note(self.thread, key, event);
    }
}
