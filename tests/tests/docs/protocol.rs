//! docs/protocol.md as another client would build it: every kind of reply, over a bare connection.

use std::time::Duration;

use redis::Value;
use redlatch::{Client, LockOptions, Released};
use redlatch_tests::{RawConnection, Server, each_server};

const ACQUIRE: &str = include_str!("../../../core/src/protocol/acquire.lua");
const RELEASE: &str = include_str!("../../../core/src/protocol/release.lua");
const RENEW: &str = include_str!("../../../core/src/protocol/renew.lua");

const NAME: &str = "orders";
const LOCK: &str = "lock:orders";
const SECOND: Duration = Duration::from_secs(1);

fn sibling(suffix: &str) -> String {
    format!("{{{LOCK}}}:redlatch:{suffix}")
}

/// A client of the documented protocol; one value can play several of them, each with its token.
struct Other(RawConnection);

/// A reply of acquire.
#[derive(Debug, PartialEq, Eq)]
struct Acquired {
    status: i64,
    left: i64,
    rank: i64,
    score: String,
    fence: String,
}

impl Acquired {
    fn fence_number(&self) -> u64 {
        self.fence.parse().unwrap()
    }
}

impl Other {
    fn script(&mut self, source: &str, keys: &[String], args: &[&str]) -> Result<Vec<Value>, String> {
        let count = keys.len().to_string();
        let mut command = vec!["EVAL", source, &count];
        command.extend(keys.iter().map(String::as_str));
        command.extend(args);
        self.0.command(&command).map_err(|error| error.to_string())
    }

    fn keys(token: &str) -> Vec<String> {
        let mut keys = vec![LOCK.to_owned()];
        keys.extend(["fence", "queue", "waiters", "turn"].map(sibling));
        keys.extend([sibling(&format!("gone:{token}")), sibling("probe")]);
        keys
    }

    fn asks(&mut self, token: &str, mode: &str, score: &str, inbox: &str, from: &str) -> Result<Acquired, String> {
        let args = [token, "5000", "3600000", mode, score, inbox, "60000", from];
        let reply = self.script(ACQUIRE, &Other::keys(token), &args)?;
        let [Value::Int(status), Value::Int(left), Value::Int(rank), score, fence] = &reply[..] else {
            panic!("{reply:?}")
        };
        Ok(Acquired { status: *status, left: *left, rank: *rank, score: text(score), fence: text(fence) })
    }

    fn tries(&mut self, token: &str) -> Acquired {
        self.asks(token, "try", "", "-", "").unwrap()
    }

    fn joins(&mut self, token: &str, score: &str) -> Acquired {
        self.asks(token, "join", score, "-", "").unwrap()
    }

    /// `(released, woken, denied, damaged)`
    fn releases(&mut self, token: &str, tombstone_ms: &str) -> (i64, i64, i64, String) {
        let args = [token, tombstone_ms, "1000", "60000", "1"];
        let reply = self.script(RELEASE, &Other::keys(token), &args).unwrap();
        let [Value::Int(released), Value::Int(woken), Value::Int(denied), damaged] = &reply[..] else {
            panic!("{reply:?}")
        };
        (*released, *woken, *denied, text(damaged))
    }

    fn renews(&mut self, token: &str) -> Vec<Value> {
        self.script(RENEW, &[sibling("probe"), LOCK.to_owned()], &[token, "9000"]).unwrap()
    }
}

fn text(value: &Value) -> String {
    let Value::BulkString(bytes) = value else { panic!("no string: {value:?}") };
    String::from_utf8(bytes.clone()).unwrap()
}

fn other(server: &Server) -> Other {
    Other(server.raw_connection())
}

fn client(server: &Server) -> Client {
    Client::open(&server.url()).unwrap()
}

#[test]
fn replies_have_the_documented_shapes() {
    each_server(|server| {
        let mut other = other(server);
        let none = String::new;
        let granted = other.tries("a");
        assert_eq!((granted.status, granted.left, granted.rank, &*granted.score), (1, -1, -1, ""));
        assert_eq!(server.get(&sibling("fence")), Some(granted.fence.clone()));
        let again = other.tries("a");
        assert!(again.status == 1 && again.fence_number() > granted.fence_number());

        let busy = other.tries("b");
        assert!((4_000..=5_000).contains(&busy.left), "{busy:?}");
        assert_eq!(busy, Acquired { status: 0, left: busy.left, rank: -1, score: none(), fence: none() });
        let (first, second) = (other.joins("b", ""), other.joins("c", ""));
        assert_eq!((first.status, first.rank, second.status, second.rank), (0, 0, 0, 1));
        assert_eq!(other.joins("b", "1").score, first.score, "the place in the queue stands");
        assert_eq!(other.asks("d", "adopt", "", "-", "b").unwrap().left, -1);

        assert_eq!(other.renews("a"), [Value::Int(1)]);
        assert!(server.pttl(LOCK) > 5_000);
        assert_eq!(other.renews("b"), [Value::Int(0)]);
        assert_eq!(other.releases("b", "0"), (0, 0, 0, none()), "gives up its wait");
        let back = other.joins("b", &first.score);
        assert_eq!((back.status, back.rank, &back.score), (0, 0, &first.score), "back in its old place");
        assert_eq!(other.releases("a", "0"), (1, 0, 0, none()));

        let turn = server.get(&sibling("turn")).unwrap();
        assert!(turn.ends_with(" b -") && turn.split(' ').count() == 3, "{turn}");
        let kept_out = other.joins("c", &second.score);
        assert!((0..=1_000).contains(&kept_out.left) && kept_out.rank == 0, "{kept_out:?}");
        assert_eq!(other.asks("d", "adopt", "", "-", "b").unwrap().status, 0);
        assert_eq!(other.joins("b", "").status, 1);
        assert_eq!(other.asks("d", "adopt", "", "-", "b").unwrap().status, 1);
        assert_eq!(other.renews("b"), [Value::Int(0)], "the token that was adopted is over");

        assert_eq!(other.releases("d", "60000"), (1, 0, 0, none()));
        assert!(server.pttl(&sibling("gone:d")) > 59_000);
        let abandoned = Acquired { status: -1, left: -1, rank: -1, score: none(), fence: none() };
        assert_eq!(other.tries("d"), abandoned);
        assert_eq!(other.joins("d", ""), abandoned);
    });
}

#[test]
fn foreign_data_is_answered_with_the_role_of_its_key() {
    each_server(|server| {
        let mut other = other(server);
        for role in ["lock", "fence", "queue", "waiters", "turn"] {
            server.flush();
            let key = if role == "lock" { LOCK.to_owned() } else { sibling(role) };
            let _: i64 = server.query(&["SADD", &key, "x"]);
            let error = other.asks("a", "join", "", "-", "").unwrap_err();
            assert!(error.contains("KEYTYPE") && error.contains(role), "{role}: {error}");
            assert_eq!(server.keys("*"), [key]);
        }
        for (role, values) in [("fence", ["nan", "9007199254740991"]), ("turn", ["1 a", "soon a -"])] {
            for value in values {
                server.flush();
                server.set(&sibling(role), value);
                assert!(other.asks("a", "try", "", "-", "").unwrap_err().contains(role), "{value}");
            }
        }
        // A lock that is held can be released whatever its siblings hold.
        for role in ["queue", "waiters", "turn"] {
            server.flush();
            assert_eq!(other.tries("a").status, 1);
            let _: i64 = server.query(&["SADD", &sibling(role), "x"]);
            assert_eq!(other.releases("a", "0"), (1, 0, 0, role.to_owned()));
            assert!(!server.exists(LOCK));
        }
    });
}

#[test]
fn at_the_memory_limit_a_release_works_and_one_that_sets_a_tombstone_does_not() {
    each_server(|server| {
        let mut other = other(server);
        assert_eq!(other.tries("a").status, 1);
        assert_eq!(other.joins("b", "").status, 0);
        let _: String = server.query(&["CONFIG", "SET", "maxmemory", "1"]);
        let args = ["a", "60000", "1000", "60000", "1"];
        assert!(other.script(RELEASE, &Other::keys("a"), &args).unwrap_err().contains("OOM"));
        assert_eq!(other.renews("a"), [Value::Int(1)]);
        assert_eq!(other.releases("a", "0").0, 1);
        assert!(server.exists(&sibling("turn")));
        assert!(other.asks("b", "join", "", "-", "").unwrap_err().contains("OOM"));
    });
}

#[test]
fn an_overdue_turn_drops_every_waiter_of_its_inbox_and_only_those() {
    each_server(|server| {
        let mut other = other(server);
        assert_eq!(other.tries("holder").status, 1);
        for (token, inbox) in [("a", "dead"), ("b", "dead"), ("c", "-"), ("d", "live")] {
            assert_eq!(other.asks(token, "join", "", inbox, "").unwrap().status, 0);
        }
        assert!(server.del(LOCK));
        server.set(&sibling("turn"), "1 a dead");
        assert_eq!(other.tries("newcomer").status, 1);
        let left: Vec<String> = server.query(&["ZRANGE", &sibling("queue"), "0", "-1"]);
        assert_eq!(left, ["c", "d"]);
        assert!(!server.exists(&sibling("turn")));
    });
}

#[test]
fn another_client_of_the_protocol_and_redlatch_share_a_lock() {
    each_server(|server| {
        let mut other = other(server);
        let client = client(server);
        let options = LockOptions::new().ttl(5 * SECOND);
        assert_eq!(other.tries("other").status, 1);
        let place = other.joins("waiter", "");
        assert!(client.try_lease(NAME, options.clone()).unwrap().is_none());
        assert_eq!(client.inspect(NAME).unwrap().unwrap().waiters(), 1);
        assert_eq!(other.releases("other", "0").0, 1);
        // Released, but it is another waiter's turn.
        assert!(client.try_lease(NAME, options.clone()).unwrap().is_none());
        let granted = other.joins("waiter", &place.score);
        let waiting = std::thread::spawn({
            let (client, options) = (client.clone(), options.clone());
            move || client.try_lease_for(NAME, options, 10 * SECOND)
        });
        redlatch_tests::assert_eventually("a waiter in the queue", 5 * SECOND, || {
            client.inspect(NAME).unwrap().is_some_and(|info| info.waiters() == 1)
        });
        assert_eq!(other.releases("waiter", "0").0, 1);
        let lease = waiting.join().unwrap().unwrap().unwrap();
        assert!(lease.fence() > granted.fence_number());
        assert_eq!(other.tries("other").status, 0);
        assert_eq!(lease.release().unwrap(), Released::Released);
    });
}
