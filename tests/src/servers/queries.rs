//! What tests ask a server about its state.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult};

use super::server::ADMIN_LIMIT;
use super::{ADMIN_PASSWORD, ADMIN_USER, Server};
use crate::wire::RawConnection;

/// The queries go over one connection of the harness itself, with all rights, which [`Monitor`]
/// leaves out. They panic when the server does not answer within 5 s.
///
/// [`Monitor`]: crate::Monitor
impl Server {
    /// A plain client connection with all rights and time limits of 5 s, in database 0.
    ///
    /// Its commands count as a client's: a monitor shows them.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url_as(ADMIN_USER, ADMIN_PASSWORD)).expect("the URL is valid");
        let connection = client.get_connection_with_timeout(ADMIN_LIMIT).expect("the server accepts");
        connection.set_read_timeout(Some(ADMIN_LIMIT)).expect("the limit is not zero");
        connection.set_write_timeout(Some(ADMIN_LIMIT)).expect("the limit is not zero");
        connection
    }

    /// A bare connection without any handshake, as the default user.
    pub fn raw_connection(&self) -> RawConnection {
        RawConnection::connect(self.addr(), ADMIN_LIMIT).expect("the server accepts")
    }

    /// Runs one command over the harness's own connection, which a monitor does not show.
    pub fn query<T: FromRedisValue>(&self, args: &[&str]) -> T {
        self.try_query(args).unwrap_or_else(|error| panic!("{}: {args:?}: {error}", self.kind()))
    }

    /// As [`query`](Self::query), for commands that may fail.
    pub fn try_query<T: FromRedisValue>(&self, args: &[&str]) -> RedisResult<T> {
        let mut slot = self.lock_admin();
        if let Some(connection) = slot.as_mut() {
            match connection.command(args) {
                // A connection from before a restart: try a new one.
                Err(error) if error.is_io_error() && !error.is_timeout() => *slot = None,
                Err(error) if error.is_io_error() => {
                    *slot = None;
                    return Err(error);
                }
                result => return result,
            }
        }
        slot.insert(self.connect_admin()?).command(args)
    }

    /// Text under `key`, `None` when there is none; panics when it holds another type.
    pub fn get(&self, key: &str) -> Option<String> {
        self.query(&["GET", key])
    }

    /// Milliseconds that `key` has left: −1 without ttl, −2 without key.
    pub fn pttl(&self, key: &str) -> i64 {
        self.query(&["PTTL", key])
    }

    /// Whether `key` exists.
    pub fn exists(&self, key: &str) -> bool {
        self.query(&["EXISTS", key])
    }

    /// Sorted names of the keys that match the pattern.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.query(&["KEYS", pattern]);
        keys.sort();
        keys
    }

    /// Keys of locks, and whatever else is there, that must be gone once nobody holds, waits or has a turn: everything but
    /// fences and tombstones. Sorted.
    pub fn lock_leftovers(&self) -> Vec<String> {
        let mut keys = self.keys("*");
        keys.retain(|key| !key.ends_with(":redlatch:fence") && !key.contains(":redlatch:gone:"));
        keys
    }

    /// Sets `key` to `value`, without ttl.
    pub fn set(&self, key: &str, value: &str) {
        self.query(&["SET", key, value])
    }

    /// Deletes `key`; whether it was there.
    pub fn del(&self, key: &str) -> bool {
        self.query(&["DEL", key])
    }

    /// Deletes all keys of all databases.
    pub fn flush(&self) {
        self.query(&["FLUSHALL"])
    }

    /// A field of INFO, as `info("replication", "role")`; panics when there is none.
    pub fn info(&self, section: &str, field: &str) -> String {
        let info: String = self.query(&["INFO", section]);
        let value = info_field(&info, field).map(str::to_owned);
        value.unwrap_or_else(|| panic!("{}: INFO {section} has no {field}", self.kind()))
    }

    /// How often each command ran since the start or [`reset_stats`](Self::reset_stats), by its
    /// lower-case name; a subcommand is `client|setinfo`, but only `client` on Redis 6.2.
    ///
    /// Commands that scripts call count as well, and so do the harness's own queries, these calls
    /// included (`info`, `config`). Commands refused by the ACL do not count.
    pub fn command_counts(&self) -> BTreeMap<String, u64> {
        let info: String = self.query(&["INFO", "commandstats"]);
        let count = |line: &str| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = fields.split(',').find_map(|field| field.strip_prefix("calls="))?;
            Some((name.to_owned(), calls.parse().ok()?))
        };
        info.lines().filter_map(count).filter(|(_, calls)| *calls > 0).collect()
    }

    /// Sets the counters of [`command_counts`](Self::command_counts) to zero.
    pub fn reset_stats(&self) {
        self.query(&["CONFIG", "RESETSTAT"])
    }

    /// Waits at most 10 s until this replica has synchronized with its primary.
    pub fn wait_synced(&self) {
        let up = || self.info("replication", "master_link_status") == "up";
        crate::assert_eventually("the replica is synchronized", Duration::from_secs(10), up);
    }
}

pub(super) fn info_field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim_end)
}
