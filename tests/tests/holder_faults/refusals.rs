//! A server that answers a renewal or a release with something other than yes or no.

use std::thread;

use redlatch::{Client, Error, LockOptions, LostReason, Released};
use redlatch_tests::{Proxy, ReplyFault, Server, assert_eventually};

use crate::support::{
    Losses, SECOND, deadline_ms, every_kind_at_once, margin_ms, millis, now_ms, sleep_until_ms, with_server,
};

/// What a renewal may meet instead of an answer.
const REFUSALS: [(&str, &str); 6] = [
    ("loading", "-LOADING Redis is loading the dataset in memory\r\n"),
    ("readonly", "-READONLY You can't write against a read only replica.\r\n"),
    ("moved", "-MOVED 3999 127.0.0.1:6381\r\n"),
    ("unknown", "-SURPRISE nobody has heard of this\r\n"),
    ("garbage", "\u{1}\u{2}garbage\r\n"),
    ("shape", "*1\r\n$5\r\nhello\r\n"),
];

#[test]
fn a_refused_renewal_is_retried_while_others_are_renewed_and_is_a_loss_only_by_the_deadline() {
    with_server(|server| {
        thread::scope(|scope| {
            for (name, reply) in REFUSALS {
                scope.spawn(move || refuse_renewals(server, name, reply.as_bytes()));
            }
        });
    });
}

fn refuse_renewals(server: &Server, name: &str, reply: &[u8]) {
    let proxy = Proxy::in_front_of(server);
    let client = Client::open(&proxy.url()).unwrap();
    let losses = Losses::default();
    let ttl = millis(1_500);
    let (refused, other) = (format!("{name}-refused"), format!("{name}-other"));
    let options = {
        let losses = losses.clone();
        LockOptions::new().ttl(ttl).on_lost(move |info| {
            losses.record(info);
            panic!("a callback that panics");
        })
    };
    let guard = client.lock_with(&refused, options).unwrap().acquire().unwrap();
    // A ttl so much longer that the two are renewed by requests of their own.
    let bystander = client.lock_with(&other, losses.options(millis(3_600))).unwrap().acquire().unwrap();
    let arm = || proxy.fault_next_reply_to(refused.as_bytes(), ReplyFault::Replace(reply.to_vec()));

    arm();
    arm();
    let met = || proxy.traffic().faults_met == 2;
    assert_eventually(&format!("two renewals meet {name}"), 2 * SECOND, met);
    let renewed = client.stats().renewed;
    assert_eventually(&format!("renewed after {name}"), 2 * SECOND, || client.stats().renewed > renewed);
    losses.assert_none();
    assert!(client.stats().renewal_retried >= 2, "{name}: {:?}", client.stats());

    (0..500).for_each(|_| arm());
    let met = || proxy.traffic().faults_met > 2;
    assert_eventually(&format!("renewals meet {name} again"), 2 * SECOND, met);
    let end = deadline_ms(|| guard.remaining()) + margin_ms(ttl);
    let before = client.stats().renewed;
    let (reason, fired) = losses.wait_for(&refused, 3 * SECOND);
    assert_eq!(reason, LostReason::Expired, "{name}");
    assert!(fired <= end + 100.0, "{name}: told {} ms after the ttl", fired - end);
    assert!(proxy.traffic().faults_met >= 5, "{name}: retried until the deadline: {:?}", proxy.traffic());
    assert!(matches!(guard.release(), Err(Error::Lost(_))), "{name}");
    assert_eventually("the other lock is renewed", 2 * SECOND, || client.stats().renewed > before);
    assert!(bystander.is_held(), "{name}");

    // The thread that runs callbacks has survived the panic, whose backtrace may take seconds to print.
    assert_eventually("the panic is counted", 10 * SECOND, || client.stats().callback_panicked == 1);
    assert!(server.del(&format!("lock:{other}")), "{name}");
    assert_eq!(losses.wait_for(&other, 3 * SECOND).0, LostReason::Taken, "{name}");
    let stats = client.stats();
    assert_eq!((stats.thread_panicked, stats.lost_total(), stats.held_now), (0, 2, 0), "{name}");
}

// Leases of one client are renewed by one script, which a server refuses as a whole.
#[test]
fn a_lock_that_may_not_be_renewed_any_more_took_the_others_of_its_batch_along() {
    every_kind_at_once(|kind| {
        let server = Server::builder(kind).user("app on >pw ~* &* +@all").start();
        let client = Client::open(&server.url_as("app", "pw")).unwrap();
        let losses = Losses::default();
        let hold = |name: &str| client.lease(name, losses.options(3 * SECOND)).unwrap();
        let leases = ["first", "denied", "last"].map(hold);
        let rules = ["first", "last"].map(|name| [format!("~lock:{name}"), format!("~{{lock:{name}}}:*")]);
        let rules = ["ACL", "SETUSER", "app", "resetkeys"].map(str::to_owned).into_iter().chain(rules.concat());
        server.query::<()>(&rules.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());

        assert_eq!(losses.wait_for("denied", 6 * SECOND).0, LostReason::Expired, "{kind}");
        // Another ttl and more: the others are renewed on.
        thread::sleep(4 * SECOND);
        assert_eq!(losses.all().len(), 1, "{kind}: {:?}", losses.all());
        let held = leases.each_ref().map(|lease| lease.is_held());
        assert_eq!(held, [true, false, true], "{kind}");
        assert_eq!(client.stats().thread_panicked, 0, "{kind}");
    });
}

#[test]
fn a_replica_that_has_not_synced_is_not_a_loss() {
    every_kind_at_once(|kind| {
        let primary = Server::start(kind);
        let replica = {
            let gone = Server::start(kind);
            gone.kill();
            Server::builder(kind).replica_of(&gone).start()
        };
        let proxy = Proxy::in_front_of(&primary);
        let client = Client::builder(&proxy.url()).io_timeout(millis(300)).build().unwrap();
        let losses = Losses::default();
        let ttl = 3 * SECOND;
        let hold = |name: &str| client.lock_with(name, losses.options(ttl)).unwrap().acquire().unwrap();
        let (kept, released) = (hold("kept"), hold("released"));
        let begin = now_ms();
        let move_to = |server: &Server| {
            proxy.set_target(server.addr());
            proxy.cut_all();
        };

        move_to(&replica);
        let renewed = kept.renew();
        assert!(
            matches!(&renewed, Err(Error::Unavailable { detail, .. }) if detail.contains("READONLY")),
            "{kind}: {renewed:?}"
        );
        let failed = || client.stats().renewal_failed >= 2;
        assert_eventually("renewals meet the replica", 2 * SECOND, failed);
        assert_eq!(released.release().unwrap(), Released::Unconfirmed, "{kind}");
        assert!(kept.is_held(), "{kind}");
        losses.assert_none();

        move_to(&primary);
        assert_eventually("the release goes on", SECOND, || !primary.exists("lock:released"));
        let before = client.stats().renewed;
        assert_eventually("renewed by the primary", 2 * SECOND, || client.stats().renewed > before);
        // The deadline of before the move has passed after this.
        sleep_until_ms(begin + ttl.as_secs_f64() * 1e3);
        losses.assert_none();
        assert_eq!(kept.release().unwrap(), Released::Released, "{kind}");
        assert!(replica.keys("*").is_empty(), "{kind}");
        assert_eq!(client.stats().lost_total(), 0, "{kind}");
    });
}

// Where the replica refuses to serve what it does not have.
#[test]
fn an_acquire_at_a_replica_that_has_not_synced_is_unavailable_not_granted() {
    every_kind_at_once(|kind| {
        let gone = Server::start(kind);
        gone.kill();
        for stale in ["yes", "no"] {
            let replica = Server::builder(kind).replica_of(&gone).start();
            replica.query::<()>(&["CONFIG", "SET", "replica-serve-stale-data", stale]);
            let client = Client::builder(&replica.url()).io_timeout(millis(300)).connect_timeout(millis(300)).build();
            let outcome = client.unwrap().lock("a").unwrap().try_acquire_for(millis(500));
            assert!(matches!(outcome, Err(Error::Unavailable { .. })), "{kind}, serve stale {stale}: {outcome:?}");
        }
    });
}
