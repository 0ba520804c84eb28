//! Who comes next.

use std::sync::mpsc;
use std::thread;

use redlatch::Client;
use redlatch_tests::{Monitor, each_server};

use crate::support::{
    Grant, await_inboxes, await_nothing_left, await_queue, client, give_back, hold, ms, open_inbox, queue_len, sibling,
    start_waiter,
};

#[test]
fn a_released_lock_went_to_whoever_polled_first() {
    each_server(|server| {
        let (holder, clients) = (client(server), [client(server), client(server), client(server)]);
        let (sender, grants) = mpsc::channel();
        let lease = hold(&holder, "a");
        let last = lease.fence();
        thread::scope(|scope| {
            for n in 0..20 {
                start_waiter(scope, &clients[n % 3], "a", n, &sender);
                await_queue(server, "a", n + 1);
            }
            await_inboxes(server, "a", 20);
            give_back(lease);
            let grants: Vec<Grant> = grants.iter().take(20).collect();
            assert_eq!(grants.iter().map(|grant| grant.number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
            assert!(grants.is_sorted_by(|one, next| one.fence < next.fence), "{grants:?}");
            assert!(grants[0].fence > last);
        });
        await_nothing_left(server, "a");
    });
}

#[test]
fn a_waiter_lost_its_place_when_its_inbox_came() {
    each_server(|server| {
        // The first one of each client joins without an inbox and again with one.
        let (holder, clients) = (client(server), [(); 5].map(|()| client(server)));
        let (sender, grants) = mpsc::channel::<Grant>();
        let lease = hold(&holder, "a");
        thread::scope(|scope| {
            for (n, waiter) in clients.iter().enumerate() {
                start_waiter(scope, waiter, "a", n, &sender);
                await_inboxes(server, "a", n + 1);
            }
            give_back(lease);
            assert_eq!(grants.iter().take(5).map(|grant| grant.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
    });
}

#[test]
fn a_try_overtook_a_waiter_or_joined_the_queue() {
    each_server(|server| {
        let turn = |url: &str| Client::builder(url).turn(ms(10_000)).build().unwrap();
        let (holder, waiter, other) = (turn(&server.url()), turn(&server.url()), turn(&server.url()));
        open_inbox(server, &waiter);
        let monitor = Monitor::start(server);
        let lease = hold(&holder, "a");
        let try_it = |busy: &str| {
            assert!(other.lock("a").unwrap().try_acquire().unwrap().is_none(), "{busy}");
            assert!(other.lock("a").unwrap().try_acquire_for(ms(0)).unwrap().is_none(), "{busy}");
            assert!(other.try_lease("a", Default::default()).unwrap().is_none(), "{busy}");
        };
        try_it("held");
        assert_eq!(queue_len(server, "a"), 0, "a try does not queue");
        assert!(!server.exists(&sibling("a", "waiters")));
        monitor.wait_idle();
        let joined = monitor.commands().iter().filter(|line| line.lua && (line.is("ZADD") || line.is("HSET"))).count();
        assert_eq!(joined, 0);
        // The turn of a waiter that is on its way is respected by a try.
        give_back(lease);
        server.query::<()>(&["SET", &sibling("a", "turn"), "9000000000000000 somebody -", "PX", "60000"]);
        try_it("somebody's turn");
        assert_eq!(queue_len(server, "a"), 0);
        server.del(&sibling("a", "turn"));
        give_back(hold(&other, "a"));
        assert_eq!(other.stats().busy, 6);
    });
}
