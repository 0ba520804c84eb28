//! Other locks for Rust, as a player of the benchmark: `tests/peers/README.md` names the commands.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::BufRead;
use std::thread;
use std::time::{Duration, Instant};

use rslock::{LockGuard, LockManager};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

const SUBJECTS: [&str; 2] = ["rslock", "rslock_eager"];
/// rslock wants one named. No lock is kept nearly as long.
const TTL: Duration = Duration::from_secs(30);
/// The shortest one that is no busy loop: the pause is a random number of whole milliseconds below it.
const EAGER_DELAY: Duration = Duration::from_millis(2);
/// How long each holder keeps a shared lock.
const HOLD: Duration = Duration::from_millis(1);

/// One participant: a manager whose connection lives on a runtime of the calling thread.
struct Player {
    runtime: Runtime,
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

impl Player {
    fn new(url: &str, subject: &str) -> Player {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut manager = LockManager::new(vec![url]);
        if subject == "rslock_eager" {
            manager.set_retry(u32::MAX, EAGER_DELAY);
        }
        let runtime = runtime.expect("a runtime can be made");
        Player { runtime, manager, name: format!("peers:{subject}"), guard: None }
    }

    fn acquire(&mut self) {
        let guard = self.runtime.block_on(self.manager.acquire(self.name.as_str(), TTL));
        self.guard = Some(guard.expect("the lock is granted"));
    }

    fn release(&mut self) {
        let guard = self.guard.take().expect("the lock is held");
        self.runtime.block_on(guard.release());
    }

    fn pair(&mut self) -> u128 {
        let begin = Instant::now();
        self.acquire();
        self.release();
        begin.elapsed().as_nanos()
    }
}

fn main() {
    let url = std::env::args().nth(1).expect("a player is given its server");
    let mut players: HashMap<&str, Player> = HashMap::new();
    println!("ready {}", SUBJECTS.join(" "));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let subject = *SUBJECTS.iter().find(|it| **it == words[1]).expect("a subject of this player");
        let number = |position: usize| -> f64 { words[position].parse().expect("a number") };
        if words[0] == "share" {
            share(&url, subject, number(2) as u64, Duration::from_secs_f64(number(3) / 1e3));
            continue;
        }
        let player = players.entry(subject).or_insert_with(|| Player::new(&url, subject));
        match words[0] {
            "pair" => {
                let times: Vec<String> = (0..number(2) as u64).map(|_| player.pair().to_string()).collect();
                println!("took {}", times.join(" "));
            }
            "hold" => {
                player.acquire();
                println!("held");
            }
            "wait" => {
                println!("waits");
                let asked = now();
                player.acquire();
                println!("granted {asked} {}", now());
            }
            "release" => {
                thread::sleep(Duration::from_secs_f64(number(2) / 1e3));
                let released = now();
                player.release();
                println!("released {released}");
            }
            word => panic!("unknown command {word:?}"),
        }
    }
}

fn share(url: &str, subject: &str, threads: u64, span: Duration) {
    let end = Instant::now() + span;
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let mut player = Player::new(url, subject);
            thread::spawn(move || {
                let mut grants = Vec::new();
                while Instant::now() < end {
                    player.acquire();
                    grants.push(now().to_string());
                    thread::sleep(HOLD);
                    player.release();
                }
                if grants.is_empty() { "-".to_owned() } else { grants.join(",") }
            })
        })
        .collect();
    let lists: Vec<String> = threads.into_iter().map(|it| it.join().expect("no thread panics")).collect();
    println!("shared {}", lists.join(" "));
}

/// On the clock that all players share, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
