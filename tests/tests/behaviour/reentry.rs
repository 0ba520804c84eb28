//! Holding a lock more than once on one thread.

use std::cell::Cell;
use std::thread;

use redlatch::{Error, LostReason, Released};

use crate::store::{Store, on_each_store, ttl};

on_each_store![
    nested_holds_are_one_lease,
    two_handles_of_a_name_are_one_lock,
    guards_may_end_in_any_order,
    the_first_grants_options_hold_until_the_last_release,
    re_entry_on_a_lost_lease_is_an_error,
    a_hundred_nested_holds_end_with_the_last,
    the_holder_may_be_a_task_instead_of_a_thread,
];

fn nested_holds_are_one_lease(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    assert_eq!(lock.hold_count(), 0);
    let outer = lock.acquire().unwrap();
    let inner = lock.try_acquire().unwrap().expect("its own");
    let innermost = lock.try_acquire_for(std::time::Duration::ZERO).unwrap().expect("its own");
    assert_eq!((outer.fence(), outer.token()), (inner.fence(), inner.token()));
    assert_eq!(outer.fence(), innermost.fence());
    assert_eq!((lock.hold_count(), outer.hold_count(), inner.hold_count()), (3, 3, 3));
    assert_eq!(innermost.release().unwrap(), Released::StillHeld(2));
    assert_eq!(inner.release().unwrap(), Released::StillHeld(1));
    assert!(outer.is_held());
    assert_eq!(store.holder("a").as_deref(), Some(outer.token().as_str()));
    assert_eq!(outer.release().unwrap(), Released::Released);
    assert_eq!(lock.hold_count(), 0);
    assert!(store.is_free("a"));
    assert_eq!((client.stats().acquired, client.stats().released), (1, 1));
}

fn two_handles_of_a_name_are_one_lock(store: &Store) {
    let client = store.client();
    let (one, other) = (client.lock("a").unwrap(), client.clone().lock_with("a", ttl(700)).unwrap());
    let guard = one.acquire().unwrap();
    let nested = other.try_acquire().unwrap().expect("the same lock");
    assert_eq!((one.hold_count(), other.hold_count()), (2, 2));
    assert_eq!(guard.fence(), nested.fence());
    drop(guard);
    assert_eq!(one.hold_count(), 1);
    assert_eq!(other.release().unwrap(), Released::Released);
    assert!(nested.release().is_err(), "released through the other handle");
    // Another client on this thread is another holder.
    let _guard = one.acquire().unwrap();
    assert!(store.client().lock("a").unwrap().try_acquire().unwrap().is_none());
}

fn guards_may_end_in_any_order(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let (first, second) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    assert_eq!(first.release().unwrap(), Released::StillHeld(1));
    assert!(second.is_held() && !store.is_free("a"));
    assert_eq!(second.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
}

fn the_first_grants_options_hold_until_the_last_release(store: &Store) {
    let client = store.client();
    let (long, short) = (client.lock_with("a", ttl(60_000)).unwrap(), client.lock_with("a", ttl(200)).unwrap());
    let outer = long.acquire().unwrap();
    let inner = short.acquire().unwrap();
    inner.renew().unwrap();
    assert!(store.look("a").unwrap().ttl_left().unwrap().as_secs() > 50);
    drop(outer);
    inner.renew().unwrap();
    assert!(store.look("a").unwrap().ttl_left().unwrap().as_secs() > 50);
    drop(inner);
    let _guard = short.acquire().unwrap();
    assert!(store.look("a").unwrap().ttl_left().unwrap().as_millis() <= 200);
}

fn re_entry_on_a_lost_lease_is_an_error(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    store.take_away("a");
    assert!(inner.renew().is_err());
    let lost = |error: Error| matches!(error, Error::Lost(info) if info.reason() == LostReason::Taken);
    assert!(lost(lock.acquire().unwrap_err()));
    assert!(lost(lock.try_acquire().unwrap_err()));
    assert_eq!(lock.hold_count(), 2, "a refused re-entry is not counted");
    assert!(lost(inner.release().unwrap_err()));
    assert_eq!(lock.hold_count(), 1);
    assert!(lost(lock.acquire().unwrap_err()), "until every guard is released");
    let fence = outer.fence();
    assert!(lost(outer.release().unwrap_err()));
    let guard = lock.try_acquire().unwrap().expect("the lock is usable again");
    assert!(guard.fence() > fence && guard.is_held());
}

fn a_hundred_nested_holds_end_with_the_last(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let mut guards: Vec<_> = (0..100).map(|_| lock.acquire().unwrap()).collect();
    assert_eq!(lock.hold_count(), 100);
    while let Some(guard) = guards.pop() {
        assert!(!store.is_free("a"));
        let left = guards.len() as u32;
        let expected = if left == 0 { Released::Released } else { Released::StillHeld(left) };
        assert_eq!(guard.release().unwrap(), expected);
    }
    assert!(store.is_free("a"));
    assert_eq!(client.stats().acquired, 1);
}

thread_local! {
    static TASK: Cell<u64> = const { Cell::new(0) };
}

// What bindings do whose tasks share threads.
fn the_holder_may_be_a_task_instead_of_a_thread(store: &Store) {
    let client = store.builder().holder_function(|| TASK.get(), |task| format!("task {task}")).build().unwrap();
    let lock = client.lock("a").unwrap();
    TASK.set(1);
    lock.acquire().unwrap().forget();
    TASK.set(2);
    assert_eq!(lock.hold_count(), 0, "another task of the same thread");
    assert!(lock.try_acquire().unwrap().is_none());
    let error = lock.release().unwrap_err();
    assert!(
        matches!(error, Error::NotHeld { .. })
            && error.to_string().contains("task 1")
            && error.to_string().contains("task 2"),
        "{error}"
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            TASK.set(1);
            assert_eq!(lock.hold_count(), 1, "the same task on another thread");
            lock.try_acquire().unwrap().expect("it re-enters").forget();
            assert_eq!(lock.release().unwrap(), Released::StillHeld(1));
        });
    });
    TASK.set(1);
    assert_eq!(lock.release().unwrap(), Released::Released);
    TASK.set(2);
    assert!(lock.try_acquire().unwrap().is_some());
}
