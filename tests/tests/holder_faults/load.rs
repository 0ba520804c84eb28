//! Thousands of leases held by one client, in a process of their own, so that its threads can be counted.

use std::thread;

use redlatch_tests::{Proxy, Server};

use crate::support::{Line, SECOND, Worker, millis, with_server};

/// How many of the keys `lock:PREFIX…` have time left, in one pass over them.
fn live_keys(server: &Server, prefix: &str, count: u64) -> i64 {
    let script = "local live = 0 \
        for number = 0, ARGV[2] - 1 do if redis.call('PTTL', ARGV[1] .. string.format('%d', number)) > 0 then live = live + 1 end end \
        return live";
    server.query(&["EVAL", script, "0", &format!("lock:{prefix}"), &count.to_string()])
}

/// At most the two renewing threads and the four others: pool, events, janitor, inbox.
fn assert_few_threads(threads: &Line) {
    let renewing = threads.text("names").split(',').filter(|name| name.starts_with("redlatch-renew")).count();
    assert!(renewing <= 2 && threads.count("count") <= 2 + 4, "{threads:?}");
}

#[test]
fn five_thousand_leases_outlive_a_slow_server_and_a_pool_that_is_all_busy() {
    const LEASES: u64 = 5_000;
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let mut worker = Worker::start(&proxy.url(), "pool_size=4 renewal_threads=2");
        worker.ask(&format!("acquire_many held {LEASES} ttl_ms=10000"), "acquired_many");
        proxy.delay_replies(millis(50));
        // Twice as many callers as connections, each with a request on its way or waiting for a connection.
        worker.ask("load 8 busy ttl_ms=10000", "loaded");
        let before = worker.ask("stats", "stats");
        // Renewed every third of the ttl: after this nobody lives on the ttl of the grant.
        thread::sleep(12 * SECOND);
        let after = worker.ask("stats", "stats");
        assert_eq!(live_keys(server, "held", LEASES), LEASES as i64);
        let threads = worker.ask("threads", "threads");
        let calmed = worker.ask("calm", "calmed");
        assert!(calmed.count("rounds") > 100, "the pool was to be busy: {calmed:?}");
        assert_eq!((after.count("lost_total"), after.count("renewal_late")), (0, 0), "{after:?}");
        assert!(worker.all("lost").is_empty());
        assert!(after.count("held_now") >= LEASES, "{after:?}");
        assert!(after.count("renewed") - before.count("renewed") >= 3 * LEASES, "{before:?} {after:?}");
        assert_few_threads(&threads);
    });
}

// At the size and ttl of a large worker.
#[test]
fn ten_thousand_leases_are_renewed_in_batches_by_few_threads() {
    const LEASES: u64 = 10_000;
    with_server(|server| {
        let mut worker = Worker::start(&server.url(), "renewal_threads=2");
        worker.ask(&format!("acquire_many many {LEASES} ttl_ms=3000"), "acquired_many");
        // Leases renewed together stay together: one round brings those of the acquiring in step.
        thread::sleep(SECOND);
        let before = worker.ask("stats", "stats");
        server.reset_stats();
        thread::sleep(15 * SECOND);
        let scripts = server.command_counts().get("evalsha").copied().unwrap_or(0);
        let after = worker.ask("stats", "stats");
        assert_eq!(live_keys(server, "many", LEASES), LEASES as i64);
        let threads = worker.ask("threads", "threads");
        assert_eq!((after.count("lost_total"), after.count("renewal_late")), (0, 0), "{after:?}");
        assert!(worker.all("lost").is_empty());
        assert_eq!(after.count("held_now"), LEASES, "{after:?}");
        let renewed = after.count("renewed") - before.count("renewed");
        assert!(renewed >= 14 * LEASES, "each is renewed every second: {renewed} in 15 s");
        assert!(scripts * 100 <= renewed, "{scripts} scripts for {renewed} renewals");
        assert_few_threads(&threads);
    });
}
