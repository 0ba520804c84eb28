//! Locks that belong to the thread that acquires them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::ClientInner;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::fork;
use crate::holds::{HashedKey, Hold, Left, ThreadEnd, current_thread, on_thread_end};
use crate::lease::{Grant, LockSpec};
use crate::waiting::{CancelToken, Patience};

use super::{Acquiring, Guard, LockRequest, Released, Wanted, acquire_grant, releasing};

/// A lock by name, re-entrant per thread.
///
/// Made by [`Client::lock`](crate::Client::lock); cheap to clone and to make again: what is held is known by
/// client, thread and name, so two handles of one name are the same lock. `Send` and `Sync`.
#[derive(Clone)]
pub struct Lock {
    client: Arc<ClientInner>,
    spec: Arc<LockSpec>,
    key: HashedKey,
}

impl Lock {
    pub(crate) fn new(client: Arc<ClientInner>, spec: Arc<LockSpec>, key: HashedKey) -> Lock {
        Lock { client, spec, key }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// Blocks until this thread has the lock.
    ///
    /// Waits as long as someone else has it; while the server is away, for `unavailable_after` at most. A nested
    /// call of the thread that has the lock returns at once and asks no server.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost) when this thread had the lock and its lease was lost: release every guard of it first.
    /// [`Unavailable`](Error::Unavailable), [`Authentication`](Error::Authentication), [`Permission`](Error::Permission),
    /// [`NotReplicated`](Error::NotReplicated), [`KeyType`](Error::KeyType), [`Incompatible`](Error::Incompatible) from the server; [`Closed`](Error::Closed).
    pub fn acquire(&self) -> Result<Guard> {
        loop {
            // A wait without limit ends with a grant or an error.
            if let Some(guard) = self.acquire_with(Patience::Forever, None)? {
                return Ok(guard);
            }
        }
    }

    /// Asks once: `None` when someone else has the lock.
    ///
    /// Blocks for one round trip; while the server does not answer, for `connect_timeout` + `io_timeout` at most. With
    /// [`min_replicas`](crate::ClientBuilder::min_replicas) it may take `replica_timeout` + 100 ms longer.
    ///
    /// # Errors
    /// As [`acquire`](Lock::acquire).
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.acquire_with(Patience::Try, None)
    }

    /// Blocks until this thread has the lock, for `wait` at most: then `None` when someone else has it.
    ///
    /// `wait` covers everything, connecting included, and has nothing to do with the ttl. A wait below 10 ms may take
    /// 10 ms, so that it gets an answer at all; zero asks once, as [`try_acquire`](Lock::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Lock::acquire); [`Unavailable`](Error::Unavailable) when the time ended without a usable answer.
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.acquire_with(self.client.patience(wait), None)
    }

    /// As [`acquire`](Lock::acquire) without `wait`, as [`try_acquire_for`](Lock::try_acquire_for) with one, until `cancel`
    /// is fired from another thread.
    ///
    /// # Errors
    /// As [`acquire`](Lock::acquire); [`Cancelled`](Error::Cancelled).
    pub fn acquire_cancellable(&self, wait: Option<Duration>, cancel: &CancelToken) -> Result<Option<Guard>> {
        let patience = wait.map_or(Patience::Forever, |wait| self.client.patience(wait));
        self.acquire_with(patience, Some(cancel))
    }

    /// Begins an acquire that the caller drives step by step: with `wait` as [`try_acquire_for`](Lock::try_acquire_for),
    /// without as [`acquire`](Lock::acquire), until `cancel` is fired. Sends nothing yet; the time to wait has begun.
    pub fn begin(&self, wait: Option<Duration>, cancel: Option<&CancelToken>) -> LockRequest {
        let patience = wait.map_or(Patience::Forever, |wait| self.client.patience(wait));
        let engine = self.client.engine_for_io();
        let acquiring = Acquiring::new(engine, &self.spec, patience, Wanted::Lock, cancel);
        let entry = Entry { engine: engine.clone(), key: self.key.clone(), holder: self.client.holder() };
        LockRequest::new(acquiring, entry)
    }

    /// Holds the lock once more if this thread has it, as every acquire does; otherwise `None`. Asks no server.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost), as [`acquire`](Lock::acquire).
    pub fn reacquire(&self) -> Result<Option<Guard>> {
        nested(self.client.engine(), &self.key, self.client.holder())
    }

    /// As [`try_acquire_for`](Lock::try_acquire_for), until an instant.
    ///
    /// # Errors
    /// As [`try_acquire_for`](Lock::try_acquire_for).
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Option<Guard>> {
        self.try_acquire_for(crate::clock::left_until(deadline))
    }

    /// Releases one hold of this thread whose guard was [forgotten](Guard::forget): for code that cannot keep a
    /// guard, such as bindings. Otherwise as [`Guard::release`].
    ///
    /// # Errors
    /// [`NotHeld`](Error::NotHeld) when this thread does not hold the lock; otherwise as [`Guard::release`].
    pub fn release(&self) -> Result<Released> {
        let engine = self.client.engine();
        match self.hold_of(engine) {
            Some(hold) => leave(engine, &hold),
            None => Err(self.not_held(engine)),
        }
    }

    /// A guard's view of this thread's hold, for code that cannot keep the guard; it does not release when dropped.
    ///
    /// # Errors
    /// [`NotHeld`](Error::NotHeld) when this thread does not hold the lock.
    pub fn with_held<T>(&self, look: impl FnOnce(&Guard) -> T) -> Result<T> {
        let engine = self.client.engine();
        let Some(hold) = self.hold_of(engine) else { return Err(self.not_held(engine)) };
        let lent = Lent(Guard::new(engine.clone(), hold));
        Ok(look(&lent.0))
    }

    /// Whether anyone has the lock now, by one round trip within `io_timeout`. Out of date as soon as it is
    /// returned.
    ///
    /// # Errors
    /// From the server, as [`Client::inspect`](crate::Client::inspect).
    pub fn is_locked(&self) -> Result<bool> {
        Ok(self.client.inspect(self.spec.name(), &self.spec.key)?.is_some())
    }

    /// How often this thread holds the lock; 0 when it does not. Asks no server.
    pub fn hold_count(&self) -> u32 {
        self.hold_of(self.client.engine()).map_or(0, |hold| hold.count())
    }

    fn hold_of(&self, engine: &Engine) -> Option<Arc<Hold<Grant>>> {
        engine.holds.get(&self.key, self.client.holder())
    }

    fn acquire_with(&self, patience: Patience, cancel: Option<&CancelToken>) -> Result<Option<Guard>> {
        let holder = self.client.holder();
        let engine = self.client.engine();
        if let Some(guard) = nested(engine, &self.key, holder)? {
            return Ok(Some(guard));
        }
        let engine = self.client.engine_for_io();
        let Some(grant) = acquire_grant(engine, &self.spec, patience, Wanted::Lock, cancel)? else { return Ok(None) };
        Ok(Some(enter(engine, &self.key, holder, grant)))
    }

    fn not_held(&self, engine: &Engine) -> Error {
        let other = engine.holds.other_holder(&self.key, self.client.holder());
        let detail = match other {
            Some(hold) => {
                let (number, thread) = hold.holder();
                let name = engine.config.holders.name(number, thread);
                format!("{name} has it through this client, and only the holder can release it")
            }
            None => "it has not acquired the lock, or has released it before".to_owned(),
        };
        engine.not_held(self.spec.name(), detail)
    }
}

/// Where a grant becomes a hold.
pub(super) struct Entry {
    engine: Arc<Engine>,
    key: HashedKey,
    holder: u64,
}

impl Entry {
    /// One hold more, where the holder has got the lock since it began.
    pub(super) fn nested(&self) -> Result<Option<Guard>> {
        nested(&self.engine, &self.key, self.holder)
    }

    /// One hold less, if there is one. How its release went concerns nobody: nothing has been done under it.
    pub(super) fn leave(&self) {
        if let Some(hold) = self.engine.holds.get(&self.key, self.holder) {
            let _ = leave(&self.engine, &hold);
        }
    }

    pub(super) fn enter(&self, grant: Arc<Grant>) -> Guard {
        enter(&self.engine, &self.key, self.holder, grant)
    }
}

fn nested(engine: &Arc<Engine>, key: &HashedKey, holder: u64) -> Result<Option<Guard>> {
    let Some(hold) = engine.holds.get(key, holder) else { return Ok(None) };
    engine.check(&hold.grant)?;
    hold.enter();
    Ok(Some(Guard::new(engine.clone(), hold)))
}

fn enter(engine: &Arc<Engine>, key: &HashedKey, holder: u64, grant: Arc<Grant>) -> Guard {
    let hold = engine.holds.insert(key, holder, current_thread(), grant);
    let listener: Arc<dyn ThreadEnd> = engine.clone();
    if !on_thread_end(&listener) {
        // Acquired by a destructor of a thread that is ending: renewed, it would be held for ever.
        engine.keeper.renew_no_more(&hold.grant);
    }
    Guard::new(engine.clone(), hold)
}

/// A guard that releases nothing, also when whoever looks at it panics.
struct Lent(Guard);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

/// Gives up one level of a hold; the last one releases the lease.
pub(super) fn leave(engine: &Engine, hold: &Arc<Hold<Grant>>) -> Result<Released> {
    if hold.count() <= 1 {
        // The last one talks to the server.
        fork::detect();
    }
    if engine.is_inherited() {
        // The table of the parent may be locked for ever.
        return Err(hold.grant.lost_info(LostReason::Forked).into());
    }
    match engine.holds.leave(hold) {
        Left::Last => releasing::release(engine, &hold.grant),
        Left::Inner(count) => match engine.lost(&hold.grant) {
            Some(reason) => Err(hold.grant.lost_info(reason).into()),
            None => Ok(Released::StillHeld(count)),
        },
        Left::NotHeld => Err(engine.not_held(hold.grant.spec.name(), "it was released before")),
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.spec.name())
            .field("options", &self.spec.options)
            .finish_non_exhaustive()
    }
}

/// How long to wait for a limit that may be beyond the end of time.
pub(crate) fn patience_until(now: Moment, wait: Duration) -> Patience {
    if wait.is_zero() { Patience::Try } else { Patience::Until(now.after(wait)) }
}
