//! Databases of one server: each has locks of its own.

use std::thread;

use redlatch::{Client, Error, Lease, Released};
use redlatch_tests::{Server, assert_eventually, each_server};

use crate::support::{AGREED, SECOND, acquire, assert_pushed, key, limited, sibling, ttl};

/// How many databases a server has that is not told otherwise.
const COUNT: u32 = 16;

fn query_in<T: redis::FromRedisValue>(server: &Server, db: u32, words: &[&str]) -> T {
    let mut connection = server.raw_connection();
    connection.command::<()>(&["SELECT", &db.to_string()]).unwrap();
    connection.command(words).unwrap()
}

#[test]
fn a_lock_met_one_of_the_same_name_in_another_database() {
    each_server(|server| {
        let clients: Vec<Client> = (0..COUNT).map(|db| Client::open(&server.url_db(db)).unwrap()).collect();
        let leases: Vec<Lease> =
            clients.iter().map(|client| client.try_lease("a", ttl(30_000)).unwrap().expect("it is free")).collect();
        for (db, lease) in (0..).zip(&leases) {
            let token: String = query_in(server, db, &["GET", &key("a")]);
            assert_eq!(token, lease.token().as_str(), "{db}");
            lease.renew().unwrap();
        }
        for lease in leases {
            assert_eq!(lease.release().unwrap(), Released::Released);
        }
    });
}

#[test]
fn a_number_that_the_server_does_not_have_is_named() {
    each_server(|server| {
        let client = limited(&server.url_db(COUNT), SECOND).build().unwrap();
        let error = client.lock("a").unwrap().try_acquire().unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }) && !error.is_retryable(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("/{COUNT}")) && text.contains("out of range"), "{text}");
    });
    for url in ["redis://localhost/-1", "redis://localhost/1000001", "redis://localhost/x", "unix:///run/s?db=-1"] {
        assert!(matches!(Client::open(url), Err(Error::Config { option: "url", .. })), "{url}");
    }
}

/// Pub/sub knows no databases.
#[test]
fn a_release_woke_a_waiter_of_the_same_name_in_another_database() {
    each_server(|server| {
        let open = |db| Client::open(&server.url_db(db)).unwrap();
        let (holders, waiters) = ([open(0), open(1)], [open(0), open(1)]);
        let mut leases = holders.each_ref().map(|it| Some(it.lease("a", ttl(60_000)).unwrap()));
        thread::scope(|scope| {
            let mut waiting = waiters.each_ref().map(|it| Some(scope.spawn(|| acquire(it, "a").release().unwrap())));
            for db in 0..2 {
                let waits = || query_in::<Vec<String>>(server, db, &["HVALS", &sibling("a", "waiters")]);
                assert_eventually("it waits with an inbox", AGREED, || waits().iter().any(|inbox| inbox != "-"));
            }
            let mut pass = |db: usize| {
                assert_eq!(leases[db].take().unwrap().release().unwrap(), Released::Released);
                assert_eq!(waiting[db].take().unwrap().join().unwrap(), Released::Released);
                assert_pushed(&waiters[db], 0);
            };
            pass(1);
            assert_eq!((waiters[0].stats().pushes, waiters[0].stats().waiting_now), (0, 1));
            assert!(holders[0].inspect("a").unwrap().is_some_and(|info| info.waiters() == 1));
            let before = waiters[1].stats().pushes;
            pass(0);
            assert_eq!(waiters[1].stats().pushes, before);
        });
    });
}
