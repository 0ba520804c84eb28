//! The pool of connections that callers share.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use redlatch::{LockOptions, Released};
use redlatch_tests::{Proxy, assert_eventually};

use super::support::{
    NOISE, assert_free, assert_nothing_left, assert_took, assert_unavailable, client, connect, fixed, ms, shown, timed,
    with_server,
};

const WAITERS: usize = 100;
const LIMIT: Duration = ms(1_000);
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_hundred_waiters_on_a_pool_of_one_do_not_delay_the_holders_release() {
    with_server(|server| {
        let client = client(&server.url(), LIMIT);
        let lock = client.lock_with("n", LockOptions::new().ttl(LONG)).unwrap();
        let first = lock.acquire().unwrap();
        let releases = Mutex::new(Vec::new());
        let release = |guard: redlatch::Guard| {
            let (released, took) = timed(|| guard.release());
            assert_eq!(released.unwrap(), Released::Released);
            releases.lock().unwrap().push(took);
        };
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| release(lock.acquire().unwrap()));
            }
            let all = || client.stats().waiting_now == WAITERS as u64;
            assert_eventually("all wait", ms(10_000), all);
            // Some rounds of polls, if there are polls.
            std::thread::sleep(ms(500));
            release(first);
        });
        let mut releases = releases.into_inner().unwrap();
        let first = releases[0];
        releases.sort();
        assert_eq!(releases.len(), WAITERS + 1);
        assert!(first < NOISE, "the first release took {first:?}");
        assert!(releases[WAITERS / 2] < ms(10), "half of the releases took {:?} or more", releases[WAITERS / 2]);
        assert!(releases[WAITERS] < ms(300), "the slowest releases took {:?}", &releases[WAITERS - 3..]);
        assert_eq!(client.stats().release_unconfirmed, 0);
        assert_nothing_left(server, "n");
    });
}

// At a distance: each request takes the only connection for 10 ms.
#[test]
fn a_hundred_waiters_on_a_pool_of_one_slow_connection_do_not_delay_the_holders_release() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", LockOptions::new().ttl(LONG)).unwrap();
        let holder = lock.acquire().unwrap();
        proxy.delay_replies(ms(10));
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    // One after another gets it, after the release.
                    if let Ok(Some(guard)) = lock.try_acquire_for(ms(10_000)) {
                        let _ = guard.release();
                    }
                });
            }
            let all = || client.stats().waiting_now == WAITERS as u64;
            assert_eventually("all wait", ms(8_000), all);
            let (released, took) = timed(|| holder.release());
            assert_eq!(released.unwrap(), Released::Released);
            // Its own round trip, and a few that were there before it.
            assert_took(took, ms(10)..ms(10) + NOISE);
            proxy.pass();
        });
        assert_eventually("the background is done", ms(3_000), || client.stats().background_now == 0);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_full_pool_is_said_to_be_full_within_the_callers_time() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        connect(&client);
        proxy.drop_all();
        std::thread::scope(|scope| {
            let stuck = scope.spawn(|| client.lock_with("stuck", fixed(LONG)).unwrap().try_acquire_for(ms(900)).err());
            let arrived = Instant::now() + ms(100);
            while Instant::now() < arrived {
                std::thread::sleep(ms(10));
            }
            let lock = client.lock("n").unwrap();
            let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
            assert_took(took, ms(300)..ms(300) + NOISE);
            assert_unavailable(&result.unwrap_err(), &shown(proxy.port()), &["pool_size", "busy"]);
            assert_unavailable(&stuck.join().unwrap().unwrap(), &shown(proxy.port()), &["no reply in time"]);
        });
        proxy.pass();
        let lock = client.lock("n").unwrap();
        assert_free(&lock);
    });
}
