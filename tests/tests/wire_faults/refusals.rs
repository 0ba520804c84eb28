//! Servers that answer, and refuse: what passes by itself is waited for, what does not is reported at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlatch::{Error, LockOptions, Released};
use redlatch_tests::{Server, ServerKind, any_server, assert_eventually, available};

use super::fake::{Answer, FakeServer, is_release, is_script};
use super::support::{
    NOISE, assert_free, assert_nothing_left, assert_text, assert_took, assert_unavailable, client, connect,
    each_loaded_server, fixed, key, ms, shown, sibling, timed,
};

const LIMIT: Duration = ms(500);
const LONG: Duration = Duration::from_secs(30);

/// A server whose reply to every script can be changed while it runs.
fn refusing(reply: &str) -> (FakeServer, Arc<Mutex<Answer>>) {
    let answer = Arc::new(Mutex::new(Answer::text(reply)));
    let shared = answer.clone();
    let server = FakeServer::start(move |request| match request {
        release if is_release(release) => Answer::released(),
        script if is_script(script) => shared.lock().unwrap().clone(),
        _ => Answer::ok(),
    });
    (server, answer)
}

/// The words of real servers.
const PASSING: [&str; 12] = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "UNKILLABLE Sorry the script already executed write commands against the dataset.",
    // Before Redis 7, out of a script.
    "ERR Error running script (call to f_0123): @user_script:30: @user_script: 30: -OOM command not allowed",
    "ERR Error running script (call to f_0123): @user_script:7: @user_script: 7: -READONLY You can't write",
];

fn assert_waited_for(words: &str) {
    let (server, answer) = refusing(&format!("-{words}"));
    let client = client(&server.url(), LIMIT);
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let wait = ms(600);
    let (result, took) = timed(|| lock.try_acquire_for(wait));
    assert_took(took, wait..wait + NOISE);
    assert_unavailable(&result.expect_err(words), &shown(server.port()), &["acquire", "\"n\"", words]);
    assert!((2..=13).contains(&server.scripts()), "{words}: {} requests", server.scripts());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(ms(100));
            *answer.lock().unwrap() = Answer::granted();
        });
        let (guard, took) = timed(|| lock.try_acquire_for(ms(5_000)));
        // The longest pause between two requests.
        assert_took(took, ms(100)..ms(100) + ms(250) + NOISE);
        assert_eq!(guard.expect(words).expect("it is granted").release().unwrap(), Released::Released);
    });
}

#[test]
fn a_refusal_that_passes_is_waited_for_within_the_callers_time() {
    std::thread::scope(|scope| {
        let cases = PASSING.map(|words| scope.spawn(move || assert_waited_for(words)));
        cases.into_iter().for_each(|case| case.join().unwrap());
    });
}

#[test]
fn a_refusal_that_does_not_pass_is_reported_at_once() {
    type Expected = fn(&Error) -> bool;
    let authentication: Expected = |error| matches!(error, Error::Authentication { .. });
    let permission: Expected = |error| matches!(error, Error::Permission { .. });
    let incompatible: Expected = |error| matches!(error, Error::Incompatible { .. });
    let foreign: Expected = |error| matches!(error, Error::KeyType { .. });
    let cases = [
        ("NOAUTH Authentication required.", authentication),
        ("WRONGPASS invalid username-password pair or user is disabled.", authentication),
        ("NOPERM this user has no permissions to run the 'evalsha' command", permission),
        ("NOPERM User app has no permissions to access the 'lock:n' key", permission),
        ("ERR unknown command `EVALSHA`, with args beginning with: ", incompatible),
        ("ERR unknown command 'EVALSHA', with args beginning with: ", incompatible),
        ("ERR This Redis command is not allowed from script", incompatible),
        ("KEYTYPE queue", foreign),
    ];
    for (words, expected) in cases {
        let (server, _) = refusing(&format!("-{words}"));
        let client = client(&server.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let (result, took) = timed(|| lock.try_acquire_for(ms(5_000)));
        let error = result.expect_err(words);
        assert_took(took, ms(0)..NOISE);
        assert!(expected(&error) && !error.is_retryable(), "{words}: {error:?}");
        let said = if words.starts_with("KEYTYPE") { "{lock:n}:redlatch:queue" } else { words.trim_end() };
        assert_text(&error, &shown(server.port()), &["\"n\"", said]);
        assert_eq!(server.scripts(), 1, "{words}: it is asked once");
        assert_eq!(client.stats().background_now, 0, "{words}: an answer leaves nothing to give up");
    }
}

#[test]
fn a_server_out_of_memory_refuses_acquires_and_still_renews_and_releases() {
    each_loaded_server(|server| {
        let client = client(&server.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let held = client.lease("held", fixed(LONG)).unwrap();
        let waiting = client.lock("held").unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.try_acquire_for(ms(10_000)).map(|guard| guard.map(drop)));
            let queued = || server.query::<i64>(&["ZCARD", &sibling("held", "queue")]) == 1;
            assert_eventually("a waiter is queued", ms(2_000), queued);
            server.query::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
            server.query::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
            let wait = ms(300);
            let (result, took) = timed(|| lock.try_acquire_for(wait));
            assert_took(took, wait..wait + NOISE);
            assert_unavailable(&result.unwrap_err(), &shown(server.port()), &["OOM command not allowed"]);
            held.renew().unwrap();
            // The turn for the waiter needs memory too; the key must not stay because of it.
            assert_eq!(held.release().unwrap(), Released::Released);
            server.query::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
            assert_eq!(waiter.join().unwrap().unwrap(), Some(()));
        });
        assert_free(&lock);
        assert_eq!(client.stats().lost_total(), 0);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_server_without_its_replicas_refuses_until_they_are_back() {
    each_loaded_server(|server| {
        if server.kind() == ServerKind::Redis62 {
            // Before 7.0 this setting does not concern what scripts write.
            return;
        }
        let client = client(&server.url(), LIMIT);
        let held = client.lease("held", fixed(LONG)).unwrap();
        server.query::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let lock = client.lock("n").unwrap();
        let wait = ms(300);
        let (result, took) = timed(|| lock.try_acquire_for(wait));
        assert_took(took, wait..wait + NOISE);
        assert_unavailable(&result.unwrap_err(), &shown(server.port()), &["NOREPLICAS"]);
        let error = held.renew().unwrap_err();
        assert_unavailable(&error, &shown(server.port()), &["renew", "NOREPLICAS"]);
        held.check().expect("a refused renewal is no loss");
        let (released, took) = timed(|| held.release());
        assert_eq!(released.unwrap(), Released::Unconfirmed);
        assert_took(took, ms(0)..LIMIT + NOISE);
        assert!(server.exists(&key("held")));
        server.query::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert_eventually("released in the background", ms(2_000), || client.stats().background_released == 1);
        assert_nothing_left(server, "held");
        assert_free(&lock);
    });
}

/// Keeps the server busy with a script until SCRIPT KILL.
fn with_looping_script(server: &Server, body: impl FnOnce()) {
    let mut connection = server.raw_connection();
    connection.send(&["EVAL", "while true do end", "0"]).unwrap();
    let busy = || matches!(server.try_query::<String>(&["PING"]), Err(error) if error.code() == Some("BUSY"));
    assert_eventually("the server is busy", ms(3_000), busy);
    body();
    server.query::<()>(&["SCRIPT", "KILL"]);
    connection.read().unwrap_err();
}

#[test]
fn a_server_busy_with_a_script_is_waited_for() {
    each_loaded_server(|server| {
        server.query::<()>(&["CONFIG", "SET", "lua-time-limit", "20"]);
        // The first over its open connection; a new connection's login meets the busy server too.
        let open = client(&server.url(), LIMIT);
        connect(&open);
        let held = open.lease("held", fixed(LONG)).unwrap();
        let fresh = [client(&server.url(), LIMIT), client(&server.url_db(3), LIMIT)];
        with_looping_script(server, || {
            for (client, db) in [(&open, 0), (&fresh[0], 0), (&fresh[1], 3)] {
                let lock = client.lock("n").unwrap();
                let wait = ms(300);
                let (result, took) = timed(|| lock.try_acquire_for(wait));
                assert_took(took, wait..wait + NOISE);
                let shown = format!("redis://127.0.0.1:{}/{db}", server.port());
                assert_unavailable(&result.unwrap_err(), &shown, &["busy"]);
            }
            assert_eq!(held.release().unwrap(), Released::Unconfirmed);
        });
        for client in [&open, &fresh[0], &fresh[1]] {
            let guard = client.lock("n").unwrap().try_acquire().unwrap().expect("the lock is free");
            assert_eq!(guard.release().unwrap(), Released::Released);
        }
        assert_eventually("released in the background", ms(2_000), || open.stats().background_released == 1);
        assert_nothing_left(server, "held");
    });
}

#[test]
fn a_waiter_gets_the_lock_when_the_script_is_killed() {
    let Some(kind) = any_server() else { return };
    let server = Server::builder(kind).config("lua-time-limit", "20").start();
    let client = client(&server.url(), LIMIT);
    connect(&client);
    std::thread::scope(|scope| {
        let mut waiter = None;
        with_looping_script(&server, || {
            waiter = Some(scope.spawn(|| client.lease("n", LockOptions::new())));
            assert_eventually("it waits", ms(1_000), || client.stats().waiting_now == 1);
        });
        let (lease, took) = timed(|| waiter.unwrap().join().unwrap());
        assert_took(took, ms(0)..ms(250) + 2 * NOISE);
        assert_eq!(lease.unwrap().release().unwrap(), Released::Released);
    });
}

/// Asserts that an acquire waits for a free place. The server's words are lost where its end of the connection
/// arrives as a reset.
fn assert_full(server: &Server, url: &str) {
    let client = client(url, LIMIT);
    let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(300)));
    assert_took(took, ms(300)..ms(300) + NOISE);
    assert_unavailable(&result.unwrap_err(), &shown(server.port()), &["acquire"]);
}

#[test]
fn a_server_with_too_many_clients_is_unavailable_and_no_wrong_password() {
    for kind in available() {
        let server = Server::builder(kind).password("s3cret").start();
        // The harness's own connection is one of them.
        server.query::<()>(&["CONFIG", "SET", "maxclients", "1"]);
        assert_full(&server, &server.url());
        assert_full(&server, &format!("redis://{}/", server.addr()));
        server.query::<()>(&["CONFIG", "SET", "maxclients", "100"]);
        let client = client(&server.url(), LIMIT);
        assert!(client.lock("n").unwrap().try_acquire().unwrap().is_some());
    }
}
