//! The end of a client.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, LostReason, Released};
use redlatch_tests::{Server, assert_eventually, thread_names};

use crate::alone::alone;
use crate::logs;
use crate::store::{SECOND, Store, ms, on_all_stores_at_once, on_each_store, timed, ttl};

on_each_store![
    a_closed_client_does_nothing_more,
    closing_frees_nothing_and_the_key_lapses,
    a_callback_may_close_its_client,
    closing_calls_every_callback_once,
];
on_all_stores_at_once![what_outlives_the_last_client_handle_goes_on];

/// The library's threads, by the 15 bytes of their names that the kernel keeps.
fn library_threads() -> Vec<String> {
    thread_names().into_iter().filter(|name| name.starts_with("redlatch")).collect()
}

/// The threads of a client that holds a lock, once they have their names.
fn threads_of_a_holder(store: &Store) -> Vec<String> {
    let mut expected = ["redlatch-events", "redlatch-renew-", "redlatch-renew-"].map(str::to_owned).to_vec();
    if store.is_server() {
        expected.insert(1, "redlatch-pool".to_owned());
    }
    assert_eventually("the holder's threads run", SECOND, || library_threads() == expected);
    expected
}

/// Starts every thread that a client can have without a fault.
fn busy_client(store: &Store) -> Client {
    let client = store.client();
    let _kept = client.lease("renewed", ttl(1_000)).unwrap();
    // A thread that ends with a lock leaves its release to the background.
    let worker = client.clone();
    thread::spawn(move || worker.lock("abandoned").unwrap().acquire().unwrap().forget()).join().unwrap();
    assert_eventually("the background is done", SECOND, || client.stats().background_released == 1);
    client
}

fn a_closed_client_does_nothing_more(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    let token = client.lease("b", ttl(60_000)).unwrap().into_token().unwrap();
    client.close();
    client.close();
    let closed = |error: Error, action: &str| {
        let text = error.to_string();
        assert!(matches!(error, Error::Closed { .. }), "{text}");
        assert!(text.contains(action) && text.contains("closed") && !error.is_retryable(), "{text}");
    };
    let other = client.lock("c").unwrap();
    closed(other.acquire().unwrap_err(), "acquire");
    closed(other.try_acquire().unwrap_err(), "acquire");
    closed(other.try_acquire_for(SECOND).unwrap_err(), "acquire");
    closed(client.lease("c", ttl(5_000)).unwrap_err(), "acquire");
    closed(client.try_lease("c", ttl(5_000)).unwrap_err(), "acquire");
    closed(client.adopt("b", token.as_str(), ttl(5_000)).unwrap_err(), "acquire");
    closed(client.inspect("a").unwrap_err(), "inspect");
    closed(client.force_release("a").unwrap_err(), "inspect");
    closed(other.is_locked().unwrap_err(), "inspect");
    let lost = |error: Error| matches!(error, Error::Lost(info) if info.reason() == LostReason::Closed);
    assert!(lost(guard.check().unwrap_err()) && lost(guard.renew().unwrap_err()));
    assert!(lost(lock.acquire().unwrap_err()), "this thread still has a guard");
    assert!(lost(guard.release().unwrap_err()));
    closed(lock.acquire().unwrap_err(), "acquire");
    assert!(store.is_free("c"));
    assert_eq!(store.holder("b").as_deref(), Some(token.as_str()));
}

fn closing_frees_nothing_and_the_key_lapses(store: &Store) {
    let client = store.client();
    let (sender, lost) = mpsc::channel();
    let options = ttl(600).on_lost(move |info| sender.send(info.reason()).unwrap());
    let guard = client.lock_with("a", options).unwrap().acquire().unwrap();
    client.close();
    assert_eq!(lost.try_recv(), Ok(LostReason::Closed), "callbacks have run when close() returns");
    assert_eq!(guard.lost(), Some(LostReason::Closed));
    let token = guard.token().as_str().to_owned();
    assert!(guard.release().is_err());
    assert_eq!(store.holder("a"), Some(token), "whoever still works has a ttl to notice");
    assert_eventually("the key lapses by its ttl", 2 * SECOND, || store.is_free("a"));
}

fn closing_calls_every_callback_once(store: &Store) {
    let client = store.client();
    let (sender, told) = mpsc::channel();
    let options = ttl(60_000).on_lost(move |info| sender.send((info.name().to_owned(), info.reason())).unwrap());
    let leases: Vec<_> = (0..50).map(|number| client.lease(&format!("{number}"), options.clone()).unwrap()).collect();
    client.close();
    let mut names: Vec<String> = told
        .try_iter()
        .map(|(name, reason)| {
            assert_eq!(reason, LostReason::Closed);
            name
        })
        .collect();
    assert_eq!(names.len(), 50, "all of them, before close() returns");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50, "each once");
    drop(leases);
    assert!((0..50).all(|number| !store.is_free(&format!("{number}"))), "dropping a closed lease frees nothing");
}

fn a_callback_may_close_its_client(store: &Store) {
    let client = store.client();
    let (sender, closed) = mpsc::channel();
    let closing = client.clone();
    let options = ttl(60_000).on_lost(move |_| {
        closing.close();
        sender.send(()).unwrap();
    });
    let lease = client.lease("a", options).unwrap();
    store.take_away("a");
    assert!(lease.renew().is_err());
    closed.recv_timeout(5 * SECOND).expect("close() does not wait for the thread that calls it");
    assert!(matches!(client.lock("b").unwrap().acquire(), Err(Error::Closed { .. })));
}

fn what_outlives_the_last_client_handle_goes_on(store: &Store) {
    let client = store.client();
    let lock = client.lock_with("a", ttl(1_000)).unwrap();
    let lease = client.lease("b", ttl(1_000)).unwrap();
    drop(client);
    let guard = lock.acquire().unwrap();
    drop(lock);
    thread::sleep(ms(1_300));
    guard.check().unwrap();
    lease.check().unwrap();
    assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()));
    drop((guard, lease));
    assert!(store.is_free("a") && store.is_free("b"));
}

#[test]
fn close_ends_waiters_leases_and_threads_without_a_complaint() {
    alone(concat!(module_path!(), "::close_ends_waiters_leases_and_threads_without_a_complaint"), || {
        logs::record();
        for store in Store::all() {
            let holder = store.client();
            let _theirs = holder.lock("taken").unwrap().acquire().unwrap();
            let before = threads_of_a_holder(&store);
            let client = busy_client(&store);
            let guard = client.lock_with("mine", ttl(60_000)).unwrap().acquire().unwrap();
            let (sender, ended) = mpsc::channel();
            thread::scope(|scope| {
                for waiter in 0..10 {
                    let (client, sender) = (&client, sender.clone());
                    scope.spawn(move || {
                        let outcome = match waiter % 3 {
                            0 => client.lock("taken").unwrap().acquire().map(drop),
                            1 => client.lock("taken").unwrap().try_acquire_for(60 * SECOND).map(drop),
                            _ => client.lease("taken", ttl(5_000)).map(drop),
                        };
                        sender.send((outcome, Instant::now())).unwrap();
                    });
                }
                assert_eventually("all wait", 5 * SECOND, || client.stats().waiting_now == 10);
                let closed = Instant::now();
                let ((), took) = timed(|| client.close());
                assert!(took < 2 * SECOND, "{}: close() took {took:?}", store.name());
                let but_pool = |threads: Vec<String>| -> Vec<String> {
                    threads.into_iter().filter(|name| name != "redlatch-pool").collect()
                };
                // The kernel lists a thread for a moment after its end could be waited for.
                assert_eventually(&format!("{}: all threads were joined", store.name()), ms(100), || {
                    but_pool(library_threads()) == but_pool(before.clone())
                });
                for _ in 0..10 {
                    let (outcome, at) = ended.recv_timeout(5 * SECOND).expect("every waiter returns");
                    assert!(matches!(outcome, Err(Error::Closed { .. })), "{}: {outcome:?}", store.name());
                    let late = at.saturating_duration_since(closed);
                    assert!(late <= ms(100), "{}: a waiter returned {late:?} after close()", store.name());
                }
            });
            // r2d2 offers no way to wait for its thread, which has nothing left to do.
            assert_eventually(&format!("{}: the pool's thread has ended", store.name()), SECOND, || {
                library_threads() == before
            });
            assert_eq!(guard.lost(), Some(LostReason::Closed));
            assert_eq!(store.holder("mine").as_deref(), Some(guard.token().as_str()));
            assert_eq!(store.look("taken").unwrap().waiters(), 0, "nobody is left in the queue");
            assert_eq!(client.stats().waiting_now, 0);
            drop(guard);
        }
        let complaints: Vec<_> = logs::all().into_iter().filter(|event| event.level == tracing::Level::ERROR).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    });
}

#[test]
fn the_last_handle_takes_the_threads_with_it() {
    alone(concat!(module_path!(), "::the_last_handle_takes_the_threads_with_it"), || {
        for store in Store::all() {
            let before = library_threads();
            assert!(store.client().lock("a").is_ok());
            assert_eq!(library_threads(), before, "{}: no thread before it is needed", store.name());
            let client = busy_client(&store);
            let clone = client.clone();
            let lock = clone.lock("a").unwrap();
            let guard = lock.acquire().unwrap();
            assert!(library_threads().len() > before.len());
            drop((client, clone, lock));
            assert!(library_threads().len() > before.len(), "{}: a guard is a handle", store.name());
            drop(guard);
            // The pool's thread has nothing to end and is not waited for.
            assert_eventually("the threads have ended", SECOND, || library_threads() == before);
        }
    });
}

#[test]
fn closing_with_the_server_away_takes_two_io_timeouts_at_most() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let store = Store::fresh(kind);
    let client = store.builder().io_timeout(ms(300)).connect_timeout(ms(300)).build().unwrap();
    let lock = client.lock_with("a", ttl(3_000)).unwrap();
    let guard = lock.acquire().unwrap();
    let _other = client.lease("b", ttl(600)).unwrap();
    store.server().pause();
    assert!(matches!(guard.release(), Ok(Released::Unconfirmed)));
    let ((), took) = timed(|| client.close());
    assert!(took <= Duration::from_millis(2 * 300 + 50), "{took:?}");
    assert_eq!(client.stats().background_gave_up, 1);
    store.server().resume();
}

// What a waiter leaves to the background when it goes may come after the background had nothing left to do.
#[test]
fn a_waiter_whose_request_outlasts_close_leaves_nothing_unfinished() {
    let Some(kind) = redlatch_tests::any_server() else { return };
    let server = Server::builder(kind).user("polls on >secret ~* &* +@all -subscribe").start();
    let holder = Client::open(&server.url()).unwrap();
    let theirs = holder.lease("a", ttl(60_000)).unwrap();
    let client = Client::builder(&server.url_as("polls", "secret")).io_timeout(ms(400)).build().unwrap();
    // The background has begun, and done its work.
    thread::scope(|scope| scope.spawn(|| client.lock("b").unwrap().acquire().unwrap().forget()).join().unwrap());
    assert_eventually("the background is done", SECOND, || client.stats().background_released == 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let outcome = client.lock("a").unwrap().acquire();
            assert!(matches!(outcome, Err(Error::Closed { .. })), "{outcome:?}");
        });
        assert_eventually("it waits and polls", SECOND, || {
            client.stats().push_denied == 1 && client.stats().poll_wakeups >= 2
        });
        server.pause();
        // By then it has asked again, and waits for an answer that does not come.
        thread::sleep(ms(150));
        let ((), took) = timed(|| client.close());
        assert!(took <= ms(2 * 400 + 50), "{took:?}");
    });
    assert_eventually("nothing is pending", SECOND, || client.stats().background_now == 0);
    server.resume();
    // A copy of its request that arrives only now joins the queue again; nobody has to wait for it.
    assert_eq!(theirs.release().unwrap(), Released::Released);
    let (granted, took) = timed(|| holder.lock("a").unwrap().try_acquire_for(5 * SECOND).unwrap());
    assert!(granted.is_some() && took < ms(1_500), "a turn at most: {took:?}");
}
