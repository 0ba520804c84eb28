//! Values that cannot be used: an error names the option, and no server hears of it.

use std::time::Duration;

use redlatch::options::{MAX_HOLD, TTL};
use redlatch::{Client, ClientBuilder, Error, LockOptions, ManualClock};
use redlatch_tests::any_server;

use crate::store::{SECOND, Store, ms, on_each_store, ttl};

on_each_store![a_refused_name_or_option_changes_nothing, an_accepted_ttl_is_on_the_key];

#[track_caller]
fn refused<T>(outcome: Result<T, Error>, option: &str, words: &[&str]) {
    let error = outcome.err().unwrap_or_else(|| panic!("{option} is accepted"));
    let text = error.to_string();
    assert!(matches!(&error, Error::Config { option: named, .. } if *named == option), "{option}: {text}");
    for word in words.iter().chain([&option]) {
        assert!(text.contains(word), "{option}: {word:?} is not in {text:?}");
    }
    assert!(!error.is_retryable() && error.name().is_none());
}

fn a_refused_name_or_option_changes_nothing(store: &Store) {
    let client = store.client();
    let all = || if store.is_server() { store.server().keys(&format!("*{}*", store.prefix())) } else { Vec::new() };
    let held = client.lock("held").unwrap().acquire().unwrap();
    let before = all();
    let too_short = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(500), ms(99)];
    let too_long = [Duration::from_secs(24 * 3600 + 1), Duration::from_secs(1 << 63), Duration::MAX];
    for bad in too_short.into_iter().chain(too_long) {
        let options = LockOptions::new().ttl(bad);
        let words = ["100ms", "86400s", &format!("{bad:?}")];
        refused(client.lock_with("a", options.clone()), "ttl", &words);
        refused(client.lease("a", options.clone()), "ttl", &words);
        refused(client.try_lease("a", options.clone()), "ttl", &words);
        refused(client.try_lease_for("a", options.clone(), SECOND), "ttl", &words);
        refused(client.adopt("held", held.token().as_str(), options), "ttl", &words);
    }
    for bad in [Duration::ZERO, ms(4_999), Duration::from_secs(366 * 24 * 3600), Duration::MAX] {
        refused(client.lock_with("a", ttl(5_000).max_hold(bad)), "max_hold", &[&format!("{bad:?}")]);
    }
    let long = ["x".repeat(1_025), "é".repeat(513), "锁".repeat(342)];
    for bad in ["", &long[0], &long[1], &long[2]] {
        let words = ["1 to 1024 bytes", &format!("<{} bytes>", bad.len())];
        refused(client.lock(bad), "name", &words);
        refused(client.lease(bad, LockOptions::new()), "name", &words);
        refused(client.inspect(bad), "name", &words);
        refused(client.force_release(bad), "name", &words);
        refused(client.adopt(bad, "token", LockOptions::new()), "name", &words);
    }
    // The last one with the prefix's colon in front of it.
    for bad in [":redlatch:", "held:redlatch:fence", "{held}:redlatch:queue", "redlatch:fence"] {
        refused(client.lock(bad), "name", &[":redlatch:", bad]);
    }
    for bad in ["", &"x".repeat(513)] {
        let words = ["1 to 512 bytes", &format!("<{} bytes>", bad.len())];
        refused(client.adopt("held", bad, LockOptions::new()), "token", &words);
    }
    assert!(held.is_held());
    assert_eq!(store.holder("held").as_deref(), Some(held.token().as_str()));
    assert_eq!(all(), before);
    assert_eq!((client.stats().acquired, client.stats().acquire_failed), (1, 0));
}

fn an_accepted_ttl_is_on_the_key(store: &Store) {
    let client = store.client();
    let ttls = [ms(100), ms(101), Duration::from_micros(150_999), SECOND, TTL.max];
    for ttl in ttls {
        let guard = client.lock_with("a", LockOptions::new().ttl(ttl)).unwrap().acquire().unwrap();
        let left = store.look("a").unwrap().ttl_left().expect("never a key without ttl");
        assert!(left > Duration::ZERO && left <= ttl, "{ttl:?}: {left:?}");
        assert!(!guard.remaining().is_zero() && guard.remaining() < ttl);
    }
    let longest = LockOptions::new().ttl(SECOND).max_hold(MAX_HOLD.max);
    assert!(client.lock_with("a", longest).unwrap().try_acquire().unwrap().is_some());
}

// As bindings give them.
#[test]
fn numbers_that_are_no_time_are_refused_by_name() {
    for seconds in [0.0, -1.0, -0.0, 0.0005, 0.0999, 86_400.1, 9.3e18, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        refused(TTL.check_seconds(seconds), "ttl", &["100ms", "86400s"]);
    }
    for millis in [0, -1, 99, i64::MIN, i64::MAX, 86_400_001] {
        refused(TTL.check_millis(millis), "ttl", &["100ms", "86400s"]);
    }
    assert_eq!(TTL.check_seconds(0.25).unwrap(), ms(250));
    assert_eq!(TTL.check_millis(100).unwrap(), ms(100));
}

#[test]
fn refused_client_options_are_named_with_their_bounds_and_nothing_is_sent() {
    let Some(kind) = any_server() else { return };
    let store = Store::fresh(kind);
    let before = store.server().info("stats", "total_connections_received");
    let hour = Duration::from_secs(3600);
    let build = |change: &dyn Fn(ClientBuilder) -> ClientBuilder| change(store.builder()).build();
    for bad in [Duration::ZERO, ms(9), Duration::from_micros(9_999), Duration::from_secs(61), Duration::MAX] {
        refused(build(&|it| it.connect_timeout(bad)), "connect_timeout", &["10ms", "60s"]);
        refused(build(&|it| it.io_timeout(bad)), "io_timeout", &["10ms", "60s"]);
        refused(build(&|it| it.pool_timeout(bad)), "pool_timeout", &["10ms", "60s"]);
    }
    for bad in [Duration::ZERO, ms(99), 25 * hour] {
        refused(build(&|it| it.unavailable_after(bad)), "unavailable_after", &["100ms", "86400s"]);
    }
    for bad in [Duration::ZERO, ms(999), 31 * 24 * hour] {
        refused(build(&|it| it.fence_retention(bad)), "fence_retention", &["1s", "2592000s"]);
    }
    for bad in [Duration::ZERO, ms(499), ms(10_001)] {
        refused(build(&|it| it.turn(bad)), "turn", &["500ms", "10s"]);
    }
    for bad in [Duration::ZERO, ms(9), ms(60_001)] {
        refused(build(&|it| it.replica_timeout(bad)), "replica_timeout", &["10ms", "60s"]);
    }
    for bad in [17, u32::MAX] {
        refused(build(&|it| it.min_replicas(bad)), "min_replicas", &["0 to 16", &bad.to_string()]);
    }
    for bad in [0, 1_025, u32::MAX] {
        refused(build(&|it| it.pool_size(bad)), "pool_size", &["1 to 1024", &bad.to_string()]);
    }
    for bad in [0, 65] {
        refused(build(&|it| it.renewal_threads(bad)), "renewal_threads", &["1 to 64", &bad.to_string()]);
    }
    for bad in ["", "a b", "a:b", "a@b", "é", "line\n", &"x".repeat(65)] {
        refused(build(&|it| it.label(bad)), "label", &["1 to 64"]);
    }
    refused(build(&|it| it.key_prefix(&"x".repeat(257))), "key_prefix", &["256"]);
    refused(build(&|it| it.manual_clock(&ManualClock::new())), "manual_clock", &["memory://"]);
    assert_eq!(store.server().info("stats", "total_connections_received"), before);
    assert!(store.server().keys("*").is_empty());
    // The bounds themselves are accepted, and still nothing is opened.
    let widest = store.builder().connect_timeout(ms(10)).io_timeout(60 * SECOND).pool_timeout(ms(10));
    let widest = widest.unavailable_after(24 * hour).fence_retention(30 * 24 * hour).turn(ms(500));
    let widest = widest.min_replicas(16).replica_timeout(60 * SECOND);
    let widest = widest.pool_size(1_024).renewal_threads(64).label(&"x".repeat(64)).key_prefix(&"x".repeat(256));
    assert!(widest.build().is_ok_and(|client| client.lock(&"x".repeat(1_024)).is_ok()));
    assert_eq!(store.server().info("stats", "total_connections_received"), before);
}

#[test]
fn refused_urls_are_named_without_their_passwords() {
    let urls = [
        "",
        "localhost",
        "127.0.0.1:6379",
        "http://user:s3cret@host/",
        "redis:/user:s3cret@host",
        "redis://user:s3cret@host:port/0",
        "redis://user:s3cret@host:99999/0",
        "redis://user:s3cret@host/zero",
        "redis://user:s3cret@host/-1",
        "redis//user:s3cret@host",
        "memory:/x",
    ];
    for url in urls {
        let outcome = Client::open(url);
        if let Err(error) = &outcome {
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        refused(outcome, "url", &[]);
    }
}

#[test]
fn one_memory_store_has_one_clock() {
    let clock = ManualClock::new();
    let url = format!("memory://clocks-{}", crate::store::unique());
    let client = Client::builder(&url).manual_clock(&clock).build().unwrap();
    refused(Client::open(&url), "manual_clock", &[]);
    refused(Client::builder(&url).manual_clock(&ManualClock::new()).build(), "manual_clock", &[]);
    let same = Client::builder(&url).manual_clock(&clock.clone()).build().unwrap();
    let _guard = client.lock("a").unwrap().acquire().unwrap();
    assert!(same.lock("a").unwrap().try_acquire().unwrap().is_none());
}
