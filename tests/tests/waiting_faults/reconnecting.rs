//! Connections and servers that go away while somebody waits.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, LostReason};
use redlatch_tests::{Proxy, Server, any_server, assert_eventually, each_server};

use crate::support::{
    AT_ONCE, Grant, SECOND, await_inboxes, await_nothing_left, client, give_back, hold, start_waiter, subscribers,
};

/// One waiter, and how long after the release it had the lock.
#[track_caller]
fn hand_over(server: &Server, waiter: &Client, fault: impl FnOnce()) -> Duration {
    let (sender, grants) = mpsc::channel::<Grant>();
    let lease = hold(&client(server), "b");
    thread::scope(|scope| {
        start_waiter(scope, waiter, "b", 0, &sender);
        await_inboxes(server, "b", 1);
        fault();
        let begin = Instant::now();
        give_back(lease);
        grants.recv_timeout(10 * SECOND).expect("the waiter is served").at - begin
    })
}

/// Asserts that push works: a waiter is woken by it, and at once.
#[track_caller]
fn assert_push_works(server: &Server, waiter: &Client) {
    let pushes = waiter.stats().pushes;
    let took =
        hand_over(server, waiter, || assert_eventually("the inbox is open", SECOND, || subscribers(server) == 1));
    assert!(took < AT_ONCE, "handed over after {took:?}");
    assert_eventually("the message has come", 10 * SECOND, || waiter.stats().pushes == pushes + 1);
}

#[test]
fn a_killed_inbox_connection_was_never_opened_again() {
    each_server(|server| {
        let waiter = client(server);
        assert_push_works(server, &waiter);
        // Released at the very moment at which nobody can be woken.
        let took = hand_over(server, &waiter, || {
            server.query::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        });
        assert!(took < SECOND, "handed over after {took:?}");
        assert_eventually("the inbox is open again", 2 * SECOND, || subscribers(server) == 1);
        assert_eq!(waiter.stats().inbox_lost, 1);
        assert_push_works(server, &waiter);

        // Killed while they wait, and open again before the release.
        let pushes = waiter.stats().pushes;
        let took = hand_over(server, &waiter, || {
            server.query::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            assert_eventually("the loss is noticed", SECOND, || waiter.stats().inbox_lost == 2);
            assert_eventually("the inbox is open again", 2 * SECOND, || subscribers(server) == 1);
            await_inboxes(server, "b", 1);
        });
        assert!(took < SECOND, "handed over after {took:?}");
        assert!(waiter.stats().pushes <= pushes + 1);
        await_nothing_left(server, "b");
    });
}

#[test]
fn waiters_of_a_server_that_lost_its_data_waited_for_ever() {
    each_server(|server| {
        let (holder, clients) = (client(server), [client(server), client(server)]);
        let lease = hold(&holder, "a");
        let (sender, grants) = mpsc::channel();
        thread::scope(|scope| {
            for n in 0..10 {
                start_waiter(scope, &clients[n % 2], "a", n, &sender);
            }
            await_inboxes(server, "a", 10);
            server.kill();
            server.restart();
            let mut grants: Vec<Grant> =
                (0..10).map(|_| grants.recv_timeout(10 * SECOND).expect("all are served in the end")).collect();
            assert!(grants.is_sorted_by(|one, next| one.fence < next.fence), "{grants:?}");
            // The old holder is told that its lease is gone, and its fence is the smaller one.
            assert!(grants[0].fence > lease.fence());
            grants.sort_by_key(|grant| grant.number);
            assert_eq!(grants.iter().map(|grant| grant.number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        });
        assert!(lease.renew().is_err());
        assert_eq!(lease.lost(), Some(LostReason::Taken));
        drop(lease);
        for waiter in &clients {
            assert_eventually("each inbox is open again", 2 * SECOND, || subscribers(server) == 2);
            assert!(waiter.stats().inbox_lost >= 1);
        }
        clients[1].close();
        assert_eventually("one inbox is closed", SECOND, || subscribers(server) == 1);
        assert_push_works(server, &clients[0]);
    });
}

#[test]
fn a_black_hole_behind_the_inbox_looked_like_silence() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let proxy = Proxy::in_front_of(&server);
    let waiter = Client::open(&proxy.url()).unwrap();
    let (sender, grants) = mpsc::channel::<Grant>();
    let lease = hold(&client(&server), "a");
    thread::scope(|scope| {
        start_waiter(scope, &waiter, "a", 0, &sender);
        await_inboxes(&server, "a", 1);
        let lost = waiter.stats().inbox_lost;
        let begin = Instant::now();
        proxy.drop_all();
        assert_eventually("the loss is noticed", 5 * SECOND, || waiter.stats().inbox_lost > lost);
        let took = begin.elapsed();
        assert!(took < 3 * SECOND, "noticed after {took:?}");
        proxy.pass();
        proxy.cut_all();
        assert_eventually("the inbox is open again", 3 * SECOND, || subscribers(&server) == 1);
        await_inboxes(&server, "a", 1);
        let begin = Instant::now();
        give_back(lease);
        let took = grants.recv_timeout(5 * SECOND).unwrap().at - begin;
        assert!(took < SECOND, "handed over after {took:?}");
    });
    assert_push_works(&server, &waiter);
}

#[test]
fn a_quiet_inbox_was_taken_for_a_dead_one() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let waiter = client(&server);
    // Three pings of the inbox fit in.
    let took = hand_over(&server, &waiter, || thread::sleep(Duration::from_millis(3_500)));
    assert!(took < AT_ONCE, "handed over after {took:?}");
    assert_eventually("the message has come", 10 * SECOND, || waiter.stats().pushes == 1);
    assert_eq!(waiter.stats().inbox_lost, 0);
}

#[test]
fn a_server_that_was_away_for_long_was_found_by_no_inbox() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let waiter = client(&server);
    assert_push_works(&server, &waiter);
    server.kill();
    assert_eventually("several tries to open it fail", 5 * SECOND, || waiter.stats().inbox_lost >= 4);
    server.restart();
    assert_eventually("the inbox is open again", 2 * SECOND, || subscribers(&server) == 1);
    assert_push_works(&server, &waiter);
}
