//! Locks behind sentinels: which server is asked, and what a failover does to leases and waiters.

use std::net::SocketAddr;
use std::thread;

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{SentinelGroup, Server, any_server, assert_eventually, available};

use crate::fake::FakeSentinel;
use crate::support::{AGREED, NOISE, SECOND, acquire, assert_pushed, key, limited, ms, sibling, silent, timed, ttl};

/// Long enough to outlive the failover of a server that was killed, on a loaded machine as well.
const TTL: u64 = 15_000;

/// Runs on a group of the first kind that is installed.
fn with_group(body: impl FnOnce(&SentinelGroup)) {
    if let Some(kind) = any_server() {
        body(&SentinelGroup::start(kind));
    }
}

/// Runs on a primary and a replica that has synchronized, without sentinels.
fn with_pair(body: impl FnOnce(&Server, &Server)) {
    if let Some(kind) = any_server() {
        let primary = Server::start(kind);
        let replica = Server::builder(kind).replica_of(&primary).start();
        replica.wait_synced();
        body(&primary, &replica);
    }
}

fn url(sentinels: &[SocketAddr]) -> String {
    let hosts: Vec<String> = sentinels.iter().map(SocketAddr::to_string).collect();
    format!("redis+sentinel://{}/s", hosts.join(","))
}

/// Swaps the roles of the two, without a word to the clients of either.
fn swap(primary: &Server, replica: &Server) {
    replica.query::<()>(&["REPLICAOF", "NO", "ONE"]);
    primary.query::<()>(&["CONFIG", "SET", "masteruser", "harness"]);
    primary.query::<()>(&["CONFIG", "SET", "masterauth", "harness-admin"]);
    primary.query::<()>(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    primary.wait_synced();
}

#[track_caller]
fn assert_holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// Has `waiter` wait for a lock that `holder` has, and asserts that it is woken by push.
fn wakes_by_push(server: &Server, holder: &Client, waiter: &Client, name: &str) {
    let lease = holder.try_lease(name, ttl(60_000)).unwrap().expect("the lock is free");
    let pushed = waiter.stats().pushes;
    let woken = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = acquire(waiter, name);
            assert_eq!(guard.release().unwrap(), Released::Released);
        });
        assert_eventually("it waits with an inbox", AGREED, || {
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling(name, "waiters")]);
            inboxes.iter().any(|inbox| inbox != "-")
        });
        assert_eq!(lease.release().unwrap(), Released::Released);
        waiting.join()
    });
    woken.unwrap();
    assert_pushed(waiter, pushed);
}

/// Runs on a group of each kind, all at once: most of the time goes into forming them.
fn each_group(body: impl Fn(&SentinelGroup) + Sync) {
    thread::scope(|scope| {
        for kind in available() {
            let body = &body;
            let run = move || body(&SentinelGroup::start(kind));
            thread::Builder::new().name(format!("on {kind}")).spawn_scoped(scope, run).unwrap();
        }
    });
}

#[test]
fn every_verb_works_at_the_primary_that_the_sentinels_name() {
    each_group(|group| {
        let (client, other) = (Client::open(&group.url()).unwrap(), Client::open(&group.url()).unwrap());
        let primary = &group.servers()[0];
        let guard = client.lock_with("a", ttl(600)).unwrap().acquire().unwrap();
        assert_eq!(primary.get(&key("a")).as_deref(), Some(guard.token().as_str()));
        assert!(other.lock("a").unwrap().try_acquire().unwrap().is_none());
        assert_eventually("the background renews", 5 * SECOND, || client.stats().renewed >= 2);
        guard.renew().unwrap();
        let info = other.inspect("a").unwrap().expect("it is held");
        assert_eq!((info.token(), info.fence()), (guard.token(), Some(guard.fence())));
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert!(!primary.exists(&key("a")));
        wakes_by_push(primary, &client, &other, "b");
        let lease = client.lease("c", LockOptions::new()).unwrap();
        assert!(other.force_release("c").unwrap());
        assert!(matches!(lease.renew(), Err(Error::Lost(_))));
        assert_eq!(client.server(), format!("{}/0", group.url()), "without credentials");
    });
}

#[test]
fn a_failover_took_a_lease_away_that_was_replicated() {
    with_group(|group| {
        let builder = || Client::builder(&group.url()).min_replicas(2).replica_timeout(10 * SECOND);
        let (client, other) = (builder().build().unwrap(), builder().build().unwrap());
        let former = &group.servers()[0];
        let guard = client.lock_with("a", ttl(TTL)).unwrap().acquire().unwrap();
        let fence = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = acquire(&other, "a");
                let fence = guard.fence();
                assert_eq!(guard.release().unwrap(), Released::Released);
                fence
            });
            let queued = || former.query::<usize>(&["ZCARD", &sibling("a", "queue")]) == 1;
            assert_eventually("it waits", 10 * SECOND, queued);

            let primary = group.fail_over();
            assert_eventually("the lease is renewed at the new primary", AGREED, || guard.renew().is_ok());
            assert!(primary.pttl(&key("a")) > TTL as i64 / 2);
            assert_eq!(primary.get(&key("a")).as_deref(), Some(guard.token().as_str()));
            let renewed = client.stats().renewed;
            assert_eventually("the background goes on", 2 * ms(TTL), || client.stats().renewed > renewed);
            guard.check().unwrap();
            let fence = guard.fence();
            group.wait_settled();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(waiting.join().unwrap() > fence, "fences grow");
            waiting_is_over(primary, "a");
            fence
        });
        assert_eq!((client.stats().lost_total(), other.stats().lost_total()), (0, 0));
        let primary = group.primary().expect("there is one");
        wakes_by_push(primary, &client, &other, "a");
        assert!(acquire(&client, "a").fence() > fence);
    });
}

fn waiting_is_over(server: &Server, name: &str) {
    let left = || ["queue", "waiters", "turn"].iter().any(|role| server.exists(&sibling(name, role)));
    assert_eventually("nobody waits any more", 5 * SECOND, || !left());
}

#[test]
fn a_killed_primary_took_a_lease_away_that_was_replicated() {
    with_group(|group| {
        let builder = || Client::builder(&group.url()).min_replicas(2).replica_timeout(10 * SECOND);
        let client = builder().build().unwrap();
        // Of the two replicas one is left: it cannot be asked for more.
        let other = Client::builder(&group.url()).unavailable_after(2 * AGREED).build().unwrap();
        let killed = &group.servers()[0];
        let guard = client.lock_with("a", ttl(TTL)).unwrap().acquire().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = acquire(&other, "a");
                let fence = guard.fence();
                assert_eq!(guard.release().unwrap(), Released::Released);
                fence
            });
            let queued = || killed.query::<usize>(&["ZCARD", &sibling("a", "queue")]) == 1;
            assert_eventually("it waits", 10 * SECOND, queued);

            killed.kill();
            let primary = group.wait_other_than(killed.port());
            assert_eventually("the lease is renewed at the new primary", AGREED, || guard.renew().is_ok());
            guard.check().unwrap();
            assert_eq!(primary.get(&key("a")).as_deref(), Some(guard.token().as_str()));

            // It comes back empty, and calls itself primary until the sentinels have told it otherwise.
            killed.restart();
            for _ in 0..20 {
                assert!(Client::open(&group.url()).unwrap().lock("a").unwrap().try_acquire().unwrap().is_none());
            }
            guard.renew().unwrap();
            let replica = || killed.info("replication", "role") == "slave";
            assert_eventually("the former primary is a replica", AGREED, replica);
            guard.renew().unwrap();
            let fence = guard.fence();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(waiting.join().unwrap() > fence, "fences grow");
        });
        assert_eq!((client.stats().lost_total(), other.stats().lost_total()), (0, 0));
    });
}

#[test]
fn a_primary_that_became_a_replica_said_not_yours() {
    with_pair(|primary, replica| {
        let sentinel = FakeSentinel::start(primary.port());
        let client = Client::builder(&url(&[sentinel.address()])).min_replicas(1).replica_timeout(10 * SECOND);
        let client = client.renewal_threads(1).build().unwrap();
        let guard = client.lock_with("a", ttl(3_000)).unwrap().acquire().unwrap();
        assert_eventually("the renewing thread has its connection", 5 * SECOND, || client.stats().renewed > 0);
        let asked = sentinel.asked();
        swap(primary, replica);
        assert_eventually("it is told of a replica", 5 * SECOND, || client.stats().renewal_failed > 0);
        guard.check().unwrap();
        sentinel.name(replica.port());
        let renewed = client.stats().renewed;
        assert_eventually("the lease is renewed at the new primary", 10 * SECOND, || {
            client.stats().renewed >= renewed + 2
        });
        guard.check().unwrap();
        assert!(sentinel.asked() > asked, "it was asked again");
        assert_eq!(client.stats().lost_total(), 0);
        assert!(replica.pttl(&key("a")) > 0);
        let fence = guard.fence();
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert!(!replica.exists(&key("a")));
        assert!(acquire(&client, "a").fence() > fence);
    });
}

#[test]
fn a_client_stayed_with_a_primary_that_was_replaced_and_did_not_know() {
    with_pair(|primary, replica| {
        let sentinel = FakeSentinel::start(primary.port());
        let client = limited(&url(&[sentinel.address()]), SECOND).build().unwrap();
        let first = acquire(&client, "a");
        assert_eq!(primary.get(&key("a")).as_deref(), Some(first.token().as_str()));
        // As after a failover by command: both are primaries now, and nobody closes a connection.
        replica.query::<()>(&["REPLICAOF", "NO", "ONE"]);
        sentinel.name(replica.port());
        let lock = client.lock("b").unwrap();
        let (mut rounds, begin) = (0, std::time::Instant::now());
        loop {
            let guard = lock.try_acquire().unwrap().expect("nobody else wants it");
            let there = replica.get(&key("b")).as_deref() == Some(guard.token().as_str());
            assert_eq!(guard.release().unwrap(), Released::Released);
            rounds += 1;
            if there {
                break;
            }
            assert!(begin.elapsed() < SECOND + NOISE, "after {rounds} rounds");
            thread::sleep(ms(10));
        }
        // One question a second, not one a request.
        let asked = sentinel.asked();
        let begin = std::time::Instant::now();
        (0..200).for_each(|_| assert_eq!(acquire(&client, "b").release().unwrap(), Released::Released));
        let seconds = usize::try_from(begin.elapsed().as_secs()).unwrap() + 1;
        assert!(sentinel.asked() - asked <= seconds, "{} in {seconds} s", sentinel.asked() - asked);
    });
}

#[test]
fn a_primary_that_came_back_empty_was_taken_for_the_one_that_replaced_it() {
    with_pair(|primary, replica| {
        let sentinel = FakeSentinel::start(primary.port());
        let client = limited(&url(&[sentinel.address()]), SECOND).pool_size(1).build().unwrap();
        let guard = client.lock("a").unwrap().try_acquire().unwrap().expect("the lock is free");
        let replicated = || replica.get(&key("a")).as_deref() == Some(guard.token().as_str());
        assert_eventually("the lease is replicated", AGREED, replicated);
        replica.query::<()>(&["REPLICAOF", "NO", "ONE"]);
        sentinel.name(replica.port());
        // Without its data, and for a while it calls itself primary.
        primary.restart();
        let other = client.lock("b").unwrap().try_acquire().unwrap().expect("the lock is free");
        assert_eq!(replica.get(&key("b")).as_deref(), Some(other.token().as_str()));
        assert_eq!((other.release().unwrap(), guard.release().unwrap()), (Released::Released, Released::Released));
        assert!(primary.keys("*").is_empty());
    });
}

#[test]
fn an_inbox_stayed_with_a_primary_that_was_replaced() {
    with_pair(|primary, replica| {
        let sentinel = FakeSentinel::start(primary.port());
        let open = || limited(&url(&[sentinel.address()]), SECOND).build().unwrap();
        let (holder, waiter) = (open(), open());
        wakes_by_push(primary, &holder, &waiter, "a");
        replica.query::<()>(&["REPLICAOF", "NO", "ONE"]);
        sentinel.name(replica.port());
        let subscribed = || replica.query::<Vec<String>>(&["PUBSUB", "CHANNELS", "redlatch:inbox:*"]).len() == 1;
        assert_eventually("its inbox is at the new primary", 10 * SECOND, subscribed);
        wakes_by_push(replica, &holder, &waiter, "a");
    });
}

#[test]
fn a_sentinel_that_lags_behind_led_to_a_replica() {
    with_pair(|primary, replica| {
        let lagging = FakeSentinel::start(replica.port());
        let right = FakeSentinel::start(primary.port());
        let addresses = [lagging.address(), right.address()];
        let client = limited(&url(&addresses), SECOND).build().unwrap();
        let guard = client.lock("a").unwrap().try_acquire().unwrap().expect("the lock is free");
        assert_eq!(primary.get(&key("a")).as_deref(), Some(guard.token().as_str()));
        assert_eq!((lagging.asked(), right.asked()), (1, 1));

        right.name(replica.port());
        let client = limited(&url(&addresses), ms(300)).build().unwrap();
        let error = client.lock("b").unwrap().try_acquire_for(ms(500)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{text}");
        let names = [lagging.address().to_string(), right.address().to_string(), replica.port().to_string()];
        assert_holds(&text, &[&names[0], &names[1], &names[2], "replica"]);
        assert!(!replica.exists(&key("b")));
    });
}

#[test]
fn a_sentinel_that_never_answers_took_the_time_of_the_others() {
    with_pair(|primary, _replica| {
        let silent = silent();
        let right = FakeSentinel::start(primary.port());
        let addresses = [silent.local_addr().unwrap(), right.address()];
        let client = limited(&url(&addresses), SECOND).build().unwrap();
        // Of two sentinels each has half of the second that connecting may take.
        let (guard, took) = timed(|| client.lock("a").unwrap().try_acquire().unwrap().expect("the lock is free"));
        assert!((ms(490)..ms(500) + NOISE).contains(&took), "{took:?}");
        // From then on the one that answered is asked first.
        primary.query::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let ((), took) = timed(|| guard.renew().unwrap());
        assert!(took < NOISE, "{took:?}");
        assert_eq!(right.asked(), 2);
    });
}

#[test]
fn a_thread_that_asked_the_sentinels_left_others_to_ask_as_well() {
    with_pair(|primary, _replica| {
        let right = FakeSentinel::start(primary.port());
        let client = Client::builder(&url(&[right.address()])).pool_size(8).build().unwrap();
        thread::scope(|scope| {
            for n in 0..8 {
                let lock = client.lock(&format!("n{n}")).unwrap();
                scope.spawn(move || lock.acquire().unwrap().release().unwrap());
            }
        });
        assert_eq!(right.asked(), 1, "one answer serves all who wait for it");
    });
}

#[test]
fn sentinels_that_are_all_away_are_named_within_the_limits() {
    with_group(|group| {
        group.sentinels().iter().for_each(Server::kill);
        let client = limited(&group.url(), ms(500)).build().unwrap();
        let (error, took) = timed(|| client.lock("a").unwrap().try_acquire().unwrap_err());
        assert!(took < SECOND + NOISE, "{took:?}");
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable { .. }), "{text}");
        let ports: Vec<String> = group.sentinels().iter().map(|it| format!("sentinel redis://{}", it.addr())).collect();
        assert_holds(&text, &[&ports[0], &ports[1], &ports[2], "refused", group.service()]);

        // One of them is enough.
        group.sentinels()[2].restart();
        let guard = client.lock("a").unwrap().try_acquire_for(10 * SECOND).unwrap().expect("the lock is free");
        assert_eq!(guard.release().unwrap(), Released::Released);
    });
}

#[test]
fn a_client_with_a_connection_needs_no_sentinel() {
    with_pair(|primary, _replica| {
        let sentinel = FakeSentinel::start(primary.port());
        let client = limited(&url(&[sentinel.address()]), SECOND).build().unwrap();
        let guard = client.lock_with("a", ttl(600)).unwrap().acquire().unwrap();
        drop(sentinel);
        let renewed = client.stats().renewed;
        assert_eventually("renewed", 5 * SECOND, || client.stats().renewed >= renewed + 3);
        assert_eq!(guard.release().unwrap(), Released::Released);
    });
}

#[test]
fn wrong_names_and_passwords_are_told_apart() {
    let Some(kind) = any_server() else { return };
    let group = SentinelGroup::start_with(kind, |it| it.password("s3cret"), |it| it.password("0ther"));
    let hosts = group.sentinels().iter().map(|it| it.addr().to_string()).collect::<Vec<_>>().join(",");
    let attempt = |url: &str| {
        let client = limited(url, 2 * SECOND).build().unwrap();
        let outcome = client.lock("a").unwrap().try_acquire();
        outcome.map(|guard| guard.expect("the lock is free").release().unwrap())
    };
    let right = format!("redis+sentinel://:s3cret@{hosts}/orders/2?sentinel_password=0ther");
    assert_eq!(attempt(&right).unwrap(), Released::Released);
    assert!(group.servers()[0].info("keyspace", "db2").starts_with("keys="), "in the database of the URL");

    let error = attempt(&right.replace("/orders", "/0rders")).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }), "{error:?}");
    assert_holds(&error.to_string(), &["knows no service \"0rders\"", &group.sentinels()[2].addr().to_string()]);

    let error = attempt(&right.replace("s3cret", "wr0ng")).unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    let primary = group.servers()[0].addr().to_string();
    assert_holds(&error.to_string(), &["WRONGPASS", &primary]);

    for url in [right.replace("0ther", "wr0ng"), right.replace("?sentinel_password=0ther", "")] {
        let error = attempt(&url).unwrap_err();
        assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("sentinel redis://") && !text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    }
}
