//! Handles: objects through which a binding acquires and releases leases.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, LeaseHandle, Progress, Released};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, on_each_store, ttl};

on_each_store![
    a_handle_has_one_lease_after_the_other,
    a_handle_in_use_begins_nothing,
    an_acquire_through_a_handle_that_is_dropped_leaves_it_free,
    what_was_granted_to_a_handle_can_be_given_back,
    a_handle_adopts_and_hands_over,
    a_handle_that_is_looked_at_is_not_handed_over,
    a_handle_that_is_handed_over_in_vain_never_lets_another_thread_in,
    a_handle_that_is_dropped_is_released_in_the_background,
];

fn handle(client: &Client) -> LeaseHandle {
    LeaseHandle::new(client, "a", ttl(60_000)).unwrap()
}

#[track_caller]
fn acquire(handle: &LeaseHandle) {
    let mut request = handle.begin(None, None, None).unwrap();
    let progress = request.advance(Duration::ZERO).unwrap();
    assert!(matches!(progress, Progress::Granted(())), "{progress:?}");
}

#[track_caller]
fn assert_holds_nothing(handle: &LeaseHandle) {
    assert!(!handle.is_held() && handle.lost().is_none() && handle.remaining().is_zero());
    assert!(matches!(handle.lease(), Err(Error::NotHeld { .. })));
    assert!(matches!(handle.release(), Err(Error::NotHeld { .. })));
    assert!(matches!(handle.into_token(), Err(Error::NotHeld { .. })));
}

fn a_handle_has_one_lease_after_the_other(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    assert_eq!(handle.name(), "a");
    assert_holds_nothing(&handle);
    let mut last = 0;
    for _ in 0..3 {
        acquire(&handle);
        assert!(handle.is_held() && handle.is_locked().unwrap() && handle.remaining() > 50 * SECOND);
        let lease = handle.lease().unwrap();
        assert!(lease.fence() > last);
        last = lease.fence();
        assert_eq!(store.holder("a").as_deref(), Some(lease.token().as_str()));
        assert_eq!(handle.release().unwrap(), Released::Released);
        assert_holds_nothing(&handle);
        assert!(store.is_free("a") && !handle.is_locked().unwrap());
    }
}

fn a_handle_in_use_begins_nothing(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    let request = handle.begin(None, None, None).unwrap();
    assert!(matches!(handle.begin(None, None, None), Err(Error::InUse { .. })), "another acquires");
    assert!(matches!(handle.adopt("a@b:1", None), Err(Error::InUse { .. })));
    assert_holds_nothing(&handle);
    drop(request);
    acquire(&handle);
    let token = handle.lease().unwrap().token().clone();
    let error = handle.begin(None, None, None).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }) && error.to_string().contains("not re-entrant"), "{error}");
    assert!(matches!(handle.adopt(token.as_str(), None), Err(Error::InUse { .. })));
    assert!(handle.is_held(), "what was refused changes nothing");
    assert_eq!(store.holder("a").as_deref(), Some(token.as_str()));
}

fn an_acquire_through_a_handle_that_is_dropped_leaves_it_free(store: &Store) {
    let client = store.client();
    let held = store.client().lease("a", ttl(60_000)).unwrap();
    let handle = handle(&client);
    let mut request = handle.begin(None, None, None).unwrap();
    assert!(matches!(request.advance(Duration::ZERO).unwrap(), Progress::Waiting(_)));
    drop(request);
    assert_holds_nothing(&handle);
    assert_eq!(store.look("a").unwrap().waiters(), 0);
    let mut request = handle.begin(None, Some(Duration::ZERO), None).unwrap();
    assert!(matches!(request.advance(Duration::ZERO).unwrap(), Progress::Busy));
    drop(request);
    drop(held);
    acquire(&handle);
}

fn what_was_granted_to_a_handle_can_be_given_back(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    let mut request = handle.begin(None, None, None).unwrap();
    assert!(matches!(request.advance(Duration::ZERO).unwrap(), Progress::Granted(())));
    assert!(handle.is_held());
    request.give_back();
    assert_holds_nothing(&handle);
    assert!(store.is_free("a"));
}

fn a_handle_adopts_and_hands_over(store: &Store) {
    let (from, to) = (store.client(), store.client());
    let (old, new) = (handle(&from), handle(&to));
    acquire(&old);
    let fence = old.lease().unwrap().fence();
    let token = old.into_token().unwrap();
    assert_holds_nothing(&old);
    assert_eq!(store.holder("a").as_deref(), Some(token.as_str()), "nothing is released");
    assert!(!new.adopt("a@b:1", None).unwrap());
    assert_holds_nothing(&new);
    assert!(new.adopt(token.as_str(), None).unwrap());
    assert!(new.lease().unwrap().fence() > fence);
    assert!(!old.adopt(token.as_str(), None).unwrap(), "the old token proves nothing any more");
    assert_eq!(new.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
}

fn a_handle_that_is_looked_at_is_not_handed_over(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    acquire(&handle);
    let looked_at = handle.lease().unwrap();
    assert!(matches!(handle.into_token(), Err(Error::InUse { .. })));
    assert!(handle.is_held());
    drop(looked_at);
    let token = handle.into_token().unwrap();
    assert_eq!(store.holder("a").as_deref(), Some(token.as_str()));
}

fn a_handle_that_is_handed_over_in_vain_never_lets_another_thread_in(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    acquire(&handle);
    let looked_at = handle.lease().unwrap();
    const TIMES: u32 = 500_000;
    let tries = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let refused = matches!(handle.adopt("a@b:1", None), Err(Error::InUse { .. }));
                assert!(refused, "another thread was let in while the handle had a lease");
                tries.fetch_add(1, Ordering::Relaxed);
            }
        });
        // A few hundred thousand times, and both at once, however the threads are scheduled.
        let begun = Instant::now();
        let mut kept = true;
        let mut asked = 0;
        while kept && (asked < TIMES || tries.load(Ordering::Relaxed) < TIMES) && begun.elapsed() < 10 * SECOND {
            kept = matches!(handle.into_token(), Err(Error::InUse { .. }));
            asked += 1;
        }
        over.store(true, Ordering::Relaxed);
        assert!(kept, "handed over, or lost, at attempt {asked}");
    });
    drop(looked_at);
    assert!(handle.is_held());
    assert_eq!(handle.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
}

fn a_handle_that_is_dropped_is_released_in_the_background(store: &Store) {
    let client = store.client();
    let handle = handle(&client);
    acquire(&handle);
    drop(handle);
    assert_eventually("it is released", SECOND, || store.is_free("a"));
}
