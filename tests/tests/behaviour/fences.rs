//! Fencing tokens.

use std::thread;

use redlatch_tests::{ServerKind, assert_eventually};

use crate::store::{SECOND, Store, on_each_server, on_each_store, ttl};

on_each_store![fences_grow_over_all_grants_of_all_clients, fences_grow_over_concurrent_holders];
on_each_server![
    fences_grow_when_the_counter_is_deleted,
    a_counter_ahead_of_the_clock_grows_by_one,
    the_counter_outlives_the_lock_by_its_retention,
    a_nested_hold_changes_no_fence,
];

fn fences_grow_over_all_grants_of_all_clients(store: &Store) {
    let clients = [store.client(), store.client()];
    let mut last = 0;
    for round in 0..30 {
        let client = &clients[round % 2];
        let fence = if round % 3 == 0 {
            let lease = client.lease("a", ttl(5_000)).unwrap();
            let fence = lease.fence();
            let token = lease.into_token().unwrap();
            let adopted = clients[(round + 1) % 2].adopt("a", token.as_str(), ttl(5_000)).unwrap().unwrap();
            assert!(adopted.fence() > fence);
            adopted.fence()
        } else {
            client.lock("a").unwrap().acquire().unwrap().fence()
        };
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
    assert!(store.is_free("a"));
    let _guard = clients[0].lock("a").unwrap().acquire().unwrap();
    assert!(store.look("a").unwrap().fence().unwrap() > last);
}

fn fences_grow_over_concurrent_holders(store: &Store) {
    let fences = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = store.client();
                for _ in 0..5 {
                    let guard = client.lock("a").unwrap().acquire().unwrap();
                    // Pushed while the lock is held, so the order is that of the grants.
                    fences.lock().unwrap().push(guard.fence());
                }
            });
        }
    });
    let fences = fences.into_inner().unwrap();
    assert_eq!(fences.len(), 20);
    assert!(fences.is_sorted_by(|one, other| one < other), "{fences:?}");
}

fn fences_grow_when_the_counter_is_deleted(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let mut last = 0;
    for _ in 0..10 {
        let guard = lock.acquire().unwrap();
        assert!(guard.fence() > last);
        last = guard.fence();
        let counter = store.server().get(&store.sibling("a", "fence"));
        assert_eq!(counter, Some(last.to_string()), "written in full, without an exponent");
        assert!(store.server().del(&store.sibling("a", "fence")));
    }
}

fn a_counter_ahead_of_the_clock_grows_by_one(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let fence = lock.acquire().unwrap().fence();
    // As after a failover to a server whose clock is an hour behind.
    let ahead = fence + 3_600_000_000;
    store.server().set(&store.sibling("a", "fence"), &ahead.to_string());
    assert_eq!(lock.acquire().unwrap().fence(), ahead + 1);
    assert_eq!(lock.acquire().unwrap().fence(), ahead + 2);
    // The largest number that Lua counts exactly is the last but one that is accepted.
    store.server().set(&store.sibling("a", "fence"), "9007199254740990");
    assert_eq!(lock.acquire().unwrap().fence(), 9_007_199_254_740_991);
    let error = lock.acquire().unwrap_err().to_string();
    assert!(error.contains(&store.sibling("a", "fence")), "{error}");
}

fn the_counter_outlives_the_lock_by_its_retention(store: &Store) {
    let client = store.client();
    drop(client.lock("a").unwrap().acquire().unwrap());
    let left = store.server().pttl(&store.sibling("a", "fence"));
    assert!((3_590_000..=3_600_000).contains(&left), "an hour by default: {left}");
    let short = store.builder().fence_retention(SECOND).build().unwrap();
    let fence = short.lock("a").unwrap().acquire().unwrap().fence();
    assert_eventually("the counter lapses", 3 * SECOND, || !store.server().exists(&store.sibling("a", "fence")));
    assert!(short.lock("a").unwrap().acquire().unwrap().fence() > fence);
}

fn a_nested_hold_changes_no_fence(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    let nested = lock.acquire().unwrap();
    assert_eq!(nested.fence(), guard.fence());
    guard.renew().unwrap();
    assert_eq!(store.server().get(&store.sibling("a", "fence")), Some(guard.fence().to_string()));
}

// Fences of different servers are comparable too: all follow the clock.
#[test]
fn fences_follow_the_servers_clock() {
    for kind in ServerKind::ALL {
        let Some(store) = Store::shared(kind) else { continue };
        let time = || {
            let (seconds, micros): (u64, u64) = store.server().query(&["TIME"]);
            seconds * 1_000_000 + micros
        };
        let before = time();
        let fence = store.client().lock("a").unwrap().acquire().unwrap().fence();
        assert!(fence >= before && fence <= time(), "{kind}");
    }
}
