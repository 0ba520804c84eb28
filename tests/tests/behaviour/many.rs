//! Many keys, and many threads on one key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use redlatch::{Guard, Released};

use crate::store::{SECOND, Store, at_once, machine_to_myself, ttl};

#[test]
fn keys_released_in_random_order_disappear_each_at_its_own_release() {
    let _machine = machine_to_myself();
    let kind = redlatch_tests::any_server();
    for (store, count) in [(Some(Store::memory()), 1_000), (kind.map(Store::fresh), 10_000)] {
        let Some(store) = store else { continue };
        let client = store.client();
        let mut guards: Vec<Guard> = (0..count)
            .map(|number| client.lock_with(&format!("key-{number}"), ttl(60_000)).unwrap().acquire().unwrap())
            .collect();
        assert_eq!(client.stats().held_now, count);
        // Each lock has its key and its fence.
        let size = || if store.is_server() { store.server().query::<u64>(&["DBSIZE"]) - count } else { 0 };
        assert!(!store.is_server() || size() == count);
        let mut random = fastrand::Rng::with_seed(28);
        random.shuffle(&mut guards);
        while let Some(guard) = guards.pop() {
            let name = guard.name().to_owned();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(store.is_free(&name), "{name} on {}", store.name());
            if store.is_server() {
                assert_eq!(size(), guards.len() as u64, "after {name}");
            }
            if let Some(other) = guards.last() {
                assert_eq!(other.hold_count(), 1);
            }
        }
        let stats = client.stats();
        assert_eq!((stats.acquired, stats.released, stats.held_now, stats.lost_total()), (count, count, 0, 0));
        let holds = |number| client.lock(&format!("key-{number}")).unwrap().hold_count();
        assert_eq!((0..count).map(holds).sum::<u32>(), 0, "the hold table is empty");
    }
}

#[test]
fn a_counter_that_only_the_lock_protects_ends_exact() {
    let _machine = machine_to_myself();
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 6;
    at_once(|store| {
        let clients = [store.client(), store.client()];
        let (counter, holders) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for client in &clients {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let lock = client.lock_with("a", ttl(30_000)).unwrap();
                        for round in 0..ROUNDS {
                            let guard = lock.try_acquire_for(60 * SECOND).unwrap().expect("every waiter is served");
                            assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "two holders at once");
                            let nested = (round % 2 == 0).then(|| lock.acquire().unwrap());
                            // Three steps that nothing but the lock makes one.
                            let value = counter.load(Ordering::Relaxed);
                            thread::yield_now();
                            counter.store(value + 1, Ordering::Relaxed);
                            drop(nested);
                            assert_eq!(holders.fetch_sub(1, Ordering::Relaxed), 1, "two holders at once");
                            assert_eq!(guard.release().unwrap(), Released::Released);
                        }
                    });
                }
            }
        });
        assert_eq!(counter.load(Ordering::Relaxed), 2 * THREADS * ROUNDS);
        let stats = clients.each_ref().map(|client| client.stats());
        assert!(stats.iter().all(|stats| stats.acquired == THREADS * ROUNDS && stats.lost_total() == 0));
        assert!(store.is_free("a"));
    });
}
