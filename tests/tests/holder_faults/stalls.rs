//! A holder that stalls, and replies that come late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, LockOptions, LostReason, Released};
use redlatch_tests::{Monitor, Proxy, Server, assert_eventually};

use crate::support::{Losses, SECOND, Worker, is_renewal, millis, now_ms, renewals, sleep_until_ms, with_server};

#[test]
fn a_stopped_holder_neither_renews_nor_revives_what_another_had_meanwhile() {
    with_server(|server| {
        let monitor = Monitor::start(server);
        let mut worker = Worker::start(&server.url(), "label=stalled");
        let first = worker.ask("acquire stall ttl_ms=2000", "acquired");
        let begin = first.number("at_ms");
        let token = first.text("token");
        sleep_until_ms(begin + 500.0);
        worker.process().pause();
        sleep_until_ms(begin + 3_000.0);
        let other = Client::open(&server.url()).unwrap();
        let options = LockOptions::new().ttl(2 * SECOND);
        let guard = other.lock_with("stall", options).unwrap().try_acquire().unwrap().expect("the key has lapsed");
        let fence = guard.fence();
        sleep_until_ms(begin + 3_200.0);
        assert_eq!(guard.release().unwrap(), Released::Released);
        sleep_until_ms(begin + 4_000.0);
        monitor.wait_idle();
        monitor.clear();
        worker.process().resume();
        let checked = worker.ask("check stall", "checked");
        assert_eq!((checked.text("held"), checked.text("lost")), ("false", "expired"));
        assert_eventually("the callback has run", SECOND, || !worker.all("lost").is_empty());
        // Beyond the time of two renewals.
        thread::sleep(millis(1_400));
        monitor.wait_idle();
        let sent: Vec<_> = monitor.client_commands().into_iter().filter(|line| line.has(token)).collect();
        assert!(!sent.iter().any(is_renewal), "{sent:?}");
        assert!(!server.exists("lock:stall"));
        assert!(first.count("fence") < fence);
        let released = worker.ask("release stall", "error");
        assert_eq!((released.text("kind"), released.text("lost")), ("lost", "expired"));
        assert_eq!(worker.all("lost").len(), 1, "lost once");
        assert!(!server.exists("lock:stall"));
        worker.ask("acquire stall ttl_ms=2000", "acquired");
    });
}

// End to end; the property test is beside the arithmetic.
#[test]
fn a_late_reply_never_leaves_a_holder_of_a_key_that_has_lapsed() {
    const TTL: Duration = Duration::from_millis(300);
    with_server(|server| {
        let seen_held = &AtomicU32::new(0);
        thread::scope(|scope| {
            for delay in [0, 60, 150, 240, 285, 294, 297, 303, 330, 450, 600] {
                scope.spawn(move || {
                    for auto_renew in [true, false] {
                        let seen = hold_with_late_replies(server, TTL, millis(delay), auto_renew);
                        seen_held.fetch_add(seen, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(seen_held.load(Ordering::Relaxed) > 100, "the locks were to be held for some time");
        let keys = server.keys("*");
        assert!(keys.iter().all(|key| server.pttl(key) != -1), "a key without ttl: {keys:?}");
    });
}

/// Holds a lock while every reply is `delay` late, and compares what the holder believes with what the server has.
/// Returns how often the holder believed in it.
fn hold_with_late_replies(server: &Server, ttl: Duration, delay: Duration, auto_renew: bool) -> u32 {
    let (name, case) = (format!("late-{delay:?}-{auto_renew}"), format!("{delay:?}, auto_renew {auto_renew}"));
    let proxy = Proxy::in_front_of(server);
    let limit = ttl * 3;
    let client = Client::builder(&proxy.url()).connect_timeout(limit).io_timeout(limit).build().unwrap();
    let losses = Losses::default();
    let lock = client.lock_with(&name, losses.options(ttl).auto_renew(auto_renew)).unwrap();
    // Opens the connection, whose handshake is not what this is about.
    assert_eq!(lock.acquire().unwrap().release().unwrap(), Released::Released);
    proxy.delay_replies(delay);
    let key = format!("lock:{name}");
    let begin = Instant::now();
    let outcome = lock.try_acquire();
    let mut seen_held = 0;
    match outcome {
        Ok(Some(guard)) => {
            assert!(guard.is_held() || begin.elapsed() + millis(10) > ttl, "{case}: granted and lost at once");
            let end = Instant::now() + ttl * 3 / 2;
            while Instant::now() < end {
                let left = server.pttl(&key);
                if guard.is_held() {
                    seen_held += 1;
                    assert!(left > 0, "{case}: held with PTTL {left}");
                    assert!(!guard.remaining().is_zero() || !guard.is_held(), "{case}: held with nothing left");
                }
                thread::sleep(millis(1));
            }
            let lost = guard.lost();
            match guard.release() {
                Ok(_) => assert_eq!(lost, None, "{case}"),
                Err(error) => assert!(matches!(error, redlatch::Error::Lost(_)), "{case}: {error}"),
            }
            assert!(auto_renew || lost == Some(LostReason::Expired), "{case}: {lost:?}");
        }
        // Nobody else has it: busy would be a lie.
        Ok(None) => panic!("{case}: busy, though nobody has it"),
        Err(error) => {
            assert!(delay * 2 >= ttl, "{case}: {error}");
            assert!(matches!(error, redlatch::Error::Unavailable { .. }), "{case}: {error}");
        }
    }
    proxy.pass();
    assert_eventually(&format!("{case}: the key is gone"), 2 * SECOND, || !server.exists(&key));
    seen_held
}

#[test]
fn a_deleted_key_is_a_loss_at_the_next_renewal_and_is_not_created_again() {
    with_server(|server| {
        let client = Client::open(&server.url()).unwrap();
        let losses = Losses::default();
        // Renewed every second.
        let guard = client.lock_with("deleted", losses.options(3 * SECOND)).unwrap().acquire().unwrap();
        let begin = now_ms();
        sleep_until_ms(begin + 1_000.0);
        assert!(server.del("lock:deleted"));
        let (reason, fired) = losses.wait_for("deleted", 2 * SECOND);
        assert!(fired - begin <= 2_100.0, "told after {} ms", fired - begin);
        assert_eq!(reason, LostReason::Taken);
        assert!(matches!(guard.check(), Err(redlatch::Error::Lost(info)) if info.reason() == LostReason::Taken));
        // Beyond the time of the next renewal.
        sleep_until_ms(begin + 3_200.0);
        assert!(!server.exists("lock:deleted"));
        assert!(matches!(guard.release(), Err(redlatch::Error::Lost(_))));
        assert_eq!(losses.all().len(), 1);
    });
}

#[test]
fn max_hold_ends_renewal_and_the_lease_whatever_the_holder_does() {
    with_server(|server| {
        let client = Client::open(&server.url()).unwrap();
        let monitor = Monitor::start(server);
        let losses = Losses::default();
        let options = losses.options(2 * SECOND).max_hold(5 * SECOND);
        let lock = client.lock_with("long", options).unwrap();
        let begin = now_ms();
        let guard = lock.acquire().unwrap();
        let granted = now_ms();
        let (gone, went) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let lapsed = || !server.exists("lock:long");
                assert_eventually("the key lapses", 9 * SECOND, lapsed);
                gone.send(now_ms()).unwrap();
            });
            sleep_until_ms(begin + 4_900.0);
            assert!(guard.is_held() || now_ms() >= begin + 5_000.0);
            let (reason, fired) = losses.wait_for("long", SECOND);
            assert_eq!(reason, LostReason::MaxHold);
            assert!(fired >= begin + 5_000.0 && fired <= granted + 5_100.0, "told after {} ms", fired - granted);
            assert!(!guard.is_held());
            let before = renewals(&monitor);
            assert!(before >= 5, "renewed {before} times in 5 s");
            let gone = went.recv().unwrap();
            assert!(gone <= fired + 2_000.0, "the key is gone {} ms after the loss", gone - fired);
            assert_eq!(renewals(&monitor), before, "a renewal after max_hold");
        });
        assert!(matches!(guard.release(), Err(redlatch::Error::Lost(info)) if info.reason() == LostReason::MaxHold));
        assert_eq!((losses.all().len(), client.stats().lost(LostReason::MaxHold)), (1, 1));
    });
}
