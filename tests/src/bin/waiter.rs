//! A process of its own whose threads wait for locks, steered by lines.
//!
//! Reads one command a line on standard input and prints one line for each event. The end of the input ends the
//! process, whatever its threads do.
//!
//! | command | events |
//! |---|---|
//! | `open URL` | `opened` |
//! | `wait NAME COUNT HOLD_MS` | `waiting`; then of each thread `granted N` and, after the hold, `released N` |
//! | `load NAME THREADS` | `loading`: threads acquire and release the lock without a pause, until the end |
//! | `counts` | `counts N N …`: how often each thread of the load has had the lock |

#![forbid(unsafe_code)]

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::Client;

fn main() {
    let mut client = None;
    let mut counts: Vec<Arc<AtomicU64>> = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["open", url] => {
                client = Some(Client::open(url).expect("the URL is usable"));
                say("opened");
            }
            ["wait", name, count, hold] => {
                let client = client.as_ref().expect("a client is open");
                let hold = Duration::from_millis(number(hold));
                (0..number(count)).for_each(|n| wait(client, name, n, hold));
                say("waiting");
            }
            ["load", name, threads] => {
                let client = client.as_ref().expect("a client is open");
                counts = (0..number(threads)).map(|_| load(client, name)).collect();
                say("loading");
            }
            ["counts"] => {
                let texts: Vec<String> = counts.iter().map(|count| count.load(Ordering::Relaxed).to_string()).collect();
                say(&format!("counts {}", texts.join(" ")));
            }
            _ => panic!("no command: {line}"),
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn say(line: &str) {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("somebody listens");
}

fn wait(client: &Client, name: &str, n: u64, hold: Duration) {
    let lock = client.lock(name).expect("the name is usable");
    thread::spawn(move || {
        let guard = lock.acquire().expect("the lock is granted in the end");
        say(&format!("granted {n}"));
        thread::sleep(hold);
        let released = guard.release();
        assert!(released.is_ok(), "{released:?}");
        say(&format!("released {n}"));
    });
}

fn load(client: &Client, name: &str) -> Arc<AtomicU64> {
    let lock = client.lock(name).expect("the name is usable");
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        loop {
            let guard = lock.acquire().expect("the lock is granted in the end");
            counted.fetch_add(1, Ordering::Relaxed);
            let released = guard.release();
            assert!(released.is_ok(), "{released:?}");
        }
    });
    count
}
