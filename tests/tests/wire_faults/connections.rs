//! Connections that end between two calls: idle timeouts of servers, restarts, middleboxes.

use std::cell::RefCell;
use std::sync::Barrier;
use std::time::Duration;

use redlatch::{Client, LockOptions, Released};
use redlatch_tests::{Proxy, Server, any_server, assert_eventually};

use super::support::{
    assert_nothing_left, client, connect, each_loaded_server, fixed, key, ms, pooled_client, timed, with_server,
};

const LIMIT: Duration = ms(1_000);
const LONG: Duration = Duration::from_secs(30);
/// Less than the shortest pause before a request is repeated.
const AT_ONCE: Duration = ms(50);

type End = fn(&Server, &Proxy);

/// Ways in which a server or the network ends idle connections.
const ENDS: [(&str, End); 3] = [
    ("CLIENT KILL", |server, _| {
        // Not the harness's own connection, which sends this.
        server.query::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    }),
    ("FIN", |_, proxy| proxy.cut_all()),
    ("RST", |_, proxy| proxy.reset_all()),
];

/// Opens every connection of the pool, by as many requests at once.
fn fill_pool(proxy: &Proxy, client: &Client, size: usize) {
    proxy.delay_replies(ms(30));
    let filled = || {
        let begin = Barrier::new(size);
        std::thread::scope(|scope| {
            for n in 0..size {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    let _ = client.inspect(&format!("fill-{n}")).unwrap();
                });
            }
        });
        proxy.traffic().open >= size
    };
    assert_eventually("as many connections are open", ms(5_000), filled);
    proxy.pass();
}

/// Asserts that `call` makes no pause after `before`: other work of the machine may slow one call down, not each.
#[track_caller]
fn assert_at_once(what: &str, mut before: impl FnMut(), mut call: impl FnMut()) {
    let once = |_| {
        before();
        timed(&mut call).1
    };
    let times: Vec<Duration> = (0..3).map(once).collect();
    assert!(times.iter().min() < Some(&AT_ONCE), "{what}: {times:?}");
}

#[test]
fn a_connection_that_ended_while_idle_costs_neither_an_error_nor_a_pause() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = pooled_client(&proxy.url(), LIMIT, 8);
        let options = || fixed(LONG);
        for (what, end) in ENDS {
            let cut = || {
                fill_pool(&proxy, &client, 4);
                end(server, &proxy);
                assert_eventually("the connections have ended", ms(2_000), || proxy.traffic().open == 0);
            };
            let leases = RefCell::new(Vec::new());
            assert_at_once(&format!("acquire after {what}"), cut, || {
                let name = format!("n{}", leases.borrow().len());
                let lease = client.try_lease(&name, options()).unwrap().expect("the lock is free");
                assert_eq!(server.get(&key(&name)).as_deref(), Some(lease.token().as_str()));
                leases.borrow_mut().push(lease);
            });
            let mut leases = leases.into_inner();
            assert_at_once(&format!("renew after {what}"), cut, || leases[0].renew().unwrap());
            assert_at_once(&format!("inspect after {what}"), cut, || {
                assert_eq!(client.inspect("n0").unwrap().unwrap().token(), leases[0].token());
            });
            assert_at_once(&format!("release after {what}"), cut, || {
                assert_eq!(leases.pop().unwrap().release().unwrap(), Released::Released);
            });
        }
        (0..3).for_each(|n| assert_nothing_left(server, &format!("n{n}")));
        let stats = client.stats();
        assert_eq!((stats.unavailable, stats.release_unconfirmed, stats.lost_total()), (0, 0, 0));
    });
}

#[test]
fn every_thread_gets_over_its_ended_connection_at_once() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = pooled_client(&proxy.url(), LIMIT, 8);
        for (what, end) in ENDS {
            fill_pool(&proxy, &client, 8);
            end(server, &proxy);
            assert_eventually("the connections have ended", ms(2_000), || proxy.traffic().open == 0);
            let begin = Barrier::new(8);
            std::thread::scope(|scope| {
                for n in 0..8 {
                    let (begin, client) = (&begin, &client);
                    scope.spawn(move || {
                        let lock = client.lock(&format!("n{n}")).unwrap();
                        begin.wait();
                        let guard = lock.try_acquire().unwrap_or_else(|error| panic!("after {what}: {error}"));
                        assert_eq!(guard.expect("the lock is free").release().unwrap(), Released::Released);
                    });
                }
            });
        }
        assert_eq!(client.stats().released, 24);
    });
}

#[test]
fn the_first_calls_after_a_restart_succeed_at_once() {
    with_server(|server| {
        let client = client(&server.url(), LIMIT);
        let lock = client.lock("n").unwrap();
        connect(&client);
        let restart = || {
            // The restarted server has no scripts either.
            server.stop();
            server.restart();
        };
        assert_at_once("acquire and release after a restart", restart, || {
            let guard = lock.try_acquire().unwrap().expect("the lock is free");
            assert_eq!(guard.release().unwrap(), Released::Released);
        });
    });
}

#[test]
fn an_idle_timeout_of_the_server_is_not_noticed() {
    if let Some(kind) = any_server() {
        let server = Server::builder(kind).config("timeout", "1").start();
        let client = client(&server.url(), LIMIT);
        let lease = client.lease("n", LockOptions::new().ttl(LONG)).unwrap();
        let clients = || server.query::<String>(&["CLIENT", "LIST"]).lines().count();
        assert_eventually("the server has closed the idle connection", ms(5_000), || clients() == 1);
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_nothing_left(&server, "n");
    }
}
