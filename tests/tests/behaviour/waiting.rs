//! Waiting for a lock that someone has.

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{CancelToken, Error};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, at_once, machine_to_myself, ms, on_all_stores_at_once, on_each_store, timed, ttl};

on_each_store![
    a_release_gives_the_lock_to_its_waiter,
    nobody_overtakes_the_waiter_whose_turn_it_is,
    waiters_are_served_in_the_order_they_came,
    a_waiter_that_gives_up_leaves_no_place_and_no_turn,
    a_release_wakes_its_waiter,
    a_wait_can_be_called_off,
];
on_all_stores_at_once![a_waiter_outlives_its_own_ttl, a_lapsed_lock_goes_to_its_waiter];

fn a_release_gives_the_lock_to_its_waiter(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = client.lock("a").unwrap().acquire().unwrap();
            (Instant::now(), guard.fence())
        });
        store.wait_for_waiters("a", 1);
        assert_eventually("the waiter is counted", SECOND, || client.stats().waiting_now == 1);
        let fence = guard.fence();
        drop(guard);
        let released = Instant::now();
        let (granted, next_fence) = waiter.join().unwrap();
        assert!(next_fence > fence);
        assert!(granted - released < SECOND / 2, "{:?}", granted - released);
        assert_eq!(client.stats().waiting_now, 0);
    });
    assert!(store.is_free("a"));
}

fn nobody_overtakes_the_waiter_whose_turn_it_is(store: &Store) {
    let (holder, client, third) = (store.client(), store.client(), store.client());
    let overtaker = third.lock("a").unwrap();
    for _ in 0..5 {
        let guard = holder.lock("a").unwrap().acquire().unwrap();
        thread::scope(|scope| {
            let client = &client;
            // Ends with this block, so that a failure here ends the waiter as well.
            let (go_on, told) = mpsc::channel::<()>();
            let waiter = scope.spawn(move || {
                let guard = client.lock("a").unwrap().acquire().unwrap();
                told.recv().unwrap();
                drop(guard);
            });
            store.wait_for_waiters("a", 1);
            drop(guard);
            for _ in 0..3 {
                let overtaken = overtaker.try_acquire().unwrap().is_some();
                assert!(!overtaken, "free or not, it is the waiter's turn");
            }
            go_on.send(()).unwrap();
            waiter.join().unwrap();
        });
        assert!(overtaker.try_acquire().unwrap().is_some(), "nobody waits any more");
    }
}

fn waiters_are_served_in_the_order_they_came(store: &Store) {
    let clients = [store.client(), store.client(), store.client()];
    let guard = store.client().lock("a").unwrap().acquire().unwrap();
    let served = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..7usize {
            let (client, served) = (&clients[number % 3], &served);
            scope.spawn(move || {
                let guard = client.lock("a").unwrap().acquire().unwrap();
                served.lock().unwrap().push((number, guard.fence()));
            });
            store.wait_for_waiters("a", number as u64 + 1);
        }
        drop(guard);
    });
    let served = served.into_inner().unwrap();
    assert_eq!(served.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert!(served.is_sorted_by_key(|(_, fence)| *fence));
}

fn a_waiter_that_gives_up_leaves_no_place_and_no_turn(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    assert!(client.lock("a").unwrap().try_acquire_for(ms(150)).unwrap().is_none());
    // At once; on a loaded machine by the background.
    store.wait_for_waiters("a", 0);
    drop(guard);
    drop(store.client().lock("a").unwrap().try_acquire().unwrap().expect("no turn of the one that gave up"));
    if store.is_server() {
        let server = store.server();
        for role in ["queue", "waiters", "turn", "probe"] {
            assert!(!server.exists(&store.sibling("a", role)), "{role}");
        }
        assert!(server.keys(&format!("*{}*:gone:*", store.key("a"))).is_empty(), "every request was answered");
    }
}

fn a_release_wakes_its_waiter(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let mut gaps = Vec::new();
    for _ in 0..6 {
        let guard = holder.lock("a").unwrap().acquire().unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _guard = client.lock("a").unwrap().acquire().unwrap();
                Instant::now()
            });
            store.wait_for_waiters("a", 1);
            let released = Instant::now();
            drop(guard);
            gaps.push(waiter.join().unwrap() - released);
        });
    }
    // The first wait opens the inbox. From then on nobody waits for a poll, which come every 160 to 240 ms; one may be
    // under way when the message comes.
    assert_eventually("five messages have come", ms(5_000), || client.stats().pushes >= 5);
    let stats = client.stats();
    assert!(stats.push_wakeups >= 3, "{stats:?}");
    gaps.remove(0);
    gaps.sort();
    assert!(gaps[2] < ms(80), "{gaps:?}");
    assert_eq!((stats.inbox_lost, stats.push_denied), (0, 0));
}

fn a_wait_can_be_called_off(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    let lock = client.lock("a").unwrap();
    let cancel = CancelToken::new();
    assert!(lock.acquire_cancellable(Some(ms(60)), &cancel).unwrap().is_none(), "a limit is a limit");
    thread::scope(|scope| {
        let by_lock = scope.spawn(|| lock.acquire_cancellable(None, &cancel).map(drop));
        let by_lease = scope.spawn(|| client.lease_cancellable("a", ttl(5_000), None, &cancel).map(drop));
        store.wait_for_waiters("a", 2);
        let called_off = Instant::now();
        cancel.cancel();
        for waiter in [by_lock, by_lease] {
            let error = waiter.join().unwrap().unwrap_err();
            assert!(matches!(&error, Error::Cancelled { name } if name == "a"), "{error}");
        }
        assert!(called_off.elapsed() < SECOND / 2, "{:?}", called_off.elapsed());
    });
    assert_eq!(client.stats().cancelled, 2);
    store.wait_for_waiters("a", 0);
    assert!(matches!(lock.acquire_cancellable(None, &cancel), Err(Error::Cancelled { .. })), "once and for all");
    drop(guard);
    let fresh = CancelToken::new();
    let guard = lock.acquire_cancellable(None, &fresh).unwrap().expect("nobody else waits");
    fresh.cancel();
    assert!(guard.is_held(), "what is granted stays");
}

fn a_waiter_outlives_its_own_ttl(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lock = client.lock_with("a", ttl(200)).unwrap();
            let (granted, took) = timed(|| lock.try_acquire_for(60 * SECOND).unwrap());
            assert!(granted.expect("it was released").is_held());
            took
        });
        store.wait_for_waiters("a", 1);
        thread::sleep(ms(600));
        assert_eq!(store.look("a").unwrap().waiters(), 1, "it still waits");
        drop(guard);
        let took = waiter.join().unwrap();
        assert!(took >= ms(600) && took < 2 * SECOND, "{took:?}");
    });
}

fn a_lapsed_lock_goes_to_its_waiter(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let dead = holder.lease("a", ttl(500).auto_renew(false)).unwrap();
    let fence = dead.fence();
    let guard = client.lock("a").unwrap().acquire().unwrap();
    assert!(guard.fence() > fence);
    assert!(dead.check().is_err(), "the first holder knew before");
}

#[test]
fn a_wait_is_as_long_as_asked_whatever_the_ttl() {
    let _machine = machine_to_myself();
    at_once(|store| {
        let (holder, client) = (store.client(), store.client());
        thread::scope(|scope| {
            scope.spawn(|| {
                // A key that lapses after 1 s ends a wait of 60 s then.
                let lock = client.lock_with("short", ttl(1_000)).unwrap();
                drop(lock.acquire().unwrap());
                let before = Instant::now();
                let _dead = holder.lease("short", ttl(1_000).auto_renew(false)).unwrap();
                let after = Instant::now();
                let guard = lock.try_acquire_for(60 * SECOND).unwrap();
                let granted = Instant::now();
                assert!(guard.is_some());
                assert!(granted >= before + ms(1_000), "wait 60 s, ttl 1 s: {:?}", granted - before);
                assert!(granted <= after + ms(1_050), "wait 60 s, ttl 1 s: {:?}", granted - after);
            });
            scope.spawn(|| {
                // A key of 60 s does not prolong a wait of 1 s.
                let _guard = holder.lock_with("long", ttl(60_000)).unwrap().acquire().unwrap();
                let lock = client.lock_with("long", ttl(60_000)).unwrap();
                let (granted, took) = timed(|| lock.try_acquire_for(SECOND).unwrap());
                assert!(granted.is_none());
                assert!(took >= ms(1_000) && took <= ms(1_050), "wait 1 s, ttl 60 s: {took:?}");
            });
        });
    });
}

#[test]
fn a_wait_of_half_a_second_ends_within_fifty_milliseconds() {
    let _machine = machine_to_myself();
    at_once(|store| {
        let (holder, client) = (store.client(), store.client());
        let _guard = holder.lock_with("a", ttl(4_000)).unwrap().acquire().unwrap();
        let lock = client.lock("a").unwrap();
        let (granted, took) = timed(|| lock.try_acquire_for(ms(500)).unwrap());
        assert!(granted.is_none());
        assert!(took >= ms(500) && took <= ms(550), "{took:?}");
        let until = Instant::now() + ms(500);
        assert!(lock.try_acquire_until(until).unwrap().is_none());
        let late = Instant::now().duration_since(until);
        assert!(late <= ms(50), "{late:?}");
    });
}

// A wait that ends while a request is under way has seen the lock busy a moment before.
#[test]
fn a_wait_that_ends_at_any_instant_of_a_poll_is_busy_not_unavailable() {
    let _machine = machine_to_myself();
    at_once(|store| {
        let (holder, client) = (store.client(), store.client());
        let _guard = holder.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
        thread::scope(|scope| {
            for waiter in 0..5 {
                let client = &client;
                scope.spawn(move || {
                    for round in 0..10 {
                        // Polls come every 40 to 60 ms: these limits lie all around them, and leave a starved
                        // machine the time to connect and to hear of the holder once.
                        let wait = ms(300) + Duration::from_micros(700) * (10 * waiter + round);
                        assert!(client.lock("a").unwrap().try_acquire_for(wait).unwrap().is_none());
                    }
                });
            }
        });
        let stats = client.stats();
        assert_eq!((stats.timed_out, stats.unavailable), (50, 0));
        store.wait_for_waiters("a", 0);
    });
}
