//! Access rules that forbid push.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redlatch::Client;
use redlatch_tests::{Server, assert_eventually, each_server_with};

use crate::logs;
use crate::support::{
    Grant, SECOND, await_inboxes, await_nothing_left, await_queue, calls, client, give_back, hold, ms, start_waiter,
    subscribers,
};

/// Ten waiters of one client, served after a release; `ready` waits for what they need before.
fn ten_wait(server: &Server, waiters: &Client, holder: &Client, ready: impl FnOnce()) {
    let (sender, grants) = mpsc::channel::<Grant>();
    let lease = hold(holder, "a");
    thread::scope(|scope| {
        for n in 0..10 {
            start_waiter(scope, waiters, "a", n, &sender);
            await_queue(server, "a", n + 1);
        }
        ready();
        let begin = Instant::now();
        give_back(lease);
        let grants: Vec<Grant> = grants.iter().take(10).collect();
        let order: Vec<usize> = grants.iter().map(|grant| grant.number).collect();
        let times: Vec<u128> = grants.iter().map(|grant| (grant.at - begin).as_millis()).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>(), "first come, first served; granted after {times:?} ms");
        // Each turn is polled for at least every 0.1 s, and none falls due.
        assert!(begin.elapsed() < 4 * SECOND, "ten turns took {:?}", begin.elapsed());
    });
    await_nothing_left(server, "a");
}

#[test]
fn a_denied_subscription_left_waiters_asleep() {
    logs::record();
    // Denied as a command, and as a channel: the default for users since Redis 7.
    for rules in ["app on >pw ~* &* +@all -subscribe", "app on >pw ~* resetchannels +@all"] {
        each_server_with(
            |builder| builder.user(rules),
            |server| {
                let (waiters, holder) = (Client::open(&server.url_as("app", "pw")).unwrap(), client(server));
                for _ in 0..2 {
                    ten_wait(server, &waiters, &holder, || {
                        assert_eventually("push is denied", SECOND, || waiters.stats().push_denied == 1);
                    });
                }
                let stats = waiters.stats();
                assert_eq!((stats.push_denied, stats.push_wakeups, stats.pushes), (1, 0, 0));
                assert_eq!(stats.acquired, 20);
                assert!(stats.poll_wakeups >= 20, "{}", stats.poll_wakeups);
                assert_eq!((subscribers(server), calls(server, "publish")), (0, 0));
                let complaints = logs::complaints_about(server);
                assert_eq!(complaints.len(), 1, "{complaints:?}");
                assert!(complaints[0].contains("SUBSCRIBE"), "{complaints:?}");

                let lease = hold(&holder, "a");
                assert!(waiters.lock("a").unwrap().try_acquire_for(ms(300)).unwrap().is_none());
                give_back(lease);
                await_nothing_left(server, "a");
            },
        );
    }
}

#[test]
fn a_denied_publish_failed_the_release_and_lost_a_waiter() {
    logs::record();
    each_server_with(
        |builder| builder.user("app on >pw ~* &* +@all -publish"),
        |server| {
            let app = || Client::open(&server.url_as("app", "pw")).unwrap();
            let (waiters, holder) = (app(), app());
            ten_wait(server, &waiters, &holder, || await_inboxes(server, "a", 10));
            let stats = holder.stats();
            assert_eq!((stats.released, stats.publish_denied, stats.push_denied), (1, 1, 1));
            let stats = waiters.stats();
            assert_eq!((stats.released, stats.push_denied, stats.pushes), (10, 1, 0));
            assert!((1..=9).contains(&stats.publish_denied), "{}", stats.publish_denied);
            assert_eventually("nobody listens any more", 3 * SECOND, || subscribers(server) == 0);

            // Waiters who are told beforehand have no inbox, so nothing is denied any more.
            ten_wait(server, &waiters, &holder, || {});
            assert_eq!((holder.stats().publish_denied, holder.stats().push_denied), (1, 1));
            let complaints = logs::complaints_about(server);
            assert_eq!(complaints.len(), 2, "one for each client: {complaints:?}");
            assert!(complaints.iter().all(|text| text.contains("PUBLISH")), "{complaints:?}");
        },
    );
}

// The releasing client's rules deny it, the waiting client's do not.
#[test]
fn a_release_that_may_not_publish_left_the_waiters_of_another_user_asleep() {
    each_server_with(
        |builder| builder.user("app on >pw ~* resetchannels +@all"),
        |server| {
            let (waiters, holder) = (client(server), Client::open(&server.url_as("app", "pw")).unwrap());
            ten_wait(server, &waiters, &holder, || await_inboxes(server, "a", 10));
            assert_eq!((holder.stats().released, holder.stats().publish_denied), (1, 1));
            let stats = waiters.stats();
            assert_eq!((stats.released, stats.publish_denied, stats.push_denied), (10, 0, 0));
            assert_eventually("nine messages have come", 10 * SECOND, || waiters.stats().pushes == 9);
        },
    );
}

// Whether an inbox has a subscriber is unknown then: it counts as live.
#[test]
fn a_denied_pubsub_command_dropped_live_waiters() {
    each_server_with(
        |builder| builder.user("app on >pw ~* &* +@all -pubsub"),
        |server| {
            let app = Client::open(&server.url_as("app", "pw")).unwrap();
            ten_wait(server, &app, &client(server), || await_inboxes(server, "a", 10));
            assert_eventually("ten messages have come", 10 * SECOND, || app.stats().pushes == 10);
            assert_eq!(app.stats().push_denied, 0);
        },
    );
}
