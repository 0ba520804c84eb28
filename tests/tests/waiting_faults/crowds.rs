//! Many waiters, few connections.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::Client;
use redlatch_tests::{Server, any_server, assert_eventually};

use crate::alone::machine_to_myself;
use crate::support::{
    Grant, SECOND, await_inboxes, await_nothing_left, await_queue, calls, client, give_back, hold, ms, script_calls,
    start_waiter, subscribers, timed,
};

const CROWD: usize = 2_000;

#[test]
fn two_thousand_waiters_polled_the_server_to_death() {
    let _machine = machine_to_myself();
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let (holder, waiters) = (client(&server), client(&server));
    let lease = hold(&holder, "a");
    let (sender, grants) = mpsc::channel();
    let threads: Vec<_> = (0..CROWD)
        .map(|_| {
            let (lock, sender) = (waiters.lock("a").unwrap(), sender.clone());
            let thread = thread::Builder::new().stack_size(128 * 1024);
            let wait = move || {
                let guard = lock.acquire().unwrap();
                sender.send(guard.fence()).unwrap();
                let _ = guard.release().unwrap();
            };
            thread.spawn(wait).unwrap()
        })
        .collect();
    await_inboxes(&server, "a", CROWD);
    assert_eq!(subscribers(&server), 1, "one connection wakes them all");

    // What follows the opening of the inbox is over as soon as a second brings no more than polls.
    let per_second = || {
        let before = script_calls(&server);
        thread::sleep(SECOND);
        script_calls(&server) - before
    };
    assert_eventually("the load is that of polls", 5 * SECOND, || per_second() <= 100);
    let (before, begin) = (script_calls(&server), Instant::now());
    thread::sleep(3 * SECOND);
    let polls = (script_calls(&server) - before) as f64 / begin.elapsed().as_secs_f64();
    assert!(polls <= 100.0, "{polls} polls a second");

    server.reset_stats();
    let pushed = waiters.stats().pushes;
    give_back(lease);
    let mut last = 0;
    for n in 0..CROWD {
        let fence = grants.recv_timeout(10 * SECOND).unwrap_or_else(|error| panic!("{n} of {CROWD}: {error}"));
        assert!(fence > last, "fences grow");
        last = fence;
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(calls(&server, "publish"), CROWD as u64, "one message for each release that somebody waits for");
    assert_eq!(waiters.stats().pushes - pushed, CROWD as u64);
    await_nothing_left(&server, "a");
}

/// A holder and a hundred waiters share one connection. How long requests take, the slowest last.
fn share_one_connection(server: &Server, client: &Client, all_wait: impl FnOnce()) -> Vec<Duration> {
    let (sender, grants) = mpsc::channel::<Grant>();
    let lease = hold(client, "a");
    thread::scope(|scope| {
        (0..100).for_each(|n| start_waiter(scope, client, "a", n, &sender));
        await_queue(server, "a", 100);
        all_wait();
        let mut took: Vec<Duration> = (0..50)
            .map(|_| {
                thread::sleep(ms(10));
                timed(|| client.inspect("b").unwrap()).1
            })
            .collect();
        took.push(timed(|| give_back(lease)).1);
        drop(sender);
        assert_eq!(grants.iter().count(), 100);
        took.sort();
        took
    })
}

#[test]
fn a_hundred_waiters_held_the_only_connection_against_the_holder() {
    let _machine = machine_to_myself();
    let Some(kind) = any_server() else { return };
    let server = Server::builder(kind).user("poller on >pw ~* &* +@all -subscribe").start();
    let one = |url: &str| Client::builder(url).pool_size(1).build().unwrap();

    let pushed = one(&server.url());
    let took = share_one_connection(&server, &pushed, || await_inboxes(&server, "a", 100));
    assert!(took[25] < ms(20) && took[50] < ms(100), "with an inbox: {took:?}");
    await_nothing_left(&server, "a");

    let polled = one(&server.url_as("poller", "pw"));
    let took = share_one_connection(&server, &polled, || {
        assert_eventually("push is denied", SECOND, || polled.stats().push_denied == 1);
    });
    assert!(took[25] < ms(20) && took[50] < ms(100), "without an inbox: {took:?}");
    await_nothing_left(&server, "a");
}
