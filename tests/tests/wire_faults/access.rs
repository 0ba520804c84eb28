//! Ways to a server, and what its access rules allow.

use std::time::Duration;

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{Proxy, Server, ServerBuilder, assert_eventually, each_server_with};

use super::support::{
    NOISE, assert_nothing_left, assert_text, assert_took, client, each_loaded_server, fixed, key, ms, shown, sibling,
    timed,
};

const LIMIT: Duration = ms(500);
const LONG: Duration = Duration::from_secs(30);

/// One acquire, renewal and release, and a look at the key in between.
fn use_lock(client: &Client, look: impl FnOnce(&str)) {
    let lease = client.lease("n", fixed(LONG)).unwrap();
    look(lease.token().as_str());
    lease.renew().unwrap();
    assert_eq!(client.inspect("n").unwrap().unwrap().token(), lease.token());
    assert_eq!(lease.release().unwrap(), Released::Released);
}

/// The key as database `db` has it.
fn get_in(server: &Server, db: u32) -> Option<String> {
    let mut connection = server.raw_connection();
    connection.command::<()>(&["SELECT", &db.to_string()]).unwrap();
    connection.command(&["GET", &key("n")]).unwrap()
}

#[test]
fn the_database_of_the_url_is_used_on_every_connection() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&format!("{}3", proxy.url()), LIMIT);
        for _ in 0..2 {
            use_lock(&client, |token| {
                assert_eq!(get_in(server, 3).as_deref(), Some(token));
                assert_eq!(get_in(server, 0), None);
            });
            proxy.cut_all();
        }
        // Another database is another lock.
        let here = client.lease("n", fixed(LONG)).unwrap();
        let there = super::support::client(&server.url_db(4), LIMIT).try_lease("n", fixed(LONG)).unwrap();
        assert!(there.is_some());
        assert_eq!(here.release().unwrap(), Released::Released);
        drop(there);
    });
}

#[test]
fn a_unix_socket_is_a_way_to_the_server() {
    let configure = |builder: ServerBuilder| builder.unix_socket(true);
    each_server_with(configure, |server| {
        let url = server.unix_url().replace("redis+unix:", "unix:");
        use_lock(&client(&url, LIMIT), |token| assert_eq!(server.get(&key("n")).as_deref(), Some(token)));
        use_lock(&client(&format!("{url}?db=3"), LIMIT), |token| {
            assert_eq!(get_in(server, 3).as_deref(), Some(token));
            assert!(!server.exists(&key("n")));
        });
    });
}

#[test]
fn a_unix_socket_with_a_password_is_a_way_to_the_server() {
    let configure = |builder: ServerBuilder| builder.unix_socket(true).password("p w@:/?#&+%é");
    each_server_with(configure, |server| {
        let url = server.unix_url().replace("redis+unix:", "unix:");
        use_lock(&client(&url, LIMIT), |token| assert_eq!(server.get(&key("n")).as_deref(), Some(token)));
    });
}

#[test]
fn special_characters_in_user_and_password_are_percent_encoded() {
    each_loaded_server(|server| {
        let users = [
            ("app", "p@ss:w/rd?#[]%&+=;,!$'()*~ é锁\u{1f512}"),
            ("a:b@c/d?e#f%g+h", "plain"),
            ("ünïcode", "%41%zz"),
            ("app2", " "),
        ];
        for (user, password) in users {
            server.query::<()>(&["ACL", "SETUSER", user, "on", &format!(">{password}"), "~*", "&*", "+@all"]);
            let client = client(&server.url_as(user, password), LIMIT);
            use_lock(&client, |token| assert_eq!(server.get(&key("n")).as_deref(), Some(token)));
            let debug = format!("{client:?}");
            assert!(!debug.contains(password) || password == " ", "{debug}");
        }
    });
}

/// What a user needs besides the rules under test.
fn user(server: &Server, rules: &[&str]) -> Client {
    let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">secret"];
    command.extend(rules);
    server.query::<()>(&command);
    client(&server.url_as("app", "secret"), LIMIT)
}

#[track_caller]
fn assert_denied(error: &Error, server: &Server, parts: &[&str]) {
    assert!(matches!(error, Error::Permission { .. }) && !error.is_retryable(), "{error:?}");
    assert_text(error, &shown(server.port()), parts);
    assert_text(error, "", &["\"n\"", "permission"]);
}

#[test]
fn a_command_that_is_denied_is_named() {
    each_loaded_server(|server| {
        let keys = ["~lock:*", "~{lock:*", "&*"];
        for (denied, said) in [("-evalsha", "'evalsha'"), ("-set", "set"), ("-zscore", "zscore"), ("-time", "time")] {
            let client = user(server, &[&keys[..], &["+@all", denied]].concat());
            let lock = client.lock_with("n", fixed(LONG)).unwrap();
            let (result, took) = timed(|| lock.try_acquire_for(ms(5_000)));
            let error = result.expect_err(denied);
            assert_took(took, ms(0)..NOISE);
            assert_denied(&error, server, &["acquire"]);
            // Inside a script a server before 7.2 says that a command is denied, not which one.
            assert!([said, "can't run this command"].iter().any(|words| error.to_string().contains(words)), "{error}");
            assert_nothing_left(server, "n");
        }
        let client = user(server, &[&keys[..], &["+@all", "-eval"]].concat());
        server.query::<()>(&["SCRIPT", "FLUSH"]);
        let error = client.lock("n").unwrap().try_acquire().unwrap_err();
        assert_denied(&error, server, &["acquire", "'eval'"]);
        let client = user(server, &[&keys[..], &["+@all", "-zcard"]].concat());
        assert_denied(&client.inspect("n").unwrap_err(), server, &["inspect", "zcard"]);
    });
}

#[test]
fn what_a_new_connection_may_not_do_showed_at_the_first_contention_only() {
    each_loaded_server(|server| {
        user(server, &["~*", "&*", "+@all"]);
        // So patient that it opens no other connection while it is watched.
        let known = client(&server.url_as("app", "secret"), ms(10_000));
        let pair = |client: &Client| {
            let guard = client.lock_with("n", fixed(LONG)).unwrap().try_acquire()?;
            guard.expect("the lock is free").release()
        };
        assert_eq!(pair(&known).unwrap(), Released::Released);
        server.reset_stats();
        (0..10).for_each(|_| assert!(pair(&known).is_ok()));
        let counts = server.command_counts();
        assert!(counts.contains_key("exists"), "{counts:?}");
        assert!(!counts.contains_key("zscore") && !counts.contains_key("zrem"), "{counts:?}");
        for (denied, asked) in [("-zscore", "acquire"), ("-zrange", "release")] {
            server.query::<()>(&["ACL", "SETUSER", "app", "+@all", denied]);
            assert!(pair(&known).is_ok(), "{denied}: nobody waits, and the connection is known");
            let new = client(&server.url_as("app", "secret"), LIMIT);
            assert_denied(&pair(&new).unwrap_err(), server, &[asked]);
            server.del(&key("n"));
        }
        // A connection that takes the place of another is new.
        server.query::<()>(&["ACL", "SETUSER", "app", "+@all", "-zscore"]);
        server.query::<u64>(&["CLIENT", "KILL", "USER", "app"]);
        assert_denied(&pair(&known).unwrap_err(), server, &["acquire"]);
    });
}

#[test]
fn a_key_pattern_without_the_siblings_is_a_permission_error_about_keys() {
    each_loaded_server(|server| {
        let client = user(server, &["~lock:*", "&*", "+@all"]);
        let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(5_000)));
        assert_took(took, ms(0)..NOISE);
        assert_denied(&result.unwrap_err(), server, &["acquire", "key"]);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_release_that_becomes_denied_is_a_permission_error_and_the_lease_is_over() {
    each_loaded_server(|server| {
        let client = user(server, &["~*", "&*", "+@all"]);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let guard = lock.try_acquire().unwrap().expect("the lock is free");
        server.query::<()>(&["ACL", "SETUSER", "app", "-zrem"]);
        let (result, took) = timed(|| guard.release());
        assert_took(took, ms(0)..NOISE);
        assert_denied(&result.unwrap_err(), server, &["release"]);
        assert_eq!(lock.hold_count(), 0);
        assert_eq!((client.stats().release_failed, client.stats().background_now), (1, 0));
    });
}

#[test]
fn a_denied_publish_does_not_fail_the_release_and_loses_no_waiter() {
    each_loaded_server(|server| {
        // No channel at all: the default for new users since Redis 7.
        let client = user(server, &["resetchannels", "~*", "+@all"]);
        let lease = client.lease("n", LockOptions::new().ttl(LONG)).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| client.lease("n", LockOptions::new()).map(|lease| lease.release()));
            let queued = || server.query::<i64>(&["ZCARD", &sibling("n", "queue")]) == 1;
            assert_eventually("a waiter is queued", ms(2_000), queued);
            assert_eq!(lease.release().unwrap(), Released::Released);
            let (waited, took) = timed(|| waiter.join().unwrap());
            assert_eq!(waited.unwrap().unwrap(), Released::Released);
            // By its poll, without a push.
            assert_took(took, ms(0)..ms(100) + NOISE);
        });
        assert_nothing_left(server, "n");
        assert_eq!(client.stats().lost_total(), 0);
    });
}

// The waiter listens, the releaser may not publish.
#[test]
fn a_denied_publish_is_counted_and_the_listening_waiter_keeps_its_turn() {
    each_loaded_server(|server| {
        let client = user(server, &["resetchannels", "~*", "+@all"]);
        let lease = client.lease("n", LockOptions::new().ttl(LONG)).unwrap();
        let mut listener = server.raw_connection();
        listener.send(&["SUBSCRIBE", "inbox-of-another"]).unwrap();
        listener.read().unwrap();
        server.query::<i64>(&["ZADD", &sibling("n", "queue"), "1", "another-token"]);
        server.query::<i64>(&["HSET", &sibling("n", "waiters"), "another-token", "inbox-of-another"]);
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(client.stats().publish_denied, 1);
        let turn = server.get(&sibling("n", "turn")).expect("the turn is the waiter's");
        assert!(turn.contains("another-token") && turn.ends_with("inbox-of-another"), "{turn}");
        // Nobody overtakes it while its turn lasts.
        assert!(client.lock("n").unwrap().try_acquire().unwrap().is_none());
    });
}
