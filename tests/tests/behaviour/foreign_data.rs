//! Other people's data under a lock's keys.

use redlatch::{Client, Error, LostReason, Released};

use crate::store::{Store, ms, on_each_server, ttl};

on_each_server![
    data_of_another_type_under_the_key_is_an_error_that_names_it,
    text_without_ttl_under_the_key_is_busy_without_a_busy_loop,
    a_holder_whose_key_was_overwritten_is_told_and_deletes_nothing,
    foreign_data_under_a_sibling_key_never_grants_the_lock,
    a_release_frees_the_lock_whatever_is_under_its_sibling_keys,
    a_ghost_in_the_queue_costs_one_turn,
];

/// What people might have under a key, as commands that put it there.
fn foreign(key: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["HSET", key, "field", "value"],
        vec!["RPUSH", key, "one", "two"],
        vec!["SADD", key, "member"],
        vec!["ZADD", key, "1", "member"],
        vec!["XADD", key, "*", "field", "value"],
        vec!["SET", key, "text"],
        vec!["SET", key, ""],
        vec!["SET", key, "inf"],
        vec!["SET", key, "-inf"],
        vec!["SET", key, "nan"],
        vec!["SET", key, "-1"],
        vec!["SET", key, "1.5"],
        vec!["SET", key, "1e300"],
        vec!["SET", key, "0x10"],
        vec!["SET", key, " 1"],
        vec!["SET", key, "9007199254740993"],
        vec!["SET", key, "99999999999999999999"],
    ]
}

/// Whether this data is just what belongs under a key of this role.
fn belongs(role: &str, command: &[&str]) -> bool {
    matches!((role, command[0]), ("queue", "ZADD") | ("waiters", "HSET"))
}

#[track_caller]
fn assert_names_key(error: &Error, key: &str, what: &[&str]) {
    let text = error.to_string();
    assert!(matches!(error, Error::KeyType { .. }), "{what:?}: {text}");
    assert!(text.contains(&format!("{key:?}")) && !error.is_retryable(), "{what:?}: {text}");
}

fn dump(store: &Store, key: &str) -> Option<Vec<u8>> {
    store.server().query(&["DUMP", key])
}

fn data_of_another_type_under_the_key_is_an_error_that_names_it(store: &Store) {
    let client = store.client();
    let (lock, key) = (client.lock("a").unwrap(), store.key("a"));
    for command in foreign(&key).into_iter().filter(|command| command[0] != "SET") {
        store.server().query::<redis::Value>(&command);
        let before = dump(store, &key);
        let errors = [
            lock.acquire().unwrap_err(),
            lock.try_acquire().unwrap_err(),
            lock.try_acquire_for(ms(200)).unwrap_err(),
            client.lease("a", ttl(5_000)).unwrap_err(),
            client.adopt("a", "token", ttl(5_000)).unwrap_err(),
            client.inspect("a").unwrap_err(),
            client.force_release("a").unwrap_err(),
            lock.is_locked().unwrap_err(),
        ];
        errors.iter().for_each(|error| assert_names_key(error, &key, &command));
        assert_eq!(dump(store, &key), before, "{command:?}: nothing is changed");
        assert_eq!(store.server().pttl(&key), -1);
        assert!(store.server().del(&key));
    }
    assert_eq!(client.stats().acquire_failed, 25);
    assert!(lock.try_acquire().unwrap().is_some(), "usable as soon as the data are gone");
}

fn text_without_ttl_under_the_key_is_busy_without_a_busy_loop(store: &Store) {
    let client = store.client();
    let (lock, key) = (client.lock("a").unwrap(), store.key("a"));
    for text in ["someone's note", "", "\r\n"] {
        store.server().set(&key, text);
        assert!(lock.try_acquire().unwrap().is_none());
        let polls = client.stats().poll_wakeups;
        assert!(lock.try_acquire_for(ms(500)).unwrap().is_none());
        let polls = client.stats().poll_wakeups - polls;
        assert!(polls <= 13, "{polls} polls in half a second");
        assert!(client.adopt("a", "token", ttl(5_000)).unwrap().is_none());
        assert_eq!(store.server().get(&key).as_deref(), Some(text));
        assert_eq!(store.server().pttl(&key), -1);
        let info = store.look("a").unwrap();
        assert_eq!((info.token().as_str(), info.owner(), info.ttl_left()), (text, None, None));
        assert!(client.force_release("a").unwrap(), "an operator can free it");
    }
    assert!(lock.try_acquire().unwrap().is_some());
}

fn a_holder_whose_key_was_overwritten_is_told_and_deletes_nothing(store: &Store) {
    let client = store.client();
    let (lock, key) = (client.lock_with("a", ttl(60_000)).unwrap(), store.key("a"));
    let taken = |error: Error| matches!(error, Error::Lost(info) if info.reason() == LostReason::Taken);
    for command in foreign(&key) {
        for renew in [true, false] {
            let guard = lock.acquire().unwrap();
            store.server().del(&key);
            store.server().query::<redis::Value>(&command);
            let before = dump(store, &key);
            if renew {
                assert!(taken(guard.renew().unwrap_err()), "{command:?}");
            }
            assert!(taken(guard.release().unwrap_err()), "{command:?}");
            assert_eq!(dump(store, &key), before, "{command:?}");
            assert_eq!(lock.hold_count(), 0);
            assert!(store.server().del(&key));
        }
    }
}

fn foreign_data_under_a_sibling_key_never_grants_the_lock(store: &Store) {
    let client = store.client();
    let (lock, key) = (client.lock("a").unwrap(), store.key("a"));
    for role in ["fence", "queue", "turn", "waiters"] {
        let sibling = store.sibling("a", role);
        for command in foreign(&sibling).into_iter().filter(|command| !belongs(role, command)) {
            store.server().query::<redis::Value>(&command);
            let before = dump(store, &sibling);
            let errors = [
                lock.try_acquire().unwrap_err(),
                lock.acquire().unwrap_err(),
                lock.try_acquire_for(ms(200)).unwrap_err(),
            ];
            errors.iter().for_each(|error| assert_names_key(error, &sibling, &command));
            assert!(!store.server().exists(&key), "{command:?}");
            assert_eq!(dump(store, &sibling), before, "{command:?}: nothing is written");
            assert!(store.server().del(&sibling));
            let left = store.server().keys(&format!("*{}*", store.prefix()));
            assert!(left.is_empty(), "{command:?}: {left:?}");
        }
    }
}

fn a_release_frees_the_lock_whatever_is_under_its_sibling_keys(store: &Store) {
    let client = store.client();
    let (lock, key) = (client.lock_with("a", ttl(60_000)).unwrap(), store.key("a"));
    for role in ["fence", "queue", "turn", "waiters"] {
        let sibling = store.sibling("a", role);
        for command in foreign(&sibling) {
            let guard = lock.acquire().unwrap();
            store.server().del(&sibling);
            store.server().query::<redis::Value>(&command);
            guard.renew().unwrap();
            assert_eq!(guard.release().unwrap(), Released::Released, "{role}: {command:?}");
            assert!(!store.server().exists(&key), "{role}: {command:?}");
            store.server().query::<u64>(&["DEL", &sibling, &store.sibling("a", "turn")]);
        }
    }
    assert_eq!(client.stats().released, client.stats().acquired);
}

// A queue whose members nobody waits for costs a turn each, and never the lock.
fn a_ghost_in_the_queue_costs_one_turn(store: &Store) {
    let client: Client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    store.server().query::<redis::Value>(&["ZADD", &store.sibling("a", "queue"), "1", "ghost"]);
    assert_eq!(guard.release().unwrap(), Released::Released);
    let (granted, took) = crate::store::timed(|| lock.try_acquire_for(ms(3_000)).unwrap());
    assert!(granted.is_some_and(|guard| guard.is_held()));
    assert!(took < ms(2_000), "a turn of one second: {took:?}");
}
