//! Replies that end early, that are garbage, or that answer something else.

use std::time::Duration;

use redlatch::{Client, LockOptions, Released};
use redlatch_tests::{Proxy, ReplyFault, Server, assert_eventually};

use super::support::{
    NOISE, Script, assert_nothing_left, assert_tombstone, assert_took, assert_unavailable, client, connect, fixed, key,
    ms, shown, sibling, timed, with_server,
};

const LIMIT: Duration = ms(250);
const LONG: Duration = Duration::from_secs(30);
/// The longest pause before a request is repeated.
const LONGEST_GAP: Duration = ms(250);

/// Replies that are no answer to any script of the protocol.
fn faults() -> Vec<ReplyFault> {
    let mut faults: Vec<ReplyFault> = [0, 1, 2, 9, 20].map(ReplyFault::CutAfter).to_vec();
    let texts: [&[u8]; 12] = [
        b"\0\x01garbage\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n",
        b":1\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"$2\r\nOK\r\n",
        // Of the right length, with wrong parts: no fence, an unknown status, strings for numbers.
        b"*5\r\n:1\r\n:-1\r\n:-1\r\n$0\r\n\r\n$0\r\n\r\n",
        b"*5\r\n:2\r\n:-1\r\n:-1\r\n$0\r\n\r\n$1\r\n7\r\n",
        b"*4\r\n$1\r\n1\r\n:0\r\n:0\r\n$0\r\n\r\n",
        // The reply of another script.
        b"*2\r\n:1\r\n:1\r\n",
    ];
    faults.extend(texts.map(|text| ReplyFault::Replace(text.to_vec())));
    faults
}

fn lock_is_of(server: &Server, token: &str) -> bool {
    server.get(&key("n")).as_deref() == Some(token)
}

#[test]
fn a_broken_reply_to_an_acquire_costs_a_repetition_and_its_connection() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        connect(&client);
        for fault in faults() {
            let before = proxy.traffic().accepted;
            proxy.fault_next_reply_to(&Script::Acquire.needle(), fault.clone());
            let (guard, took) = timed(|| lock.try_acquire());
            let guard = guard.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            let guard = guard.unwrap_or_else(|| panic!("{fault:?}: the key is this caller's"));
            assert_took(took, ms(0)..LONGEST_GAP + NOISE);
            assert!(lock_is_of(server, guard.token().as_str()), "{fault:?}");
            assert_eq!(server.get(&sibling("n", "fence")), Some(guard.fence().to_string()), "{fault:?}");
            assert_eq!(proxy.traffic().accepted, before + 1, "{fault:?}: the connection is not used again");
            let token = guard.token().as_str().to_owned();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert_tombstone(server, "n", &token);
            assert_nothing_left(server, "n");
        }
    });
}

#[test]
fn a_broken_reply_to_a_release_costs_a_repetition_and_its_connection() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), ms(1_000));
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        for fault in faults() {
            let guard = lock.try_acquire().unwrap().expect("the lock is free");
            let before = proxy.traffic().accepted;
            proxy.fault_next_reply_to(&Script::Release.needle(), fault.clone());
            let (released, took) = timed(|| guard.release());
            assert_eq!(released.unwrap(), Released::Released, "{fault:?}");
            assert_took(took, ms(0)..NOISE);
            assert_eq!(proxy.traffic().accepted, before + 1, "{fault:?}: the connection is not used again");
            assert_nothing_left(server, "n");
        }
        assert_eq!(client.stats().lost_total(), 0);
    });
}

#[test]
fn a_reply_that_announces_more_than_it_brings_ends_with_the_time_limit() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        connect(&client);
        for text in ["$2147483647\r\nx", "*2147483647\r\n:1\r\n", "*5\r\n:1\r\n:-1\r\n"] {
            proxy.fault_next_reply_to(&Script::Acquire.needle(), ReplyFault::Replace(text.into()));
            let (guard, took) = timed(|| lock.try_acquire());
            let guard = guard.unwrap().expect("the key is this caller's");
            assert_took(took, ms(0)..LIMIT + LONGEST_GAP + NOISE);
            assert!(lock_is_of(server, guard.token().as_str()), "{text:?}");
            assert_eq!(guard.release().unwrap(), Released::Released);
        }
    });
}

#[test]
fn a_broken_reply_to_a_renewal_is_no_loss() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let by_hand = client.lease("n", fixed(LONG)).unwrap();
        for fault in faults() {
            proxy.fault_next_reply_to(&Script::Renew.needle(), fault.clone());
            match by_hand.renew() {
                // A connection that has ended is worth a second try at once.
                Ok(()) => assert!(matches!(fault, ReplyFault::CutAfter(_)), "{fault:?}"),
                Err(error) => assert_unavailable(&error, &shown(proxy.port()), &["renew"]),
            }
            by_hand.check().unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            by_hand.renew().unwrap();
        }
        assert!(lock_is_of(server, by_hand.token().as_str()));
        assert_eq!(by_hand.release().unwrap(), Released::Released);
    });
}

#[test]
fn broken_replies_to_background_renewals_are_retried_until_one_is_sound() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let ttl = ms(900);
        let lease = client.lease("n", LockOptions::new().ttl(ttl)).unwrap();
        let renewed = |client: &Client| client.stats().renewed;
        for fault in [ReplyFault::CutAfter(3), ReplyFault::Replace(b"*0\r\n".to_vec()), ReplyFault::Swallow] {
            let met = proxy.traffic().faults_met;
            proxy.fault_next_reply_to(&Script::Renew.needle(), fault);
            assert_eventually("the fault has met a renewal", ms(5_000), || proxy.traffic().faults_met > met);
            let before = renewed(&client);
            assert_eventually("the lease is renewed", ms(5_000), || renewed(&client) > before);
        }
        lease.check().unwrap();
        let stats = client.stats();
        assert!(stats.renewal_failed >= 3, "{stats:?}");
        assert_eq!(stats.lost_total(), 0);
        assert!(lock_is_of(server, lease.token().as_str()));
        assert_eq!(lease.release().unwrap(), Released::Released);
    });
}

#[test]
fn a_broken_reply_to_inspect_is_unavailable_not_a_free_lock() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = client(&proxy.url(), LIMIT);
        let lease = client.lease("n", fixed(LONG)).unwrap();
        for text in ["+OK\r\n", ":1\r\n", "*0\r\n", "*-1\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"] {
            // EXEC answers with the four values.
            proxy.fault_next_reply_to(b"EXEC", ReplyFault::Replace(text.into()));
            let error = client.inspect("n").unwrap_err();
            assert_unavailable(&error, &shown(proxy.port()), &["inspect"]);
            proxy.pass();
            assert_eq!(client.inspect("n").unwrap().unwrap().token(), lease.token());
        }
        assert_eq!(lease.release().unwrap(), Released::Released);
    });
}
