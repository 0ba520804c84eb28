//! Waits that are called off.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redlatch::{CancelToken, Client, Error, Released};
use redlatch_tests::{Monitor, Proxy, Server, any_server, assert_eventually, each_server};

use crate::alone::machine_to_myself;
use crate::support::{
    SECOND, acquire, await_inboxes, await_nothing_left, await_queue, client, give_back, hold, ms, open_inbox, sibling,
    timed, ttl,
};

const WORKERS: u64 = 3;
const CYCLES: u64 = 1_000;

/// Cycles of acquire and release, each cancelled at a random moment by another thread: while it connects, waits, is
/// granted, holds or releases.
fn cancel_at_random(client: &Client) {
    let at_work = AtomicU64::new(WORKERS);
    thread::scope(|scope| {
        // Somebody to wait for.
        scope.spawn(|| {
            while at_work.load(Ordering::Relaxed) > 0 {
                let guard = acquire(client, "a");
                thread::sleep(ms(1));
                assert_eq!(guard.release().unwrap(), Released::Released);
            }
        });
        for _ in 0..WORKERS {
            // A rendezvous: each cancel belongs to the cycle that runs.
            let (tokens, queue) = mpsc::sync_channel::<CancelToken>(0);
            scope.spawn(move || {
                for token in queue {
                    thread::sleep(ms(3).mul_f64(fastrand::f64()));
                    token.cancel();
                }
            });
            let at_work = &at_work;
            scope.spawn(move || {
                let lock = client.lock("a").unwrap();
                for _ in 0..CYCLES {
                    let cancel = CancelToken::new();
                    tokens.send(cancel.clone()).unwrap();
                    match lock.acquire_cancellable(None, &cancel) {
                        Ok(guard) => {
                            let guard = guard.expect("a wait without limit ends with a grant or an error");
                            assert_eq!(guard.release().unwrap(), Released::Released);
                        }
                        Err(error) => assert!(matches!(error, Error::Cancelled { .. }), "{error}"),
                    }
                }
                at_work.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    let (cancelled, granted) = (client.stats().cancelled, WORKERS * CYCLES - client.stats().cancelled);
    assert!(granted > 300 && cancelled > 300, "{granted} granted, {cancelled} cancelled");
    assert_eventually("the background is done", 5 * SECOND, || client.stats().background_now == 0);
    assert_eq!((client.stats().held_now, client.stats().waiting_now), (0, 0));
}

#[test]
fn a_cancelled_acquire_left_a_locked_key_or_a_queued_waiter() {
    let _machine = machine_to_myself();
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let client = client(&server);
    cancel_at_random(&client);
    await_nothing_left(&server, "a");
    give_back(hold(&client, "a"));
}

#[test]
fn a_cancelled_acquire_left_a_lock_in_the_store_of_this_process() {
    let _machine = machine_to_myself();
    let client = Client::open("memory://").unwrap();
    cancel_at_random(&client);
    give_back(hold(&client, "a"));
}

#[test]
fn one_token_calls_off_a_hundred_waits_for_many_locks() {
    let _machine = machine_to_myself();
    each_server(|server| {
        let holder = client(server);
        let leases: Vec<_> = (0..4).map(|n| hold(&holder, &format!("a{n}"))).collect();
        let (waiters, cancel) = (client(server), CancelToken::new());
        let (sender, ended) = mpsc::channel();
        thread::scope(|scope| {
            for n in 0..100 {
                let (waiters, cancel, sender) = (&waiters, &cancel, sender.clone());
                scope.spawn(move || {
                    let name = format!("a{}", n % 4);
                    let outcome = match n % 3 {
                        0 => waiters.lock(&name).unwrap().acquire_cancellable(None, cancel).map(drop),
                        1 => waiters.lock(&name).unwrap().acquire_cancellable(Some(60 * SECOND), cancel).map(drop),
                        _ => waiters.lease_cancellable(&name, ttl(5_000), None, cancel).map(drop),
                    };
                    sender.send((outcome, Instant::now())).unwrap();
                });
            }
            (0..4).for_each(|n| await_queue(server, &format!("a{n}"), 25));
            let cancelled = Instant::now();
            cancel.cancel();
            for _ in 0..100 {
                let (outcome, at) = ended.recv_timeout(5 * SECOND).unwrap();
                assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
                assert!(at - cancelled < ms(500), "a wait returned {:?} after the cancel", at - cancelled);
            }
        });
        assert!(cancel.is_cancelled());
        assert_eq!((waiters.stats().cancelled, waiters.stats().waiting_now), (100, 0));
        assert_eventually("the background is done", SECOND, || waiters.stats().background_now == 0);
        for n in 0..4 {
            assert!(!server.exists(&sibling(&format!("a{n}"), "queue")));
            assert!(!server.exists(&sibling(&format!("a{n}"), "waiters")));
        }
        leases.into_iter().for_each(give_back);
    });
}

#[test]
fn a_token_that_was_cancelled_before_the_wait_asks_no_server() {
    each_server(|server| {
        let waiter = client(server);
        give_back(hold(&waiter, "opens-a-connection"));
        let cancel = CancelToken::new();
        cancel.cancel();
        let monitor = Monitor::start(server);
        let lock = waiter.lock("a").unwrap();
        for wait in [None, Some(ms(0)), Some(SECOND)] {
            let (outcome, took) = timed(|| lock.acquire_cancellable(wait, &cancel));
            assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
            assert!(took < ms(100), "took {took:?}");
        }
        let outcome = waiter.lease_cancellable("a", ttl(5_000), None, &cancel);
        assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
        monitor.wait_idle();
        assert_eq!(monitor.client_commands(), []);
        assert_eq!(lock.hold_count(), 0);
    });
}

#[test]
fn a_cancel_after_the_grant_took_the_lock_away() {
    each_server(|server| {
        let waiter = client(server);
        let (lock, cancel) = (waiter.lock_with("a", ttl(300)).unwrap(), CancelToken::new());
        let first = hold(&client(server), "a");
        let guard = thread::scope(|scope| {
            scope.spawn(|| {
                await_queue(server, "a", 1);
                give_back(first);
            });
            lock.acquire_cancellable(None, &cancel).unwrap().expect("a wait without limit ends with a grant")
        });
        cancel.cancel();
        // More than two ttls: renewal goes on.
        thread::sleep(ms(700));
        guard.check().unwrap();
        assert_eq!(guard.release().unwrap(), Released::Released);
        await_nothing_left(server, "a");
    });
}

/// The first waiter is cancelled after the server has given it its turn and before it knows. Whether it was granted
/// all the same, because a poll of it crossed the cancel.
fn cancel_on_the_turn(server: &Server, proxy: &Proxy, first: &Client, second: &Client) -> bool {
    let (lease, cancel) = (hold(second, "a"), CancelToken::new());
    thread::scope(|scope| {
        let cancelled = scope.spawn(|| match first.lock("a").unwrap().acquire_cancellable(None, &cancel) {
            Ok(guard) => guard.is_some_and(|guard| guard.release().is_ok()),
            Err(error) => {
                assert!(matches!(error, Error::Cancelled { .. }), "{error}");
                false
            }
        });
        await_inboxes(server, "a", 1);
        let next = scope.spawn(|| {
            let guard = acquire(second, "a");
            let at = Instant::now();
            assert_eq!(guard.release().unwrap(), Released::Released);
            at
        });
        await_inboxes(server, "a", 2);
        proxy.delay_replies(ms(300));
        give_back(lease);
        cancel.cancel();
        let at = Instant::now();
        let granted = cancelled.join().unwrap();
        let waited = next.join().unwrap().saturating_duration_since(at);
        proxy.delay_replies(ms(0));
        assert!(waited < SECOND, "the turn was passed on after {waited:?}");
        granted
    })
}

#[test]
fn a_turn_that_crossed_a_cancel_was_left_to_fall_due() {
    each_server(|server| {
        let proxy = Proxy::in_front_of(server);
        // A turn that nobody passes on would cost 10 s.
        let turn = |url: &str| Client::builder(url).turn(10 * SECOND).build().unwrap();
        let (first, second) = (turn(&proxy.url()), turn(&server.url()));
        open_inbox(server, &first);
        open_inbox(server, &second);
        let crossings = (0..10).filter(|_| !cancel_on_the_turn(server, &proxy, &first, &second)).take(3).count();
        assert_eq!(crossings, 3, "too many polls came between");
        assert_eventually("the background is done", 2 * SECOND, || first.stats().background_now == 0);
        await_nothing_left(server, "a");
    });
}
