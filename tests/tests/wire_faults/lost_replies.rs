//! The request was executed and its reply is lost.

use std::time::Duration;

use redlatch::{Client, LockOptions, Released};
use redlatch_tests::{Monitor, Proxy, ReplyFault, Server, assert_eventually};

use super::support::{
    NOISE, Script, assert_free, assert_nothing_left, assert_takes, assert_tombstone, assert_took, client, connect,
    each_loaded_server, fixed, key, ms, sibling, timed, token_in, with_server,
};

const LIMIT: Duration = ms(200);
/// Where nothing waits for a time limit.
const AMPLE: Duration = ms(1_000);
/// The longest pause before a request is repeated.
const LONGEST_GAP: Duration = ms(250);
const LONG: Duration = Duration::from_secs(30);

#[test]
fn an_acquire_whose_reply_is_lost_is_granted_at_its_repetition_to_the_same_token() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        // A single try has two limits for its answers, and the pause must fit in between.
        let limit = ms(400);
        let client = client(&proxy.url(), limit);
        connect(&client);
        let monitor = Monitor::start(server);
        for waits in [Some(ms(0)), Some(ms(5_000)), None] {
            let lock = client.lock_with("n", fixed(LONG)).unwrap();
            proxy.swallow_next_reply_to(&Script::Acquire.needle());
            monitor.wait_idle();
            monitor.clear();
            let (guard, took) = timed(|| match waits {
                Some(wait) => lock.try_acquire_for(wait).unwrap().expect("nobody else has it"),
                None => lock.acquire().unwrap(),
            });
            assert_took(took, limit..limit + LONGEST_GAP + NOISE);
            let token = guard.token().as_str().to_owned();
            assert_eq!(server.get(&key("n")).as_deref(), Some(&*token));
            assert_eq!(server.get(&sibling("n", "fence")), Some(guard.fence().to_string()));
            monitor.wait_idle();
            let requests = monitor.client_commands();
            let requests: Vec<_> = requests.iter().filter(|line| Script::Acquire.is(line)).collect();
            assert_eq!(requests.len(), 2, "{requests:?}");
            assert!(requests.iter().all(|line| line.has(&token)));
            let other = super::support::client(&server.url(), LIMIT).lock("n").unwrap();
            assert!(other.try_acquire().unwrap().is_none(), "there is one holder");
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert_nothing_left(server, "n");
            // One of the two requests might still have been on its way.
            assert_tombstone(server, "n", &token);
        }
        assert_eq!(client.stats().acquired, 3);
    });
}

/// Gives up an acquire while the server is stopped. Returns how long after the server's return it is undone.
fn give_up_on_stopped(server: &Server, client: &Client, held_by: Option<&str>) -> Duration {
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let before = client.stats().background_released;
    connect(client);
    let monitor = Monitor::start(server);
    server.pause();
    let wait = ms(300);
    let (result, took) = timed(|| lock.try_acquire_for(wait));
    result.unwrap_err();
    assert_took(took, wait..wait + NOISE);
    server.resume();
    let idle = || client.stats().background_now == 0;
    assert_eventually("the background has given the token up", ms(2_000), idle);
    let stats = client.stats();
    assert_eq!((stats.background_released, stats.background_gave_up), (before + 1, 0));
    monitor.wait_idle();
    let lines = monitor.client_commands();
    let acquire = lines.iter().find(|line| Script::Acquire.is(line)).expect("the late copy was executed");
    let release = lines.iter().find(|line| Script::Release.is(line)).expect("the release was executed");
    assert_tombstone(server, "n", token_in(&acquire.args));
    assert_eq!(server.get(&key("n")).as_deref(), held_by);
    assert!(!server.exists(&sibling("n", "queue")) && !server.exists(&sibling("n", "waiters")));
    release.at.saturating_sub(lines[0].at)
}

#[test]
fn an_acquire_given_up_while_its_server_was_stopped_is_undone_when_the_server_returns() {
    each_loaded_server(|server| {
        let client = client(&server.url(), ms(500));
        assert_takes(ms(0)..ms(100), || give_up_on_stopped(server, &client, None));
        // The late copy is a place in the queue instead of a grant.
        server.query::<()>(&["SET", &key("n"), "other", "PX", "30000"]);
        assert_takes(ms(0)..ms(100), || give_up_on_stopped(server, &client, Some("other")));
        server.del(&key("n"));
        assert_free(&client.lock("n").unwrap());
    });
}

#[test]
fn a_release_repeated_after_the_next_acquire_leaves_the_new_lease_alone() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let first = lock.try_acquire().unwrap().expect("the lock is free");
        let old = first.token().as_str().to_owned();
        proxy.hold_requests_with(old.as_bytes());
        assert_eq!(first.release().unwrap(), Released::Unconfirmed);
        // The first copy is executed and its reply lost; the background sends more of them.
        let copies = || proxy.held_requests().into_iter().filter(|held| Script::Release.is_held(held));
        proxy.release_requests_in_order(&[copies().next().expect("the release is held").connection]);
        assert!(!server.exists(&key("n")));
        let second = lock.try_acquire().unwrap().expect("the lock is free");
        let new = second.token().as_str().to_owned();
        assert_ne!(old, new);
        assert_eventually("the old release is repeated", ms(2_000), || copies().count() >= 2);
        let held: Vec<usize> = copies().map(|held| held.connection).collect();
        proxy.release_requests_in_order(&held);
        assert_eq!(server.get(&key("n")).as_deref(), Some(&*new));
        proxy.pass();
        let done = || client.stats().background_released == 1;
        assert_eventually("the background has its confirmation", ms(2_000), done);
        assert_eq!(server.get(&key("n")).as_deref(), Some(&*new));
        second.check().unwrap();
        assert_eq!(second.release().unwrap(), Released::Released);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_thread_acquires_again_at_once_after_a_release_without_an_answer() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        for round in 1..=3 {
            let first = lock.try_acquire().unwrap().expect("the lock is free");
            proxy.swallow_next_reply_to(&Script::Release.needle());
            let (released, took) = timed(|| first.release());
            assert_eq!(released.unwrap(), Released::Unconfirmed);
            assert_took(took, LIMIT..LIMIT + NOISE);
            let second = lock.try_acquire().unwrap().expect("the lock is free");
            let done = || client.stats().background_released == round;
            assert_eventually("the background has its confirmation", ms(2_000), done);
            assert_eq!(server.get(&key("n")).as_deref(), Some(second.token().as_str()));
            assert_eq!(second.release().unwrap(), Released::Released);
        }
    });
}

#[test]
fn a_release_whose_reply_is_lost_with_its_connection_is_a_release() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), AMPLE);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let faults = [
            ReplyFault::CutAfter(0),
            ReplyFault::CutAfter(3),
            ReplyFault::Replace(b"+OK\r\n".to_vec()),
            ReplyFault::Replace(b"\0garbage\r\n".to_vec()),
        ];
        for fault in faults {
            let guard = lock.try_acquire().unwrap().expect("the lock is free");
            proxy.fault_next_reply_to(&Script::Release.needle(), fault.clone());
            let (released, took) = timed(|| guard.release());
            assert_eq!(released.unwrap(), Released::Released, "{fault:?}");
            assert_took(took, ms(0)..NOISE);
            assert_nothing_left(server, "n");
        }
        let stats = client.stats();
        assert_eq!((stats.released, stats.lost_total(), stats.release_unconfirmed), (4, 0, 0));
    });
}

// In the pause before the repetition somebody else has become the holder.
#[test]
fn a_release_whose_reply_is_lost_is_a_release_even_when_a_waiter_has_the_lock_at_its_repetition() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), AMPLE);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let guard = lock.try_acquire().unwrap().expect("the lock is free");
        proxy.fault_next_reply_to(&Script::Release.needle(), ReplyFault::CutAfter(0));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let other = super::support::client(&server.url(), LIMIT);
                let lease = other.lease("n", LockOptions::new()).unwrap();
                assert_eq!(server.get(&key("n")).as_deref(), Some(lease.token().as_str()));
                (other, lease)
            });
            let queued = || server.query::<i64>(&["ZCARD", &sibling("n", "queue")]) == 1;
            assert_eventually("the waiter is queued", ms(2_000), queued);
            assert_eq!(guard.release().unwrap(), Released::Released);
            let (other, lease) = waiter.join().unwrap();
            assert_eq!(server.get(&key("n")).as_deref(), Some(lease.token().as_str()));
            assert_eq!(lease.release().unwrap(), Released::Released);
            assert_eq!(other.stats().lost_total(), 0);
        });
        assert_eq!(client.stats().lost_total(), 0);
    });
}

// While the caller does not look at the outcome.
#[test]
fn a_guard_dropped_with_its_reply_lost_leaves_the_lock_free_and_nothing_lost() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        for fault in [ReplyFault::Swallow, ReplyFault::CutAfter(0)] {
            let guard = lock.try_acquire().unwrap().expect("the lock is free");
            proxy.fault_next_reply_to(&Script::Release.needle(), fault);
            let ((), took) = timed(|| drop(guard));
            assert_took(took, ms(0)..LIMIT + NOISE);
            assert_nothing_left(server, "n");
        }
        assert_eventually("the background is idle", ms(2_000), || client.stats().background_now == 0);
        let stats = client.stats();
        assert_eq!((stats.lost_total(), stats.background_gave_up), (0, 0));
    });
}
