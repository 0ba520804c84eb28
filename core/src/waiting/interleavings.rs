//! Orders in which waiters meet whoever wakes them. Where a wake-up is lost, a waiter sleeps on, and nobody else can go on.

use std::sync::Arc;

use shuttle::thread::spawn;

use crate::clock::{Clock, Moment};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::token::Token;

use super::{CancelToken, WaiterRegistry, Wake};

fn registry() -> Arc<WaiterRegistry> {
    Arc::new(WaiterRegistry::new(&Clock::System))
}

/// The same orders in every run. Time stands still.
fn explore(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random_with_seed(test, 1, iterations);
}

#[test]
fn a_push_between_the_answer_and_the_sleep_was_lost() {
    explore(2_000, || {
        let registry = registry();
        let token = Token::foreign("t");
        let sleeper = registry.join(&token, "lock:a", None);
        // The server's side: the turn is given first, and then it is told.
        let turn = Arc::new(AtomicBool::new(false));
        let (pusher, given) = (registry.clone(), turn.clone());
        let holder = spawn(move || {
            given.store(true, Ordering::Release);
            pusher.push("t");
            pusher.push("another");
        });
        loop {
            sleeper.about_to_ask();
            if turn.load(Ordering::Acquire) {
                break;
            }
            assert_eq!(sleeper.sleep(Moment::FAR, None), Some(Wake::Push));
        }
        holder.join().unwrap();
    });
}

#[test]
fn a_push_woke_another_than_its_waiter() {
    explore(2_000, || {
        let registry = registry();
        let waiting: Vec<_> = ["one", "other"]
            .into_iter()
            .map(|name| {
                let sleeper = registry.join(&Token::foreign(name), &format!("lock:{name}"), None);
                spawn(move || sleeper.sleep(Moment::FAR, None))
            })
            .collect();
        let pusher = registry.clone();
        let pushing = spawn(move || pusher.push("other"));
        registry.push("one");
        pushing.join().unwrap();
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap(), Some(Wake::Push));
        }
    });
}

#[test]
fn a_cancelled_waiter_slept_on() {
    explore(2_000, || {
        let (registry, cancel) = (registry(), CancelToken::new());
        let waiting: Vec<_> = ["one", "other"]
            .into_iter()
            .map(|name| {
                let (registry, cancel) = (registry.clone(), cancel.clone());
                spawn(move || {
                    let sleeper = registry.join(&Token::foreign(name), "lock:a", Some(&cancel));
                    loop {
                        match sleeper.sleep(Moment::FAR, None) {
                            Some(Wake::Lead) => {}
                            wake => return wake,
                        }
                    }
                })
            })
            .collect();
        cancel.cancel();
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap(), Some(Wake::Cancelled));
        }
    });
}

#[test]
fn a_waiter_that_came_while_its_client_closed_slept_on() {
    explore(2_000, || {
        let (registry, left) = (registry(), Arc::new(AtomicU32::new(0)));
        let sleepers: Vec<_> = ["one", "other"]
            .into_iter()
            .map(|name| {
                let (registry, left) = (registry.clone(), left.clone());
                spawn(move || {
                    let sleeper = registry.join(&Token::foreign(name), &format!("lock:{name}"), None);
                    let wake = sleeper.sleep(Moment::FAR, None);
                    left.fetch_add(1, Ordering::AcqRel);
                    wake
                })
            })
            .collect();
        let beds = registry.close();
        registry.await_leaving(&beds, Moment::FAR);
        assert!(left.load(Ordering::Acquire) as usize >= beds.len(), "one who was there has not left");
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Some(Wake::Closed));
        }
    });
}

#[test]
fn nobody_led_after_the_leading_waiter_had_left() {
    explore(2_000, || {
        let registry = registry();
        let leading = Arc::new(AtomicU32::new(0));
        let waiting: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let (registry, leading) = (registry.clone(), leading.clone());
                spawn(move || {
                    let sleeper = registry.join(&Token::foreign(name), "lock:a", None);
                    if !sleeper.leads() {
                        assert_eq!(sleeper.sleep(Moment::FAR, None), Some(Wake::Lead));
                        assert!(sleeper.leads());
                    }
                    assert_eq!(leading.fetch_add(1, Ordering::AcqRel), 0, "two lead");
                    leading.fetch_sub(1, Ordering::AcqRel);
                })
            })
            .collect();
        waiting.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(registry.join(&Token::foreign("d"), "lock:a", None).leads(), "a line is left behind");
    });
}

#[test]
fn a_recheck_reached_only_some_of_those_who_slept() {
    explore(2_000, || {
        let registry = registry();
        let waiting: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let sleeper = registry.join(&Token::foreign(name), &format!("lock:{name}"), None);
                spawn(move || sleeper.sleep(Moment::FAR, None))
            })
            .collect();
        registry.recheck(std::time::Duration::from_millis(200));
        for waiter in waiting {
            assert!(matches!(waiter.join().unwrap(), Some(Wake::Recheck(_))));
        }
    });
}
