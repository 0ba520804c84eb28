//! docs/protocol.md on a cluster's slot that is being migrated, over a bare connection.

use std::thread;
use std::time::Duration;

use redis::Value;
use redlatch_tests::{Server, ServerKind, assert_eventually, available};

use crate::client::{LOCK, Other, RENEW, sibling, tombstone};

/// A node with all slots, whose slot of the lock is being moved to an empty one.
struct Migrating {
    source: Server,
    target: Server,
    slot: String,
}

impl Migrating {
    fn start(kind: ServerKind) -> Migrating {
        let node = || Server::builder(kind).config("cluster-enabled", "yes").start();
        let (source, target) = (node(), node());
        let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
        let command: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        source.query::<()>(&command);
        target.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &source.port().to_string()]);
        assert_eventually("the cluster is up", Duration::from_secs(30), || {
            [&source, &target].iter().all(|node| {
                let info: String = node.query(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
            })
        });
        let slot: i64 = source.query(&["CLUSTER", "KEYSLOT", LOCK]);
        Migrating { source, target, slot: slot.to_string() }
    }

    fn begin(&self) {
        let [from, to]: [String; 2] = [&self.source, &self.target].map(|node| node.query(&["CLUSTER", "MYID"]));
        self.target.query::<()>(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &from]);
        self.source.query::<()>(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &to]);
    }
}

/// Runs `body` on a cluster of each kind, all at once: most of the time goes into forming them.
fn each_cluster(body: impl Fn(&Migrating) + Sync) {
    thread::scope(|scope| {
        for kind in available() {
            let body = &body;
            let run = move || body(&Migrating::start(kind));
            thread::Builder::new().name(format!("on {kind}")).spawn_scoped(scope, run).unwrap();
        }
    });
}

/// Whether a node says that not all keys are here, or that none is.
fn is_elsewhere<T>(reply: &Result<T, String>) -> bool {
    reply.as_ref().is_err_and(|error| error.starts_with("TRYAGAIN ") || error.starts_with("ASK "))
}

#[test]
fn a_migrating_slot_serves_only_what_needs_no_key_but_the_lock() {
    each_cluster(|cluster| {
        let mut other = Other::new(&cluster.source);
        assert_eq!(other.tries("a").status, 1);
        cluster.begin();
        // Whatever is missing there could be on the other node already.
        assert!(
            is_elsewhere(&other.asks("a", "try", "", "-", "")) && is_elsewhere(&other.asks("b", "join", "", "-", ""))
        );
        assert!(is_elsewhere(&other.asks_to_release("a", "0", true)));
        let with_probe = [LOCK.to_owned(), sibling("probe")];
        assert!(is_elsewhere(&other.script(RENEW, &with_probe, &["a", "9000"])));

        let renewed = |token| Ok(Value::Array(vec![Value::Int(token)]));
        assert_eq!(other.script(RENEW, &with_probe[..1], &["a", "9000"]), renewed(1));
        assert_eq!(other.script(RENEW, &with_probe[..1], &["b", "9000"]), renewed(0));
        assert!(cluster.source.pttl(LOCK) > 5_000);

        let set = ["SET", &tombstone("a"), "1", "PX", "60000"];
        assert!(
            other.command(&set).unwrap_err().starts_with("ASK "),
            "a key that is not there belongs to the other node"
        );
        let mut target = Other::new(&cluster.target);
        assert!(target.command(&set).unwrap_err().starts_with("MOVED "));
        assert_eq!((target.command(&["ASKING"]), target.command(&set)), (Ok(Value::Okay), Ok(Value::Okay)));

        assert_eq!((other.unlocks("b"), other.unlocks("a")), (Ok(Value::Int(0)), Ok(Value::Int(1))));
        assert!(other.unlocks("a").unwrap_err().starts_with("ASK "), "again, when it is gone");
    });
}
