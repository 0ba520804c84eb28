//! docs/protocol.md as another client would build it: every kind of reply, over a bare connection.

use std::time::Duration;

use redis::Value;
use redlatch::{Client, LockOptions, Released};
use redlatch_tests::{Server, each_server};

use crate::client::{Acquired, LOCK, NAME, Other, RENEW, UNLOCK, array, released, sibling, tombstone};

const SECOND: Duration = Duration::from_secs(1);

fn other(server: &Server) -> Other {
    Other::new(server)
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
fn at_the_memory_limit_a_release_works_with_a_tombstone_as_well_and_nobody_new_may_wait() {
    each_server(|server| {
        let mut other = other(server);
        assert_eq!(other.tries("a").status, 1);
        assert_eq!(other.joins("b", "").status, 0);
        let _: String = server.query(&["CONFIG", "SET", "maxmemory", "1"]);
        // Such a server refuses a script's first write if that needs memory, and none of the later ones.
        let keys = ["x".to_owned(), "y".to_owned()];
        let set = "return redis.call('SET', KEYS[1], '1')";
        assert!(other.script(set, &keys[..1], &[]).unwrap_err().contains("OOM"));
        let after_another = format!("redis.call('DEL', KEYS[2]) {set}");
        assert_eq!(other.script(&after_another, &keys, &[]), Ok(Value::Okay));

        assert_eq!(other.renews("a"), [Value::Int(1)]);
        assert_eq!(other.releases("a", "60000"), released(1, 0, 0));
        assert!(server.exists(&tombstone("a")) && server.exists(&sibling("turn")) && !server.exists(LOCK));
        assert!(other.asks("b", "join", "", "-", "").unwrap_err().contains("OOM"));
        assert_eq!(other.releases("b", "60000"), released(0, 0, 0), "gives up");
        assert!(server.exists(&tombstone("b")) && !server.exists(&sibling("turn")));
    });
}

#[test]
fn a_hash_that_the_server_does_not_know_is_answered_by_noscript_until_the_source_was_sent() {
    each_server(|server| {
        let mut other = other(server);
        assert_eq!(other.tries("a").status, 1);
        let _: String = server.query(&["SCRIPT", "FLUSH"]);
        let sha = redis::Script::new(UNLOCK).get_hash().to_owned();
        let by_hash = ["EVALSHA", &sha, "1", LOCK, "b"];
        assert!(other.command(&by_hash).unwrap_err().starts_with("NOSCRIPT"));
        assert_eq!(other.unlocks("b"), Ok(Value::Int(0)));
        assert_eq!(other.command(&by_hash), Ok(Value::Int(0)));
        assert_eq!(other.unlocks("a"), Ok(Value::Int(1)));
    });
}

#[test]
fn renew_answers_for_each_lock_and_creates_none() {
    each_server(|server| {
        let mut other = other(server);
        assert_eq!(other.tries("a").status, 1);
        server.set("lock:2", "b");
        let _: i64 = server.query(&["SADD", "lock:3", "x"]);
        let keys: Vec<String> = [LOCK, "lock:2", "lock:3", "lock:4"].map(str::to_owned).into();
        let args = ["a", "9000", "b", "8000", "c", "7000", "d", "6000"];
        let expected = Ok(Value::Array([1, 1, 0, 0].map(Value::Int).into()));
        let with_probe = [keys.clone(), vec![sibling("probe")]].concat();
        for keys in [&keys, &with_probe] {
            assert_eq!(other.script(RENEW, keys, &args), expected);
        }
        assert!((8_000..=9_000).contains(&server.pttl(LOCK)) && (7_000..=8_000).contains(&server.pttl("lock:2")));
        assert_eq!((server.pttl("lock:3"), server.exists("lock:4")), (-1, false));
    });
}

#[test]
fn a_tombstone_stands_against_its_token_whatever_comes_after_it() {
    each_server(|server| {
        let mut other = other(server);
        // The release arrives first.
        assert_eq!(other.releases("a", "60000"), released(0, 0, 0));
        assert_eq!(other.releases("a", "0"), released(0, 0, 0));
        assert_eq!(other.renews("a"), [Value::Int(0)]);
        assert_eq!(other.tries("a").status, -1);
        assert_eq!(other.asks("a", "join", "1", "-", "").unwrap().status, -1);
        assert!(!server.exists(LOCK) && !server.exists(&sibling("queue")));
        // Without one a late copy is granted.
        assert_eq!(other.releases("b", "0"), released(0, 0, 0));
        assert_eq!(other.tries("b").status, 1);
    });
}

#[test]
fn a_replica_refuses_every_script_that_would_say_no() {
    each_server(|primary| {
        let mut other = other(primary);
        assert_eq!(other.tries("a").status, 1);
        assert_eq!(other.releases("gone", "60000"), released(0, 0, 0));
        let replica = Server::builder(primary.kind()).replica_of(primary).start();
        replica.wait_synced();
        let mut other = Other::new(&replica);
        let readonly = |error: String| assert!(error.contains("READONLY"), "{error}");
        for (token, mode) in [("b", "try"), ("b", "join"), ("b", "adopt"), ("a", "try"), ("gone", "try")] {
            readonly(other.asks(token, mode, "", "-", "x").unwrap_err());
        }
        for (token, tombstone) in [("a", "0"), ("b", "0"), ("b", "60000")] {
            readonly(other.asks_to_release(token, tombstone, true).unwrap_err());
        }
        let with_probe = [LOCK.to_owned(), sibling("probe")];
        for token in ["a", "b"] {
            readonly(other.script(RENEW, &with_probe, &[token, "9000"]).unwrap_err());
        }
        let no = Ok(Value::Array(vec![Value::Int(0)]));
        assert_eq!(other.script(RENEW, &with_probe[..1], &["b", "9000"]), no, "what the probe is for");
    });
}

#[test]
fn inspect_reads_a_lock_in_one_transaction() {
    each_server(|server| {
        let mut other = other(server);
        let granted = other.tries("a");
        other.joins("b", "");
        assert_eq!(other.command(&["MULTI"]), Ok(Value::Okay));
        for command in [["GET", LOCK], ["PTTL", LOCK], ["GET", &sibling("fence")], ["ZCARD", &sibling("queue")]] {
            assert_eq!(other.command(&command), Ok(Value::SimpleString("QUEUED".to_owned())));
        }
        let reply = array(other.command(&["EXEC"]).unwrap());
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!((&reply[0], &reply[2], &reply[3]), (&text("a"), &text(&granted.fence), &Value::Int(1)));
        assert!(matches!(reply[1], Value::Int(4_000..=5_000)), "{reply:?}");
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
        let inbox = "another:inbox";
        let (mut other, mut listener) = (other(server), other(server));
        listener.subscribes(inbox);
        let client = client(server);
        let options = LockOptions::new().ttl(5 * SECOND);
        assert_eq!(other.tries("other").status, 1);
        other.joins_with("waiter", inbox);
        assert!(client.try_lease(NAME, options.clone()).unwrap().is_none());
        assert_eq!(client.inspect(NAME).unwrap().unwrap().waiters(), 1);
        assert_eq!(other.releases("other", "0"), released(1, 1, 0));
        assert_eq!(listener.hears(), ["message", inbox, "waiter"]);
        // Released, but it is another waiter's turn.
        assert!(client.try_lease(NAME, options.clone()).unwrap().is_none());
        let granted = other.joins_with("waiter", inbox);
        let waiting = std::thread::spawn({
            let (client, options) = (client.clone(), options.clone());
            move || client.try_lease_for(NAME, options, 10 * SECOND)
        });
        redlatch_tests::assert_eventually("a waiter with an inbox", 5 * SECOND, || {
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling("waiters")]);
            inboxes.iter().any(|inbox| inbox.starts_with("redlatch:inbox:"))
        });
        assert_eq!(other.releases("waiter", "0"), released(1, 1, 0), "redlatch's waiter is woken");
        let lease = waiting.join().unwrap().unwrap().unwrap();
        assert!(lease.fence() > granted.fence_number());
        other.joins_with("other", inbox);
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(listener.hears(), ["message", inbox, "other"], "woken by redlatch");
        assert_eq!(other.joins_with("other", inbox).status, 1);
    });
}
