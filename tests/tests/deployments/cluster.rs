//! Locks on a cluster: which node is asked, and what moves, stalls and failovers do to leases and waiters.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use redlatch::{Client, Error, Lease, LockOptions, Released};
use redlatch_tests::{Process, Server, ServerCluster, any_server, assert_eventually, each_cluster};

use crate::support::{
    AGREED, NOISE, SECOND, acquire, assert_pushed, closed_port, key, limited, ms, sibling, silent, timed, ttl,
};

/// Long enough to outlive the failover of a node that was killed, on a loaded machine as well.
const TTL: u64 = 20_000;

/// Runs on a cluster of the first kind that is installed.
fn with_cluster(body: impl FnOnce(&ServerCluster)) {
    if let Some(kind) = any_server() {
        body(&ServerCluster::start(kind));
    }
}

fn open(cluster: &ServerCluster) -> Client {
    Client::open(&cluster.url()).unwrap()
}

/// A name of a lock whose key is at the node.
fn name_at(cluster: &ServerCluster, node: &Server) -> String {
    let mut names = (0..1_000).map(|n| format!("n{n}"));
    names.find(|name| cluster.owner(&key(name)).port() == node.port()).expect("one in three is there")
}

/// The nodes that have slots, each with a name of a lock there.
fn primaries(cluster: &ServerCluster) -> Vec<(&Server, String)> {
    cluster.nodes()[..3].iter().map(|node| (node, name_at(cluster, node))).collect()
}

#[track_caller]
fn give_back(lease: Lease) {
    assert_eq!(lease.release().unwrap(), Released::Released);
}

#[track_caller]
fn assert_holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// Whether one waits, with an inbox to be woken on.
fn waits_with_inbox(node: &Server, name: &str) -> bool {
    let inboxes: Vec<String> = node.query(&["HVALS", &sibling(name, "waiters")]);
    inboxes.len() == 1 && inboxes[0] != "-"
}

#[test]
fn every_verb_works_for_keys_of_all_slots() {
    each_cluster(|cluster| {
        let (client, other) = (open(cluster), open(cluster));
        let mut at: BTreeMap<u16, usize> = BTreeMap::new();
        let names = (0..60).map(|n| format!("n{n}")).chain(["{a}b".to_owned(), "x{a b}".to_owned(), "é".to_owned()]);
        for name in names {
            let guard = client.lock_with(&name, ttl(600)).unwrap().try_acquire().unwrap().expect("the lock is free");
            let node = cluster.owner(&key(&name));
            assert_eq!(node.get(&key(&name)).as_deref(), Some(guard.token().as_str()));
            *at.entry(node.port()).or_default() += 1;
            assert!(other.lock(&name).unwrap().try_acquire().unwrap().is_none());
            guard.renew().unwrap();
            let info = other.inspect(&name).unwrap().expect("it is held");
            assert_eq!((info.token(), info.fence(), info.waiters()), (guard.token(), Some(guard.fence()), 0));
            let fence = guard.fence();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert_eq!(client.inspect(&name).unwrap(), None);
            let lease = client.lease(&name, LockOptions::new()).unwrap();
            assert!(lease.fence() > fence);
            let token = lease.into_token().unwrap();
            let adopted = other.adopt(&name, token.as_str(), LockOptions::new()).unwrap().expect("it has the lock");
            assert!(client.force_release(&name).unwrap());
            assert!(matches!(adopted.renew(), Err(Error::Lost(_))));
        }
        assert!(at.len() == 3 && at.values().all(|count| *count > 5), "{at:?}");
        assert_eq!(client.server(), cluster.url());
    });
}

#[test]
fn a_key_whose_siblings_would_be_in_another_slot_was_locked() {
    with_cluster(|cluster| {
        let client = open(cluster);
        for name in ["{}a", "a}", "{a"] {
            let error = client.lock(name).map(drop).unwrap_err();
            assert!(matches!(error, Error::Config { option: "name", .. }), "{error:?}");
            assert!(client.lease(name, LockOptions::new()).is_err() && client.inspect(name).is_err());
        }
    });
}

#[test]
fn a_waiter_was_woken_only_when_its_lock_was_at_the_node_of_its_inbox() {
    each_cluster(|cluster| {
        let (holder, waiter) = (open(cluster), open(cluster));
        for (node, name) in primaries(cluster) {
            let lease = holder.lease(&name, ttl(60_000)).unwrap();
            let before = waiter.stats().pushes;
            thread::scope(|scope| {
                let waiting = scope.spawn(|| acquire(&waiter, &name).release().unwrap());
                assert_eventually("it waits with an inbox", AGREED, || waits_with_inbox(node, &name));
                give_back(lease);
                assert_eq!(waiting.join().unwrap(), Released::Released);
            });
            assert_pushed(&waiter, before);
            assert!(!cluster.has(node, &sibling(&name, "turn")) && !cluster.has(node, &key(&name)));
        }
    });
}

#[test]
fn a_waiter_killed_while_first_in_the_queue_cost_more_than_a_turn() {
    with_cluster(|cluster| {
        let (holder, waiter) = (open(cluster), open(cluster));
        let (node, name) = primaries(cluster).swap_remove(0);
        let lease = holder.lease(&name, ttl(60_000)).unwrap();
        let queued = |count: usize| {
            assert_eventually("they wait with inboxes", AGREED, || {
                let inboxes: Vec<String> = node.query(&["HVALS", &sibling(&name, "waiters")]);
                inboxes.len() == count && inboxes.iter().all(|inbox| inbox != "-")
            });
        };
        let mut victim = Process::start(env!("CARGO_BIN_EXE_waiter"), [""; 0]);
        victim.send(&format!("open {}", cluster.url()));
        victim.expect("opened", 10 * SECOND);
        victim.send(&format!("wait {name} 2 0"));
        victim.expect("waiting", 10 * SECOND);
        queued(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = acquire(&waiter, &name);
                let at = Instant::now();
                assert_eq!(guard.release().unwrap(), Released::Released);
                at
            });
            queued(3);
            victim.kill9();
            let begin = Instant::now();
            give_back(lease);
            // The node counts its own subscribers only, so the dead one may have the turn.
            let waited = waiting.join().unwrap() - begin;
            assert!(waited < ms(1_500) + NOISE, "{waited:?}");
        });
    });
}

#[test]
fn a_stopped_node_took_the_leases_of_the_others_along() {
    let Some(kind) = any_server() else { return };
    // No replica takes over meanwhile.
    let cluster = ServerCluster::start_with(kind, |it| it.config("cluster-node-timeout", "20000"));
    let client = limited(&cluster.url(), 2 * SECOND).build().unwrap();
    let stopped = &cluster.nodes()[0];
    let lease = |n: usize| {
        let name = format!("n{n}");
        let there = cluster.owner(&key(&name)).port() == stopped.port();
        // Those of the node that stops are tried for as long as a request may take, and in two batches, because one ttl is
        // more than twice the other: enough to keep both threads.
        let ttl = ttl(if !there {
            1_200
        } else if n.is_multiple_of(2) {
            12_000
        } else {
            26_000
        });
        (there, client.lease(&name, ttl).unwrap())
    };
    let leases: Vec<(bool, Lease)> = (0..100).map(lease).collect();
    let there = leases.iter().filter(|(there, _)| *there).count();
    assert!(there > 10 && there < 90, "{there}");
    let name = format!("{{lock:{}}}", name_at(&cluster, &cluster.nodes()[1]));
    stopped.pause();
    let begin = Instant::now();
    while begin.elapsed() < 12 * SECOND {
        for (there, lease) in &leases {
            assert!(*there || lease.is_held(), "lost after {:?}: {:?}", begin.elapsed(), client.stats());
        }
        let (lease, took) = timed(|| client.try_lease(&name, ttl(5_000)).unwrap().expect("the lock is free"));
        assert!(took < SECOND, "{took:?}");
        give_back(lease);
        thread::sleep(ms(50));
    }
    assert!(client.stats().renewal_failed > 0, "the stopped node was tried: {:?}", client.stats());
    stopped.resume();
    let lost = usize::try_from(client.stats().lost_total()).unwrap();
    assert!(lost <= there, "{lost} of {there}");
    for (there, lease) in leases {
        let released = lease.release();
        assert!(there || released.as_ref().is_ok_and(|it| *it == Released::Released), "{released:?}");
    }
}

#[test]
fn a_slot_that_moved_took_a_held_lock_away() {
    each_cluster(|cluster| {
        let (client, other) = (open(cluster), open(cluster));
        let (from, name) = primaries(cluster).swap_remove(0);
        let to = &cluster.nodes()[1];
        let guard = client.lock_with(&name, ttl(3_000)).unwrap().acquire().unwrap();
        let stats = || client.stats();
        let goes_on = |when: &str| {
            guard.renew().unwrap_or_else(|error| panic!("{when}: {error}"));
            let renewed = stats().renewed;
            assert_eventually(&format!("renewed by the background {when}"), 3 * SECOND, || stats().renewed > renewed);
        };
        goes_on("before");
        cluster.begin_move(&key(&name), to);
        goes_on("at the source");
        cluster.move_keys(&key(&name), to);
        assert!(cluster.has(to, &key(&name)) && !cluster.has(from, &key(&name)));
        goes_on("at the target, which has to be asked for");
        cluster.end_move(&key(&name), to);
        goes_on("at the target");
        guard.check().unwrap();
        assert_eq!(to.get(&key(&name)).as_deref(), Some(guard.token().as_str()));
        // The other client has not heard of it.
        assert!(other.lock(&name).unwrap().try_acquire().unwrap().is_none());
        let fence = guard.fence();
        assert_eq!(guard.release().unwrap(), Released::Released);
        let guard = other.lock(&name).unwrap().try_acquire().unwrap().expect("the lock is free");
        assert!(guard.fence() > fence, "the fence has moved as well");
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert_eq!((stats().lost_total(), stats().renewal_failed), (0, 0), "{:?}", stats());
    });
}

#[test]
fn a_slot_left_in_migration_kept_a_lock_from_being_renewed_and_released() {
    each_cluster(|cluster| {
        let (client, other) = (open(cluster), open(cluster));
        let to = &cluster.nodes()[2];
        // With its keys at the source, and with its keys at the target.
        for (node, moved) in [(0, false), (1, true)] {
            let from = &cluster.nodes()[node];
            let name = name_at(cluster, from);
            let guard = client.lock_with(&name, ttl(600)).unwrap().acquire().unwrap();
            cluster.begin_move(&key(&name), to);
            if moved {
                cluster.move_keys(&key(&name), to);
            }
            let renewed = client.stats().renewed;
            assert_eventually("renewals go on", 10 * SECOND, || client.stats().renewed >= renewed + 5);
            guard.renew().unwrap();
            guard.check().unwrap();

            let info = other.inspect(&name).unwrap().expect("it is held");
            assert_eq!((info.token(), info.fence(), info.waiters()), (guard.token(), Some(guard.fence()), 0));

            let (error, took) = timed(|| other.lock(&name).unwrap().try_acquire_for(ms(500)).unwrap_err());
            assert!(took < ms(500) + NOISE, "{took:?}");
            assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
            assert_holds(&error.to_string(), &["TRYAGAIN"]);

            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(!cluster.has(from, &key(&name)) && !cluster.has(to, &key(&name)), "released");
            assert_eq!((client.stats().lost_total(), client.stats().release_unconfirmed), (0, 0));
        }
    });
}

#[test]
fn a_release_that_owes_a_tombstone_was_never_confirmed_in_a_migrating_slot() {
    with_cluster(|cluster| {
        let client = limited(&cluster.url(), ms(300)).build().unwrap();
        let (from, name) = primaries(cluster).swap_remove(0);
        let to = &cluster.nodes()[1];
        // Its way is known, and then its answers do not come.
        give_back(client.lease(&name, ttl(600)).unwrap());
        cluster.begin_move(&key(&name), to);
        from.pause();
        let error = client.lock(&name).unwrap().try_acquire_for(ms(300)).unwrap_err();
        from.resume();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert_eventually("the background releases", 10 * SECOND, || client.stats().background_released == 1);
        let pattern = format!("{}*", sibling(&name, "gone:"));
        assert_eq!(to.keys(&pattern).len(), 1, "the tombstone stands where the slot goes");
        assert_eq!(client.stats().background_gave_up, 0);
    });
}

#[test]
fn a_killed_node_took_a_lease_away_that_was_replicated() {
    with_cluster(|cluster| {
        let client = Client::builder(&cluster.url()).min_replicas(1).replica_timeout(10 * SECOND).build().unwrap();
        // The node that takes over has no replica left to ask.
        let other = Client::builder(&cluster.url()).unavailable_after(2 * AGREED).build().unwrap();
        let (killed, name) = primaries(cluster).swap_remove(0);
        let guard = client.lock_with(&name, ttl(TTL)).unwrap().acquire().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = acquire(&other, &name);
                let fence = guard.fence();
                assert_eq!(guard.release().unwrap(), Released::Released);
                fence
            });
            assert_eventually("it waits", AGREED, || killed.query::<usize>(&["ZCARD", &sibling(&name, "queue")]) == 1);
            killed.kill();
            assert_eventually("its replica has taken over", AGREED, || {
                cluster.owner(&key(&name)).port() != killed.port()
            });
            assert_eventually("the lease is renewed there", AGREED, || guard.renew().is_ok());
            guard.check().unwrap();
            let node = cluster.owner(&key(&name));
            assert_eq!(node.get(&key(&name)).as_deref(), Some(guard.token().as_str()));
            let renewed = client.stats().renewed;
            assert_eventually("the background goes on", ms(TTL), || client.stats().renewed > renewed);
            let fence = guard.fence();
            assert_eq!(guard.release().unwrap(), Released::Released);
            assert!(waiting.join().unwrap() > fence, "fences grow");
        });
        assert_eq!((client.stats().lost_total(), other.stats().lost_total()), (0, 0));
    });
}

#[test]
fn a_flush_of_one_nodes_scripts_stopped_the_renewals_there() {
    with_cluster(|cluster| {
        let client = open(cluster);
        let leases: Vec<Lease> = (0..30).map(|n| client.lease(&format!("n{n}"), ttl(900)).unwrap()).collect();
        for round in 0..3 {
            cluster.nodes()[round].query::<()>(&["SCRIPT", "FLUSH"]);
            let renewed = client.stats().renewed;
            assert_eventually("all are renewed", 5 * SECOND, || client.stats().renewed >= renewed + 60);
            let name = name_at(cluster, &cluster.nodes()[round]);
            give_back(client.lease(&format!("{{lock:{name}}}b"), ttl(900)).unwrap());
        }
        leases.into_iter().for_each(give_back);
        assert_eq!((client.stats().lost_total(), client.stats().renewal_failed), (0, 0), "{:?}", client.stats());
    });
}

#[test]
fn seeds_that_are_dead_kept_a_client_from_its_cluster() {
    with_cluster(|cluster| {
        let silent: Vec<TcpListener> = (0..2).map(|_| silent()).collect();
        let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, closed_port()));
        let addresses = silent.iter().map(|it| it.local_addr().unwrap()).chain([closed]);
        let hosts: Vec<String> = addresses.map(|it| it.to_string()).collect();
        let url = format!("redis+cluster://{},{}", hosts.join(","), cluster.nodes()[2].addr());
        let client = limited(&url, SECOND).build().unwrap();
        // Four seeds share one second, half of what a try may take; two of them use up their share.
        let (guard, took) = timed(|| client.lock("a").unwrap().try_acquire().unwrap().expect("the lock is free"));
        assert!((ms(490)..ms(600) + NOISE).contains(&took), "{took:?}");
        let ((), took) = timed(|| assert_eq!(guard.release().unwrap(), Released::Released));
        assert!(took < NOISE, "from then on the nodes themselves are asked: {took:?}");

        let client = limited(&format!("redis+cluster://{}", hosts.join(",")), ms(400)).build().unwrap();
        let (error, took) = timed(|| client.lock("a").unwrap().try_acquire().unwrap_err());
        assert!(took < ms(800) + NOISE, "{took:?}");
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
        assert_holds(&error.to_string(), &[&hosts[0], &hosts[1], &hosts[2]]);
    });
}

#[test]
fn a_slot_without_a_node_is_unavailable_and_no_other() {
    with_cluster(|cluster| {
        let client = limited(&cluster.url(), SECOND).build().unwrap();
        let (node, name) = primaries(cluster).swap_remove(0);
        let slot = cluster.slot(&key(&name)).to_string();
        for other in cluster.nodes() {
            other.query::<()>(&["CLUSTER", "DELSLOTS", &slot]);
        }
        let error = client.lock(&name).unwrap().try_acquire_for(ms(500)).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
        assert_holds(&error.to_string(), &["CLUSTERDOWN", &slot]);
        let same = (0..).map(|n| format!("m{n}"));
        let mut same = same.filter(|name| cluster.slot(&key(name)).to_string() != slot);
        give_back(client.lease(&same.next().unwrap(), ttl(600)).unwrap());
        node.query::<()>(&["CLUSTER", "ADDSLOTS", &slot]);
        let guard = client.lock(&name).unwrap().try_acquire_for(10 * SECOND).unwrap().expect("the lock is free");
        assert_eq!(guard.release().unwrap(), Released::Released);
    });
}

#[test]
fn servers_that_are_no_cluster_and_wrong_passwords_are_told_apart() {
    let Some(kind) = any_server() else { return };
    let attempt = |url: &str| {
        let client = limited(url, SECOND).build().unwrap();
        let outcome = client.lock("a").unwrap().try_acquire();
        outcome.map(|guard| guard.expect("the lock is free").release().unwrap())
    };
    let server = Server::start(kind);
    let error = attempt(&format!("redis+cluster://{}", server.addr())).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }), "{error:?}");
    assert_holds(&error.to_string(), &["cluster support disabled", &server.addr().to_string()]);

    let cluster = ServerCluster::start_with(kind, |it| it.password("s3cret"));
    assert_eq!(attempt(&cluster.url()).unwrap(), Released::Released);
    let error = attempt(&cluster.url().replace("s3cret", "wr0ng")).unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    assert_holds(&error.to_string(), &["WRONGPASS", &cluster.nodes()[0].addr().to_string()]);
}
