//! Requests that reach the server long after their client has given up.
//!
//! The proxy holds every request about the lock; its clients run into their time limits, and what they have sent
//! arrives in an order that the test chooses.

use std::time::Duration;

use redlatch::{Client, Lease, LockOptions, Released};
use redlatch_tests::{Monitor, Proxy, Server, assert_eventually};

use super::support::{
    NOISE, Script, assert_nothing_left, assert_tombstone, assert_took, assert_unavailable, client, connect,
    each_loaded_server, fixed, key, ms, shown, sibling, timed, token_in, with_server,
};

const LIMIT: Duration = ms(100);
/// Two requests and the longest pause between them fit in.
const WAIT: Duration = ms(600);
const LONG: Duration = Duration::from_secs(30);

/// Requests of one kind that the proxy holds, by connection in order of acceptance.
fn held(proxy: &Proxy, script: Script) -> Vec<usize> {
    let held = proxy.held_requests();
    held.iter().filter(|request| script.is_held(request)).map(|request| request.connection).collect()
}

/// Gives an acquire up and returns the connections of its acquire copies and of its releases, with its token.
fn give_up(proxy: &Proxy, client: &Client, wait: Option<Duration>) -> (Vec<usize>, Vec<usize>, String) {
    proxy.hold_requests_with(key("n").as_bytes());
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let (result, took) = timed(|| match wait {
        Some(wait) => lock.try_acquire_for(wait),
        None => lock.try_acquire(),
    });
    let limit = wait.unwrap_or(2 * LIMIT);
    assert_took(took, limit..limit + NOISE);
    assert_unavailable(&result.unwrap_err(), &shown(proxy.port()), &["acquire"]);
    let released = || held(proxy, Script::Release).len() >= 2;
    assert_eventually("the caller's release is on its way, and repeated", ms(3_000), released);
    let first = proxy.held_requests().into_iter().find(|request| Script::Acquire.is_held(request));
    let token = token_in(&first.expect("the acquire is held").args).to_owned();
    (held(proxy, Script::Acquire), held(proxy, Script::Release), token)
}

/// Lets everything through and waits until nothing more will be sent.
fn settle(proxy: &Proxy, client: &Client) {
    proxy.pass();
    assert_eventually("the background is done", ms(2_000), || client.stats().background_released == 1);
}

fn late_copies_with(server: &Server, other_holds: bool) {
    let proxy = Proxy::in_front_of(server);
    let client = client(&proxy.url(), LIMIT);
    connect(&client);
    let holder = || server.get(&key("n"));
    let held_by_other = other_holds.then(|| "other".to_owned());
    if other_holds {
        server.query::<()>(&["SET", &key("n"), "other", "PX", "30000"]);
    }
    let (acquires, releases, token) = give_up(&proxy, &client, Some(WAIT));
    assert!(acquires.len() >= 2, "{acquires:?}");
    // The copies are on connections of their own: no order of one stream puts them right.
    assert!(acquires.iter().all(|connection| !releases.contains(connection)));
    let monitor = Monitor::start(server);

    proxy.release_requests_in_order(&acquires[..1]);
    if other_holds {
        let place: Option<String> = server.query(&["ZSCORE", &sibling("n", "queue"), &token]);
        assert!(place.is_some(), "the first copy has a place in the queue");
    } else {
        assert_eq!(holder().as_deref(), Some(&*token), "the first copy is granted");
    }
    proxy.release_requests_in_order(&releases[..1]);
    assert_eq!(holder(), held_by_other);
    assert_tombstone(server, "n", &token);

    // The late copies, with a repeated release in between.
    let mut order: Vec<usize> = vec![releases[1]];
    order.extend(&acquires[1..]);
    order.extend(&releases[2..]);
    for connection in order {
        proxy.release_requests_in_order(&[connection]);
        assert_eq!(holder(), held_by_other);
        assert!(!server.exists(&sibling("n", "queue")), "there is no ghost waiter");
        assert_tombstone(server, "n", &token);
    }
    monitor.wait_idle();
    assert_eq!(monitor.count(|line| Script::Acquire.is(line) && line.has(&token)), acquires.len());

    settle(&proxy, &client);
    assert_tombstone(server, "n", &token);
    server.del(&key("n"));
    assert_nothing_left(server, "n");
    let next = client.lock("n").unwrap().try_acquire().unwrap().expect("the lock is free");
    assert_eq!(next.release().unwrap(), Released::Released);
}

#[test]
fn a_late_copy_of_an_acquire_is_not_granted_after_its_release() {
    each_loaded_server(|server| late_copies_with(server, false));
}

#[test]
fn a_late_copy_of_an_acquire_joins_no_queue_after_its_release() {
    each_loaded_server(|server| late_copies_with(server, true));
}

#[test]
fn a_late_copy_of_a_single_try_is_not_granted_after_its_release() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        connect(&client);
        let (acquires, releases, token) = give_up(&proxy, &client, None);
        // The release overtakes every acquire.
        for connection in releases.into_iter().chain(acquires) {
            proxy.release_requests_in_order(&[connection]);
            assert_nothing_left(server, "n");
            assert_tombstone(server, "n", &token);
        }
        settle(&proxy, &client);
        assert_nothing_left(server, "n");
    });
}

/// Grants a lease by the second copy of its acquire; the first stays on its way. Returns that one's connection.
fn granted_by_second_copy(proxy: &Proxy, client: &Client) -> (Lease, usize) {
    proxy.hold_requests_with(key("n").as_bytes());
    let lease = std::thread::scope(|scope| {
        scope.spawn(|| {
            let second = || held(proxy, Script::Acquire).len() == 2;
            assert_eventually("the acquire is repeated", ms(3_000), second);
            proxy.release_requests_in_order(&held(proxy, Script::Acquire)[1..]);
        });
        client.try_lease_for("n", LockOptions::new().ttl(LONG), ms(5_000))
    });
    (lease.unwrap().expect("the second copy is granted"), held(proxy, Script::Acquire)[0])
}

#[test]
fn a_late_renewal_and_a_repeated_release_leave_the_tombstone_against_a_late_acquire() {
    each_loaded_server(|server| {
        let proxy = Proxy::in_front_of(server);
        // The second copy must be let go before its client gives that one up as well.
        let client = client(&proxy.url(), ms(400));
        connect(&client);
        let (lease, late) = granted_by_second_copy(&proxy, &client);
        let token = lease.token().as_str().to_owned();
        assert_eq!(server.get(&key("n")).as_deref(), Some(&*token));

        let error = lease.renew().unwrap_err();
        assert_unavailable(&error, &shown(proxy.port()), &["renew", "no reply in time"]);
        lease.check().expect("a renewal without an answer is no loss");
        assert_eq!(lease.release().unwrap(), Released::Unconfirmed);
        let repeated = || held(&proxy, Script::Release).len() >= 2;
        assert_eventually("the release is repeated in the background", ms(3_000), repeated);

        let (renewal, releases) = (held(&proxy, Script::Renew), held(&proxy, Script::Release));
        proxy.release_requests_in_order(&releases[..1]);
        assert_nothing_left(server, "n");
        for connection in renewal.into_iter().chain([releases[1], late]) {
            assert_tombstone(server, "n", &token);
            proxy.release_requests_in_order(&[connection]);
            assert_nothing_left(server, "n");
        }
        settle(&proxy, &client);
        assert_tombstone(server, "n", &token);
        assert_nothing_left(server, "n");
    });
}

#[test]
fn a_late_acquire_does_not_disturb_the_holder_who_came_after_its_release() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        connect(&client);
        let (acquires, releases, _) = give_up(&proxy, &client, Some(WAIT));
        proxy.release_requests_in_order(&releases[..1]);
        let other = super::support::client(&server.url(), LIMIT).lock("n").unwrap();
        let guard = other.try_acquire().unwrap().expect("the lock is free");
        for connection in acquires.into_iter().chain(releases[1..].iter().copied()) {
            proxy.release_requests_in_order(&[connection]);
            assert_eq!(server.get(&key("n")).as_deref(), Some(guard.token().as_str()));
            assert_eq!(server.get(&sibling("n", "fence")), Some(guard.fence().to_string()));
        }
        settle(&proxy, &client);
        guard.check().unwrap();
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert_nothing_left(server, "n");
    });
}
