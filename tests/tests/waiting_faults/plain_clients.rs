//! Clients of the plain pattern on the same key: SET NX PX, and compare-and-delete by a script.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::Released;
use redlatch_tests::{Server, each_server};

use crate::alone::machine_to_myself;
use crate::support::{SECOND, await_nothing_left, client, key, ms};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

struct Plain {
    connection: redis::Connection,
    delete: redis::Script,
}

impl Plain {
    fn new(server: &Server) -> Plain {
        Plain { connection: server.connection(), delete: redis::Script::new(COMPARE_AND_DELETE) }
    }

    fn acquire(&mut self, token: &str) -> bool {
        let mut command = redis::cmd("SET");
        command.arg(key("a")).arg(token).arg("NX").arg("PX").arg(30_000);
        command.query::<Option<String>>(&mut self.connection).unwrap().is_some()
    }

    fn release(&mut self, token: &str) -> bool {
        self.delete.key(key("a")).arg(token).invoke(&mut self.connection).unwrap()
    }
}

#[test]
fn a_plain_client_and_redlatch_held_one_lock_at_once() {
    each_server(|server| {
        let lock = client(server).lock("a").unwrap();
        let mut plain = Plain::new(server);
        for round in 0..1_000 {
            let token = format!("plain-{round}");
            assert!(plain.acquire(&token), "round {round}");
            assert!(lock.try_acquire().unwrap().is_none(), "round {round}: excluded by the plain client");
            assert!(plain.release(&token), "round {round}: its key is untouched");
            let guard = lock.try_acquire().unwrap().unwrap_or_else(|| panic!("round {round}: the lock is free"));
            assert!(!plain.acquire(&token), "round {round}: excludes the plain client");
            assert!(!plain.release(&token), "round {round}: another's token deletes nothing");
            assert_eq!(guard.release().unwrap(), Released::Released, "round {round}");
        }
        await_nothing_left(server, "a");
    });
}

/// Who is inside; a second one panics.
struct Inside(AtomicBool);

impl Inside {
    fn stay(&self, span: Duration) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two at once");
        thread::sleep(span);
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn a_plain_client_starved_beside_eight_busy_threads() {
    let _machine = machine_to_myself();
    each_server(|server| {
        let client = client(server);
        let inside = Inside(AtomicBool::new(false));
        let (over, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let lock = client.lock("a").unwrap();
                    while !over.load(Ordering::Relaxed) {
                        let guard = lock.acquire().unwrap();
                        inside.stay(ms(1));
                        guard.check().unwrap();
                        assert_eq!(guard.release().unwrap(), Released::Released);
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut plain = Plain::new(server);
            redlatch_tests::assert_eventually("the threads are busy", 5 * SECOND, || {
                rounds.load(Ordering::Relaxed) >= 50
            });
            let begin = Instant::now();
            let mut shares = 0;
            // Twice, because a waiter whose turn the plain client takes must not be lost.
            while shares < 2 && begin.elapsed() < 10 * SECOND {
                if plain.acquire("plain") {
                    inside.stay(ms(1));
                    assert!(plain.release("plain"), "its key is untouched");
                    shares += 1;
                }
                thread::sleep(ms(20));
            }
            let after = rounds.load(Ordering::Relaxed);
            let goes_on = redlatch_tests::eventually(5 * SECOND, || rounds.load(Ordering::Relaxed) > after + 50);
            over.store(true, Ordering::Relaxed);
            assert!(shares >= 1, "the plain client did not get the lock in 10 s");
            assert!(goes_on, "the threads go on");
        });
        await_nothing_left(server, "a");
        assert_eq!(client.stats().lost_total(), 0);
    });
}
