//! How many are woken, and by what.

use std::sync::mpsc;
use std::thread;

use redlatch::Released;
use redlatch_tests::{Monitor, assert_eventually, each_server};

use crate::support::{
    Grant, SECOND, acquire_sha, await_inboxes, await_nothing_left, await_queue, calls, client, give_back, hold,
    load_scripts, ms, open_inbox, start_waiter, subscribers,
};

#[test]
fn a_release_that_nobody_waited_for_published_a_message() {
    each_server(|server| {
        let client = client(server);
        let monitor = Monitor::start(server);
        let lock = client.lock("a").unwrap();
        for _ in 0..100 {
            assert_eq!(lock.acquire().unwrap().release().unwrap(), Released::Released);
            give_back(client.try_lease("a", Default::default()).unwrap().unwrap());
        }
        monitor.wait_idle();
        let published: Vec<_> = monitor.commands().into_iter().filter(|line| line.is("PUBLISH")).collect();
        assert!(published.is_empty(), "{published:?}");
        assert!(monitor.commands().iter().any(|line| line.lua), "commands of scripts are seen");
        assert_eq!((calls(server, "publish"), calls(server, "subscribe"), subscribers(server)), (0, 0, 0));
    });
}

#[test]
fn a_release_woke_more_than_one_of_fifty_waiters() {
    each_server(|server| {
        load_scripts(server);
        let (holder, clients) = (client(server), [client(server), client(server)]);
        clients.iter().for_each(|client| open_inbox(server, client));
        let (sender, grants) = mpsc::channel::<Grant>();
        let lease = hold(&holder, "a");
        thread::scope(|scope| {
            for n in 0..50 {
                start_waiter(scope, &clients[n % 2], "a", n, &sender);
            }
            await_inboxes(server, "a", 50);
            let sum = || {
                let stats = clients.each_ref().map(|client| client.stats());
                let total = |of: fn(&redlatch::Stats) -> u64| stats.iter().map(of).sum::<u64>();
                (total(|stats| stats.pushes), total(|stats| stats.push_wakeups), total(|stats| stats.poll_wakeups))
            };
            let (pushes, by_push, by_poll) = sum();
            server.reset_stats();
            let monitor = Monitor::start(server);
            give_back(lease);
            assert_eq!(grants.iter().take(50).count(), 50);
            await_nothing_left(server, "a");
            monitor.wait_idle();

            let published = monitor.commands().iter().filter(|line| line.is("PUBLISH")).count();
            assert_eq!(published, 50, "one message for each release that somebody waits for");
            let receivers: Vec<_> = monitor.commands().into_iter().filter(|line| line.is("PUBLISH")).collect();
            let mut tokens: Vec<&String> = receivers.iter().map(|line| &line.args[2]).collect();
            tokens.sort();
            tokens.dedup();
            assert_eq!(tokens.len(), 50, "each names another waiter");

            let (pushes, by_push, by_poll) = (sum().0 - pushes, sum().1 - by_push, sum().2 - by_poll);
            assert_eq!(pushes, 50, "each message comes once");
            assert!(by_push <= 50, "{by_push} woken by push");
            assert!(by_push >= 40, "most are woken by push, not by a poll that came first: {by_push}");
            let sha = acquire_sha();
            let asked = monitor.count(|line| line.is("EVALSHA") && line.has(&sha)) as u64;
            // And one on each of the 16 connections that was on its way when the count began.
            assert!(asked <= by_push + by_poll + 16, "{asked} requests by {by_push} woken and {by_poll} polls");
        });
    });
}

#[test]
fn a_wake_up_was_counted_as_the_wrong_kind() {
    each_server(|server| {
        let (holder, waiter) = (client(server), client(server));
        open_inbox(server, &waiter);
        let before = waiter.stats();
        let (sender, grants) = mpsc::channel::<Grant>();

        // By push: a release while the inbox is open.
        let lease = hold(&holder, "a");
        thread::scope(|scope| {
            start_waiter(scope, &waiter, "a", 0, &sender);
            await_inboxes(server, "a", 1);
            give_back(lease);
            grants.recv().unwrap();
        });
        assert_eventually("the message has come", 10 * SECOND, || waiter.stats().pushes > before.pushes);
        let pushed = waiter.stats();
        let woken = pushed.push_wakeups - before.push_wakeups;
        assert!(woken == 1 || pushed.poll_wakeups > before.poll_wakeups, "{pushed:?}");
        assert_eq!(pushed.pushes, before.pushes + 1);

        // By time: a plain client deletes the key, and nobody says so.
        let lease = hold(&holder, "a");
        thread::scope(|scope| {
            start_waiter(scope, &waiter, "a", 0, &sender);
            await_queue(server, "a", 1);
            thread::sleep(ms(50));
            server.del("lock:a");
            grants.recv().unwrap();
        });
        let polled = waiter.stats();
        assert_eq!((polled.push_wakeups, polled.pushes), (pushed.push_wakeups, pushed.pushes));
        assert!(polled.poll_wakeups > pushed.poll_wakeups);
        assert_eq!(polled.waiting_now, 0);
        drop(lease);
    });
}
