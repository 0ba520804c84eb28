//! The working parts of a client in one process. A forked child gets an engine of its own.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::error::{Error, LostReason, Result};
use crate::events::{Count, Counters, Gauges, LongestHold, Stats};
use crate::fork;
use crate::holds::{self, HoldTable, Holders, ThreadEnd};
use crate::lease::{Ended, Grant, LockSpec};
use crate::protocol::{Key, Replication, SERVER_TICK};
use crate::renewal::{Abandoned, Janitor, Job, Keeper, KeeperOptions};
use crate::token::Owner;
use crate::transport::{Fault, FaultKind, Transport};
use crate::waiting::{Inbox, WaiterRegistry};

/// What an engine is built from; the same in every process.
#[derive(Debug)]
pub(crate) struct EngineConfig {
    pub(crate) clock: Clock,
    pub(crate) connect: Connect,
    /// Keys live in the slots of a cluster.
    pub(crate) clustered: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) io_timeout: Duration,
    pub(crate) unavailable_after: Duration,
    pub(crate) fence_retention: Duration,
    pub(crate) turn: Duration,
    pub(crate) replication: Option<Replication>,
    pub(crate) renewal_threads: u32,
    /// Connections that callers share, for each server.
    pub(crate) pool_size: u32,
    pub(crate) label: Option<String>,
    pub(crate) hashing: RandomState,
    pub(crate) holders: Holders,
}

impl EngineConfig {
    /// How long an acquire may take at most until it has an answer of any kind.
    pub(crate) fn answer_limit(&self) -> Duration {
        let replicas = self.replication.map_or(Duration::ZERO, |replication| replication.within + SERVER_TICK);
        self.connect_timeout + self.io_timeout + replicas
    }
}

/// Makes the way to the server; opens nothing.
pub(crate) struct Connect(pub(crate) Box<dyn Fn() -> Arc<dyn Transport> + Send + Sync>);

impl std::fmt::Debug for Connect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connect")
    }
}

/// The parts. Threads and sockets begin when first needed.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) generation: u64,
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) owner: Owner,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) janitor: Arc<Janitor>,
    pub(crate) holds: Arc<HoldTable<Grant>>,
    pub(crate) waiters: Arc<WaiterRegistry>,
    pub(crate) inbox: Arc<Inbox>,
    closed: AtomicBool,
}

impl Engine {
    pub(crate) fn new(config: &Arc<EngineConfig>, generation: u64) -> Engine {
        let transport = (config.connect.0)();
        let counters = Arc::new(Counters::new());
        let janitor = Janitor::new(&config.clock, config.io_timeout, config.turn, transport.clone(), counters.clone());
        let options = KeeperOptions { threads: config.renewal_threads, io_timeout: config.io_timeout };
        let keeper = Keeper::new(&config.clock, options, transport.clone(), counters.clone(), janitor.clone());
        let waiters = Arc::new(WaiterRegistry::new(&config.clock));
        let inbox = Inbox::new(&config.clock, transport.clone(), waiters.clone(), counters.clone());
        Engine {
            generation,
            config: config.clone(),
            owner: Owner::of_this_process(config.label.as_deref()),
            transport,
            counters,
            keeper,
            janitor,
            holds: Arc::new(HoldTable::new()),
            waiters,
            inbox,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether this engine belongs to the parent of the running process.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Fails unless the lease is valid now. Reads the clock; asks no server.
    pub(crate) fn check(&self, grant: &Arc<Grant>) -> Result<()> {
        if self.is_inherited() {
            // No callback: whatever the parent set belongs to the parent.
            return Err(grant.lost_info(LostReason::Forked).into());
        }
        if grant.state.is_live(self.config.clock.now()) {
            return Ok(());
        }
        match self.keeper.expire(grant) {
            Some(Ended::Now(reason) | Ended::Before(reason)) => Err(grant.lost_info(reason).into()),
            Some(Ended::Released) => Err(self.not_held(grant.spec.name(), "it was released before")),
            None => Ok(()),
        }
    }

    /// Why the lease is lost, if it is.
    pub(crate) fn lost(&self, grant: &Arc<Grant>) -> Option<LostReason> {
        match self.check(grant) {
            Err(Error::Lost(info)) => Some(info.reason()),
            _ => None,
        }
    }

    /// Time left of the lease.
    pub(crate) fn remaining(&self, grant: &Grant) -> Duration {
        if self.is_inherited() { Duration::ZERO } else { grant.state.remaining(self.config.clock.now()) }
    }

    pub(crate) fn not_held(&self, name: &str, detail: impl Into<String>) -> Error {
        let holders = &self.config.holders;
        let caller = holders.name((holders.current)(), &std::thread::current());
        Error::NotHeld { name: name.to_owned(), caller, detail: detail.into() }
    }

    /// A fault in the words of the caller's request.
    pub(crate) fn error(&self, action: &'static str, spec: &LockSpec, fault: Fault, tried: Duration) -> Error {
        self.key_error(action, spec.name(), &spec.key, fault, tried)
    }

    /// As [`error`](Engine::error), where there is only a name.
    pub(crate) fn key_error(
        &self,
        action: &'static str,
        name: &str,
        key: &Key,
        fault: Fault,
        tried: Duration,
    ) -> Error {
        self.translate(action, name, Some(key), fault, tried)
    }

    /// As [`error`](Engine::error), of a request that is about no lock.
    pub(crate) fn server_error(&self, action: &'static str, fault: Fault, tried: Duration) -> Error {
        self.translate(action, "", None, fault, tried)
    }

    fn translate(&self, action: &'static str, name: &str, key: Option<&Key>, fault: Fault, tried: Duration) -> Error {
        let (name, server) = (name.to_owned(), self.transport.server().to_owned());
        let denied_key = key.filter(|_| fault.is_about_keys());
        let Fault { kind, detail, unanswered: _, granted: _, stale: _, interrupted: _, source } = fault;
        match kind {
            FaultKind::Unreachable | FaultKind::Refusing => {
                Error::Unavailable { action, name, server, tried, detail, source }
            }
            FaultKind::Authentication => Error::Authentication { action, name, server, detail },
            FaultKind::Permission => {
                let keys = denied_key.map(|key| {
                    let sibling = key.of(crate::protocol::Role::Queue).to_string();
                    format!("; its keys are {:?} and such as {sibling:?}", key.as_str())
                });
                Error::Permission { action, name, server, detail: detail + &keys.unwrap_or_default() }
            }
            FaultKind::KeyType(role) => {
                let key = key.map_or_else(String::new, |key| key.of(role).to_string());
                Error::KeyType { action, name, key, server, detail: role.content().to_owned() }
            }
            FaultKind::Incompatible => Error::Incompatible { action, name, server, detail },
        }
    }

    /// A grant that was given up because too few replicas acknowledged it.
    pub(crate) fn not_replicated(&self, name: &str, acknowledged: u32, waited: Duration) -> Error {
        let wanted = self.config.replication.map_or(0, |replication| replication.wanted);
        let (name, server) = (name.to_owned(), self.transport.server().to_owned());
        Error::NotReplicated { name, server, wanted, acknowledged, waited }
    }

    pub(crate) fn closed_error(&self, action: &'static str, name: &str) -> Error {
        Error::Closed { action, name: name.to_owned() }
    }

    pub(crate) fn stats(&self) -> Stats {
        let (held_now, longest) = self.keeper.held();
        let longest_hold_now = longest.map(|(name, held)| LongestHold { name, held });
        Stats::read(&self.counters, Gauges { held_now, background_now: self.janitor.pending(), longest_hold_now })
    }

    /// Ends everything: waiters return, leases are lost as closed, the background gets one more `io_timeout`.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) || self.is_inherited() {
            return;
        }
        let by = self.config.clock.now().after(self.config.io_timeout);
        let beds = self.waiters.close();
        self.keeper.lose_all(LostReason::Closed);
        // What they leave to the background comes before its end.
        self.waiters.await_leaving(&beds, by);
        self.shut_down(by);
        self.transport.close();
    }

    fn shut_down(&self, by: Moment) {
        self.keeper.end();
        self.inbox.end();
        self.janitor.end(by);
        self.keeper.join();
        self.inbox.join();
        self.janitor.join();
    }
}

impl ThreadEnd for Engine {
    /// Runs while the thread's local state is being torn down, perhaps that of the log already: logs nothing.
    fn thread_ended(&self, thread: u64) {
        fork::detect();
        if self.is_inherited() {
            return;
        }
        self.abandon(holds::Ended::Thread(thread));
    }
}

impl Engine {
    /// Releases in the background what those who have ended still hold.
    pub(crate) fn abandon(&self, ended: holds::Ended) {
        let what = match ended {
            holds::Ended::Thread(_) | holds::Ended::Holder(_) => Abandoned::Holder,
            holds::Ended::Everyone => Abandoned::Client,
        };
        for hold in self.holds.abandon(ended) {
            self.abandon_grant(&hold.grant, what);
        }
    }

    /// Releases a lease in the background. Never blocks.
    pub(crate) fn abandon_grant(&self, grant: &Arc<Grant>, what: Abandoned) {
        let live = grant.state.release().is_ok();
        self.keeper.forget(grant);
        let now = self.config.clock.now();
        if live {
            self.counters.held(now.since(grant.granted), grant.ttl());
        }
        self.counters.one(Count::Abandoned);
        if live {
            let until = now.after(grant.ttl());
            self.janitor.release(Job::of_ended_holder(grant, what, now, until));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        fork::detect();
        if self.is_inherited() {
            // The parent's threads do not exist here, its locks may be held by them for ever, and its
            // sockets are the parent's: a TLS goodbye would end the parent's session. Leak all of it.
            std::mem::forget(self.transport.clone());
            std::mem::forget(self.counters.clone());
            std::mem::forget(self.keeper.clone());
            std::mem::forget(self.janitor.clone());
            std::mem::forget(self.holds.clone());
            std::mem::forget(self.waiters.clone());
            std::mem::forget(self.inbox.clone());
        } else if !self.is_closed() {
            // Holds whose guards were forgotten: nobody can release them any more.
            self.abandon(holds::Ended::Everyone);
            self.shut_down(self.config.clock.now().after(self.config.io_timeout));
        }
    }
}
