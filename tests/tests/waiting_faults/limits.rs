//! Waits that end by their limit, or by the end of the ttl that keeps them waiting.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use redlatch::Client;
use redlatch_tests::{Server, any_server, assert_eventually, each_server, each_server_with};

use crate::alone::machine_to_myself;
use crate::support::{
    SECOND, await_nothing_left, await_queue, client, give_back, hold, key, ms, open_inbox, queue_len, sibling, timed,
    ttl,
};

/// How exact a wait is.
const EXACT: Duration = ms(50);

/// How late a plain sleep may be on a machine that can measure anything.
const CALM: Duration = ms(10);

/// Asserts that `work` takes `expected`, exactly. A plain sleep of that length runs beside it: while even that is
/// late, the machine is too busy to tell, and the measurement is repeated.
#[track_caller]
fn assert_takes(what: &str, expected: Duration, mut work: impl FnMut() -> Duration) {
    let mut took = Duration::ZERO;
    for _ in 0..10 {
        let lateness = thread::scope(|scope| {
            let sleeper = scope.spawn(|| timed(|| thread::sleep(expected)).1 - expected);
            took = work();
            sleeper.join().unwrap()
        });
        if took >= expected && took <= expected + EXACT {
            return;
        }
        assert!(took >= expected && lateness > CALM, "{what}: took {took:?}, expected {expected:?}");
    }
    panic!("{what}: took {took:?}, expected {expected:?}; the machine was busy all the time");
}

/// Rules of a user that may have no inbox.
const POLLER: &str = "poller on >pw ~* &* +@all -subscribe";

/// Runs `body` with a client that has an inbox and with one that may have none, on every server.
fn with_and_without_inbox(body: impl Fn(&Server, &Client, &str)) {
    let _machine = machine_to_myself();
    each_server_with(|builder| builder.user(POLLER), |server| with_both(server, &body));
}

/// As [`with_and_without_inbox`], on one server.
fn on_one_server(body: impl Fn(&Server, &Client, &str)) {
    let _machine = machine_to_myself();
    let Some(kind) = any_server() else { return };
    with_both(&Server::builder(kind).user(POLLER).start(), &body);
}

fn with_both(server: &Server, body: &impl Fn(&Server, &Client, &str)) {
    let pushed = client(server);
    open_inbox(server, &pushed);
    body(server, &pushed, "with an inbox");
    let polled = Client::open(&server.url_as("poller", "pw")).unwrap();
    let lease = hold(&pushed, "denied");
    assert!(polled.lock("denied").unwrap().try_acquire_for(ms(50)).unwrap().is_none());
    assert_eventually("push is denied", SECOND, || polled.stats().push_denied == 1);
    give_back(lease);
    body(server, &polled, "without an inbox");
}

#[test]
fn a_wait_for_half_a_second_lasted_as_long_as_the_holder() {
    with_and_without_inbox(|server, waiter, how| {
        let lease = client(server).lease("a", ttl(4_000)).unwrap();
        assert_takes(how, ms(500), || {
            let (outcome, took) = timed(|| waiter.lock("a").unwrap().try_acquire_for(ms(500)));
            assert!(outcome.unwrap().is_none());
            took
        });
        give_back(lease);
    });
}

// The inbox comes up in the middle of such a wait.
#[test]
fn the_wait_that_opens_the_inbox_lasts_no_longer_than_others() {
    let _machine = machine_to_myself();
    each_server(|server| {
        let lease = client(server).lease("a", ttl(4_000)).unwrap();
        assert_takes("a first wait", ms(300), || {
            let waiter = client(server);
            let (outcome, took) = timed(|| waiter.lock("a").unwrap().try_acquire_for(ms(300)));
            assert!(outcome.unwrap().is_none());
            took
        });
        give_back(lease);
    });
}

#[test]
fn a_wait_of_one_second_was_stretched_by_a_long_ttl() {
    on_one_server(|server, waiter, how| {
        let lease = client(server).lease("a", ttl(60_000)).unwrap();
        assert_takes(how, SECOND, || {
            let lock = waiter.lock_with("a", ttl(60_000)).unwrap();
            let (outcome, took) = timed(|| lock.try_acquire_for(SECOND));
            assert!(outcome.unwrap().is_none());
            took
        });
        give_back(lease);
    });
}

#[test]
fn a_wait_of_a_minute_did_not_notice_the_end_of_a_ttl_of_one_second() {
    on_one_server(|server, waiter, how| {
        let lock = waiter.lock_with("a", ttl(1_000)).unwrap();
        assert_takes(how, SECOND, || {
            let (guard, took) = timed(|| {
                server.query::<()>(&["SET", &key("a"), "crashed", "PX", "1000"]);
                lock.try_acquire_for(60 * SECOND).unwrap().expect("it lapses in time")
            });
            let _ = guard.release().unwrap();
            took
        });
    });
}

// The waiter's own ttl passes several times.
#[test]
fn a_waiter_gave_up_after_its_own_ttl() {
    on_one_server(|server, waiter, how| {
        let lease = client(server).lease("a", ttl(200)).unwrap();
        thread::scope(|scope| {
            let waiting =
                scope.spawn(|| waiter.lock_with("a", ttl(200)).unwrap().acquire().unwrap().release().unwrap());
            await_queue(server, "a", 1);
            thread::sleep(ms(700));
            assert_eq!(queue_len(server, "a"), 1, "{how}");
            assert!(!waiting.is_finished(), "{how}");
            let ((), took) = timed(|| {
                give_back(lease);
                let _ = waiting.join().unwrap();
            });
            assert!(took < ms(300), "{how}: took {took:?}");
        });
    });
}

#[test]
fn a_wait_that_timed_out_left_its_place_in_the_queue() {
    with_and_without_inbox(|server, waiter, how| {
        let lease = hold(&client(server), "a");
        let waited = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for n in 0..20 {
                let waited = &waited;
                scope.spawn(move || {
                    let outcome = waiter.lock("a").unwrap().try_acquire_for(ms(50 + 10 * n)).unwrap();
                    waited.lock().unwrap().push(outcome.is_none());
                });
            }
        });
        assert_eq!(*waited.lock().unwrap(), [true; 20], "{how}");
        assert_eventually("the background is done", SECOND, || waiter.stats().background_now == 0);
        assert!(!server.exists(&sibling("a", "queue")), "{how}");
        assert!(!server.exists(&sibling("a", "waiters")), "{how}");
        give_back(lease);
        await_nothing_left(server, "a");
    });
}
