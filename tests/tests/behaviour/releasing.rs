//! Giving a lock back.

use std::thread;

use redlatch::{Error, LostReason, Released};
use redlatch_tests::{Monitor, assert_eventually};

use crate::store::{SECOND, Store, ms, on_all_stores_at_once, on_each_server, on_each_store, timed, ttl};

on_each_store![
    a_release_frees_the_lock,
    a_dropped_guard_releases,
    a_second_release_is_an_error,
    another_thread_cannot_release,
    a_forgotten_guard_keeps_the_lock_until_it_is_released_by_hand,
    a_panic_releases_what_its_frames_hold,
    looking_at_a_hold_does_not_release_it,
];
on_each_server![a_release_leaves_only_the_fence_behind];
on_all_stores_at_once![the_release_of_a_lapsed_lease_leaves_its_successor_alone];

fn a_release_frees_the_lock(store: &Store) {
    let client = store.client();
    let guard = client.lock("a").unwrap().acquire().unwrap();
    assert_eq!(guard.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
    let lease = client.lease("a", ttl(5_000)).unwrap();
    assert_eq!(lease.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
}

fn a_dropped_guard_releases(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    drop(lock.acquire().unwrap());
    assert!(store.is_free("a"));
    assert_eq!(lock.hold_count(), 0);
    drop(client.lease("a", ttl(5_000)).unwrap());
    assert!(store.is_free("a"));
    assert_eq!(client.stats().released, 2);
}

fn a_second_release_is_an_error(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    assert_eq!(lock.release().unwrap(), Released::Released);
    let refused = |error: &Error| matches!(error, Error::NotHeld { .. }) && error.to_string().contains("\"a\"");
    assert!(refused(&lock.release().unwrap_err()));
    let next = store.client().lock("a").unwrap().acquire().unwrap();
    assert!(refused(&guard.check().unwrap_err()), "released by other means");
    assert!(!guard.is_held() && guard.remaining().is_zero() && guard.hold_count() == 0);
    assert!(refused(&guard.release().unwrap_err()));
    assert!(refused(&lock.release().unwrap_err()));
    assert_eq!(store.holder("a").as_deref(), Some(next.token().as_str()), "the next holder's key is untouched");
}

fn another_thread_cannot_release(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    let thread = thread::Builder::new().name("intruder".to_owned());
    let error =
        thread::scope(|scope| thread.spawn_scoped(scope, || lock.release().unwrap_err()).unwrap().join().unwrap());
    let text = error.to_string();
    assert!(matches!(error, Error::NotHeld { .. }), "{text}");
    assert!(text.contains("\"a\"") && text.contains("\"intruder\"") && text.contains("holder "), "{text}");
    assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()));
    assert_eq!(guard.release().unwrap(), Released::Released);
}

fn a_forgotten_guard_keeps_the_lock_until_it_is_released_by_hand(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    lock.acquire().unwrap().forget();
    lock.acquire().unwrap().forget();
    assert_eq!(lock.hold_count(), 2);
    let (token, count) =
        lock.with_held(|guard| (guard.token().as_str().to_owned(), guard.hold_count())).expect("it is held");
    assert_eq!((store.holder("a"), count), (Some(token), 2));
    assert_eq!(lock.release().unwrap(), Released::StillHeld(1));
    assert!(!store.is_free("a"));
    assert_eq!(lock.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
    assert!(matches!(lock.with_held(|_| ()), Err(Error::NotHeld { .. })));
}

fn looking_at_a_hold_does_not_release_it(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    lock.acquire().unwrap().forget();
    assert!(lock.with_held(|guard| guard.is_held()).unwrap());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: redlatch::Result<()> = lock.with_held(|_| std::panic::resume_unwind(Box::new("while looking")));
    }));
    assert!(panicked.is_err());
    assert_eq!(lock.hold_count(), 1, "the guard was only lent");
    assert!(!store.is_free("a"));
    assert_eq!(lock.release().unwrap(), Released::Released);
}

fn a_panic_releases_what_its_frames_hold(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = lock.acquire().unwrap();
        let _lease = client.lease("b", ttl(5_000)).unwrap();
        std::panic::resume_unwind(Box::new("at work"));
    }));
    assert!(panicked.is_err());
    assert!(store.is_free("a") && store.is_free("b"));
    assert_eq!(lock.hold_count(), 0);
}

fn a_release_leaves_only_the_fence_behind(store: &Store) {
    let client = store.client();
    drop(client.lock("a").unwrap().acquire().unwrap());
    let keys = store.server().keys(&format!("*{}*", store.prefix()));
    assert_eq!(keys, [store.sibling("a", "fence")]);
}

fn the_release_of_a_lapsed_lease_leaves_its_successor_alone(store: &Store) {
    let (stalled, next) = (store.client(), store.client());
    let lock = stalled.lock_with("a", ttl(300).auto_renew(false)).unwrap();
    let outer = lock.acquire().unwrap();
    let inner = lock.acquire().unwrap();
    let guard = next.lock("a").unwrap().try_acquire_for(5 * SECOND).unwrap().expect("it lapsed");
    for (guard, left) in [(inner, 1), (outer, 0)] {
        let error = guard.release().unwrap_err();
        assert!(matches!(&error, Error::Lost(info) if info.reason() == LostReason::Expired), "{error}");
        assert!(error.is_retryable());
        assert_eq!(lock.hold_count(), left, "the count goes down all the same");
    }
    assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()));
    assert_eq!(guard.release().unwrap(), Released::Released);
}

#[test]
fn a_second_release_sends_nothing() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let store = Store::fresh(kind);
    let client = store.client();
    let lock = client.lock("a").unwrap();
    lock.acquire().unwrap().forget();
    assert_eq!(lock.release().unwrap(), Released::Released);
    let monitor = Monitor::start(store.server());
    assert!(lock.release().is_err());
    monitor.wait_idle();
    assert!(monitor.client_commands().is_empty(), "{:?}", monitor.client_commands());
}

#[test]
fn a_release_that_no_server_confirms_is_neither_success_nor_error() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let store = Store::fresh(kind);
    let client = store.builder().io_timeout(ms(200)).build().unwrap();
    let guard = client.lock("a").unwrap().acquire().unwrap();
    store.server().pause();
    let (outcome, took) = timed(|| guard.release());
    assert_eq!(outcome.unwrap(), Released::Unconfirmed);
    assert!(took < ms(400), "{took:?}");
    store.server().resume();
    assert_eventually("the background frees it", SECOND, || store.is_free("a"));
    let stats = client.stats();
    assert_eq!((stats.release_unconfirmed, stats.released), (1, 0));
    assert_eventually("the background is done", SECOND, || client.stats().background_released == 1);
    assert_eq!(client.stats().background_now, 0);
}
