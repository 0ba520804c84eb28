//! A process with many threads, which wait for one lock or only sleep.
//!
//! It says `ready` with the number of its threads and the heap bytes of their waits once all are blocked, and `served` with
//! the first holds once the lock has been released. It runs until it is killed.

use std::mem::size_of;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use redlatch::{Client, Lock, LockRequest, Progress};
use redlatch_tests::bench::Placement;
use redlatch_tests::{Process, Server, assert_eventually};

use crate::handover::player::now;

pub(crate) const LOCK: &str = "waiters:crowded";
/// The word that makes this program a player of this kind.
pub(crate) const WORD: &str = "waiters";
/// Holds that are told.
const TOLD: usize = 20;
/// Enough for a wait: what a thread touches of it is its own affair.
const STACK: usize = 256 * 1024;
const LIMIT: Duration = Duration::from_secs(120);

/// What its threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Waiting,
    Asleep,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Waiting => "waiting",
            Kind::Asleep => "asleep",
        }
    }
}

/// One hold: instants on the clock that all processes share, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) granted: u64,
    pub(crate) released: u64,
}

/// The starting side: a player as a handle. Killed when it is dropped.
pub(crate) struct Player {
    process: Process,
    threads: usize,
    heap_bytes: i64,
}

impl Player {
    /// Returns once all its threads are blocked.
    pub(crate) fn start(server: &Server, kind: Kind, threads: usize) -> Player {
        let program = std::env::current_exe().expect("this program has a path");
        let threads = threads.to_string();
        let mut process = Process::start(program, [WORD, &server.url(), kind.word(), &threads]);
        let line = process.expect("ready", LIMIT);
        let numbers: Vec<&str> = line.split_whitespace().skip(1).collect();
        let [threads, heap_bytes] = numbers[..] else { panic!("two numbers: {line:?}") };
        let (threads, heap_bytes) = (threads.parse().expect("a number"), heap_bytes.parse().expect("a number"));
        Player { process, threads, heap_bytes }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How many threads it could start.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// What all waits take of the heap.
    pub(crate) fn heap_bytes(&self) -> i64 {
        self.heap_bytes
    }

    /// The first holds after the lock was released, in their order.
    pub(crate) fn holds(&mut self) -> Vec<Hold> {
        let line = self.process.expect("served", LIMIT);
        let parse = |hold: &str| {
            let (granted, released) = hold.split_once(',').expect("two instants");
            let [granted, released] = [granted, released].map(|text| text.parse().expect("a number"));
            Hold { granted, released }
        };
        line.split_whitespace().skip(1).map(parse).collect()
    }
}

/// The started side: the server's URL, what the threads do, and how many.
pub(crate) fn run(words: &[String]) {
    let [url, kind, threads] = words else { panic!("URL, kind and number of threads: {words:?}") };
    let wanted: usize = threads.parse().expect("a number");
    Placement::choose().pin_client();
    // On a busy machine a reply may take longer than the default limit, and a request sent twice would count as two.
    let client = Client::builder(url).io_timeout(Duration::from_secs(60)).build().expect("the options are valid");
    let (blocked, all_blocked) = mpsc::channel();
    let holds = Holds::default();
    let start = |_| {
        let (client, blocked, holds) = (client.clone(), blocked.clone(), holds.clone());
        let body: Box<dyn FnOnce() + Send> = if kind == Kind::Waiting.word() {
            Box::new(move || wait(&client, &blocked, &holds))
        } else {
            Box::new(move || sleep(&blocked))
        };
        thread::Builder::new().stack_size(STACK).spawn(body).is_ok()
    };
    let started = (0..wanted).map(start).take_while(|started| *started).count();
    let heap: i64 = (0..started).map(|_| all_blocked.recv_timeout(LIMIT).expect("every thread blocks")).sum();
    println!("ready {started} {heap}");

    if kind == Kind::Waiting.word() {
        // Not woken by each hold: on a shared core that would delay the next one.
        assert_eventually("the lock is released", LIMIT, || holds.first().len() == TOLD.min(started));
        let told = holds.first().iter().map(|hold| format!(" {},{}", hold.granted, hold.released)).collect::<String>();
        println!("served{told}");
    }
    park();
}

/// The first holds in their order.
#[derive(Clone, Default)]
struct Holds(Arc<Mutex<Vec<Hold>>>);

impl Holds {
    fn add(&self, hold: Hold) {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if holds.len() < TOLD {
            holds.push(hold);
        }
    }

    fn first(&self) -> Vec<Hold> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn sleep(blocked: &Sender<i64>) {
    blocked.send(0).expect("it is counted");
    park();
}

/// Acquires in steps, so that the first of them shows what a wait takes. Each thread has a lock handle of its own.
fn wait(client: &Client, blocked: &Sender<i64>, holds: &Holds) {
    let mut begun: Option<(Lock, LockRequest)> = None;
    let counted = measure(|| {
        let lock = client.lock(LOCK).expect("the name is valid");
        let mut request = lock.begin(None, None);
        match request.advance(Duration::ZERO).expect("the server answers") {
            Progress::Waiting(_) => begun = Some((lock, request)),
            Progress::Granted(_) | Progress::Busy => panic!("the lock has a holder"),
        }
    });
    let inline = size_of::<Lock>() + size_of::<LockRequest>();
    blocked.send(counted.bytes_current + inline as i64).expect("it is counted");

    let (_lock, mut request) = begun.expect("it waits");
    let guard = loop {
        match request.advance(LIMIT).expect("the server answers") {
            Progress::Granted(guard) => break guard,
            Progress::Waiting(_) => {}
            Progress::Busy => panic!("a wait without limit ends with a grant"),
        }
    };
    let granted = now();
    holds.add(Hold { granted, released: now() });
    let _ = guard.release().expect("the lock is released");
}

fn park() -> ! {
    loop {
        thread::park();
    }
}
