//! The end of a client while others wait through it.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redlatch::{Client, Error, Lease, LockOptions};
use redlatch_tests::{Proxy, Server, any_server, assert_eventually, thread_names};

use crate::alone::alone;
use crate::logs;
use crate::support::{
    SECOND, await_inboxes, await_nothing_left, await_queue, client, give_back, ms, queue_len, subscribers, timed,
};

/// The library's threads, by the 15 bytes of their names that the kernel keeps. Without that of the connection pool,
/// which r2d2 offers no way to wait for and which has nothing to do.
fn library_threads() -> Vec<String> {
    thread_names().into_iter().filter(|name| name.starts_with("redlatch") && name != "redlatch-pool").collect()
}

/// Asserts that all threads but these have ended. The kernel lists a thread for some microseconds after it was joined.
#[track_caller]
fn assert_ended(but: &[String]) {
    assert_eventually("all threads are joined when close() returns", ms(50), || library_threads() == but);
}

/// A lease that nobody renews, and the only thread that it takes.
fn hold_quietly(client: &Client) -> (Lease, Vec<String>) {
    let lease = client.lease("a", LockOptions::new().auto_renew(false)).unwrap();
    let expected = ["redlatch-events".to_owned()].to_vec();
    assert_eventually("the thread has its name", SECOND, || library_threads() == expected);
    (lease, expected)
}

/// Closes a client through which all kinds of waiters wait.
fn close_with_waiters(client: &Client, all_wait: impl FnOnce()) {
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for n in 0..30 {
            let sender = sender.clone();
            scope.spawn(move || {
                let lock = client.lock("a").unwrap();
                let outcome = match n % 3 {
                    0 => lock.acquire().map(drop),
                    1 => lock.try_acquire_for(60 * SECOND).map(drop),
                    _ => client.lease("a", Default::default()).map(drop),
                };
                sender.send((outcome, Instant::now())).unwrap();
            });
        }
        all_wait();
        assert!(library_threads().contains(&"redlatch-inbox".to_owned()), "{:?}", library_threads());
        let closed = Instant::now();
        let ((), took) = timed(|| client.close());
        assert!(took < 2 * SECOND, "close() took {took:?}");
        for _ in 0..30 {
            let (outcome, at) = ended.recv_timeout(5 * SECOND).expect("every waiter returns");
            assert!(matches!(outcome, Err(Error::Closed { .. })), "{outcome:?}");
            let late = at.saturating_duration_since(closed);
            assert!(late <= ms(100), "a waiter returned {late:?} after close()");
        }
    });
}

#[test]
fn close_left_waiters_asleep_or_threads_running() {
    alone(concat!(module_path!(), "::close_left_waiters_asleep_or_threads_running"), || {
        logs::record();
        let Some(kind) = any_server() else { return };
        let server = Server::start(kind);
        let other = client(&server);
        let (lease, before) = hold_quietly(&other);
        let waiters = client(&server);
        close_with_waiters(&waiters, || await_inboxes(&server, "a", 30));
        assert_ended(&before);
        assert_eventually("the inbox is unsubscribed", SECOND, || subscribers(&server) == 0);
        assert_eq!(waiters.stats().waiting_now, 0);
        let left = other.inspect("a").unwrap().map(|info| info.waiters());
        assert_eq!(left, Some(0), "nobody is left in the queue");
        // A wait that begins afterwards starts nothing.
        assert!(matches!(waiters.lock("a").unwrap().acquire(), Err(Error::Closed { .. })));
        assert_ended(&before);
        give_back(lease);
        await_nothing_left(&server, "a");
        let errors: Vec<_> = logs::all().into_iter().filter(|event| event.level == tracing::Level::ERROR).collect();
        assert!(errors.is_empty(), "{errors:?}");
    });
}

// The server answers later than a waiter that gives up can wait for.
#[test]
fn close_left_a_place_in_the_queue_or_a_thread_when_the_server_was_slow() {
    alone(concat!(module_path!(), "::close_left_a_place_in_the_queue_or_a_thread_when_the_server_was_slow"), || {
        let Some(kind) = any_server() else { return };
        let server = Server::builder(kind).user("poller on >pw ~* &* +@all -subscribe").start();
        let proxy = Proxy::in_front_of(&server);
        let (lease, before) = hold_quietly(&client(&server));
        let waiters = Client::open(&format!("redis://poller:pw@{}/", proxy.addr())).unwrap();
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let outcome = waiters.lock("a").unwrap().try_acquire_for(60 * SECOND);
                    assert!(matches!(outcome, Err(Error::Closed { .. })), "{outcome:?}");
                });
            }
            await_queue(&server, "a", 10);
            assert_eventually("push is denied", SECOND, || waiters.stats().push_denied == 1);
            proxy.delay_replies(ms(60));
            let ((), took) = timed(|| waiters.close());
            assert!(took < 2 * SECOND, "close() took {took:?}");
        });
        assert_ended(&before);
        assert_eq!(queue_len(&server, "a"), 0, "nobody is left in the queue");
        give_back(lease);
        await_nothing_left(&server, "a");
    });
}

// On the store of this process.
#[test]
fn close_left_waiters_of_memory_asleep() {
    alone(concat!(module_path!(), "::close_left_waiters_of_memory_asleep"), || {
        let holder = Client::open("memory://closing").unwrap();
        let (lease, before) = hold_quietly(&holder);
        let waiters = Client::open("memory://closing").unwrap();
        close_with_waiters(&waiters, || {
            let all = || holder.inspect("a").unwrap().is_some_and(|info| info.waiters() == 30);
            assert_eventually("all wait", 5 * SECOND, all);
            assert_eventually("the inbox is open", SECOND, || library_threads().contains(&"redlatch-inbox".to_owned()));
        });
        assert_ended(&before);
        assert_eq!(holder.inspect("a").unwrap().map(|info| info.waiters()), Some(0));
        give_back(lease);
    });
}
