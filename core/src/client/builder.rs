//! Options of a client.

use std::fmt;
use std::hash::RandomState;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, ManualClock};
use crate::engine::{Connect, EngineConfig};
use crate::error::{Error, Result};
use crate::holds::Holders;
use crate::options::{
    self, CONNECT_TIMEOUT, FENCE_RETENTION, IO_TIMEOUT, MIN_REPLICAS, POOL_SIZE, POOL_TIMEOUT, RENEWAL_THREADS,
    REPLICA_TIMEOUT, TURN, UNAVAILABLE_AFTER,
};
use crate::protocol::Replication;
use crate::token::plain;
use crate::transport::{Cluster, Limits, MemoryServer, Opener, Sentinels, Single, Target, TlsFiles, Transport, Way};

use super::Client;

/// Options of a [`Client`]. Every value is checked by [`build`](ClientBuilder::build), which opens no connection.
#[derive(Clone)]
#[must_use = "nothing happens until build()"]
pub struct ClientBuilder {
    url: String,
    key_prefix: String,
    pool_size: u32,
    connect_timeout: Duration,
    io_timeout: Duration,
    pool_timeout: Option<Duration>,
    renewal_threads: u32,
    unavailable_after: Duration,
    fence_retention: Duration,
    turn: Duration,
    min_replicas: u32,
    replica_timeout: Duration,
    tls: TlsFiles,
    label: Option<String>,
    clock: Option<ManualClock>,
    holders: Holders,
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> ClientBuilder {
        ClientBuilder {
            url: url.to_owned(),
            key_prefix: options::KEY_PREFIX.to_owned(),
            pool_size: POOL_SIZE.default,
            connect_timeout: CONNECT_TIMEOUT.default_value(),
            io_timeout: IO_TIMEOUT.default_value(),
            pool_timeout: None,
            renewal_threads: RENEWAL_THREADS.default,
            unavailable_after: UNAVAILABLE_AFTER.default_value(),
            fence_retention: FENCE_RETENTION.default_value(),
            turn: TURN.default_value(),
            min_replicas: MIN_REPLICAS.default,
            replica_timeout: REPLICA_TIMEOUT.default_value(),
            tls: TlsFiles::default(),
            label: None,
            clock: None,
            holders: Holders::THREADS,
        }
    }

    /// What stands before every name to make its key; plain clients that share a key must use the same.
    /// At most 256 bytes. Defaults to `lock:`.
    pub fn key_prefix(mut self, key_prefix: &str) -> ClientBuilder {
        self.key_prefix = key_prefix.to_owned();
        self
    }

    /// Connections that callers share, on a cluster for each node; waiters hold none while they sleep. Releases have one
    /// more for when all are busy. 1 to 1024. Defaults to 8.
    pub fn pool_size(mut self, pool_size: u32) -> ClientBuilder {
        self.pool_size = pool_size;
        self
    }

    /// Limit of opening a connection, with name lookup and login, and with finding the primary behind sentinels. 10 ms to 60 s. Defaults to 1 s.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> ClientBuilder {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Limit of one request and its reply. 10 ms to 60 s. Defaults to 1 s.
    pub fn io_timeout(mut self, io_timeout: Duration) -> ClientBuilder {
        self.io_timeout = io_timeout;
        self
    }

    /// Limit of the wait for a free connection of the pool. 10 ms to 60 s. Defaults to what is left of the call's time.
    pub fn pool_timeout(mut self, pool_timeout: Duration) -> ClientBuilder {
        self.pool_timeout = Some(pool_timeout);
        self
    }

    /// Threads that renew leases, each with a connection of its own. 1 to 64. Defaults to 2.
    pub fn renewal_threads(mut self, renewal_threads: u32) -> ClientBuilder {
        self.renewal_threads = renewal_threads;
        self
    }

    /// Continuous outage after which an acquire without a limit gives up. 100 ms to 24 h. Defaults to 10 s.
    pub fn unavailable_after(mut self, unavailable_after: Duration) -> ClientBuilder {
        self.unavailable_after = unavailable_after;
        self
    }

    /// How long the server keeps a lock's last fence after a grant; fences grow without it too, by the server's
    /// clock. 1 s to 30 days. Defaults to 1 h.
    pub fn fence_retention(mut self, fence_retention: Duration) -> ClientBuilder {
        self.fence_retention = fence_retention;
        self
    }

    /// How long a released lock stays reserved for the first waiter. 500 ms to 10 s. Defaults to 1 s.
    pub fn turn(mut self, turn: Duration) -> ClientBuilder {
        self.turn = turn;
        self
    }

    /// How many replicas must acknowledge a grant before it is one: with fewer it is released again, and the acquire fails
    /// with [`NotReplicated`](Error::NotReplicated). This narrows the hole that a failover opens and does not close it:
    /// releases and renewals are not acknowledged, and no server has to promote a replica that has acknowledged.
    ///
    /// Each grant then takes one more request, `WAIT`, over the same connection, which the access rules must allow. A call
    /// may block for `replica_timeout` + 100 ms longer than without. `memory://` has no replicas. 0 to 16; 0 asks none. Defaults
    /// to 0.
    pub fn min_replicas(mut self, min_replicas: u32) -> ClientBuilder {
        self.min_replicas = min_replicas;
        self
    }

    /// How long the server waits for the acknowledgement of a grant by `min_replicas`; less where the caller's time or the
    /// ttl ends before. An idle server waits up to 100 ms longer. The lease's own time goes on meanwhile. 10 ms to 60 s.
    /// Defaults to 100 ms.
    pub fn replica_timeout(mut self, replica_timeout: Duration) -> ClientBuilder {
        self.replica_timeout = replica_timeout;
        self
    }

    /// A PEM file with the certificates of the authorities that may vouch for a `rediss://` server: only these are trusted
    /// then, and the platform's store is not. Read by [`build`](ClientBuilder::build), which fails when the file cannot be
    /// used; a change of the file needs a new client. Defaults to the platform's store.
    pub fn tls_ca(mut self, path: impl AsRef<Path>) -> ClientBuilder {
        self.tls.ca = Some(path.as_ref().to_owned());
        self
    }

    /// A PEM file with the certificate that this client shows to a `rediss://` server, with those between it and its
    /// authority behind it; together with [`tls_key`](ClientBuilder::tls_key), and read as
    /// [`tls_ca`](ClientBuilder::tls_ca). Defaults to none.
    pub fn tls_cert(mut self, path: impl AsRef<Path>) -> ClientBuilder {
        self.tls.cert = Some(path.as_ref().to_owned());
        self
    }

    /// A PEM file with the private key of [`tls_cert`](ClientBuilder::tls_cert), not encrypted. Read as
    /// [`tls_ca`](ClientBuilder::tls_ca). Defaults to none.
    pub fn tls_key(mut self, path: impl AsRef<Path>) -> ClientBuilder {
        self.tls.key = Some(path.as_ref().to_owned());
        self
    }

    /// A word that shows in tokens and `inspect`, to tell workers of one process or host apart: 1 to 64 ASCII letters,
    /// digits, `.`, `_`, `-`, `/`. Defaults to none.
    pub fn label(mut self, label: &str) -> ClientBuilder {
        self.label = Some(label.to_owned());
        self
    }

    /// Lets a test move the time of a `memory://` client. Defaults to the machine's clock.
    pub fn manual_clock(mut self, clock: &ManualClock) -> ClientBuilder {
        self.clock = Some(clock.clone());
        self
    }

    /// For bindings whose tasks share threads: `current` gives the number of the holder that is running, from
    /// [`new_holder`](crate::new_holder) or [`thread_holder`](crate::thread_holder), and `name` what errors call the holder
    /// of a number. Both must return at once. Defaults to threads.
    pub fn holder_function(mut self, current: fn() -> u64, name: fn(u64) -> String) -> ClientBuilder {
        self.holders = Holders { current, name: Some(name) };
        self
    }

    /// Checks every option, and reads the files that they name. Opens no connection and starts nothing.
    ///
    /// # Errors
    /// [`Config`](Error::Config), naming the option and what it accepts.
    pub fn build(self) -> Result<Client> {
        if self.key_prefix.len() > options::MAX_PREFIX_BYTES {
            let expected = format!("at most {} bytes of UTF-8", options::MAX_PREFIX_BYTES);
            return Err(Error::config("key_prefix", format_args!("<{} bytes>", self.key_prefix.len()), expected));
        }
        if let Some(label) = &self.label
            && (label.is_empty() || label.len() > options::MAX_LABEL_BYTES || !label.chars().all(plain))
        {
            let expected = format!("1 to {} ASCII letters, digits, '.', '_', '-', '/'", options::MAX_LABEL_BYTES);
            return Err(Error::config("label", format_args!("{label:?}"), expected));
        }
        let limits = Limits {
            connect: CONNECT_TIMEOUT.check(self.connect_timeout)?,
            io: IO_TIMEOUT.check(self.io_timeout)?,
            pool: self.pool_timeout.map(|limit| POOL_TIMEOUT.check(limit)).transpose()?,
        };
        let pool_size = POOL_SIZE.check(self.pool_size)?;
        let wanted = MIN_REPLICAS.check(self.min_replicas)?;
        let replication = Replication { wanted, within: REPLICA_TIMEOUT.check(self.replica_timeout)? };
        let clock = self.clock.clone().map_or(Clock::System, Clock::Manual);
        let mut target = Target::parse(&self.url)?;
        self.tls.apply(&mut target)?;
        let clustered = matches!(target, Target::Cluster(_));
        let connect: Box<dyn Fn() -> Arc<dyn Transport> + Send + Sync> = match target {
            Target::Memory(name) => {
                let server = MemoryServer::open(name.as_deref(), &clock)?;
                Box::new(move || Arc::new(server.clone()))
            }
            _ if self.clock.is_some() => {
                let expected = "a memory:// URL: a real server keeps its own time";
                return Err(Error::config("manual_clock", "a manual clock", expected));
            }
            Target::Server(endpoint) => {
                let clock = clock.clone();
                Box::new(move || {
                    let opener = Opener { way: Way::Direct((*endpoint).clone()), limits, clock: clock.clone() };
                    Arc::new(Single::pooled(opener, pool_size))
                })
            }
            Target::Cluster(seeds) => {
                let clock = clock.clone();
                Box::new(move || Arc::new(Cluster::pooled(&seeds, limits, &clock, pool_size)))
            }
            Target::Sentinel(ring) => {
                let clock = clock.clone();
                Box::new(move || {
                    let way = Way::Primary(Box::new(Sentinels::new(&ring, limits, &clock)));
                    Arc::new(Single::pooled(Opener { way, limits, clock: clock.clone() }, pool_size))
                })
            }
        };
        let config = EngineConfig {
            clock,
            connect: Connect(connect),
            clustered,
            connect_timeout: limits.connect,
            io_timeout: limits.io,
            unavailable_after: UNAVAILABLE_AFTER.check(self.unavailable_after)?,
            fence_retention: FENCE_RETENTION.check(self.fence_retention)?,
            turn: TURN.check(self.turn)?,
            replication: (wanted > 0).then_some(replication),
            renewal_threads: RENEWAL_THREADS.check(self.renewal_threads)?,
            pool_size,
            label: self.label,
            hashing: RandomState::new(),
            holders: self.holders,
        };
        Ok(Client::new(config, self.key_prefix))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may carry a password.
        f.debug_struct("ClientBuilder").field("key_prefix", &self.key_prefix).finish_non_exhaustive()
    }
}
