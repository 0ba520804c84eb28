//! A client as another project would build it from docs/protocol.md, over a bare connection.

use redis::Value;
use redlatch_tests::{RawConnection, Server};

pub(crate) const ACQUIRE: &str = include_str!("../../../core/src/protocol/acquire.lua");
pub(crate) const RELEASE: &str = include_str!("../../../core/src/protocol/release.lua");
pub(crate) const RENEW: &str = include_str!("../../../core/src/protocol/renew.lua");
pub(crate) const UNLOCK: &str = include_str!("../../../core/src/protocol/unlock.lua");

/// The lock of these tests, by its name and by its key.
pub(crate) const NAME: &str = "orders";
pub(crate) const LOCK: &str = "lock:orders";

/// A sibling of that lock.
pub(crate) fn sibling(suffix: &str) -> String {
    format!("{{{LOCK}}}:redlatch:{suffix}")
}

pub(crate) fn tombstone(token: &str) -> String {
    sibling(&format!("gone:{token}"))
}

/// A client of the documented protocol; one value can play several of them, each with its token.
pub(crate) struct Other(RawConnection);

/// A reply of acquire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Acquired {
    pub(crate) status: i64,
    pub(crate) left: i64,
    pub(crate) rank: i64,
    pub(crate) score: String,
    pub(crate) fence: String,
}

impl Acquired {
    pub(crate) fn fence_number(&self) -> u64 {
        self.fence.parse().unwrap()
    }
}

/// A reply of release: released, woken, denied, damaged.
pub(crate) type Release = (i64, i64, i64, String);

pub(crate) fn released(released: i64, woken: i64, denied: i64) -> Release {
    (released, woken, denied, String::new())
}

impl Other {
    pub(crate) fn new(server: &Server) -> Other {
        Other(server.raw_connection())
    }

    /// As a user of the server.
    pub(crate) fn logged_in(server: &Server, user: &str, password: &str) -> Other {
        let mut other = Other::new(server);
        assert_eq!(other.command(&["AUTH", user, password]), Ok(Value::Okay));
        other
    }

    /// Error code and text, when the server refuses.
    pub(crate) fn command(&mut self, args: &[&str]) -> Result<Value, String> {
        let words = |error: redis::RedisError| {
            let code = error.code().unwrap_or_else(|| panic!("no reply: {error}")).to_owned();
            [&code, error.detail().unwrap_or_default()].join(" ")
        };
        self.0.command(args).map_err(words)
    }

    /// What the server says without being asked.
    pub(crate) fn hears(&mut self) -> Vec<String> {
        texts(self.0.read().unwrap())
    }

    pub(crate) fn subscribes(&mut self, inbox: &str) {
        let Ok(Value::Array(reply)) = self.command(&["SUBSCRIBE", inbox]) else { panic!("no subscription") };
        assert!(matches!(reply[2], Value::Int(1)), "{reply:?}");
    }

    pub(crate) fn script(&mut self, source: &str, keys: &[String], args: &[&str]) -> Result<Value, String> {
        let count = keys.len().to_string();
        let mut command = vec!["EVAL", source, &count];
        command.extend(keys.iter().map(String::as_str));
        command.extend(args);
        self.command(&command)
    }

    pub(crate) fn keys(token: &str) -> Vec<String> {
        let mut keys = vec![LOCK.to_owned()];
        keys.extend(["fence", "queue", "waiters", "turn"].map(sibling));
        keys.extend([tombstone(token), sibling("probe")]);
        keys
    }

    pub(crate) fn asks(
        &mut self,
        token: &str,
        mode: &str,
        score: &str,
        inbox: &str,
        from: &str,
    ) -> Result<Acquired, String> {
        let args = [token, "5000", "3600000", mode, score, inbox, "60000", from];
        let reply = self.script(ACQUIRE, &Other::keys(token), &args)?;
        let fields = array(reply);
        let [Value::Int(status), Value::Int(left), Value::Int(rank), score, fence] = &fields[..] else {
            panic!("{fields:?}")
        };
        Ok(Acquired { status: *status, left: *left, rank: *rank, score: text(score), fence: text(fence) })
    }

    pub(crate) fn tries(&mut self, token: &str) -> Acquired {
        self.asks(token, "try", "", "-", "").unwrap()
    }

    /// Joins without an inbox.
    pub(crate) fn joins(&mut self, token: &str, score: &str) -> Acquired {
        self.asks(token, "join", score, "-", "").unwrap()
    }

    /// Joins, to be woken.
    pub(crate) fn joins_with(&mut self, token: &str, inbox: &str) -> Acquired {
        self.asks(token, "join", "", inbox, "").unwrap()
    }

    /// Releases with a turn of 1 s; `counts_all` as on one server, not on a cluster.
    pub(crate) fn asks_to_release(
        &mut self,
        token: &str,
        tombstone_ms: &str,
        counts_all: bool,
    ) -> Result<Release, String> {
        let args = [token, tombstone_ms, "1000", "60000", if counts_all { "1" } else { "0" }];
        let fields = array(self.script(RELEASE, &Other::keys(token), &args)?);
        let [Value::Int(released), Value::Int(woken), Value::Int(denied), damaged] = &fields[..] else {
            panic!("{fields:?}")
        };
        Ok((*released, *woken, *denied, text(damaged)))
    }

    pub(crate) fn releases(&mut self, token: &str, tombstone_ms: &str) -> Release {
        self.asks_to_release(token, tombstone_ms, true).unwrap()
    }

    /// Renews the lock for 9 s, with its probe.
    pub(crate) fn renews(&mut self, token: &str) -> Vec<Value> {
        array(self.script(RENEW, &[LOCK.to_owned(), sibling("probe")], &[token, "9000"]).unwrap())
    }

    /// Compare-and-delete of the lock key alone.
    pub(crate) fn unlocks(&mut self, token: &str) -> Result<Value, String> {
        self.script(UNLOCK, &[LOCK.to_owned()], &[token])
    }
}

pub(crate) fn array(value: Value) -> Vec<Value> {
    let Value::Array(fields) = value else { panic!("no array: {value:?}") };
    fields
}

fn text(value: &Value) -> String {
    let Value::BulkString(bytes) = value else { panic!("no string: {value:?}") };
    String::from_utf8(bytes.clone()).unwrap()
}

fn texts(value: Value) -> Vec<String> {
    array(value).iter().map(text).collect()
}
