//! A server over a Unix socket.

use std::sync::mpsc;
use std::thread;

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{Server, ServerBuilder, assert_eventually, each_server_with};

use crate::support::{AGREED, NOISE, SECOND, acquire, assert_pushed, key, limited, ms, sibling, timed, ttl};

fn with_sockets(configure: impl Fn(ServerBuilder) -> ServerBuilder, body: impl Fn(&Server)) {
    each_server_with(|builder| configure(builder.unix_socket(true)), body);
}

/// Both ways to write the URL.
fn urls(server: &Server) -> [String; 2] {
    [server.unix_url(), server.unix_url().replace("redis+unix:", "unix:")]
}

fn waits_with_inbox(server: &Server, name: &str) -> bool {
    let inboxes: Vec<String> = server.query(&["HVALS", &sibling(name, "waiters")]);
    inboxes.len() == 1 && inboxes[0] != "-"
}

#[test]
fn every_verb_works_over_a_unix_socket() {
    with_sockets(
        |it| it,
        |server| {
            for (url, name) in urls(server).iter().zip(["a", "b"]) {
                let (client, other) = (Client::open(url).unwrap(), Client::open(url).unwrap());
                let lease = client.lease(name, ttl(600)).unwrap();
                assert_eq!(server.get(&key(name)).as_deref(), Some(lease.token().as_str()));
                assert_eventually("the background renews", 5 * SECOND, || client.stats().renewed >= 2);
                assert_eq!(other.inspect(name).unwrap().unwrap().token(), lease.token());
                thread::scope(|scope| {
                    let waiting = scope.spawn(|| acquire(&other, name).release().unwrap());
                    assert_eventually("it waits with an inbox", AGREED, || waits_with_inbox(server, name));
                    assert_eq!(lease.release().unwrap(), Released::Released);
                    assert_eq!(waiting.join().unwrap(), Released::Released);
                });
                assert_pushed(&other, 0);
                let lease = client.lease(name, LockOptions::new()).unwrap();
                assert!(other.force_release(name).unwrap());
                assert!(matches!(lease.renew(), Err(Error::Lost(_))));
            }
        },
    );
}

#[test]
fn a_socket_that_was_made_anew_took_leases_and_waiters_along() {
    with_sockets(
        |it| it.config("appendonly", "yes").config("appendfsync", "always"),
        |server| {
            let (client, other) =
                (Client::open(&server.unix_url()).unwrap(), Client::open(&server.unix_url()).unwrap());
            let lease = client.lease("a", ttl(10_000)).unwrap();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| acquire(&other, "a").release().unwrap());
                assert_eventually("it waits with an inbox", AGREED, || waits_with_inbox(server, "a"));
                let renewed = client.stats().renewed;
                // The end of the server leaves its socket's file behind, or removes it; it makes a new one.
                server.restart();
                assert_eventually("the lease is renewed", 10 * SECOND, || client.stats().renewed > renewed);
                lease.check().unwrap();
                let recovered = || server.query::<Vec<String>>(&["PUBSUB", "CHANNELS", "redlatch:inbox:*"]).len() == 1;
                assert_eventually("the inbox is back", AGREED, recovered);
                assert_eventually("it waits with that", AGREED, || waits_with_inbox(server, "a"));
                let pushed = other.stats().pushes;
                assert_eq!(lease.release().unwrap(), Released::Released);
                assert_eq!(waiting.join().unwrap(), Released::Released);
                assert_pushed(&other, pushed);
            });
            assert_eq!(client.stats().lost_total(), 0);
        },
    );
}

#[test]
fn a_path_without_a_socket_is_named_within_the_limits() {
    with_sockets(
        |it| it,
        |server| {
            let path = server.dir().join("nothing.sock");
            let file = server.dir().join("server.log");
            for (path, why) in [(&path, "No such file"), (&file, "refused")] {
                let url = format!("unix://{}", path.display());
                let client = limited(&url, ms(300)).build().unwrap();
                let (error, took) = timed(|| client.lock("a").unwrap().try_acquire_for(ms(400)).unwrap_err());
                assert!(took < ms(700) + NOISE, "{took:?}");
                assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
                let text = error.to_string();
                assert!(text.contains(&url) && text.contains(why), "{text}");
            }
        },
    );
}

#[test]
fn a_socket_whose_server_takes_no_more_connections_held_callers_beyond_their_time() {
    with_sockets(
        |it| it.config("tcp-backlog", "1"),
        |server| {
            let client = limited(&server.unix_url(), ms(200)).build().unwrap();
            server.pause();
            thread::scope(|scope| {
                let (done, is_done) = mpsc::channel::<()>();
                // Callers that hang go on after that, and the test ends.
                scope.spawn(move || {
                    let _ = is_done.recv_timeout(10 * SECOND);
                    server.resume();
                });
                for attempt in 0..6 {
                    let (error, took) = timed(|| client.lock("a").unwrap().try_acquire_for(ms(300)).unwrap_err());
                    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
                    assert!(took < ms(500) + NOISE, "{attempt}: {took:?}");
                }
                drop(done);
            });
            let guard = client.lock("a").unwrap().try_acquire_for(10 * SECOND).unwrap().expect("the lock is free");
            assert_eq!(guard.release().unwrap(), Released::Released);
        },
    );
}
