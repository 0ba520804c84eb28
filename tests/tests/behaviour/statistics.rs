//! The counters, timings and gauges of a client.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, LostReason, Stats};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, ms, on_all_stores_at_once, on_each_store, ttl, unique};

on_each_store![
    a_new_client_has_done_nothing,
    grants_releases_and_refusals_are_counted,
    waits_are_counted_and_timed,
    gauges_show_what_is_held_and_who_waits,
    losses_are_counted_by_reason,
    a_lock_that_cannot_be_had_is_counted,
];
on_all_stores_at_once![holds_are_timed];

fn a_new_client_has_done_nothing(store: &Store) {
    let stats = store.client().stats();
    let Stats { acquired, busy, timed_out, unavailable, acquire_failed, cancelled, renewed, .. } = stats.clone();
    assert_eq!([acquired, busy, timed_out, unavailable, acquire_failed, cancelled, renewed], [0; 7]);
    let Stats { push_wakeups, poll_wakeups, pushes, inbox_lost, push_denied, publish_denied, .. } = stats.clone();
    assert_eq!([push_wakeups, poll_wakeups, pushes, inbox_lost, push_denied, publish_denied], [0; 6]);
    assert_eq!((stats.held_now, stats.waiting_now, stats.background_now, stats.lost_total()), (0, 0, 0, 0));
    assert_eq!(stats.longest_hold_now, None);
    assert_eq!(stats.wait_micros.count() + stats.hold_micros.count() + stats.hold_percent_of_ttl.count(), 0);
    assert_eq!(stats.renewal_delay_micros.count(), 0);
    assert!(stats.hottest.is_empty());
}

fn grants_releases_and_refusals_are_counted(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let lock = client.lock("a").unwrap();
    for _ in 0..3 {
        let _outer = lock.acquire().unwrap();
        let _inner = lock.acquire().unwrap();
    }
    let _theirs = other.lease("b", ttl(5_000)).unwrap();
    for _ in 0..4 {
        assert!(client.lock("b").unwrap().try_acquire().unwrap().is_none());
    }
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.released, stats.busy), (3, 3, 4));
    assert_eq!((stats.timed_out, stats.unavailable, stats.acquire_failed), (0, 0, 0));
    assert_eq!((stats.push_wakeups, stats.poll_wakeups, stats.pushes, stats.inbox_lost), (0, 0, 0, 0));
    assert_eq!(stats.wait_micros.count(), 3, "a try that does not wait is no wait");
    assert_eq!(stats.hold_micros.count(), 3);
    assert!(stats.hottest.is_empty(), "nobody waited: {:?}", stats.hottest);
    assert_eq!(other.stats().acquired, 1, "each client counts its own");
    assert_eq!(client.clone().stats().acquired, 3, "clones are one client");
}

fn waits_are_counted_and_timed(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let theirs = other.lease("hot", ttl(5_000)).unwrap();
    let _more = other.lease("warm", ttl(5_000)).unwrap();
    for _ in 0..3 {
        assert!(client.lock("hot").unwrap().try_acquire_for(ms(200)).unwrap().is_none());
    }
    assert!(client.lock("warm").unwrap().try_acquire_for(ms(200)).unwrap().is_none());
    let stats = client.stats();
    assert_eq!((stats.timed_out, stats.busy, stats.acquired), (4, 0, 0));
    assert!((1..=20).contains(&stats.poll_wakeups), "they ask again from time to time: {}", stats.poll_wakeups);
    assert_eq!((stats.push_wakeups, stats.pushes), (0, 0), "nothing was released");
    assert_eq!(stats.wait_micros.count(), 4);
    assert!(stats.wait_micros.quantile(0.0) >= 198_000, "{:?}", stats.wait_micros);
    assert!(stats.wait_micros.max() < 2_000_000, "{:?}", stats.wait_micros);
    assert_eq!(stats.wait_micros.count_at_most(190_000), 0);
    let hottest: Vec<(&str, u64)> = stats.hottest.iter().map(|hot| (hot.name.as_str(), hot.waits)).collect();
    assert_eq!(hottest, [("hot", 3), ("warm", 1)]);

    thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(client.lock("hot").unwrap().acquire().unwrap()));
        store.wait_for_waiters("hot", 1);
        drop(theirs);
        waiter.join().unwrap();
    });
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.timed_out), (1, 4));
    assert_eq!(stats.wait_micros.count(), 5);
    assert_eq!((stats.hottest[0].name.as_str(), stats.hottest[0].waits), ("hot", 4));
}

fn holds_are_timed(store: &Store) {
    let client = store.client();
    let guard = client.lock_with("a", ttl(1_000)).unwrap().acquire().unwrap();
    thread::sleep(ms(500));
    drop(guard);
    let fixed = client.lease("b", ttl(400).auto_renew(false)).unwrap();
    assert_eventually("it is lost", SECOND, || client.stats().lost_total() == 1);
    drop(fixed);
    let stats = client.stats();
    assert_eq!((stats.hold_micros.count(), stats.hold_percent_of_ttl.count()), (2, 2), "a lost lease counts once");
    let (short, long) = (stats.hold_micros.quantile(0.5), stats.hold_micros.max());
    assert!((380_000..480_000).contains(&short), "{short}");
    assert!((500_000..900_000).contains(&long), "{long}");
    let (half, whole) = (stats.hold_percent_of_ttl.quantile(0.5), stats.hold_percent_of_ttl.max());
    assert!((50..90).contains(&half) && (95..120).contains(&whole), "{:?}", stats.hold_percent_of_ttl);
    let mean = stats.hold_micros.mean();
    assert!(mean > short as f64 && mean < long as f64);
}

fn gauges_show_what_is_held_and_who_waits(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let oldest = client.lock("oldest").unwrap();
    let outer = oldest.acquire().unwrap();
    thread::sleep(ms(15));
    let nested = oldest.acquire().unwrap();
    let younger = client.lease("younger", ttl(5_000)).unwrap();
    let stats = client.stats();
    assert_eq!(stats.held_now, 2, "nested holds count once");
    let longest = stats.longest_hold_now.expect("something is held");
    assert_eq!(longest.name, "oldest");
    assert!(longest.held >= ms(15) && longest.held < 5 * SECOND, "{:?}", longest.held);
    drop((outer, nested));
    assert_eq!(client.stats().longest_hold_now.expect("something is held").name, "younger");

    let (done, granted) = mpsc::channel();
    thread::scope(|scope| {
        for waiters in 1..=3 {
            let (other, done) = (&other, done.clone());
            scope.spawn(move || done.send(other.lock("younger").unwrap().acquire().map(drop)).unwrap());
            assert_eventually("it waits", 5 * SECOND, || other.stats().waiting_now == waiters);
        }
        assert_eq!((client.stats().waiting_now, other.stats().held_now), (0, 0));
        drop(younger);
        for _ in 0..3 {
            granted.recv_timeout(5 * SECOND).unwrap().unwrap();
        }
    });
    for client in [client, other] {
        let stats = client.stats();
        assert_eq!((stats.held_now, stats.waiting_now, stats.longest_hold_now), (0, 0, None));
    }
}

fn losses_are_counted_by_reason(store: &Store) {
    let client = store.client();
    let taken = client.lease("a", ttl(60_000)).unwrap();
    store.take_away("a");
    assert!(taken.renew().is_err());
    let _expired = client.lease("b", ttl(100).auto_renew(false)).unwrap();
    let _limited = client.lease("c", ttl(900).max_hold(ms(900))).unwrap();
    assert_eventually("two more are lost", 3 * SECOND, || client.stats().lost_total() == 3);
    let _closed = client.lease("d", ttl(60_000)).unwrap();
    client.close();
    let stats = client.stats();
    let counts = LostReason::ALL.map(|reason| (reason.as_str(), stats.lost(reason)));
    let expected = [("expired", 1), ("taken", 1), ("max_hold", 1), ("forked", 0), ("closed", 1), ("internal", 0)];
    assert_eq!(counts, expected);
    assert_eq!((stats.held_now, stats.hold_micros.count()), (0, 4));
}

fn a_lock_that_cannot_be_had_is_counted(store: &Store) {
    let client = store.client();
    client.close();
    assert!(matches!(client.lock("a").unwrap().try_acquire(), Err(Error::Closed { .. })));
    assert_eq!((client.stats().acquire_failed, client.stats().unavailable), (1, 0));
    if store.is_server() {
        // Port 1 is nobody's.
        let away = redlatch::Client::builder("redis://127.0.0.1:1").build().unwrap();
        let outcome = away.lock("a").unwrap().try_acquire_for(Duration::from_millis(120));
        assert!(matches!(outcome, Err(Error::Unavailable { .. })), "not busy");
        assert_eq!((away.stats().unavailable, away.stats().acquire_failed, away.stats().timed_out), (1, 0, 0));
    }
}

/// A snapshot between the count of a loss and its timing showed a loss without a hold.
#[test]
fn a_loss_was_counted_before_its_hold() {
    const LEASES: u64 = 2_000;
    let client = Client::open(&format!("memory://losses-{}", unique())).unwrap();
    let leases: Vec<_> =
        (0..LEASES).map(|n| client.lease(&format!("{n}"), ttl(300).auto_renew(false)).unwrap()).collect();
    let end = Instant::now() + 20 * SECOND;
    loop {
        let stats = client.stats();
        let (lost, holds) = (stats.lost_total(), stats.hold_micros.count());
        assert!(lost <= holds, "{lost} losses with {holds} holds");
        if lost == LEASES {
            break;
        }
        assert!(Instant::now() < end, "{lost} losses");
    }
    drop(leases);
}
