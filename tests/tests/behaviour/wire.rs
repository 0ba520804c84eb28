//! What a client sends.

use redlatch::{Client, Lease, Released};
use redlatch_tests::{Monitor, MonitorLine, assert_eventually, available};

use crate::store::{SECOND, Store, ms, on_all_stores_at_once, on_each_server, ttl};

on_each_server![a_flush_of_the_scripts_between_any_two_calls_goes_unnoticed];
on_all_stores_at_once![a_flush_of_the_scripts_goes_unnoticed_by_renewal];

/// The verbs of the commands that clients sent, in order.
fn verbs(monitor: &Monitor) -> Vec<String> {
    monitor.wait_idle();
    monitor.client_commands().iter().map(|line: &MonitorLine| line.args[0].to_uppercase()).collect()
}

/// A client whose next request meets an open connection and a server that knows the scripts.
fn warm(store: &Store) -> Client {
    let client = store.client();
    let mut connections = String::new();
    // While its pool fills with empty places, a client may open more than one.
    assert_eventually("its connections are open", SECOND, || {
        (0..5).for_each(|_| drop(client.lock("warm").unwrap().acquire().unwrap()));
        let before = std::mem::replace(&mut connections, store.server().info("stats", "total_connections_received"));
        before == connections
    });
    client
}

fn each_fresh_server(body: impl Fn(&Store)) {
    for kind in available() {
        body(&Store::fresh(kind));
    }
}

#[test]
fn an_uncontended_pair_is_exactly_two_commands() {
    each_fresh_server(|store| {
        let client = warm(store);
        let monitor = Monitor::start(store.server());
        for round in 1..=5 {
            let guard = client.lock("a").unwrap().acquire().unwrap();
            assert!(guard.is_held());
            drop(guard);
            assert_eq!(verbs(&monitor), vec!["EVALSHA"; 2 * round], "{}", store.name());
        }
        monitor.clear();
        let guard = client.lock("a").unwrap().try_acquire_for(SECOND).unwrap().unwrap();
        assert_eq!(guard.release().unwrap(), Released::Released);
        let lease = client.lease("a", ttl(60_000)).unwrap();
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(verbs(&monitor), ["EVALSHA"; 4], "{}", store.name());
    });
}

#[test]
fn a_hundred_nested_holds_are_one_acquire_and_one_release() {
    each_fresh_server(|store| {
        let client = warm(store);
        let lock = client.lock("a").unwrap();
        let monitor = Monitor::start(store.server());
        let guards: Vec<_> = (0..100).map(|_| lock.acquire().unwrap()).collect();
        assert_eq!(lock.hold_count(), 100);
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
        assert_eq!(verbs(&monitor), ["EVALSHA"], "{}", store.name());
        drop(guards);
        assert_eq!(verbs(&monitor), ["EVALSHA", "EVALSHA"], "{}", store.name());
        let changed = |name| monitor.commands().iter().filter(|line| line.lua && line.is(name)).count();
        assert_eq!((changed("SET"), changed("DEL")), (2, 1), "key and fence once, key deleted once");
    });
}

#[test]
fn a_script_is_sent_by_its_hash_first_and_in_full_only_when_it_is_unknown() {
    each_fresh_server(|store| {
        let client = store.client();
        let monitor = Monitor::start(store.server());
        for _ in 0..2 {
            drop(client.lock("a").unwrap().acquire().unwrap());
        }
        let sent: Vec<String> = verbs(&monitor).into_iter().filter(|verb| verb.starts_with("EVAL")).collect();
        assert_eq!(sent, ["EVALSHA", "EVAL", "EVALSHA", "EVAL", "EVALSHA", "EVALSHA"], "{}", store.name());
        assert_eq!(monitor.count(|line| line.is("SCRIPT") || line.is("PING") || line.is("INFO")), 0);
    });
}

#[test]
fn every_key_of_a_script_is_declared_and_in_the_locks_slot() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let store = Store::fresh(kind);
    let client = warm(&store);
    let monitor = Monitor::start(store.server());
    for name in ["a", "{user7}:orders", "{}odd"] {
        drop(client.lock(name).unwrap().acquire().unwrap());
        monitor.wait_idle();
        let slot = |key: &str| -> u64 { store.server().query(&["CLUSTER", "KEYSLOT", key]) };
        for line in monitor.client_commands().iter().filter(|line| line.is("EVALSHA")) {
            let count: usize = line.args[2].parse().unwrap();
            let keys = &line.args[3..3 + count];
            assert_eq!((count, keys[0].as_str()), (7, store.key(name).as_str()));
            let others: Vec<&String> = keys[1..].iter().filter(|key| !key.contains(":redlatch:")).collect();
            assert!(others.is_empty(), "{others:?}");
            // Without cluster support a server has no KEYSLOT; the hash tags say the same.
            if store.server().try_query::<u64>(&["CLUSTER", "KEYSLOT", "x"]).is_ok() {
                assert!(keys.iter().all(|key| slot(key) == slot(&keys[0])), "{keys:?}");
            }
        }
        monitor.clear();
    }
}

#[test]
fn a_waiting_client_asks_at_its_own_pace() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let store = Store::fresh(kind);
    let (holder, client) = (warm(&store), warm(&store));
    let _guard = holder.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    let monitor = Monitor::start(store.server());
    assert!(client.lock("a").unwrap().try_acquire_for(SECOND).unwrap().is_none());
    let asked = verbs(&monitor).iter().filter(|verb| *verb == "EVALSHA").count();
    // One request every 50 ms at most, less 20 % jitter, and the one that leaves the queue.
    assert!((3..=28).contains(&asked), "{asked} requests in a second");
}

fn a_flush_of_the_scripts_between_any_two_calls_goes_unnoticed(store: &Store) {
    let (client, other) = (store.client(), store.client());
    let flush = || store.server().query::<String>(&["SCRIPT", "FLUSH"]);
    for _ in 0..5 {
        flush();
        let guard = client.lock("a").unwrap().acquire().unwrap();
        flush();
        assert!(other.lock("a").unwrap().try_acquire().unwrap().is_none());
        flush();
        guard.renew().unwrap();
        flush();
        assert!(other.lock("a").unwrap().try_acquire_for(ms(60)).unwrap().is_none());
        flush();
        assert!(client.inspect("a").unwrap().is_some());
        flush();
        assert_eq!(guard.release().unwrap(), Released::Released);
        flush();
        let token = client.lease("a", ttl(60_000)).unwrap().into_token().unwrap();
        flush();
        let adopted: Lease = other.adopt("a", token.as_str(), ttl(60_000)).unwrap().expect("its token");
        flush();
        assert!(client.force_release("a").unwrap());
        flush();
        assert!(adopted.release().is_err());
    }
    for client in [client, other] {
        let stats = client.stats();
        assert_eq!((stats.unavailable, stats.acquire_failed, stats.release_failed), (0, 0, 0));
        assert_eq!((stats.release_unconfirmed, stats.background_now), (0, 0));
    }
}

fn a_flush_of_the_scripts_goes_unnoticed_by_renewal(store: &Store) {
    if !store.is_server() {
        return;
    }
    let client = store.client();
    let guard = client.lock_with("a", ttl(1_800)).unwrap().acquire().unwrap();
    for renewed in 1..=3 {
        store.server().query::<String>(&["SCRIPT", "FLUSH"]);
        assert_eventually("it is renewed", 2 * SECOND, || client.stats().renewed >= renewed);
    }
    let stats = client.stats();
    assert_eq!((stats.renewal_failed, stats.renewal_retried, stats.lost_total()), (0, 0, 0));
    assert_eq!(guard.release().unwrap(), Released::Released);
}
