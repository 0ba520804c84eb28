//! A cluster's slot that is left in migration while a lock in it is held.

use std::thread;
use std::time::Instant;

use redlatch::{Client, Error};
use redlatch_tests::{Server, ServerKind, assert_eventually, available};

use crate::support::{SECOND, acquire, await_queue, give_back, key, ms, sibling, ttl};

/// A node with all slots, and an empty one that knows it.
struct Cluster {
    source: Server,
    target: Server,
}

impl Cluster {
    fn start(kind: ServerKind) -> Cluster {
        let node = || Server::builder(kind).config("cluster-enabled", "yes").start();
        let (source, target) = (node(), node());
        let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
        let command: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        source.query::<()>(&command);
        target.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &source.port().to_string()]);
        let known = || {
            [&source, &target].iter().all(|node| {
                let info: String = node.query(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
            })
        };
        assert_eventually("the cluster is up", 30 * SECOND, known);
        Cluster { source, target }
    }

    /// Begins to move the slot of a lock to the other node; its keys stay where they are.
    fn migrate(&self, name: &str) {
        let slot: i64 = self.source.query(&["CLUSTER", "KEYSLOT", &key(name)]);
        let slot = slot.to_string();
        let [from, to]: [String; 2] = [&self.source, &self.target].map(|node| node.query(&["CLUSTER", "MYID"]));
        self.target.query::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]);
        self.source.query::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]);
    }

    /// Whether the lock's key is on the node that has the slot: asking for a missing key would be answered by ASK.
    fn is_held(&self, name: &str) -> bool {
        let slot: i64 = self.source.query(&["CLUSTER", "KEYSLOT", &key(name)]);
        let keys: Vec<String> = self.source.query(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]);
        keys.contains(&key(name))
    }

    /// Calls the migration off.
    fn stay(&self, name: &str) {
        let slot: i64 = self.source.query(&["CLUSTER", "KEYSLOT", &key(name)]);
        for node in [&self.source, &self.target] {
            node.query::<()>(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
        }
    }
}

/// Runs `body` on a cluster of each kind, all at once: most of the time goes into forming them.
fn each_cluster(body: impl Fn(&Cluster) + Sync) {
    thread::scope(|scope| {
        for kind in available() {
            let body = &body;
            let run = move || body(&Cluster::start(kind));
            thread::Builder::new().name(format!("on {kind}")).spawn_scoped(scope, run).unwrap();
        }
    });
}

fn client(node: &Server) -> Client {
    Client::open(&node.url()).unwrap()
}

#[test]
fn a_migrating_slot_took_a_held_lock_away() {
    each_cluster(|cluster| {
        let (holder, other) = (client(&cluster.source), client(&cluster.source));
        let guard = holder.lock_with("a", ttl(600)).unwrap().acquire().unwrap();
        cluster.migrate("a");

        // Three ttls: renewals go on.
        let renewed = holder.stats().renewed;
        thread::sleep(ms(1_800));
        guard.check().unwrap();
        assert!(holder.stats().renewed >= renewed + 3, "{:?}", holder.stats());
        guard.renew().unwrap();
        assert_eq!(cluster.source.get(&key("a")).as_deref(), Some(guard.token().as_str()));

        // Acquire says why it cannot, within its time.
        let begin = Instant::now();
        let error = other.lock("a").unwrap().try_acquire_for(ms(500)).unwrap_err();
        assert!(begin.elapsed() < ms(700), "{:?}", begin.elapsed());
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{text}");
        assert!(text.contains("TRYAGAIN") || text.contains("ASK "), "{text}");

        assert_eq!(guard.release().unwrap(), redlatch::Released::Released);
        assert!(!cluster.is_held("a"), "released");
        assert_eq!((holder.stats().lost_total(), holder.stats().release_unconfirmed), (0, 0));

        // Called off: everything is as before.
        cluster.stay("a");
        give_back(other.try_lease("a", ttl(600)).unwrap().expect("the lock is free"));
    });
}

#[test]
fn a_waiter_for_a_lock_in_a_migrating_slot_was_lost() {
    each_cluster(|cluster| {
        let (holder, waiter) = (client(&cluster.source), client(&cluster.source));
        let lease = holder.lease("a", ttl(600)).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| acquire(&waiter, "a").release().unwrap());
            await_queue(&cluster.source, "a", 1);
            cluster.migrate("a");
            thread::sleep(ms(300));
            give_back(lease);
            assert!(!cluster.is_held("a"), "released");
            cluster.stay("a");
            let _ = waiting.join().unwrap();
        });
        assert!(!cluster.source.exists(&sibling("a", "queue")));
    });
}
