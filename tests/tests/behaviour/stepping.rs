//! Acquires that their caller drives, and what bindings end without a guard.

use std::time::Duration;

use redlatch::{CancelToken, Client, Error, LostReason, Progress};
use redlatch_tests::assert_eventually;

use crate::store::{Store, on_each_store, ttl};

on_each_store![
    a_free_lock_is_granted_in_the_first_step,
    a_wait_goes_on_step_by_step_in_its_old_place,
    a_nested_acquire_is_a_step_that_asks_nobody,
    a_step_sleeps_no_longer_than_it_may,
    a_wait_in_steps_ends_with_its_time,
    a_request_that_is_dropped_leaves_no_waiter,
    a_request_that_is_never_driven_counts_for_nothing,
    a_cancelled_request_says_so_in_its_next_step,
    an_abandoned_lease_is_released_without_blocking,
    a_shared_lease_is_released_once,
    what_an_ended_holder_had_is_released_in_the_background,
    a_lost_lock_is_known_to_its_holder_at_once,
];

const STEP: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

fn waits(client: &Client) -> bool {
    client.stats().waiting_now == 1
}

fn a_free_lock_is_granted_in_the_first_step(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let mut request = lock.begin(None, None);
    let Progress::Granted(guard) = request.advance(Duration::ZERO).unwrap() else { panic!("the lock is free") };
    assert!(guard.is_held() && lock.hold_count() == 1);
    drop(request);
    assert!(guard.is_held(), "the request is over");
    drop(guard);
    let mut request = client.begin_lease("a", ttl(5_000), None, None).unwrap();
    let Progress::Granted(lease) = request.advance(Duration::ZERO).unwrap() else { panic!("the lock is free") };
    assert!(matches!(request.advance(STEP).unwrap(), Progress::Busy), "it stays so after the end");
    assert_eq!(store.holder("a").as_deref(), Some(lease.token().as_str()));
}

fn a_wait_goes_on_step_by_step_in_its_old_place(store: &Store) {
    let (holder, first, second) = (store.client(), store.client(), store.client());
    let held = holder.lock("a").unwrap().acquire().unwrap();
    let (lock, later) = (first.lock("a").unwrap(), second.lock("a").unwrap());
    let mut request = lock.begin(Some(LONG), None);
    let mut other = later.begin(Some(LONG), None);
    for _ in 0..3 {
        assert!(matches!(request.advance(STEP).unwrap(), Progress::Waiting(_)));
        assert!(matches!(other.advance(STEP).unwrap(), Progress::Waiting(_)));
    }
    assert_eq!(store.look("a").unwrap().waiters(), 2);
    drop(held);
    let guard = loop {
        // The one that came later is driven first, and gets it later all the same.
        match other.advance(STEP).unwrap() {
            Progress::Waiting(_) => {}
            outcome => panic!("overtaken: {outcome:?}"),
        }
        if let Progress::Granted(guard) = request.advance(STEP).unwrap() {
            break guard;
        }
    };
    drop(guard);
    assert!(matches!(other.advance(LONG).unwrap(), Progress::Granted(_)));
}

fn a_nested_acquire_is_a_step_that_asks_nobody(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    assert!(lock.reacquire().unwrap().is_none(), "nothing is held");
    let outer = lock.acquire().unwrap();
    let Progress::Granted(inner) = lock.begin(None, None).advance(STEP).unwrap() else { panic!("it nests") };
    let innermost = lock.reacquire().unwrap().expect("it nests");
    assert_eq!((lock.hold_count(), client.stats().acquired), (3, 1));
    assert_eq!(client.stats().cancelled, 0, "the request that was not needed counts for nothing");
    drop((innermost, inner, outer));
    assert!(store.is_free("a"));
}

fn a_step_sleeps_no_longer_than_it_may(store: &Store) {
    let _held = store.client().lease("a", ttl(60_000)).unwrap().into_token().unwrap();
    let lock = store.client().lock("a").unwrap();
    let mut request = lock.begin(None, None);
    assert!(matches!(request.advance(Duration::ZERO).unwrap(), Progress::Waiting(_)));
    let began = std::time::Instant::now();
    for _ in 0..10 {
        let Progress::Waiting(left) = request.advance(STEP).unwrap() else { panic!("the lock has a holder") };
        assert!(left <= Duration::from_millis(500), "the first in the queue asks often: {left:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "ten steps took {:?}", began.elapsed());
}

fn a_wait_in_steps_ends_with_its_time(store: &Store) {
    let _held = store.client().lease("a", ttl(60_000)).unwrap().into_token().unwrap();
    let client = store.client();
    let mut request = client.begin_lease("a", ttl(5_000), Some(Duration::from_millis(150)), None).unwrap();
    let began = std::time::Instant::now();
    while let Progress::Waiting(_) = request.advance(STEP).unwrap() {}
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(150) && took < Duration::from_millis(400), "{took:?}");
    assert_eq!(client.stats().timed_out, 1);
    assert_eq!(store.look("a").unwrap().waiters(), 0);
}

fn a_request_that_is_dropped_leaves_no_waiter(store: &Store) {
    let held = store.client().lease("a", ttl(60_000)).unwrap();
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let mut request = lock.begin(None, None);
    assert!(matches!(request.advance(STEP).unwrap(), Progress::Waiting(_)));
    assert!(waits(&client) && store.look("a").unwrap().waiters() == 1);
    drop(request);
    assert_eventually("its place is given up", LONG, || store.look("a").unwrap().waiters() == 0);
    assert_eq!((client.stats().waiting_now, client.stats().cancelled), (0, 1));
    drop(held);
    assert!(lock.try_acquire().unwrap().is_some(), "no turn is reserved for it");
}

fn a_request_that_is_never_driven_counts_for_nothing(store: &Store) {
    let client = store.client();
    drop(client.lock("a").unwrap().begin(None, None));
    let stats = client.stats();
    assert_eq!((stats.cancelled, stats.acquired, stats.wait_micros.count()), (0, 0, 0));
    assert!(store.is_free("a"));
}

fn a_cancelled_request_says_so_in_its_next_step(store: &Store) {
    let _held = store.client().lease("a", ttl(60_000)).unwrap().into_token().unwrap();
    let client = store.client();
    let cancel = CancelToken::new();
    let lock = client.lock("a").unwrap();
    let mut request = lock.begin(None, Some(&cancel));
    assert!(matches!(request.advance(STEP).unwrap(), Progress::Waiting(_)));
    cancel.cancel();
    assert!(matches!(request.advance(STEP), Err(Error::Cancelled { .. })));
    assert!(matches!(request.advance(STEP).unwrap(), Progress::Busy), "it is over");
    assert_eventually("its place is given up", LONG, || store.look("a").unwrap().waiters() == 0);
}

fn an_abandoned_lease_is_released_without_blocking(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(60_000)).unwrap();
    lease.abandon();
    assert_eventually("the background releases", LONG, || store.is_free("a"));
    let stats = client.stats();
    assert_eq!((stats.abandoned, stats.held_now), (1, 0));
}

fn a_shared_lease_is_released_once(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(60_000)).unwrap();
    let _ = lease.release_shared().unwrap();
    assert!(store.is_free("a"));
    assert!(matches!(lease.release_shared(), Err(Error::NotHeld { .. })));
    let next = client.lease("a", ttl(60_000)).unwrap();
    drop(lease);
    assert!(next.is_held() && !store.is_free("a"), "its end releases nothing more");
}

fn what_an_ended_holder_had_is_released_in_the_background(store: &Store) {
    let client = store.builder().holder_function(|| 7, |task| format!("task {task}")).build().unwrap();
    let (ended, other) = (client.lock("a").unwrap(), client.lock("b").unwrap());
    ended.acquire().unwrap().forget();
    client.holder_ended(8);
    assert_eq!(ended.hold_count(), 1, "that was another one");
    client.holder_ended(7);
    assert_eq!(ended.hold_count(), 0);
    assert_eventually("the background releases", LONG, || store.is_free("a"));
    assert_eq!(client.stats().abandoned, 1);
    assert!(other.try_acquire().unwrap().is_some());
}

fn a_lost_lock_is_known_to_its_holder_at_once(store: &Store) {
    let client = store.client();
    let guard = client.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    let other = client.lock_with("b", ttl(60_000)).unwrap().acquire().unwrap();
    assert!(client.lose("a").unwrap());
    assert_eq!(guard.lost(), Some(LostReason::Taken));
    assert!(other.is_held() && store.is_free("a"));
    assert!(!client.lose("a").unwrap(), "nobody has it");
}
