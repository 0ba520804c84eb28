//! How a lease is kept, how it is lost, and how its holder learns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Error, LockOptions, LostInfo, LostReason, Released};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, at_once, machine_to_myself, ms, on_all_stores_at_once, on_each_store, ttl};

on_each_store![
    renewal_by_hand_resets_the_ttl,
    a_callback_is_told_which_lease_was_lost_and_why,
    a_panic_in_a_callback_is_contained,
    a_callback_may_use_the_client,
    a_released_lease_calls_nobody,
    a_lease_is_lost_by_the_clock_while_a_callback_blocks_the_watch,
];
on_all_stores_at_once![
    renewal_keeps_a_lease_for_many_ttls,
    a_lease_that_is_renewed_by_hand_lives_on,
    max_hold_ends_a_lease_that_is_renewed,
];

type Loss = (LostInfo, Instant, Option<String>);

/// Options whose callback sends what it gets, when, and on which thread.
fn reported(options: LockOptions) -> (LockOptions, Receiver<Loss>) {
    let (sender, losses) = mpsc::channel();
    let options = options.on_lost(move |info| {
        let thread = thread::current().name().map(str::to_owned);
        sender.send((info.clone(), Instant::now(), thread)).unwrap();
    });
    (options, losses)
}

fn renewal_by_hand_resets_the_ttl(store: &Store) {
    let client = store.client();
    let guard = client.lock_with("a", ttl(10_000).auto_renew(false)).unwrap().acquire().unwrap();
    assert_eventually("time passes", SECOND, || guard.remaining() < ms(9_600));
    let before = store.look("a").unwrap().ttl_left().unwrap();
    guard.renew().unwrap();
    assert!(guard.remaining() > ms(9_600));
    assert!(store.look("a").unwrap().ttl_left().unwrap() > before);
    assert_eq!(client.stats().renewed, 0, "only renewals of the background count");
}

fn renewal_keeps_a_lease_for_many_ttls(store: &Store) {
    let client = store.client();
    let (options, losses) = reported(ttl(1_000));
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    let token = guard.token().as_str().to_owned();
    let end = Instant::now() + ms(3_200);
    while Instant::now() < end {
        guard.check().unwrap();
        assert!(!guard.remaining().is_zero());
        assert_eq!(store.holder("a").as_ref(), Some(&token));
        thread::sleep(ms(20));
    }
    let renewed = client.stats().renewed;
    assert!((8..=10).contains(&renewed), "one every third of the ttl: {renewed}");
    assert_eq!(guard.release().unwrap(), Released::Released);
    assert!(losses.try_recv().is_err());
}

fn a_lease_that_is_renewed_by_hand_lives_on(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(2_000).auto_renew(false)).unwrap();
    for _ in 0..8 {
        thread::sleep(ms(400));
        lease.renew().unwrap();
    }
    assert!(lease.is_held());
    assert_eq!(lease.release().unwrap(), Released::Released);
}

#[test]
fn a_fixed_lease_is_lost_before_the_server_gives_the_lock_away() {
    let _machine = machine_to_myself();
    at_once(a_fixed_lease_is_lost_in_time);
}

fn a_fixed_lease_is_lost_in_time(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let (options, losses) = reported(ttl(3_000).auto_renew(false));
    let before = Instant::now();
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    let next = other.lock("a").unwrap().try_acquire_for(5 * SECOND).unwrap().expect("the key lapsed");
    let given_away = Instant::now();
    assert!(!guard.is_held(), "whatever the load of the machine");
    let (info, told, _) = losses.recv_timeout(SECOND).expect("the callback is called");
    assert!(told < given_away, "told {:?} too late", told - given_away);
    assert!(told >= before + ms(3_000 - 30 - 2), "not before its deadline");
    assert_eq!((info.reason(), info.fence()), (LostReason::Expired, guard.fence()));
    assert_eq!((guard.lost(), guard.remaining()), (Some(LostReason::Expired), Duration::ZERO));
    let error = guard.check().unwrap_err();
    assert!(matches!(&error, Error::Lost(_)), "{error}");
    assert!(matches!(guard.renew(), Err(Error::Lost(_))), "once lost, always lost");
    assert!(next.is_held());
    assert_eq!(store.holder("a").as_deref(), Some(next.token().as_str()));
    assert_eq!(client.stats().lost(LostReason::Expired), 1);
}

fn max_hold_ends_a_lease_that_is_renewed(store: &Store) {
    let client = store.client();
    let (options, losses) = reported(ttl(2_000).max_hold(5 * SECOND));
    let before = Instant::now();
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    let after = Instant::now();
    thread::sleep((before + ms(4_900)).saturating_duration_since(Instant::now()));
    let held = guard.is_held();
    assert!(held || Instant::now() >= before + 5 * SECOND, "held until then");
    let (info, told, _) = losses.recv_timeout(SECOND).expect("the callback is called");
    assert!(told >= before + 5 * SECOND && told <= after + ms(5_100), "{:?}", told - before);
    assert_eq!(info.reason(), LostReason::MaxHold);
    assert!(matches!(guard.check(), Err(Error::Lost(info)) if info.reason() == LostReason::MaxHold));
    let renewed = client.stats().renewed;
    assert!((4..=7).contains(&renewed), "one every third of the ttl: {renewed}");
    // Nothing is deleted: the key lapses within a ttl, which gives a stuck holder that time to notice.
    assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()));
    let looked = Instant::now();
    let left = store.look("a").unwrap().ttl_left().unwrap();
    assert!(looked + left <= after + ms(7_000), "one ttl after max_hold at the latest: {left:?}");
    assert_eventually("the key lapses", left + SECOND, || store.is_free("a"));
    assert_eq!(client.stats().renewed, renewed, "renewal stopped at max_hold");
    assert_eq!(client.stats().lost(LostReason::MaxHold), 1);
    let error = guard.release().unwrap_err();
    assert!(error.to_string().contains("max_hold"), "{error}");
}

fn a_callback_is_told_which_lease_was_lost_and_why(store: &Store) {
    let client = store.client();
    let (options, losses) = reported(ttl(60_000));
    for _ in 0..2 {
        let lease = client.lease("a", options.clone()).unwrap();
        store.take_away("a");
        assert!(lease.renew().is_err());
        let (info, _, thread) = losses.recv_timeout(SECOND).expect("the callback is called");
        assert_eq!((info.name(), info.token(), info.fence()), ("a", lease.token(), lease.fence()));
        assert_eq!(info.reason(), LostReason::Taken);
        assert_eq!(thread.as_deref(), Some("redlatch-events"), "not on the caller's thread");
        let text = info.to_string();
        assert!(text.contains("\"a\"") && text.contains(&lease.fence().to_string()), "{text}");
        assert!(!format!("{info:?} {text}").contains(lease.token().as_str()), "the token is a secret");
        assert!(lease.renew().is_err() && lease.check().is_err());
        assert!(lease.release().is_err());
        assert!(losses.recv_timeout(ms(20)).is_err(), "once for every lost lease");
    }
}

fn a_panic_in_a_callback_is_contained(store: &Store) {
    let client = store.client();
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let panicking = ttl(60_000).on_lost(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a defect of the user's"));
    });
    let (options, losses) = reported(ttl(60_000));
    let leases = [
        client.lease("a", panicking.clone()).unwrap(),
        client.lease("b", panicking).unwrap(),
        client.lease("c", options).unwrap(),
    ];
    for lease in &leases {
        store.take_away(lease.name());
        assert!(lease.renew().is_err());
    }
    let (info, ..) = losses.recv_timeout(SECOND).expect("later callbacks are called");
    assert_eq!(info.name(), "c");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let stats = client.stats();
    assert_eq!((stats.callback_panicked, stats.thread_panicked), (2, 0));
    assert_eq!(stats.lost(LostReason::Taken), 3);
    let guard = client.lock("a").unwrap().acquire().unwrap();
    assert!(guard.is_held(), "the client goes on");
}

fn a_callback_may_use_the_client(store: &Store) {
    let client = store.client();
    let (sender, outcome) = mpsc::channel();
    let again = client.clone();
    let options = ttl(60_000).on_lost(move |info| {
        let lease = again.try_lease(info.name(), ttl(60_000)).unwrap().expect("it is free");
        sender.send((lease, again.stats().lost_total())).unwrap();
    });
    let lease = client.lease("a", options).unwrap();
    store.take_away("a");
    assert!(lease.renew().is_err());
    let (next, lost) = outcome.recv_timeout(5 * SECOND).expect("the callback came to its end");
    assert_eq!(lost, 1);
    assert!(next.is_held() && next.fence() > lease.fence());
}

fn a_lease_is_lost_by_the_clock_while_a_callback_blocks_the_watch(store: &Store) {
    let client = store.client();
    let (begin, begun) = mpsc::channel();
    let (go_on, told) = mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let blocking = ttl(60_000).on_lost(move |_| {
        begin.send(()).unwrap();
        let _ = told.lock().unwrap().recv();
    });
    let lease = client.lease("blocks", blocking).unwrap();
    store.take_away("blocks");
    assert!(lease.renew().is_err());
    begun.recv_timeout(SECOND).expect("the callback is called");
    let lock = client.lock_with("a", ttl(200).auto_renew(false)).unwrap();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    let (fixed, dropped) = (client.lease("b", ttl(200).auto_renew(false)).unwrap(), ttl(200).auto_renew(false));
    let dropped = client.lease("c", dropped).unwrap();
    assert_eventually("the keys lapse", SECOND, || ["a", "b", "c"].iter().all(|name| store.is_free(name)));
    // Nobody has looked at the clock for these leases yet.
    let expired = |error: Error| matches!(error, Error::Lost(info) if info.reason() == LostReason::Expired);
    assert!(expired(inner.release().unwrap_err()), "an inner release");
    assert!(expired(outer.release().unwrap_err()), "the last release");
    assert!(expired(fixed.into_token().unwrap_err()), "a hand-over");
    drop(dropped);
    assert_eq!(client.stats().lost(LostReason::Expired), 3);
    go_on.send(()).unwrap();
}

fn a_released_lease_calls_nobody(store: &Store) {
    let client = store.client();
    let (options, losses) = reported(ttl(200).auto_renew(false));
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    assert_eq!(guard.release().unwrap(), Released::Released);
    assert!(losses.recv_timeout(ms(300)).is_err());
    assert_eq!(client.stats().lost_total(), 0);
}
