//! A server that is silent, stopped, cut off or away while a lease is held.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, LockOptions, LostReason, Released};
use redlatch_tests::{Monitor, Proxy, ReplyFault, Server, assert_eventually};

use crate::support::{
    Losses, SECOND, deadline_ms, is_renewal, margin_ms, millis, now_ms, renewals, sleep_until_ms, with_server,
};

#[test]
fn a_black_hole_is_a_loss_by_the_deadline_though_a_read_is_still_blocked() {
    with_server(|server| {
        let ttl = 3 * SECOND;
        let proxy = Proxy::in_front_of(server);
        // One connection, so that the read blocks on one that is open.
        let client = Client::builder(&proxy.url()).io_timeout(4 * SECOND).pool_size(1).build().unwrap();
        let losses = Losses::default();
        let lease = Arc::new(client.lease("hole", losses.options(ttl)).unwrap());
        let begin = now_ms();
        sleep_until_ms(begin + 1_000.0);
        proxy.drop_all();
        let reader = {
            let lease = lease.clone();
            thread::spawn(move || {
                let outcome = lease.renew();
                (outcome, now_ms())
            })
        };
        // The reply of a renewal that passed just before has been taken in by now.
        sleep_until_ms(begin + 1_200.0);
        let end_of_ttl = deadline_ms(|| lease.remaining()) + margin_ms(ttl);
        let mut last_held = 0.0;
        while losses.all().is_empty() && now_ms() < end_of_ttl + 2_000.0 {
            let now = now_ms();
            if lease.is_held() {
                last_held = now;
            }
            thread::sleep(millis(1));
        }
        assert!(last_held < end_of_ttl, "held {} ms after its ttl", last_held - end_of_ttl);
        assert!(!lease.is_held());
        let (reason, fired) = losses.wait_for("hole", SECOND);
        assert_eq!(reason, LostReason::Expired);
        assert!(fired <= end_of_ttl, "told {} ms after the ttl", fired - end_of_ttl);
        assert!(matches!(lease.check(), Err(Error::Lost(info)) if info.reason() == LostReason::Expired));
        let (outcome, ended) = reader.join().unwrap();
        assert!(ended > fired, "the read was to outlast the lease, and ended {} ms before: {outcome:?}", fired - ended);
        assert!(matches!(outcome, Err(Error::Lost(_))), "{outcome:?}");
        assert_eq!((losses.all().len(), client.stats().lost_total()), (1, 1));
    });
}

#[test]
fn a_pause_shorter_than_the_ttl_is_survived_and_a_longer_one_is_one_loss() {
    const PHASES: u64 = 8;
    with_server(|server| {
        let ttl = 2 * SECOND;
        let losses = Losses::default();
        // Clients of their own, since leases of one client are renewed together: each is at another phase of its
        // renewal cycle when the server stops.
        let locks: Vec<_> = (0..PHASES)
            .map(|phase| {
                let client = Client::builder(&server.url()).io_timeout(millis(500)).build().unwrap();
                client.lock_with(&format!("phase-{phase}"), losses.options(ttl)).unwrap()
            })
            .collect();
        let begin = now_ms();
        let step = ttl.as_secs_f64() * 1e3 / 3.0 / PHASES as f64;
        let hold = |number: usize| {
            sleep_until_ms(begin + step * number as f64);
            locks[number].try_acquire().unwrap().unwrap()
        };
        let guards: Vec<_> = (0..locks.len()).map(hold).collect();
        for round in 0..3 {
            thread::sleep(millis(700 + 50 * round));
            server.pause();
            thread::sleep(millis(1_200));
            server.resume();
            // The deadlines of before the pause have passed after this.
            thread::sleep(millis(900));
            losses.assert_none();
            assert!(guards.iter().all(|guard| guard.is_held()));
        }
        server.pause();
        let paused = now_ms();
        sleep_until_ms(paused + 100.0);
        let ends: Vec<f64> = guards.iter().map(|guard| deadline_ms(|| guard.remaining()) + margin_ms(ttl)).collect();
        sleep_until_ms(paused + 3_000.0);
        server.resume();
        for ((lock, guard), end) in locks.iter().zip(guards).zip(ends) {
            let (reason, fired) = losses.wait_for(lock.name(), SECOND);
            assert_eq!(reason, LostReason::Expired);
            assert!(fired <= end + 100.0, "{} was told {} ms after its ttl", lock.name(), fired - end);
            let fence = guard.fence();
            assert!(matches!(lock.try_acquire(), Err(Error::Lost(_))), "a nested acquire of a lost lease");
            assert!(matches!(guard.release(), Err(Error::Lost(_))));
            let again = lock.try_acquire_for(SECOND).unwrap().unwrap();
            assert!(again.fence() > fence && again.is_held());
            assert_eq!(again.release().unwrap(), Released::Released);
        }
        assert_eq!(losses.all().len(), locks.len(), "each is lost once");
    });
}

#[test]
fn a_renewal_whose_read_fails_once_is_not_a_loss() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = Client::open(&proxy.url()).unwrap();
        let losses = Losses::default();
        let guard = client.lock_with("read", losses.options(millis(1_500))).unwrap().acquire().unwrap();
        let renewed_after = |what: &str, break_it: &dyn Fn()| {
            let before = client.stats();
            break_it();
            let failed = || client.stats().renewal_failed > before.renewal_failed;
            assert_eventually(&format!("{what} fails a renewal"), 3 * SECOND, failed);
            let renewed = client.stats().renewed;
            assert_eventually(&format!("renewed after {what}"), 2 * SECOND, || client.stats().renewed > renewed);
            assert!(guard.is_held(), "{what}");
        };
        let faults = [ReplyFault::CutAfter(0), ReplyFault::CutAfter(3), ReplyFault::Swallow];
        for fault in faults {
            renewed_after(&format!("{fault:?}"), &|| proxy.fault_next_reply_to(b"EVALSHA", fault.clone()));
        }
        // The request is on its way when the connection breaks.
        renewed_after("a reset", &|| {
            proxy.hold_requests_with(b"EVALSHA");
            assert_eventually("a renewal is held", 2 * SECOND, || !proxy.held_requests().is_empty());
            proxy.reset_all();
            proxy.pass();
        });
        losses.assert_none();
        assert_eq!(guard.release().unwrap(), Released::Released);
    });
}

#[test]
fn a_release_while_the_server_is_down_is_not_followed_by_a_renewal() {
    with_server(|server| {
        let ttl = 3 * SECOND;
        let proxy = Proxy::in_front_of(server);
        let client =
            Client::builder(&proxy.url()).io_timeout(millis(300)).connect_timeout(millis(300)).build().unwrap();
        let monitor = Monitor::start(server);
        let release_during = |name: &str, held: Duration, fail: &dyn Fn(), heal: &dyn Fn()| {
            let key = format!("lock:{name}");
            let guard = client.lock_with(name, LockOptions::new().ttl(ttl)).unwrap().acquire().unwrap();
            fail();
            thread::sleep(held);
            let begin = Instant::now();
            assert_eq!(guard.release().unwrap(), Released::Unconfirmed, "{name}");
            assert!(begin.elapsed() < SECOND, "{name}: {:?}", begin.elapsed());
            thread::sleep(millis(200));
            heal();
            assert_eventually("the key is gone soon after the server is back", millis(500), || !server.exists(&key));
            // Beyond the time of the next renewal.
            thread::sleep(ttl / 3 + millis(100));
            assert_eq!(renewals(&monitor), 0, "{name}: {:?}", monitor.client_commands());
            assert!(!server.exists(&key));
        };
        let refuse = || {
            proxy.refuse();
            proxy.reset_all();
        };
        // A renewal is being retried when the release comes.
        release_during("refused", millis(1_300), &refuse, &|| proxy.listen());
        release_during("stopped", Duration::ZERO, &|| server.pause(), &|| server.resume());
        assert_eventually("the background has confirmed both", SECOND, || client.stats().background_now == 0);
        assert_eq!(client.stats().lost_total(), 0);
    });
}

#[test]
fn a_server_away_for_15_seconds_is_acquired_within_a_second_of_its_return() {
    const AWAY: Duration = Duration::from_secs(15);
    with_server(|killed| {
        let stopped = Server::start(killed.kind());
        killed.kill();
        stopped.pause();
        let away = Instant::now();
        let waiters: Vec<_> = [killed, &stopped]
            .map(|server| {
                let client = Client::builder(&server.url()).unavailable_after(60 * SECOND).build().unwrap();
                let lock = client.lock("away").unwrap();
                thread::spawn(move || {
                    let guard = lock.acquire().unwrap();
                    let granted = Instant::now();
                    assert!(guard.is_held());
                    granted
                })
            })
            .into();
        thread::sleep(AWAY.saturating_sub(away.elapsed()));
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        stopped.resume();
        let resumed = Instant::now();
        killed.restart();
        // The server answered somewhat earlier than `restart` says so.
        let restarted = Instant::now();
        for (waiter, back) in waiters.into_iter().zip([restarted, resumed]) {
            let late = waiter.join().unwrap().saturating_duration_since(back);
            assert!(late <= SECOND, "granted {late:?} after the server's return");
        }
    });
}

#[test]
fn a_wrong_password_is_reported_at_once_by_a_wait_without_limit() {
    crate::support::every_kind_at_once(|kind| {
        let server = Server::builder(kind).password("right").start();
        for url in
            [server.url_as("default", "wrong"), server.url_as("nobody", "wrong"), format!("redis://{}/", server.addr())]
        {
            let client = Client::builder(&url).unavailable_after(60 * SECOND).build().unwrap();
            let begin = Instant::now();
            let outcome = client.lock("a").unwrap().acquire();
            assert!(matches!(outcome, Err(Error::Authentication { .. })), "{kind}: {outcome:?}");
            assert!(begin.elapsed() < SECOND, "{kind}: {:?}", begin.elapsed());
        }
    });
}

// Expired with an unanswered renewal: the key may live a whole ttl longer than the lease.
#[test]
fn a_lease_that_expired_with_its_renewals_unanswered_does_not_cost_the_next_holder_another_ttl() {
    with_server(|server| {
        let ttl = 3 * SECOND;
        let proxy = Proxy::in_front_of(server);
        let holder = Client::open(&proxy.url()).unwrap();
        // The server knows every script: a lost reply must not be the one that asks for its source.
        assert_eq!(holder.lock("silent").unwrap().acquire().unwrap().release().unwrap(), Released::Released);
        let losses = Losses::default();
        let lease = holder.lease("silent", losses.options(ttl)).unwrap();
        let token = lease.token().as_str().to_owned();
        let begin = now_ms();
        sleep_until_ms(begin + 1_500.0);
        let monitor = Monitor::start(server);
        // Renewals are executed from here on, and the holder does not know.
        (0..1_000).for_each(|_| proxy.swallow_next_reply_to(token.as_bytes()));
        sleep_until_ms(begin + 1_700.0);
        let deadline = deadline_ms(|| lease.remaining());
        let end_of_ttl = deadline + margin_ms(ttl);
        let waiter = Client::open(&server.url()).unwrap();
        let guard = waiter.lock_with("silent", LockOptions::new().ttl(ttl)).unwrap().acquire().unwrap();
        let granted = now_ms();
        assert!(granted >= end_of_ttl, "granted {} ms before the holder's ttl was over", end_of_ttl - granted);
        assert!(granted <= end_of_ttl + 500.0, "granted {} ms after the holder's ttl", granted - end_of_ttl);
        assert!(!lease.is_held());
        let (reason, fired) = losses.wait_for("silent", SECOND);
        assert_eq!(reason, LostReason::Expired);
        assert!(fired >= deadline && fired <= granted);
        monitor.wait_idle();
        let commands = monitor.client_commands();
        let of_holder: Vec<_> = commands.iter().filter(|line| line.has(&token)).collect();
        let first_release = of_holder.iter().position(|line| !is_renewal(line));
        let (renewals, rest) = of_holder.split_at(first_release.expect("the background has released the token"));
        assert!(!renewals.is_empty(), "renewals were to be executed");
        assert!(rest.iter().all(|line| !is_renewal(line)), "a renewal after the release of its token: {rest:?}");
        assert!(guard.is_held());
        assert_eq!(server.get("lock:silent").as_deref(), Some(guard.token().as_str()));
    });
}
