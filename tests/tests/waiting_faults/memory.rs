//! The store of this process: the same order, the same push.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redlatch::Client;
use redlatch_tests::assert_eventually;

use crate::support::{AT_ONCE, Grant, SECOND, acquire, give_back, hold, start_waiter};

fn waiters(client: &Client) -> u64 {
    client.inspect("a").unwrap().map_or(0, |info| info.waiters())
}

/// Opens the inbox: rounds of one waiter each, until one is woken by push.
fn open_inbox(holder: &Client, client: &Client) {
    assert_eventually("a waiter is woken by push", 10 * SECOND, || {
        let lease = hold(holder, "a");
        thread::scope(|scope| {
            scope.spawn(|| acquire(client, "a").release().unwrap());
            assert_eventually("it waits", SECOND, || waiters(holder) == 1);
            give_back(lease);
        });
        client.stats().pushes > 0
    });
}

#[test]
fn waiters_of_memory_are_served_by_push_in_the_order_they_came() {
    let open = || Client::open("memory://order").unwrap();
    let (holder, clients) = (open(), [open(), open()]);
    clients.iter().for_each(|client| open_inbox(&holder, client));
    let before: u64 = clients.iter().map(|client| client.stats().pushes).sum();
    let (sender, grants) = mpsc::channel();
    let lease = hold(&holder, "a");
    thread::scope(|scope| {
        for n in 0..20 {
            start_waiter(scope, &clients[n % 2], "a", n, &sender);
            assert_eventually("it waits", SECOND, || waiters(&holder) == n as u64 + 1);
        }
        let begin = Instant::now();
        give_back(lease);
        let grants: Vec<Grant> = grants.iter().take(20).collect();
        assert_eq!(grants.iter().map(|grant| grant.number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert!(grants.is_sorted_by(|one, next| one.fence < next.fence), "{grants:?}");
        assert!(grants[0].at - begin < AT_ONCE, "{:?}", grants[0].at - begin);
    });
    let pushes: u64 = clients.iter().map(|client| client.stats().pushes).sum();
    assert_eq!(pushes - before, 20, "one message for each release that somebody waits for");
    assert!(hold(&holder, "a").release().is_ok());
}

#[test]
fn a_waiter_of_memory_whose_client_is_closed_is_passed_over() {
    let open = || Client::open("memory://closed").unwrap();
    let (holder, gone, live) = (open(), open(), open());
    open_inbox(&holder, &gone);
    open_inbox(&holder, &live);
    let lease = hold(&holder, "a");
    thread::scope(|scope| {
        let closed = scope.spawn(|| gone.lock("a").unwrap().acquire().map(drop));
        assert_eventually("it waits", SECOND, || waiters(&holder) == 1);
        let next = scope.spawn(|| {
            let guard = acquire(&live, "a");
            (Instant::now(), guard.release().unwrap()).0
        });
        assert_eventually("both wait", SECOND, || waiters(&holder) == 2);
        gone.close();
        assert!(closed.join().unwrap().is_err());
        let begin = Instant::now();
        give_back(lease);
        let waited = next.join().unwrap() - begin;
        assert!(waited < AT_ONCE, "{waited:?}");
    });
}
