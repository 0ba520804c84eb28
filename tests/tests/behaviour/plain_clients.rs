//! Clients of the plain pattern on the same key: `SET NX PX`, and compare-and-delete in a script.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redis::Connection;
use redlatch::{Error, LostReason, Released};
use redlatch_tests::assert_eventually;

use crate::store::{SECOND, Store, ms, on_each_server, ttl};

on_each_server![
    a_plain_client_and_redlatch_exclude_each_other,
    a_waiter_gets_the_lock_when_a_plain_client_lets_go,
    a_waiter_gets_the_lock_when_a_plain_clients_key_lapses,
    a_plain_client_that_is_quicker_than_the_turn_only_delays_the_waiter,
    a_plain_client_that_took_the_key_over_is_left_alone,
];

/// The pattern as it is in production everywhere.
struct Plain {
    connection: Connection,
    key: String,
}

impl Plain {
    fn new(store: &Store, name: &str) -> Plain {
        Plain { connection: store.server().connection(), key: store.key(name) }
    }

    fn acquire(&mut self, token: &str, ttl_ms: u64) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(token).arg("NX").arg("PX").arg(ttl_ms);
        set.query::<Option<String>>(&mut self.connection).unwrap().is_some()
    }

    fn release(&mut self, token: &str) -> bool {
        let script =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
        redis::cmd("EVAL").arg(script).arg(1).arg(&self.key).arg(token).query(&mut self.connection).unwrap()
    }
}

fn a_plain_client_and_redlatch_exclude_each_other(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let mut plain = Plain::new(store, "a");
    for round in 0..100 {
        let token = format!("plain-{round}");
        assert!(plain.acquire(&token, 10_000));
        assert!(lock.try_acquire().unwrap().is_none());
        let info = store.look("a").unwrap();
        assert_eq!((info.token().as_str(), info.owner()), (token.as_str(), None));
        assert!(!plain.release("another token"));
        assert!(plain.release(&token));

        let guard = lock.try_acquire().unwrap().expect("the plain client let go");
        assert!(!plain.acquire(&token, 10_000));
        assert!(!plain.release(&token), "its old token frees nothing");
        assert!(guard.is_held());
        assert_eq!(guard.release().unwrap(), Released::Released);
    }
    assert_eq!(client.stats().busy, 100);
}

fn a_waiter_gets_the_lock_when_a_plain_client_lets_go(store: &Store) {
    let client = store.client();
    let mut plain = Plain::new(store, "a");
    assert!(plain.acquire("plain", 30_000));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = client.lock("a").unwrap().acquire().unwrap();
            (Instant::now(), guard.release().unwrap())
        });
        store.wait_for_waiters("a", 1);
        assert!(plain.release("plain"));
        let freed = Instant::now();
        let (granted, outcome) = waiter.join().unwrap();
        assert_eq!(outcome, Released::Released);
        // Nobody wakes it: it asks.
        assert!(granted - freed < SECOND, "{:?}", granted - freed);
    });
}

fn a_waiter_gets_the_lock_when_a_plain_clients_key_lapses(store: &Store) {
    let client = store.client();
    let mut plain = Plain::new(store, "a");
    let begin = Instant::now();
    assert!(plain.acquire("crashed", 400));
    let guard = client.lock("a").unwrap().try_acquire_for(5 * SECOND).unwrap().expect("it lapsed");
    let took = begin.elapsed();
    assert!(took >= ms(400) && took < ms(900), "{took:?}");
    drop(guard);
    assert!(plain.acquire("plain", 1_000));
    assert!(plain.release("plain"));
}

fn a_plain_client_that_is_quicker_than_the_turn_only_delays_the_waiter(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let mut plain = Plain::new(store, "a");
    for _ in 0..5 {
        let guard = holder.lock("a").unwrap().acquire().unwrap();
        let (go_on, told) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let client = &client;
            let waiter = scope.spawn(move || {
                let guard = client.lock("a").unwrap().acquire().unwrap();
                told.recv().unwrap();
                guard.release().unwrap()
            });
            store.wait_for_waiters("a", 1);
            drop(guard);
            // A turn binds redlatch's clients only.
            if plain.acquire("quick", 10_000) {
                assert_eventually("the waiter has asked and gone back to the queue", SECOND, || {
                    store.look("a").is_some_and(|info| info.waiters() == 1)
                });
                assert_eq!(store.holder("a").as_deref(), Some("quick"));
                assert!(plain.release("quick"));
            }
            go_on.send(()).unwrap();
            assert_eq!(waiter.join().unwrap(), Released::Released);
        });
    }
}

fn a_plain_client_that_took_the_key_over_is_left_alone(store: &Store) {
    let client = store.client();
    let guard = client.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    store.server().set(&store.key("a"), "plain");
    assert!(matches!(guard.renew(), Err(Error::Lost(info)) if info.reason() == LostReason::Taken));
    assert!(guard.release().is_err());
    assert_eq!(store.server().get(&store.key("a")).as_deref(), Some("plain"));
    assert_eq!(store.server().pttl(&store.key("a")), -1, "its ttl is not touched either");
}
