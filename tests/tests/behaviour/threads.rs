//! Threads that end while they hold locks.

use std::thread;

use redlatch::{Error, Released};
use redlatch_tests::assert_eventually;
use tracing::Level;

use crate::logs;
use crate::store::{SECOND, Store, machine_to_myself, ms, on_all_stores_at_once, on_each_store, ttl, unique};

on_each_store![a_thread_that_ends_with_a_lock_leaves_it_to_the_background];
on_all_stores_at_once![a_lease_outlives_the_thread_that_made_it];

fn a_thread_that_ends_with_a_lock_leaves_it_to_the_background(store: &Store) {
    logs::record();
    let name = format!("abandoned-{}", unique());
    let client = store.client();
    let lock = client.lock_with(&name, ttl(3_000)).unwrap();
    thread::scope(|scope| {
        let holding = || {
            lock.acquire().unwrap().forget();
            lock.acquire().unwrap().forget();
            client.lock("other").unwrap().acquire().unwrap().forget();
            lock.with_held(|guard| guard.fence()).unwrap()
        };
        let fence = scope.spawn(holding).join().unwrap();
        // Well within the ttl: nobody has to wait for it.
        assert_eventually("the key is gone", SECOND, || store.is_free(&name) && store.is_free("other"));
        let warned = logs::about(&name);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(warned[0].level, Level::WARN);
        assert!(warned[0].text.contains(&fence.to_string()) && warned[0].text.contains("without releasing"));
    });
    assert_eventually("both are released", SECOND, || client.stats().background_released == 2);
    let stats = client.stats();
    assert_eq!((stats.abandoned, stats.lost_total(), stats.held_now), (2, 0, 0));
    assert_eq!(stats.hold_micros.count(), 2);
    assert!(lock.try_acquire().unwrap().is_some());
}

fn a_lease_outlives_the_thread_that_made_it(store: &Store) {
    let client = store.client();
    let lease = thread::scope(|scope| scope.spawn(|| client.lease("a", ttl(1_000)).unwrap()).join().unwrap());
    thread::sleep(ms(1_300));
    lease.check().unwrap();
    assert_eq!(client.stats().abandoned, 0);
    assert_eq!(lease.release().unwrap(), Released::Released);
}

#[test]
fn a_thread_inherits_nothing_of_an_ended_one_with_the_same_id() {
    let _machine = machine_to_myself();
    let kind = redlatch_tests::any_server();
    for store in [Some(Store::memory()), kind.and_then(Store::shared)].into_iter().flatten() {
        const THREADS: u64 = 10_000;
        let client = store.client();
        let lock = client.lock_with("a", ttl(60_000)).unwrap();
        let mut leaked = 0;
        for number in 0..THREADS {
            // One after another, so that the system gives the same id again and again.
            let grew = thread::scope(|scope| {
                let short = scope.spawn(|| {
                    assert_eq!(lock.hold_count(), 0, "thread {number} inherits a hold");
                    let error = lock.release().unwrap_err();
                    assert!(matches!(error, Error::NotHeld { .. }), "thread {number} releases: {error}");
                    assert!(lock.with_held(|_| ()).is_err());
                    match lock.try_acquire().unwrap() {
                        Some(guard) => {
                            assert_eq!(guard.hold_count(), 1, "thread {number} re-enters");
                            guard.forget();
                            true
                        }
                        // The background has not yet released what an earlier thread leaked.
                        None => false,
                    }
                });
                short.join().unwrap()
            });
            leaked += u64::from(grew);
        }
        assert!(leaked > THREADS / 100, "{}: only {leaked} threads had the lock", store.name());
        assert_eventually("all are released", SECOND, || client.stats().background_released == leaked);
        let stats = client.stats();
        assert_eq!((stats.acquired, stats.abandoned, stats.released), (leaked, leaked, 0), "{}", store.name());
        assert_eq!((stats.held_now, stats.background_now), (0, 0), "{}", store.name());
        assert!(store.is_free("a"), "{}", store.name());
    }
}
