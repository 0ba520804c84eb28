//! Clients: where locks come from.

mod builder;
mod info;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use builder::ClientBuilder;
pub use info::LockInfo;

use crate::check::{Finding, check_server};
use crate::engine::{Engine, EngineConfig};
use crate::error::{Error, Result};
use crate::events::Stats;
use crate::fork;
use crate::holds::{Ended, HashedKey};
use crate::lease::LockSpec;
use crate::lock::{Acquiring, Lease, LeaseRequest, Lock, Wanted, acquire_grant, patience_until};
use crate::options::LockOptions;
use crate::protocol::{Key, Release};
use crate::signals::Quiet;
use crate::token::Token;
use crate::waiting::{CancelToken, Patience};

/// A way to one Redis or Valkey server, shared by all threads; clones are the same client.
///
/// Building one opens nothing. Connections and threads begin when first needed and end with the last clone,
/// lock and guard, or with [`close`](Client::close). A forked child may go on using it: it holds nothing of what
/// its parent held, and gets connections of its own. Dropping the last handle ends the client and can block as long as
/// [`close`](Client::close).
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

/// What clones share.
pub(crate) struct ClientInner {
    config: Arc<EngineConfig>,
    key_prefix: String,
    first: EngineLink,
}

/// The engine of one process; a forked child hangs its own behind its parent's, without any lock.
struct EngineLink {
    engine: Arc<Engine>,
    next: OnceLock<Box<EngineLink>>,
}

impl Client {
    /// Starts building a client of the server at `url`: `redis://`, `rediss://` (feature `tls`), `unix://`,
    /// `redis+sentinel://host[:port],…/service` for the primary that sentinels name, `redis+cluster://host[:port],…` for a
    /// cluster, or `memory://` for a store inside this process.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// A client of the server at `url`, with defaults.
    ///
    /// # Errors
    /// [`Config`](Error::Config).
    pub fn open(url: &str) -> Result<Client> {
        Client::builder(url).build()
    }

    pub(crate) fn new(config: EngineConfig, key_prefix: String) -> Client {
        let config = Arc::new(config);
        let engine = Arc::new(Engine::new(&config, fork::detect()));
        let first = EngineLink { engine, next: OnceLock::new() };
        Client { inner: Arc::new(ClientInner { config, key_prefix, first }) }
    }

    /// The lock `name`, with default options. Asks no server.
    ///
    /// # Errors
    /// [`Config`](Error::Config) for a name that is empty, longer than 1024 bytes, or contains `:redlatch:`, or whose key
    /// with its prefix is all in braces.
    pub fn lock(&self, name: &str) -> Result<Lock> {
        self.lock_with(name, LockOptions::new())
    }

    /// The lock `name`, with options of its own. Asks no server.
    ///
    /// # Errors
    /// [`Config`](Error::Config) for a refused name or option.
    pub fn lock_with(&self, name: &str, options: LockOptions) -> Result<Lock> {
        let spec = self.spec(name, options)?;
        let key = self.inner.hashed(&spec.key);
        Ok(Lock::new(self.inner.clone(), spec, key))
    }

    /// Blocks until the lock is granted as a [`Lease`]; errors as [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`Config`](Error::Config) for a refused name or option.
    pub fn lease(&self, name: &str, options: LockOptions) -> Result<Lease> {
        loop {
            // A wait without limit ends with a grant or an error.
            if let Some(lease) = self.lease_with(name, options.clone(), Patience::Forever, None)? {
                return Ok(lease);
            }
        }
    }

    /// Asks once for a [`Lease`]: `None` when someone else has the lock; as [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`lease`](Client::lease).
    pub fn try_lease(&self, name: &str, options: LockOptions) -> Result<Option<Lease>> {
        self.lease_with(name, options, Patience::Try, None)
    }

    /// Blocks for a [`Lease`], for `wait` at most; as [`Lock::try_acquire_for`].
    ///
    /// # Errors
    /// As [`lease`](Client::lease).
    pub fn try_lease_for(&self, name: &str, options: LockOptions, wait: Duration) -> Result<Option<Lease>> {
        self.lease_with(name, options, self.inner.patience(wait), None)
    }

    /// As [`lease`](Client::lease) without `wait`, as [`try_lease_for`](Client::try_lease_for) with one, until `cancel` is
    /// fired from another thread.
    ///
    /// # Errors
    /// As [`lease`](Client::lease); [`Cancelled`](Error::Cancelled).
    pub fn lease_cancellable(
        &self,
        name: &str,
        options: LockOptions,
        wait: Option<Duration>,
        cancel: &CancelToken,
    ) -> Result<Option<Lease>> {
        let patience = wait.map_or(Patience::Forever, |wait| self.inner.patience(wait));
        self.lease_with(name, options, patience, Some(cancel))
    }

    /// Begins an acquire of a [`Lease`] that the caller drives step by step, as [`Lock::begin`].
    ///
    /// # Errors
    /// [`Config`](Error::Config) for a refused name or option.
    pub fn begin_lease(
        &self,
        name: &str,
        options: LockOptions,
        wait: Option<Duration>,
        cancel: Option<&CancelToken>,
    ) -> Result<LeaseRequest> {
        let spec = self.spec(name, options)?;
        let patience = wait.map_or(Patience::Forever, |wait| self.inner.patience(wait));
        let engine = self.inner.engine_for_io();
        Ok(LeaseRequest::new(Acquiring::new(engine, &spec, patience, Wanted::Lock, cancel), engine))
    }

    fn lease_with(
        &self,
        name: &str,
        options: LockOptions,
        patience: Patience,
        cancel: Option<&CancelToken>,
    ) -> Result<Option<Lease>> {
        let spec = self.spec(name, options)?;
        let engine = self.inner.engine_for_io();
        let granted = acquire_grant(engine, &spec, patience, Wanted::Lock, cancel)?;
        Ok(granted.map(|grant| Lease::new(engine.clone(), grant)))
    }

    /// Takes over the lease that `token` proves, from [`Lease::into_token`] of this or another process: it becomes
    /// a new lease with a new token and a new, larger fence. `None` when the lock is not held by that token any more.
    ///
    /// Blocks for one round trip, and while the server does not answer for `connect_timeout` + `io_timeout` at most;
    /// longer with [`min_replicas`](ClientBuilder::min_replicas), as [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]; after [`Unavailable`](Error::Unavailable) the lock may have been taken over and then
    /// released again; after [`NotReplicated`](Error::NotReplicated) it was.
    /// [`Config`](Error::Config) for a refused name, option or token.
    pub fn adopt(&self, name: &str, token: &str, options: LockOptions) -> Result<Option<Lease>> {
        let from = Token::handed_over(token)?;
        let spec = self.spec(name, options)?;
        let engine = self.inner.engine_for_io();
        let granted = acquire_grant(engine, &spec, Patience::Try, Wanted::HandedOver(from), None)?;
        Ok(granted.map(|grant| Lease::new(engine.clone(), grant)))
    }

    /// What the server knows of the lock `name` now; `None` when nobody has it. One round trip within `io_timeout`.
    ///
    /// # Errors
    /// [`KeyType`](Error::KeyType) when the key holds something else; errors from the server; [`Closed`](Error::Closed).
    pub fn inspect(&self, name: &str) -> Result<Option<LockInfo>> {
        let key = self.inner.key(name)?;
        self.inner.inspect(name, &key)
    }

    /// Looks whether the server is fit for locks, to be called once, at start-up or by hand: its settings, state and version,
    /// the access rules, replicas, sentinels or nodes of the cluster, clocks, and how long a request takes from here. The
    /// worst comes first. Where no finding is a [`Problem`](crate::Severity::Problem), and none says that a part was
    /// [`NotChecked`](crate::FindingKind::NotChecked), locks can be had, and are kept as long as the server runs as it does
    /// now, if the user has all access rules of `docs/operations.md`: only a part of them is tried. That page has the list of
    /// kinds.
    ///
    /// Each server is asked over one connection of its own, which is closed before this returns. Nothing is written: it asks
    /// with commands that only read, or that a server refuses for their arguments, and publishes one message that nobody
    /// listens for. What the access rules do not let it ask is such a finding, never an error.
    ///
    /// Blocks for `connect_timeout` + 4 × `io_timeout` at most for one server or node of a cluster, and for `connect_timeout` +
    /// `io_timeout` for a sentinel, one after another; in all for 5 × (`connect_timeout` + `io_timeout`) at most. `memory://`
    /// is asked nothing.
    ///
    /// ```
    /// use redlatch::{Client, Severity};
    ///
    /// # fn main() -> Result<(), redlatch::Error> {
    /// let client = Client::open("memory://")?;
    /// let findings = client.check_server()?;
    /// for finding in &findings {
    ///     println!("{finding}");
    /// }
    /// assert!(!findings.iter().any(|finding| finding.severity() == Severity::Problem), "not fit for locks");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unavailable`](Error::Unavailable) and [`Authentication`](Error::Authentication), and what else keeps a connection from
    /// being opened: then there is nothing to judge. [`Closed`](Error::Closed).
    pub fn check_server(&self) -> Result<Vec<Finding>> {
        let engine = self.inner.engine_for_io();
        if engine.is_closed() {
            return Err(engine.closed_error("check", ""));
        }
        let began = engine.config.clock.now();
        let key = self.inner.key("check").ok();
        check_server(&engine.config, key.as_ref())
            .map_err(|fault| engine.server_error("check", fault, engine.config.clock.now().since(began)))
    }

    /// Takes the lock `name` away from whoever has it, for operators: its holder finds the lease lost as
    /// [`Taken`](crate::LostReason::Taken) at its next renewal, and may work on until then. False when nobody had it.
    ///
    /// Deletes the key only if it still has the token that was read just before. At most two round trips, each
    /// within `io_timeout`.
    ///
    /// # Errors
    /// As [`inspect`](Client::inspect); [`Incompatible`](Error::Incompatible) for a holder whose token is not UTF-8 text.
    pub fn force_release(&self, name: &str) -> Result<bool> {
        let Some(info) = self.inspect(name)? else { return Ok(false) };
        let engine = self.inner.engine_for_io();
        let key = self.inner.key(name)?;
        if info.token().as_str().contains(char::REPLACEMENT_CHARACTER) {
            let detail = format!("its holder's token is not UTF-8 text: delete the key {:?} by hand", key.as_str());
            let (name, server) = (name.to_owned(), engine.transport.server().to_owned());
            return Err(Error::Incompatible { action: "release", name, server, detail });
        }
        let request = Release { key: &key, token: info.token(), tombstone: None, turn: engine.config.turn };
        let began = engine.config.clock.now();
        let by = began.after(engine.config.io_timeout);
        let mut answer = engine.transport.release(&request, by);
        // A try that got no answer may have done it: the token was there just before.
        let mut may_be_done = false;
        if let Err(fault) = &answer
            && fault.is_worth_repeating()
        {
            may_be_done = fault.unanswered;
            let _quiet = Quiet::begin();
            answer = engine.transport.release(&request, by);
        }
        let answer = answer.map_err(|fault| {
            let tried = engine.config.clock.now().since(began);
            engine.key_error("release", name, &key, fault, tried)
        })?;
        let released = answer.reply.released || may_be_done;
        tracing::warn!(lock = name, owner = info.owner(), released, "lock released by force");
        Ok(released)
    }

    /// For bindings with a [`holder_function`](ClientBuilder::holder_function): releases in the background what the holder of
    /// this number still has, because it has ended. Logs a warning for each lock. Never blocks.
    pub fn holder_ended(&self, holder: u64) {
        fork::detect();
        self.inner.engine().abandon(Ended::Holder(holder));
    }

    /// For tests of programs that use redlatch: takes the lock `name` away on the server, and lets those who hold it through
    /// this client know at once, as [`Taken`](crate::LostReason::Taken). False when nobody had it.
    ///
    /// # Errors
    /// As [`force_release`](Client::force_release).
    pub fn lose(&self, name: &str) -> Result<bool> {
        let taken = self.force_release(name)?;
        self.inner.engine().keeper.lose_named(name);
        Ok(taken)
    }

    /// The server of the URL, without credentials.
    pub fn server(&self) -> &str {
        self.inner.engine().transport.server()
    }

    /// What stands before every name to make its key.
    pub fn key_prefix(&self) -> &str {
        &self.inner.key_prefix
    }

    /// Whether [`close`](Client::close) was called.
    pub fn is_closed(&self) -> bool {
        self.inner.engine().is_closed()
    }

    /// Counters, timings and gauges of this client. Asks no server; briefly locks what it reads.
    pub fn stats(&self) -> Stats {
        self.inner.engine().stats()
    }

    /// Ends the client: waiters return [`Closed`](Error::Closed), held leases are lost as
    /// [`Closed`](crate::LostReason::Closed) and their keys lapse by ttl, and so that a holder has that time to
    /// notice nothing is deleted. Threads are joined, except the calling one when this is called from a callback.
    ///
    /// Blocks for 2 × `io_timeout` at most, and for a callback that runs. Calling it again does nothing.
    pub fn close(&self) {
        self.inner.engine_for_io().close();
    }

    pub(crate) fn not_held(&self, name: &str, detail: &str) -> Error {
        self.inner.engine().not_held(name, detail)
    }

    fn spec(&self, name: &str, options: LockOptions) -> Result<Arc<LockSpec>> {
        let key = self.inner.key(name)?;
        Ok(Arc::new(LockSpec { key, options: options.validated()? }))
    }
}

impl ClientInner {
    /// The engine of this process, as far as a fork is known.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        let generation = fork::generation();
        let mut link = &self.first;
        while link.engine.generation != generation {
            link = link.next.get_or_init(|| {
                let engine = Arc::new(Engine::new(&self.config, generation));
                Box::new(EngineLink { engine, next: OnceLock::new() })
            });
        }
        &link.engine
    }

    /// The key of the lock `name`, if the server can have it.
    fn key(&self, name: &str) -> Result<Key> {
        let key = Key::new(&self.key_prefix, name)?;
        if self.config.clustered { key.for_cluster() } else { Ok(key) }
    }

    /// The engine of this process, for a call that talks to a server.
    pub(crate) fn engine_for_io(&self) -> &Arc<Engine> {
        fork::detect();
        self.engine()
    }

    /// The number of the running holder.
    pub(crate) fn holder(&self) -> u64 {
        (self.config.holders.current)()
    }

    pub(crate) fn hashed(&self, key: &Key) -> HashedKey {
        HashedKey::new(&self.config.hashing, key.text())
    }

    pub(crate) fn patience(&self, wait: Duration) -> Patience {
        patience_until(self.config.clock.now(), wait)
    }

    pub(crate) fn inspect(&self, name: &str, key: &Key) -> Result<Option<LockInfo>> {
        let engine = self.engine_for_io();
        if engine.is_closed() {
            return Err(engine.closed_error("inspect", name));
        }
        let clock = &engine.config.clock;
        let began = clock.now();
        let by = began.after(engine.config.io_timeout);
        let mut outcome = engine.transport.inspect(key, by);
        while let Err(fault) = &outcome
            && fault.is_worth_repeating()
            && clock.now() < by
        {
            let _quiet = fault.interrupted.then(Quiet::begin);
            outcome = engine.transport.inspect(key, by);
        }
        match outcome {
            Ok(answer) => Ok(LockInfo::new(name, answer.reply)),
            Err(fault) => Err(engine.key_error("inspect", name, key, fault, clock.now().since(began))),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.inner.engine();
        f.debug_struct("Client")
            .field("server", &engine.transport.server())
            .field("key_prefix", &self.inner.key_prefix)
            .field("closed", &engine.is_closed())
            .finish_non_exhaustive()
    }
}
