//! A process that takes part in hand-overs, as it is told on standard input.
//!
//! | command | answer |
//! |---|---|
//! | `library THREADS COUNT` | `took` with as many holds by the library, one line a thread |
//! | `chain THREADS COUNT` | `took` with as many holds by the bare messages, one line a thread |
//! | `listen COUNT` | `listening` with a channel, `heard` with the instants at which as many texts were read from it |
//! | `publish CHANNEL COUNT` | `published` with the instants just before as many texts were sent to the channel |
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

/// As long as a token.
const WAKE: &str = "wakes-a-listener-as-a-push-does-a-waiter@host:1";

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
            let numbers = numbers(hold, ',');
            let [asked, granted, released, fence] = numbers[..] else { panic!("four numbers: {hold:?}") };
            Hold { asked, granted, released, fence }
        };
        self.expect("took").split_whitespace().map(parse).collect()
    }

    /// The instants after the word in the next line that begins with it.
    pub(crate) fn instants(&mut self, word: &str) -> Vec<u64> {
        numbers(&self.expect(word), ' ')
    }
}

fn numbers(text: &str, separator: char) -> Vec<u64> {
    text.split(separator).map(|digits| digits.parse().expect("a number")).collect()
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
    // One for each thread. The others are opened when they are needed, because each inbox is a connection that counts.
    let mut chains = vec![Chain::open(url, CHAIN_KEY, &owner)];
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |position: usize| -> u64 { words[position].parse().expect("a number") };
        match words[0] {
            "library" => {
                let count = number(2);
                let hold = || (0..count).map(|_| by_library(&lock)).collect();
                in_threads((0..number(1)).map(|_| hold).collect());
            }
            "chain" => {
                let (threads, count) = (number(1) as usize, number(2));
                chains.resize_with(chains.len().max(threads), || Chain::open(url, CHAIN_KEY, &owner));
                let chains = chains.iter_mut().take(threads);
                in_threads(chains.map(|chain| move || (0..count).map(|_| by_chain(chain)).collect()).collect());
            }
            "listen" => listen(&mut chains[0], number(1)),
            "publish" => publish(&mut chains[0], words[1], number(2)),
            "share" => share(&client, number(1), Duration::from_millis(number(2))),
            "crowd" => crowd(&client, number(1)),
            word => panic!("unknown command {word:?}"),
        }
    }
}

/// Each on a thread of its own; says what they did once all are done.
fn in_threads(works: Vec<impl FnOnce() -> Vec<Hold> + Send>) {
    let word = |it: &Hold| format!("{},{},{},{}", it.asked, it.granted, it.released, it.fence);
    thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        for thread in threads {
            let holds = thread.join().expect("no thread panics");
            println!("took {}", holds.iter().map(word).collect::<Vec<_>>().join(" "));
        }
    });
}

fn listen(chain: &mut Chain, count: u64) {
    println!("listening {}", chain.channel());
    let hear = |_| {
        chain.wait_for_push(WAKE);
        now().to_string()
    };
    println!("heard {}", (0..count).map(hear).collect::<Vec<_>>().join(" "));
}

fn publish(chain: &mut Chain, channel: &str, count: u64) {
    let send = |_| {
        // As between two releases: the listener sleeps when the text comes.
        thread::sleep(HOLD);
        let sent = now();
        chain.push(channel, WAKE);
        sent.to_string()
    };
    println!("published {}", (0..count).map(send).collect::<Vec<_>>().join(" "));
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
