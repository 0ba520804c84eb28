//! A process that takes part in hand-overs, as it is told on standard input.
//!
//! | command | answer |
//! |---|---|
//! | `library COUNT` | `took` with as many holds by the library |
//! | `chain COUNT` | `took` with as many holds by the bare messages |
//! | `share THREADS MILLIS` | `shared`, one grant time list a thread: each holds as often as it can for that long |
//! | `crowd THREADS` | `crowded` once all wait, `served` with `pushes` and `polls` once each has held once |

use std::io::BufRead;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Lock, Released};
use redlatch_tests::bench::Placement;
use redlatch_tests::{Process, assert_eventually};
use rustix::time::{ClockId, clock_gettime};

use super::chain::Chain;

pub(crate) const LIBRARY: &str = "handover:library";
/// As long as the key of the library's lock.
pub(crate) const CHAIN_KEY: &str = "lock:handover:barechn";
pub(crate) const LIBRARY_KEY: &str = "lock:handover:library";
const SHARED: &str = "handover:shared";
pub(crate) const CROWDED: &str = "handover:crowded";

/// How long each holder keeps the lock.
const HOLD: Duration = Duration::from_millis(1);
/// How long a player may take for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the crowd may wait, first for the release and then for each other.
const CROWD_LIMIT: Duration = Duration::from_secs(180);

/// One hold: instants on the clock that all processes share, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
    pub(crate) fence: u64,
}

pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The starting side: a player as a handle.
pub(crate) struct Player(Process);

impl Player {
    pub(crate) fn start(url: &str) -> Player {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Process::start(program, ["player", url]);
        process.expect("ready", LIMIT);
        Player(process)
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.send(command);
    }

    /// What follows the word in the next line that begins with it.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        let line = self.0.expect(word, LIMIT);
        line[word.len()..].trim().to_owned()
    }

    /// What it has complained about.
    pub(crate) fn complaints(&self) -> String {
        self.0.error_lines().join("\n")
    }

    pub(crate) fn holds(&mut self) -> Vec<Hold> {
        let parse = |hold: &str| {
            let numbers: Vec<u64> = hold.split(',').map(|text| text.parse().expect("a number")).collect();
            let [asked, granted, released, fence] = numbers[..] else { panic!("four numbers: {hold:?}") };
            Hold { asked, granted, released, fence }
        };
        self.expect("took").split_whitespace().map(parse).collect()
    }
}

/// The started side.
pub(crate) fn run(url: &str) {
    Placement::choose().pin_client();
    // On a busy machine a reply may take longer than the default limit, which is no part of what is measured.
    let client = Client::builder(url).io_timeout(Duration::from_secs(10)).build().expect("the options are valid");
    let lock = client.lock(LIBRARY).expect("the name is valid");
    let owner = {
        let lease = client.lease(&format!("handover:owner:{}", std::process::id()), Default::default());
        let lease = lease.expect("a lock of its own is free");
        lease.token().owner().expect("the library's own token").to_owned()
    };
    let mut chain = Chain::open(url, CHAIN_KEY, &owner);
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |position: usize| -> u64 { words[position].parse().expect("a number") };
        match words[0] {
            "library" => say_holds((0..number(1)).map(|_| by_library(&lock)).collect()),
            "chain" => say_holds((0..number(1)).map(|_| by_chain(&mut chain)).collect()),
            "share" => share(&client, number(1), Duration::from_millis(number(2))),
            "crowd" => crowd(&client, number(1)),
            word => panic!("unknown command {word:?}"),
        }
    }
}

fn say_holds(holds: Vec<Hold>) {
    let word = |it: &Hold| format!("{},{},{},{}", it.asked, it.granted, it.released, it.fence);
    println!("took {}", holds.iter().map(word).collect::<Vec<_>>().join(" "));
}

fn by_library(lock: &Lock) -> Hold {
    let asked = now();
    let guard = lock.acquire().expect("the lock is granted");
    let granted = now();
    let fence = guard.fence();
    thread::sleep(HOLD);
    let released = now();
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
    Hold { asked, granted, released, fence }
}

fn by_chain(chain: &mut Chain) -> Hold {
    let asked = now();
    let (token, fence) = chain.acquire();
    let granted = now();
    thread::sleep(HOLD);
    let released = now();
    chain.release(&token);
    Hold { asked, granted, released, fence }
}

fn share(client: &Client, threads: u64, span: Duration) {
    let end = Instant::now() + span;
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let lock = client.lock(SHARED).expect("the name is valid");
            thread::spawn(move || {
                let mut grants = Vec::new();
                while Instant::now() < end {
                    let guard = lock.acquire().expect("the lock is granted");
                    grants.push(now().to_string());
                    thread::sleep(HOLD);
                    let _ = guard.release().expect("the lock is released");
                }
                grants.join(",")
            })
        })
        .collect();
    let lists: Vec<String> = threads.into_iter().map(|it| it.join().expect("no thread panics")).collect();
    println!("shared {}", lists.join(" "));
}

fn crowd(client: &Client, count: u64) {
    let (served, all) = mpsc::channel();
    for _ in 0..count {
        let (lock, served) = (client.lock(CROWDED).expect("the name is valid"), served.clone());
        let body = move || {
            let guard = lock.acquire().expect("the lock is granted");
            let _ = guard.release().expect("the lock is released");
            served.send(()).expect("the crowd is counted");
        };
        thread::Builder::new().stack_size(256 * 1024).spawn(body).expect("a thread can be started");
    }
    assert_eventually("all wait", LIMIT, || client.stats().waiting_now == count);
    println!("crowded");
    let came = (0..count).filter(|_| all.recv_timeout(CROWD_LIMIT).is_ok()).count();
    let stats = client.stats();
    println!("served {came} {} {}", stats.pushes, stats.poll_wakeups);
}
