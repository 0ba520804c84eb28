//! redlatch in Rust, as a player: `tests/peers/README.md` names the commands.

use std::io::BufRead;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Guard, Lock, Released};
use rustix::time::{ClockId, clock_gettime};

use super::subjects::OURS_IN_RUST;

/// As the other players'.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long each holder keeps a shared lock.
const HOLD: Duration = Duration::from_millis(1);

/// On the clock that all players share, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn run(url: &str) {
    let client = Client::builder(url).connect_timeout(PATIENCE).io_timeout(PATIENCE).build();
    let client = client.expect("the options are valid");
    let lock = shared(&client);
    let mut guard: Option<Guard> = None;
    println!("ready {OURS_IN_RUST}");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |position: usize| -> f64 { words[position].parse().expect("a number") };
        match words[0] {
            "pair" => {
                let times: Vec<String> = (0..number(2) as u64).map(|_| pair(&lock).to_string()).collect();
                println!("took {}", times.join(" "));
            }
            "hold" => {
                guard = Some(lock.acquire().expect("the lock is granted"));
                println!("held");
            }
            "wait" => {
                println!("waits");
                let asked = now();
                let granted = lock.acquire().expect("the lock is granted");
                println!("granted {asked} {}", now());
                guard = Some(granted);
            }
            "release" => {
                let held = guard.take().expect("the lock is held");
                thread::sleep(Duration::from_secs_f64(number(2) / 1e3));
                let released = now();
                release(held);
                println!("released {released}");
            }
            "share" => share(&client, number(2) as u64, Duration::from_secs_f64(number(3) / 1e3)),
            word => panic!("unknown command {word:?}"),
        }
    }
}

fn shared(client: &Client) -> Lock {
    client.lock(&format!("peers:{OURS_IN_RUST}")).expect("the name is valid")
}

fn release(guard: Guard) {
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
}

fn pair(lock: &Lock) -> u128 {
    let begin = Instant::now();
    release(lock.acquire().expect("the lock is granted"));
    begin.elapsed().as_nanos()
}

fn share(client: &Client, threads: u64, span: Duration) {
    let end = Instant::now() + span;
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let lock = shared(client);
            thread::spawn(move || {
                let mut grants = Vec::new();
                while Instant::now() < end {
                    let guard = lock.acquire().expect("the lock is granted");
                    grants.push(now().to_string());
                    thread::sleep(HOLD);
                    release(guard);
                }
                if grants.is_empty() { "-".to_owned() } else { grants.join(",") }
            })
        })
        .collect();
    let lists: Vec<String> = threads.into_iter().map(|it| it.join().expect("no thread panics")).collect();
    println!("shared {}", lists.join(" "));
}
