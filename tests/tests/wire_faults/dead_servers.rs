//! Releases, drops and acquires while the server is away.

use std::time::Duration;

use redlatch::Released;
use redlatch_tests::{Proxy, Server, assert_eventually};

use super::support::{
    NOISE, assert_nothing_left, assert_takes, assert_took, assert_unavailable, client, closed_port, fixed, key,
    load_scripts, ms, shown, timed, with_server,
};

const LIMIT: Duration = ms(300);
const LONG: Duration = Duration::from_secs(30);

type Change = fn(&Server, &Proxy);

/// Ways in which a server is away, and back.
const OUTAGES: [(&str, Change, Change); 4] = [
    ("a black hole", |_, proxy| proxy.drop_all(), |_, proxy| proxy.pass()),
    ("a stopped server", |server, _| server.pause(), |server, _| server.resume()),
    (
        "a refused connection",
        |_, proxy| {
            proxy.refuse();
            proxy.reset_all();
        },
        |_, proxy| proxy.listen(),
    ),
    ("a killed server", |server, _| server.kill(), |server, _| server.restart()),
];

#[test]
fn a_release_without_a_server_is_unconfirmed_in_time_and_goes_on_in_the_background() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        for (round, (what, begins, ends)) in OUTAGES.into_iter().enumerate() {
            let guard = lock.try_acquire().unwrap().expect("the lock is free");
            begins(server, &proxy);
            let (released, took) = timed(|| guard.release());
            assert_eq!(released.unwrap(), Released::Unconfirmed, "{what}");
            assert!(took < LIMIT + NOISE, "{what}: {took:?}");
            assert_eq!(client.stats().background_now, 1, "{what}");
            assert_eq!(lock.hold_count(), 0);
            ends(server, &proxy);
            // One try of the background may still be waiting for the server that was away.
            let done = || client.stats().background_released == round as u64 + 1;
            assert_eventually(&format!("released after {what}"), LIMIT + ms(100) + NOISE, done);
            assert_nothing_left(server, "n");
        }
        assert_eq!(client.stats().release_unconfirmed, 4);
        assert_eq!(client.stats().background_gave_up, 0);
    });
}

#[test]
fn a_drop_without_a_server_returns_in_time_and_never_panics() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        for (round, (what, begins, ends)) in OUTAGES.into_iter().enumerate() {
            let guard = client.lock_with("n", fixed(LONG)).unwrap().try_acquire().unwrap().expect("the lock is free");
            let lease = client.try_lease("m", fixed(LONG)).unwrap().expect("the lock is free");
            begins(server, &proxy);
            let ((), took) = timed(|| drop(guard));
            assert!(took < LIMIT + NOISE, "{what}: the guard's drop took {took:?}");
            let ((), took) = timed(|| drop(lease));
            assert!(took < LIMIT + NOISE, "{what}: the lease's drop took {took:?}");
            ends(server, &proxy);
            let done = || client.stats().background_released == 2 * (round as u64 + 1);
            assert_eventually(&format!("released after {what}"), 2 * LIMIT + ms(200) + NOISE, done);
            assert_nothing_left(server, "n");
            assert_nothing_left(server, "m");
        }
    });
}

#[test]
fn a_drop_while_a_panic_unwinds_and_the_server_is_away_does_not_abort() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let work = std::panic::AssertUnwindSafe(|| {
            let _guard = lock.try_acquire().unwrap().expect("the lock is free");
            proxy.drop_all();
            std::panic::resume_unwind(Box::new("the work failed"));
        });
        let failure = std::panic::catch_unwind(work).unwrap_err();
        assert_eq!(failure.downcast_ref::<&str>(), Some(&"the work failed"));
        proxy.pass();
        assert_eventually("released in the background", ms(2_000), || client.stats().background_released == 1);
        assert!(!server.exists(&key("n")));
    });
}

#[test]
fn a_release_stays_with_the_background_until_the_key_has_lapsed_by_itself() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let guard = client.lock_with("n", fixed(ms(800))).unwrap().try_acquire().unwrap().expect("the lock is free");
        proxy.refuse();
        proxy.reset_all();
        assert_eq!(guard.release().unwrap(), Released::Unconfirmed);
        assert_eq!(client.stats().background_now, 1);
        let given_up = || client.stats().background_gave_up == 1;
        assert_eventually("given up", ms(800) + LIMIT + 2 * NOISE, given_up);
        assert_eq!(client.stats().background_now, 0);
        assert!(!server.exists(&key("n")));
    });
}

#[test]
fn an_acquire_at_a_closed_port_waits_as_long_as_it_was_told_and_does_not_hammer() {
    let port = closed_port();
    let client = client(&format!("redis://app:s3cret@127.0.0.1:{port}/"), LIMIT);
    let lock = client.lock("n").unwrap();
    assert_takes(ms(300)..ms(400), || {
        let before = client.stats().poll_wakeups;
        let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
        assert_unavailable(&result.unwrap_err(), &shown(port), &["refused", "acquire", "\"n\""]);
        // Requests at gaps of 50 ms or more.
        let polls = client.stats().poll_wakeups - before;
        assert!(polls <= 6, "{polls}");
        took
    });
}

#[test]
fn an_acquire_waits_for_a_server_that_comes_back() {
    with_server(|server| {
        let client = client(&server.url(), LIMIT);
        server.kill();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| timed(|| client.lease("n", fixed(LONG))));
            std::thread::sleep(ms(400));
            server.restart();
            load_scripts(server);
            let (lease, took) = waiting.join().unwrap();
            // The pause between two tries, and one connection.
            assert_took(took, ms(400)..ms(1_400));
            assert_eq!(server.get(&key("n")).as_deref(), Some(lease.unwrap().token().as_str()));
        });
    });
}
