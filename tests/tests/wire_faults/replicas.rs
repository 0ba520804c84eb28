//! A primary that answers, and replicas that acknowledge a grant, or do not.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use redlatch::{Client, ClientBuilder, Error, LockOptions, Released};
use redlatch_tests::{Monitor, MonitorLine, Proxy, ReplyFault, Server, ServerKind, assert_eventually, available};

use super::support::{
    NOISE, Script, assert_free, assert_nothing_left, assert_text, assert_tombstone, assert_took, assert_unavailable,
    connect, each_loaded_server, fixed, key, load_scripts, ms, pooled_client, shown, sibling, timed, token_in,
    tombstone, with_server,
};

/// Limit of connecting and of a request.
const LIMIT: Duration = ms(400);
const SECOND: Duration = ms(1_000);
const LONG: Duration = Duration::from_secs(30);
/// The longest pause before a request is repeated.
const LONGEST_GAP: Duration = ms(250);
/// How much longer than asked an idle server waits.
const TICK: Duration = ms(100);
/// The request to wait for replicas, on the wire.
const WAIT: &[u8] = b"\r\nWAIT\r\n";

/// A client whose grants need one replica.
fn builder(url: &str, within: Duration) -> ClientBuilder {
    let builder = Client::builder(url).connect_timeout(LIMIT).io_timeout(LIMIT).pool_size(1);
    builder.min_replicas(1).replica_timeout(within)
}

fn replicated(url: &str, within: Duration) -> Client {
    builder(url, within).build().unwrap()
}

/// A client that asks for no replica.
fn plain(server: &Server) -> Client {
    pooled_client(&server.url(), SECOND, 2)
}

/// A primary with one replica, each of this kind, synchronized.
fn pair(kind: ServerKind) -> (Server, Server) {
    let primary = Server::start(kind);
    load_scripts(&primary);
    let replica = Server::builder(kind).replica_of(&primary).start();
    replica.wait_synced();
    // Of a write: without one, a replica need not say anything.
    let acknowledges = || {
        primary.set("written", "1");
        primary.query::<i64>(&["WAIT", "1", "100"]) == 1
    };
    assert_eventually("the replica acknowledges", 10 * SECOND, acknowledges);
    (primary, replica)
}

/// Runs on a pair of each kind.
fn each_pair(body: impl Fn(&Server, &Server)) {
    for kind in available() {
        let (primary, replica) = pair(kind);
        body(&primary, &replica);
    }
}

/// Runs on a pair of the first kind.
fn with_pair(body: impl FnOnce(&Server, &Server)) {
    if let Some(kind) = available().first() {
        let (primary, replica) = pair(*kind);
        body(&primary, &replica);
    }
}

fn is_wait(line: &MonitorLine) -> bool {
    line.is("wait")
}

/// Asserts that a grant of `n` was given up because nobody acknowledged it, in time, and that nothing of it is left.
#[track_caller]
fn assert_given_up<T>(server: &Server, expected: Range<Duration>, call: impl FnOnce() -> Result<T, Error>) {
    let (result, took) = timed(call);
    let error = result.err().expect("no replica has acknowledged it");
    assert_text(&error, &shown(server.port()), &["\"n\"", "min_replicas is 1", "0 replicas"]);
    let Error::NotReplicated { name, wanted: 1, acknowledged: 0, waited, .. } = &error else { panic!("{error:?}") };
    assert!(name == "n" && error.is_retryable() && error.name() == Some("n"));
    assert!(!waited.is_zero() && *waited <= took, "{waited:?} of {took:?}");
    assert_took(took, expected);
    // At once: the server answers.
    assert_nothing_left(server, "n");
    assert!(server.keys("*:redlatch:gone:*").is_empty(), "no acquire went unanswered");
}

#[test]
fn a_grant_that_a_replica_acknowledged_is_on_the_replica() {
    each_pair(|primary, replica| {
        let client = replicated(&primary.url(), 10 * SECOND);
        connect(&client);
        let monitor = Monitor::start(primary);
        for round in 1..=20 {
            let guard = client.lock("n").unwrap().acquire().unwrap();
            assert_eq!(replica.get(&key("n")).as_deref(), Some(guard.token().as_str()));
            assert_eq!(guard.release().unwrap(), Released::Released);
            monitor.wait_idle();
            let lines = monitor.client_commands();
            let acquire = lines.iter().rfind(|line| Script::Acquire.is(line)).unwrap();
            let wait = lines.iter().rfind(|line| is_wait(line)).unwrap();
            assert_eq!(wait.args[1..], ["1", "10000"]);
            assert_eq!(wait.client, acquire.client, "the server waits for what this connection has written");
            assert_eq!(monitor.count(is_wait), round);
        }
        assert_eq!((client.stats().acquired, client.stats().not_replicated), (20, 0));
    });
}

#[test]
fn only_grants_wait_for_replicas() {
    each_pair(|primary, _replica| {
        let client = replicated(&primary.url(), 10 * SECOND);
        let monitor = Monitor::start(primary);
        let waits = |expected: usize, after: &str| {
            monitor.wait_idle();
            assert_eq!(monitor.count(is_wait), expected, "after {after}");
        };
        let lock = client.lock_with("n", LockOptions::new().ttl(ms(600))).unwrap();
        let guard = lock.acquire().unwrap();
        waits(1, "an acquire");
        let nested = lock.acquire().unwrap();
        assert_eq!(nested.release().unwrap(), Released::StillHeld(1));
        waits(1, "a nested acquire");
        guard.renew().unwrap();
        assert_eventually("the background renews", 5 * SECOND, || client.stats().renewed >= 2);
        waits(1, "renewals");
        assert!(plain(primary).lock("n").unwrap().try_acquire().unwrap().is_none());
        assert!(client.try_lease("n", LockOptions::new()).unwrap().is_none());
        waits(1, "an answer that it is busy");
        assert_eq!(guard.release().unwrap(), Released::Released);
        waits(1, "a release");
        let token = client.lease("n", fixed(LONG)).unwrap().into_token().unwrap();
        waits(2, "a lease and its hand-over");
        let lease = client.adopt("n", token.as_str(), fixed(LONG)).unwrap().expect("the token has it");
        waits(3, "an adopted lease");
        assert_eq!(lease.release().unwrap(), Released::Released);
        waits(3, "its release");
    });
}

#[test]
fn without_min_replicas_nothing_waits_for_any() {
    with_server(|server| {
        let monitor = Monitor::start(server);
        let client = Client::builder(&server.url()).replica_timeout(60 * SECOND).build().unwrap();
        assert_free(&client.lock("n").unwrap());
        monitor.wait_idle();
        assert_eq!(monitor.count(is_wait), 0);
    });
}

/// Every kind of acquire meets replicas that are silent.
fn every_acquire_is_given_up(primary: &Server) {
    let within = ms(150);
    let client = replicated(&primary.url(), within);
    connect(&client);
    let expected = within..within + TICK + NOISE;
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    assert_given_up(primary, expected.clone(), || lock.try_acquire());
    assert_given_up(primary, expected.clone(), || lock.try_acquire_for(20 * SECOND));
    assert_given_up(primary, expected.clone(), || lock.acquire());
    assert_given_up(primary, expected.clone(), || client.lease("n", fixed(LONG)));
    let token = plain(primary).lease("n", fixed(LONG)).unwrap().into_token().unwrap();
    assert_given_up(primary, expected, || client.adopt("n", token.as_str(), fixed(LONG)));
    assert_eq!(lock.hold_count(), 0);
    let stats = client.stats();
    assert_eq!((stats.acquired, stats.not_replicated, stats.lost_total(), stats.background_released), (0, 5, 0, 0));
    assert_free(&plain(primary).lock("n").unwrap());
}

#[test]
fn a_grant_that_a_stopped_replica_did_not_acknowledge_left_the_lock_locked() {
    each_pair(|primary, replica| {
        replica.pause();
        every_acquire_is_given_up(primary);
        replica.resume();
        let client = replicated(&primary.url(), 10 * SECOND);
        assert_free(&client.lock("n").unwrap());
    });
}

#[test]
fn a_grant_of_a_server_without_replicas_left_the_lock_locked() {
    each_loaded_server(every_acquire_is_given_up);
}

#[test]
fn two_replicas_are_wanted_and_one_acknowledges() {
    with_pair(|primary, _replica| {
        let client = builder(&primary.url(), SECOND).min_replicas(2).build().unwrap();
        let error = client.lock("n").unwrap().try_acquire().unwrap_err();
        assert!(matches!(error, Error::NotReplicated { wanted: 2, acknowledged: 1, .. }), "{error:?}");
        assert_nothing_left(primary, "n");
    });
}

#[test]
fn a_store_without_replicas_grants_nothing_that_needs_one() {
    let client = Client::builder("memory://").min_replicas(1).build().unwrap();
    for _ in 0..2 {
        let error = client.lock("n").unwrap().acquire().unwrap_err();
        assert!(matches!(error, Error::NotReplicated { wanted: 1, acknowledged: 0, .. }), "{error:?}");
        assert_eq!(client.inspect("n").unwrap(), None);
    }
    assert_eq!(client.stats().not_replicated, 2);
}

#[test]
fn the_wait_for_replicas_outlasted_the_callers_time() {
    with_server(|server| {
        let client = replicated(&server.url(), 20 * SECOND);
        connect(&client);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        // Some of the caller's time is kept for the reply.
        assert_given_up(server, ms(375)..ms(500) + NOISE, || lock.try_acquire_for(ms(500)));
    });
}

#[test]
fn the_wait_for_replicas_outlasted_the_lease() {
    with_server(|server| {
        let client = replicated(&server.url(), 20 * SECOND);
        connect(&client);
        let lock = client.lock_with("n", fixed(ms(500))).unwrap();
        let (result, took) = timed(|| lock.acquire());
        assert!(matches!(result, Err(Error::NotReplicated { .. })), "{result:?}");
        assert_took(took, ms(400)..ms(500) + TICK + NOISE);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn the_lease_began_only_when_its_replicas_had_acknowledged_it() {
    with_pair(|primary, replica| {
        let client = replicated(&primary.url(), 10 * SECOND);
        connect(&client);
        let monitor = Monitor::start(primary);
        replica.pause();
        let lock = client.lock_with("n", fixed(5 * SECOND)).unwrap();
        let (guard, took) = thread::scope(|scope| {
            let acquiring = scope.spawn(|| {
                let (guard, took) = timed(|| lock.acquire());
                let guard = guard.unwrap();
                let remaining = guard.remaining();
                assert_eq!(guard.release().unwrap(), Released::Released);
                (remaining, took)
            });
            monitor.wait_for("the server waits for its replica", 5 * SECOND, is_wait);
            thread::sleep(SECOND);
            replica.resume();
            acquiring.join().unwrap()
        });
        assert!(took >= SECOND, "{took:?}");
        assert!(guard <= 5 * SECOND - SECOND, "{guard:?} left after {took:?}");
    });
}

#[test]
fn a_waiter_whose_turn_came_went_on_waiting_for_replicas_that_are_gone() {
    with_server(|server| {
        let holder = plain(server);
        let guard = holder.lock_with("n", fixed(LONG)).unwrap().acquire().unwrap();
        let client = replicated(&server.url(), ms(100));
        thread::scope(|scope| {
            let queued = |n| move || server.query::<i64>(&["ZCARD", &sibling("n", "queue")]) == n;
            let waiting = scope.spawn(|| timed(|| client.lease("n", fixed(LONG)).map(drop)));
            assert_eventually("the first waiter is queued", 5 * SECOND, queued(1));
            let next = scope.spawn(|| plain(server).lease("n", fixed(LONG)).unwrap().release().unwrap());
            assert_eventually("the next waiter is queued", 5 * SECOND, queued(2));
            assert_eq!(guard.release().unwrap(), Released::Released);
            let (result, _) = waiting.join().unwrap();
            assert!(matches!(result, Err(Error::NotReplicated { acknowledged: 0, .. })), "{result:?}");
            assert_eq!(next.join().unwrap(), Released::Released, "the lock goes on to the next waiter");
        });
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_lost_answer_of_the_wait_for_replicas_lost_the_grant() {
    each_pair(|primary, _replica| {
        let proxy = Proxy::in_front_of(primary);
        let within = ms(100);
        let client = replicated(&proxy.url(), within);
        connect(&client);
        let monitor = Monitor::start(primary);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let faults = [
            // The reply may come until the server's wait and a request's limit are over.
            (ReplyFault::Swallow, within + TICK + LIMIT),
            (ReplyFault::CutAfter(0), ms(0)),
            (ReplyFault::Replace(b"+OK\r\n".to_vec()), ms(0)),
        ];
        for (fault, least) in faults {
            monitor.wait_idle();
            monitor.clear();
            proxy.fault_next_reply_to(WAIT, fault.clone());
            let (guard, took) = timed(|| lock.acquire().unwrap());
            assert_took(took, least..least + LONGEST_GAP + NOISE);
            let token = guard.token().as_str().to_owned();
            assert_eq!(primary.get(&key("n")).as_deref(), Some(&*token), "{fault:?}");
            assert_eq!(primary.get(&sibling("n", "fence")), Some(guard.fence().to_string()));
            monitor.wait_idle();
            let lines = monitor.client_commands();
            let acquires: Vec<_> = lines.iter().filter(|line| Script::Acquire.is(line)).collect();
            assert_eq!((acquires.len(), monitor.count(is_wait)), (2, 2), "{fault:?}");
            assert!(acquires.iter().all(|line| token_in(&line.args) == token), "the same token asks again");
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert_nothing_left(primary, "n");
            // As after an acquire without an answer.
            assert_tombstone(primary, "n", &token);
        }
        assert_eq!(client.stats().acquired, 3);
    });
}

#[test]
fn a_wait_for_replicas_that_is_never_answered_left_the_lock_locked() {
    with_pair(|primary, _replica| {
        let proxy = Proxy::in_front_of(primary);
        let client = replicated(&proxy.url(), ms(100));
        connect(&client);
        for _ in 0..20 {
            proxy.swallow_next_reply_to(WAIT);
        }
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let (result, took) = timed(|| lock.try_acquire_for(SECOND));
        assert_took(took, SECOND..SECOND + NOISE);
        assert_unavailable(&result.unwrap_err(), &shown(proxy.port()), &["acquire", "replicas", "no reply in time"]);
        let idle = || client.stats().background_now == 0;
        assert_eventually("the background has given the token up", 5 * SECOND, idle);
        assert_nothing_left(primary, "n");
        let gone = primary.keys("*:redlatch:gone:*");
        assert_eq!(gone.len(), 1, "{gone:?}");
    });
}

#[test]
fn a_grant_given_up_whose_release_is_lost_stays_with_the_background() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = replicated(&proxy.url(), ms(100));
        connect(&client);
        proxy.hold_requests_with(&Script::Release.needle());
        let (result, took) = timed(|| client.lock_with("n", fixed(LONG)).unwrap().acquire());
        assert!(matches!(result, Err(Error::NotReplicated { .. })), "{result:?}");
        assert_took(took, ms(100)..ms(100) + TICK + NOISE);
        let token = server.get(&key("n")).expect("its release is held");
        assert_eq!(client.stats().background_now, 1);
        proxy.pass();
        let done = || client.stats().background_released == 1;
        assert_eventually("the background has its confirmation", 5 * SECOND, done);
        assert_nothing_left(server, "n");
        assert!(!server.exists(&tombstone("n", &token)), "its acquire was answered");
    });
}

#[test]
fn a_user_that_may_not_wait_for_replicas_left_the_lock_locked() {
    each_loaded_server(|server| {
        server.query::<String>(&["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all", "-wait"]);
        let client = replicated(&server.url_as("app", "s3cret"), 10 * SECOND);
        let (result, took) = timed(|| client.lock("n").unwrap().acquire());
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Permission { .. }), "{error:?}");
        assert_text(&error, &shown(server.port()), &["acquire", "\"n\"", "wait"]);
        assert!(!error.to_string().contains("s3cret") && took < NOISE, "{took:?}: {error}");
        assert_nothing_left(server, "n");
        assert!(server.keys("*:redlatch:gone:*").is_empty(), "no acquire went unanswered");
    });
}

#[test]
fn a_primary_demoted_while_it_waits_for_its_replicas_is_unavailable_and_what_it_granted_is_given_up() {
    each_loaded_server(|server| {
        let client = replicated(&server.url(), 10 * SECOND);
        connect(&client);
        let monitor = Monitor::start(server);
        let port = super::support::closed_port().to_string();
        thread::scope(|scope| {
            let acquiring =
                scope.spawn(|| client.lock_with("n", fixed(LONG)).unwrap().try_acquire_for(2 * SECOND).map(drop_it));
            monitor.wait_for("the server waits for its replicas", 5 * SECOND, is_wait);
            server.query::<()>(&["REPLICAOF", "127.0.0.1", &port]);
            let error = acquiring.join().unwrap().unwrap_err();
            assert_unavailable(&error, &shown(server.port()), &["acquire"]);
        });
        server.query::<()>(&["REPLICAOF", "NO", "ONE"]);
        let idle = || client.stats().background_now == 0;
        assert_eventually("the background has given the token up", 5 * SECOND, idle);
        assert_nothing_left(server, "n");
    });
}

/// A guard does not leave its thread.
fn drop_it<T>(it: T) {
    drop(it);
}

#[test]
fn a_release_waited_for_the_replicas_of_another_lock() {
    with_pair(|primary, replica| {
        let client = replicated(&primary.url(), 3 * SECOND);
        let held = client.lease("held", fixed(LONG)).unwrap();
        let monitor = Monitor::start(primary);
        replica.pause();
        thread::scope(|scope| {
            let acquiring = scope.spawn(|| client.lease("n", fixed(LONG)).map(drop));
            monitor.wait_for("the server waits for its replica", 5 * SECOND, is_wait);
            let (released, took) = timed(|| held.release());
            assert_eq!(released.unwrap(), Released::Released);
            assert_took(took, ms(0)..NOISE);
            replica.resume();
            acquiring.join().unwrap().unwrap();
        });
    });
}
