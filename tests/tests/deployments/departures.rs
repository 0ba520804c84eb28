//! Nodes of a cluster that stall or leave it, and what goes on in the background.

use std::sync::Barrier;
use std::thread;

use redlatch::{Client, Released};
use redlatch_tests::{Server, any_server, assert_eventually};

use crate::nodes::{SLOTS, cluster_of, give, names};
use crate::support::{AGREED, SECOND, acquire, assert_pushed, key, limited, ms, sibling, timed, ttl};

fn url(nodes: &[Server]) -> String {
    let hosts: Vec<String> = nodes.iter().map(|it| it.addr().to_string()).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

/// Acquires the lock for this thread, which ends without releasing it.
fn leak(client: &Client, name: &str) {
    std::mem::forget(client.lock_with(name, ttl(60_000)).unwrap().acquire().unwrap());
}

#[test]
fn a_stopped_node_held_up_the_background_releases_of_the_others() {
    let Some(kind) = any_server() else { return };
    // Nobody takes the stopped node for failed meanwhile.
    let nodes = cluster_of(kind, "127.0.0.1", &[0, SLOTS / 2], |it| it.config("cluster-node-timeout", "60000"));
    let [stopped, live] = &nodes[..] else { unreachable!("there are two") };
    let client = limited(&url(&nodes), 2 * SECOND).build().unwrap();
    let there: Vec<String> = names(live, |slot| slot < SLOTS / 2).take(6).collect();
    let here = names(live, |slot| slot >= SLOTS / 2).next().unwrap();
    let begun = Barrier::new(there.len() + 1);
    let took = thread::scope(|scope| {
        for name in &there {
            let (client, begun) = (&client, &begun);
            scope.spawn(move || {
                leak(client, name);
                begun.wait();
                // The server is stopped by then: this thread's end is what releases the lock.
                begun.wait();
            });
        }
        begun.wait();
        stopped.pause();
        begun.wait();
        assert_eventually("the background has them", 10 * SECOND, || client.stats().abandoned == 6);
        scope.spawn(|| leak(&client, &here)).join().unwrap();
        let ((), took) = timed(|| {
            assert_eventually("the other node's lock is released", 30 * SECOND, || {
                client.stats().abandoned == 7 && !live.exists(&key(&here))
            });
        });
        took
    });
    stopped.resume();
    assert!(took < 2 * SECOND, "{took:?}");
    assert_eventually("all are released", 30 * SECOND, || client.stats().background_now == 0);
    assert!(there.iter().all(|name| !stopped.exists(&key(name))));
    assert_eq!((client.stats().background_released, client.stats().background_gave_up), (7, 0));
    client.close();
}

#[test]
fn a_client_that_closed_while_a_node_was_stopped_waited_for_each_of_its_releases() {
    let Some(kind) = any_server() else { return };
    let nodes = cluster_of(kind, "127.0.0.1", &[0, SLOTS / 2], |it| it.config("cluster-node-timeout", "60000"));
    let [stopped, live] = &nodes[..] else { unreachable!("there are two") };
    let client = limited(&url(&nodes), ms(500)).build().unwrap();
    let there: Vec<String> = names(live, |slot| slot < SLOTS / 2).take(4).collect();
    let leases: Vec<_> = there.iter().map(|name| client.lease(name, ttl(60_000)).unwrap()).collect();
    stopped.pause();
    drop(leases);
    let ((), took) = timed(|| client.close());
    stopped.resume();
    assert!(took < 2 * ms(500) + SECOND, "{took:?}");
}

#[test]
fn an_inbox_stayed_with_a_node_that_had_left_its_cluster() {
    let Some(kind) = any_server() else { return };
    // The first node that a client hears of gets its inbox.
    let nodes = cluster_of(kind, "127.0.0.1", &[0, 1], |it| it);
    let [leaving, staying] = &nodes[..] else { unreachable!("there are two") };
    let (holder, waiter) = (Client::open(&url(&nodes)).unwrap(), Client::open(&url(&nodes)).unwrap());
    let name = names(staying, |slot| slot > 0).next().unwrap();
    let lease = holder.lease(&name, ttl(60_000)).unwrap();
    let inboxes_at = |node: &Server| node.query::<Vec<String>>(&["PUBSUB", "CHANNELS", "redlatch:inbox:*"]).len();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&waiter, &name).release().unwrap());
        assert_eventually("its inbox is at the node that leaves", AGREED, || inboxes_at(leaving) == 1);
        give(&[staying, leaving], 0, staying);
        let id: String = leaving.query(&["CLUSTER", "MYID"]);
        staying.query::<()>(&["CLUSTER", "FORGET", &id]);
        leaving.query::<()>(&["CLUSTER", "RESET", "HARD"]);
        // Its connection lives on.
        assert_eq!(inboxes_at(leaving), 1);
        assert_eventually("its inbox is at the node that stays", AGREED, || inboxes_at(staying) == 1);
        assert_eventually("it waits with that", AGREED, || {
            let waits: Vec<String> = staying.query(&["HVALS", &sibling(&name, "waiters")]);
            waits.len() == 1 && waits[0] != "-"
        });
        let pushed = waiter.stats().pushes;
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
        assert_pushed(&waiter, pushed);
    });
    assert_eventually("the former one is left", AGREED, || inboxes_at(leaving) == 0);
}
