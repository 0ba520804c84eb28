//! A clock that a test moves, on the memory store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redlatch::{Client, Error, LockOptions, LostReason, ManualClock, Released};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, ms, timed, ttl, unique};

const HOUR: Duration = Duration::from_secs(3600);

/// Two clients of one store and the clock of both.
fn clients() -> (Client, Client, ManualClock) {
    let clock = ManualClock::new();
    let url = format!("memory://manual-{}", unique());
    let open = || Client::builder(&url).manual_clock(&clock).build().unwrap();
    (open(), open(), clock.clone())
}

#[test]
fn a_long_advance_keeps_a_renewed_lease_alive() {
    let (client, other, clock) = clients();
    let guard = client.lock_with("a", ttl(30_000)).unwrap().acquire().unwrap();
    let ((), took) = timed(|| clock.advance(HOUR));
    assert!(took < 10 * SECOND, "{took:?}");
    guard.check().unwrap();
    assert!(other.lock("a").unwrap().try_acquire().unwrap().is_none());
    let stats = client.stats();
    assert_eq!(stats.renewed, 360, "one every 10 s");
    assert_eq!((stats.renewal_late, stats.renewal_failed, stats.lost_total()), (0, 0, 0));
    assert_eq!((stats.renewal_delay_micros.count(), stats.renewal_delay_micros.max()), (360, 0));
    assert_eq!(stats.longest_hold_now.map(|hold| hold.held), Some(HOUR));
    assert_eq!(guard.release().unwrap(), Released::Released);
    let percent = client.stats().hold_percent_of_ttl.max();
    assert!(percent.abs_diff(12_000) <= 120, "within one percent: {percent}");
}

#[test]
fn a_fixed_lease_is_lost_exactly_at_its_deadline() {
    let (client, other, clock) = clients();
    let guard = client.lock_with("a", ttl(10_000).auto_renew(false)).unwrap().acquire().unwrap();
    // The ttl less 1 % and 2 ms.
    let lifetime = ms(10_000 - 100 - 2);
    assert_eq!(guard.remaining(), lifetime);
    clock.advance(lifetime - Duration::from_nanos(1));
    assert!(guard.is_held());
    assert_eq!(guard.remaining(), Duration::from_nanos(1));
    clock.advance(Duration::from_nanos(1));
    assert_eq!((guard.lost(), guard.remaining()), (Some(LostReason::Expired), Duration::ZERO));
    assert_eq!(client.stats().lost(LostReason::Expired), 1);
    assert!(other.lock("a").unwrap().try_acquire().unwrap().is_none(), "the store still keeps the key");
    clock.advance(ms(102) - Duration::from_nanos(1));
    assert!(other.inspect("a").unwrap().is_some());
    clock.advance(Duration::from_nanos(1));
    assert!(other.inspect("a").unwrap().is_none());
    assert!(other.lock("a").unwrap().try_acquire().unwrap().is_some());
}

#[test]
fn renewal_by_hand_moves_the_deadline() {
    let (client, _, clock) = clients();
    let guard = client.lock_with("a", ttl(10_000).auto_renew(false)).unwrap().acquire().unwrap();
    for _ in 0..100 {
        clock.advance(ms(9_000));
        guard.renew().unwrap();
        assert_eq!(guard.remaining(), ms(9_898));
    }
    clock.advance(ms(9_898));
    assert!(matches!(guard.renew(), Err(Error::Lost(_))));
}

#[test]
fn a_waiter_gets_the_lock_after_the_holders_ttl() {
    let (client, other, clock) = clients();
    let dead = client.lease("a", ttl(20_000).auto_renew(false)).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lock = other.lock_with("a", ttl(60_000)).unwrap();
            let guard = lock.try_acquire_for(HOUR).unwrap().expect("the first holder's ttl ended");
            guard.fence()
        });
        assert_eventually("it waits", 5 * SECOND, || other.stats().waiting_now == 1);
        clock.advance(ms(19_000));
        thread::sleep(ms(20));
        assert!(!waiter.is_finished(), "not yet");
        clock.advance(ms(1_001));
        assert!(waiter.join().unwrap() > dead.fence());
    });
    let waited = Duration::from_micros(other.stats().wait_micros.max());
    assert!(waited >= ms(19_800) && waited <= ms(20_300), "by the manual clock: {waited:?}");
}

#[test]
fn a_release_wakes_a_waiter_without_time_passing() {
    let (client, other, clock) = clients();
    let guard = client.lock("a").unwrap().acquire().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock("a").unwrap().acquire().unwrap().fence());
        assert_eventually("its inbox is open", 5 * SECOND, || other.stats().poll_wakeups >= 1);
        // Returns when the waiter sleeps again.
        clock.advance(Duration::from_nanos(1));
        let fence = guard.fence();
        drop(guard);
        assert!(waiter.join().unwrap() > fence);
    });
    assert_eq!(other.stats().push_wakeups, 1);
    assert_eq!(other.stats().wait_micros.max(), 0);
}

#[test]
fn a_wait_ends_by_the_manual_clock() {
    let (client, other, clock) = clients();
    let _guard = client.lock("a").unwrap().acquire().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| timed(|| other.lock("a").unwrap().try_acquire_for(HOUR).unwrap().is_none()));
        assert_eventually("it waits", 5 * SECOND, || other.stats().waiting_now == 1);
        clock.advance(HOUR);
        let (in_vain, took) = waiter.join().unwrap();
        assert!(in_vain && took < 30 * SECOND, "{took:?}");
    });
    assert_eq!(other.stats().timed_out, 1);
}

#[test]
fn max_hold_counts_manual_time() {
    let (client, other, clock) = clients();
    let told = Arc::new(Mutex::new(None));
    let note = told.clone();
    let options = ttl(10_000).max_hold(60 * SECOND).on_lost(move |info| {
        *note.lock().unwrap() = Some((info.name().to_owned(), info.reason()));
    });
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    clock.advance(60 * SECOND - Duration::from_nanos(1));
    assert!(guard.is_held());
    clock.advance(Duration::from_nanos(1));
    // What happens during advance() has happened when it returns.
    assert_eq!(told.lock().unwrap().take(), Some(("a".to_owned(), LostReason::MaxHold)));
    assert_eq!(guard.lost(), Some(LostReason::MaxHold));
    let left = other.inspect("a").unwrap().expect("the key lapses by its ttl").ttl_left().unwrap();
    assert!(left <= 10 * SECOND);
    clock.advance(left);
    assert!(other.inspect("a").unwrap().is_none());
}

#[test]
fn renewal_by_hand_does_not_outlast_max_hold() {
    let (client, _, clock) = clients();
    let options = ttl(10_000).auto_renew(false).max_hold(25 * SECOND);
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    for left in [9_898, 9_898, 9_000, 4_000] {
        guard.renew().unwrap();
        assert_eq!(guard.remaining(), ms(left));
        clock.advance(ms(if left == 9_898 { 8_000 } else { 5_000.min(left) }));
    }
    assert_eq!(guard.lost(), Some(LostReason::MaxHold));
    assert!(matches!(guard.renew(), Err(Error::Lost(info)) if info.reason() == LostReason::MaxHold));
}

#[test]
fn callbacks_run_during_the_advance_in_the_order_of_the_deadlines() {
    let (client, _, clock) = clients();
    let order = Arc::new(Mutex::new(Vec::new()));
    let leases: Vec<_> = [30, 10, 20]
        .map(|seconds| {
            let order = order.clone();
            let options = LockOptions::new().ttl(seconds * SECOND).auto_renew(false);
            let options = options.on_lost(move |info| order.lock().unwrap().push(info.name().to_owned()));
            client.lease(&format!("{seconds} s"), options).unwrap()
        })
        .into();
    clock.advance(15 * SECOND);
    assert_eq!(*order.lock().unwrap(), ["10 s"]);
    clock.advance(HOUR);
    assert_eq!(*order.lock().unwrap(), ["10 s", "20 s", "30 s"]);
    assert!(leases.iter().all(|lease| lease.lost() == Some(LostReason::Expired)));
}

#[test]
fn many_leases_of_different_ttls_survive_together() {
    let (client, other, clock) = clients();
    let lost = Arc::new(AtomicUsize::new(0));
    let leases: Vec<_> = (0..100u64)
        .map(|number| {
            let lost = lost.clone();
            let options = ttl(1_000 + 397 * number).on_lost(move |_| {
                lost.fetch_add(1, Ordering::SeqCst);
            });
            client.lease(&format!("a{number}"), options).unwrap()
        })
        .collect();
    for _ in 0..10 {
        clock.advance(ms(7_777));
        assert!(leases.iter().all(|lease| lease.is_held() && other.inspect(lease.name()).unwrap().is_some()));
    }
    assert_eq!((lost.load(Ordering::SeqCst), client.stats().lost_total()), (0, 0));
    assert_eq!(client.stats().renewal_late, 0);
}

#[test]
fn a_fence_grows_after_its_retention() {
    let (client, other, clock) = clients();
    let first = client.lock("a").unwrap().acquire().unwrap().fence();
    clock.advance(2 * HOUR);
    assert!(other.inspect("a").unwrap().is_none());
    let second = other.lock("a").unwrap().acquire().unwrap().fence();
    assert_eq!(second - first, 2 * 3_600_000_000, "fences follow the store's clock");
    assert_eq!(client.lock("a").unwrap().acquire().unwrap().fence(), second + 1, "which stands still");
}

#[test]
fn closing_needs_no_time_to_pass() {
    let (client, _, _clock) = clients();
    let guard = client.lock("a").unwrap().acquire().unwrap();
    let ((), took) = timed(|| client.close());
    assert!(took < SECOND, "{took:?}");
    assert_eq!(guard.lost(), Some(LostReason::Closed));
}
