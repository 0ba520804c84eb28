//! Requests of a waiter that reach the server after it has given up.

use std::thread;
use std::time::Instant;

use redlatch::{CancelToken, Client, Error};
use redlatch_tests::{HeldRequest, Proxy, Server, assert_eventually, each_server};

use crate::support::{
    AT_ONCE, SECOND, acquire, acquire_sha, await_inboxes, await_nothing_left, client, give_back, hold, key,
    load_scripts, ms, open_inbox, queue_len, sibling,
};

fn acquires(proxy: &Proxy) -> Vec<HeldRequest> {
    let sha = acquire_sha();
    proxy.held_requests().into_iter().filter(|request| request.args.contains(&sha)).collect()
}

fn token_of(request: &HeldRequest) -> String {
    // EVALSHA, hash, number of keys, seven keys.
    request.args[10].clone()
}

/// A waiter polls and its poll stays on the way, while it gives up. Returns the connections of the late polls.
fn give_up_with_a_late_poll(server: &Server, proxy: &Proxy) -> Vec<usize> {
    let limit = ms(150);
    let waiter = Client::builder(&proxy.url()).connect_timeout(limit).io_timeout(limit).build().unwrap();
    open_inbox(server, &waiter);
    let cancel = CancelToken::new();
    let late = thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lease_cancellable("a", Default::default(), None, &cancel));
        await_inboxes(server, "a", 1);
        proxy.hold_requests_with(acquire_sha().as_bytes());
        assert_eventually("two copies of the poll are on their way", 3 * SECOND, || acquires(proxy).len() >= 2);
        cancel.cancel();
        let outcome = waiting.join().unwrap();
        assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
        acquires(proxy)
    });
    let token = token_of(&late[0]);
    assert!(late.iter().all(|request| token_of(request) == token), "a wait has one token");
    assert_eventually("the waiter is out of the queue", 2 * SECOND, || {
        queue_len(server, "a") == 0 && server.exists(&sibling("a", &format!("gone:{token}")))
    });
    assert_eventually("the background is done", SECOND, || waiter.stats().background_now == 0);
    late.iter().map(|request| request.connection).collect()
}

#[test]
fn a_late_poll_left_a_ghost_in_the_queue() {
    each_server(|server| {
        load_scripts(server);
        let (proxy, other) = (Proxy::in_front_of(server), client(server));
        let lease = hold(&other, "a");
        let late = give_up_with_a_late_poll(server, &proxy);
        proxy.release_requests_in_order(&late);
        assert_eq!(queue_len(server, "a"), 0, "there is no ghost waiter");
        assert!(!server.exists(&sibling("a", "waiters")));

        // Nobody is woken in place of the next one.
        thread::scope(|scope| {
            let next = scope.spawn(|| {
                let guard = acquire(&other, "a");
                let at = Instant::now();
                let _ = guard.release().unwrap();
                at
            });
            await_inboxes(server, "a", 1);
            let begin = Instant::now();
            give_back(lease);
            let waited = next.join().unwrap() - begin;
            assert!(waited < AT_ONCE, "the next waiter had the lock after {waited:?}");
        });
        await_nothing_left(server, "a");
    });
}

#[test]
fn a_late_poll_was_granted_after_its_waiter_gave_up() {
    each_server(|server| {
        load_scripts(server);
        let (proxy, other) = (Proxy::in_front_of(server), client(server));
        let lease = hold(&other, "a");
        let late = give_up_with_a_late_poll(server, &proxy);
        give_back(lease);
        proxy.release_requests_in_order(&late);
        assert!(!server.exists(&key("a")), "nobody has it");
        await_nothing_left(server, "a");
        give_back(hold(&other, "a"));
    });
}

/// The turn is given to a waiter whose polls are all on their way: the one that arrives first takes it, although its
/// waiter has given up in between, only if its tombstone has not arrived.
#[test]
fn a_turn_of_a_waiter_that_gave_up_blocked_the_lock() {
    each_server(|server| {
        load_scripts(server);
        let (proxy, other) = (Proxy::in_front_of(server), client(server));
        let limit = ms(150);
        let builder = Client::builder(&proxy.url()).connect_timeout(limit).io_timeout(limit);
        // A turn that nobody passes on would cost 10 s.
        let waiter = builder.turn(10 * SECOND).build().unwrap();
        open_inbox(server, &waiter);
        let lease = Client::builder(&server.url()).turn(10 * SECOND).build().unwrap();
        let lease = hold(&lease, "a");
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.lease_cancellable("a", Default::default(), None, &cancel));
            await_inboxes(server, "a", 1);
            let next = scope.spawn(|| {
                let guard = acquire(&other, "a");
                let at = Instant::now();
                let _ = guard.release().unwrap();
                at
            });
            await_inboxes(server, "a", 2);
            proxy.hold_requests_with(acquire_sha().as_bytes());
            assert_eventually("a poll is on its way", 3 * SECOND, || !acquires(&proxy).is_empty());
            let late: Vec<usize> = acquires(&proxy).iter().map(|request| request.connection).collect();
            give_back(lease);
            cancel.cancel();
            let cancelled = Instant::now();
            let outcome = waiting.join().unwrap();
            assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
            let waited = next.join().unwrap() - cancelled;
            assert!(waited < SECOND, "the turn was passed on after {waited:?}");
            proxy.release_requests_in_order(&late);
        });
        await_nothing_left(server, "a");
    });
}
