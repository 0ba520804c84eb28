//! Looking at locks, and stepping in.

use std::sync::mpsc;
use std::thread;

use redlatch::{Error, LostReason};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, on_all_stores_at_once, on_each_store, ttl};

on_each_store![
    inspection_tells_who_has_a_lock,
    a_lock_that_is_taken_away_is_lost_at_the_next_renewal_by_hand,
    force_gives_the_lock_to_the_next_waiter,
    is_locked_is_the_same_for_everyone,
];
on_all_stores_at_once![a_lock_that_is_taken_away_is_lost_at_the_next_renewal_in_the_background];

fn inspection_tells_who_has_a_lock(store: &Store) {
    let client = store.builder().label("worker-7").build().unwrap();
    assert_eq!(store.look("a"), None);
    let guard = client.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    let info = store.look("a").unwrap();
    assert_eq!((info.name(), info.token(), info.fence()), ("a", guard.token(), Some(guard.fence())));
    assert_eq!(info.waiters(), 0);
    let left = info.ttl_left().unwrap();
    assert!(left.as_secs() >= 50 && left.as_secs() <= 60, "{left:?}");
    let owner = info.owner().expect("redlatch's own");
    assert!(owner.ends_with(&format!(":{}:worker-7", std::process::id())), "{owner}");
    let text = format!("{info:?} {client:?} {guard:?}");
    assert!(text.contains(":worker-7") && !text.contains(guard.token().as_str()), "{text}");

    let waiter = store.client();
    thread::scope(|scope| {
        for waiters in 1..=3 {
            scope.spawn(|| drop(waiter.lock("a").unwrap().acquire().unwrap()));
            store.wait_for_waiters("a", waiters);
        }
        drop(guard);
    });
    assert_eq!(client.inspect("a").unwrap(), None);
}

fn a_lock_that_is_taken_away_is_lost_at_the_next_renewal_by_hand(store: &Store) {
    let (holder, operator) = (store.client(), store.client());
    assert!(!operator.force_release("a").unwrap(), "nobody has it");
    let guard = holder.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    assert!(operator.force_release("a").unwrap());
    assert!(store.is_free("a"));
    assert!(!operator.force_release("a").unwrap());
    assert!(guard.is_held(), "the holder does not know yet");
    let next = operator.lock("a").unwrap().try_acquire().unwrap().expect("it is free");
    assert!(next.fence() > guard.fence());
    let error = guard.renew().unwrap_err();
    assert!(matches!(&error, Error::Lost(info) if info.reason() == LostReason::Taken), "{error}");
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert_eq!(guard.lost(), Some(LostReason::Taken));
    assert!(guard.release().is_err());
    assert!(next.is_held());
    assert_eq!(store.holder("a").as_deref(), Some(next.token().as_str()));
}

fn a_lock_that_is_taken_away_is_lost_at_the_next_renewal_in_the_background(store: &Store) {
    let holder = store.client();
    let guard = holder.lock_with("a", ttl(1_500)).unwrap().acquire().unwrap();
    store.take_away("a");
    // Renewed a third of the ttl after the grant.
    assert_eventually("the holder knows", SECOND, || !guard.is_held());
    assert_eq!(guard.lost(), Some(LostReason::Taken));
    assert!(store.is_free("a"), "the key is not made again");
    assert_eq!(holder.stats().lost(LostReason::Taken), 1);
}

fn force_gives_the_lock_to_the_next_waiter(store: &Store) {
    let (holder, client, operator) = (store.client(), store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    thread::scope(|scope| {
        let (go_on, told) = mpsc::channel::<()>();
        let client = &client;
        let waiter = scope.spawn(move || {
            let guard = client.lock("a").unwrap().acquire().unwrap();
            told.recv().unwrap();
            guard.fence()
        });
        store.wait_for_waiters("a", 1);
        assert!(operator.force_release("a").unwrap());
        assert!(operator.lock("a").unwrap().try_acquire().unwrap().is_none(), "it is the waiter's turn");
        go_on.send(()).unwrap();
        assert!(waiter.join().unwrap() > guard.fence());
    });
}

fn is_locked_is_the_same_for_everyone(store: &Store) {
    let (one, other) = (store.client(), store.client());
    let (mine, theirs) = (one.lock("a").unwrap(), other.lock("a").unwrap());
    assert!(!mine.is_locked().unwrap() && !theirs.is_locked().unwrap());
    let guard = mine.acquire().unwrap();
    assert!(mine.is_locked().unwrap() && theirs.is_locked().unwrap());
    drop(guard);
    assert!(!mine.is_locked().unwrap() && !theirs.is_locked().unwrap());
    let _lease = other.lease("a", ttl(5_000)).unwrap();
    assert!(mine.is_locked().unwrap());
}
