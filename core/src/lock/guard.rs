//! The proof that this thread has a lock.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::fork;
use crate::holds::Hold;
use crate::lease::Grant;
use crate::token::Token;

use super::Released;
use super::renewing::renew;
use super::thread_lock::leave;

/// Makes a type stay on its thread.
type NotSend = PhantomData<*const ()>;

/// One hold of a lock by the running thread: released by [`release`](Guard::release), or when dropped.
///
/// A guard is no proof for ever. Call [`check`](Guard::check) before every step that must not happen twice, and
/// give [`fence`](Guard::fence) to the protected resource, so that it can refuse a holder who stalled.
///
/// Dropping waits for the server for `io_timeout` at most, then leaves the release to the background. It never
/// panics, and it logs what `release` would have returned as an error.
///
/// A guard stays on its thread, which is what the lock belongs to:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<redlatch::Guard>();
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    engine: Arc<Engine>,
    hold: Option<Arc<Hold<Grant>>>,
    grant: Arc<Grant>,
    _stays: NotSend,
}

impl Guard {
    pub(crate) fn new(engine: Arc<Engine>, hold: Arc<Hold<Grant>>) -> Guard {
        let grant = hold.grant.clone();
        Guard { engine, hold: Some(hold), grant, _stays: PhantomData }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.grant.spec.name()
    }

    /// The fencing token: larger for every later lease of the lock. Nested holds share it.
    pub fn fence(&self) -> u64 {
        self.grant.fence
    }

    /// The lease's token.
    pub fn token(&self) -> &Token {
        &self.grant.token
    }

    /// Whether the lease is valid now, by the clock of this machine. Asks no server and does not block.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// As [`is_held`](Guard::is_held), with the reason why not.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost); [`NotHeld`](Error::NotHeld) when it was released by other means.
    pub fn check(&self) -> Result<()> {
        fork::detect();
        self.engine.check(&self.grant)
    }

    /// Why the lease is lost, `None` while it is not.
    pub fn lost(&self) -> Option<LostReason> {
        fork::detect();
        self.engine.lost(&self.grant)
    }

    /// Until the deadline, as of now; renewal moves the deadline. Zero when the lease is over.
    pub fn remaining(&self) -> Duration {
        fork::detect();
        self.engine.remaining(&self.grant)
    }

    /// How often this thread holds the lock.
    pub fn hold_count(&self) -> u32 {
        if self.engine.is_inherited() { 0 } else { self.hold.as_ref().map_or(0, |hold| hold.count()) }
    }

    /// Resets the lease to its full ttl now, by one round trip within `io_timeout`. Only needed without
    /// `auto_renew`.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost) when the lease is over; errors from the server, after which it still counts until
    /// its deadline.
    pub fn renew(&self) -> Result<()> {
        renew(&self.engine, &self.grant)
    }

    /// Gives up this hold. The last one stops renewal and releases the lock on the server, within `io_timeout`.
    ///
    /// The hold is gone whatever is returned.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost) when the lease was lost: the work may have overlapped with another holder's.
    /// Errors from the server that retrying does not help; the key then lapses by its ttl.
    pub fn release(mut self) -> Result<Released> {
        match self.hold.take() {
            Some(hold) => leave(&self.engine, &hold),
            None => Err(self.engine.not_held(self.name(), "it was released before")),
        }
    }

    /// Keeps the hold without a guard: the thread has the lock until [`Lock::release`](crate::Lock::release), until it
    /// ends, or until the last handle of the client and its locks is dropped.
    pub fn forget(mut self) {
        self.disarm();
    }

    /// From here on dropping releases nothing.
    pub(super) fn disarm(&mut self) {
        self.hold = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        match leave(&self.engine, &hold) {
            // Both are logged where they are found.
            Ok(_) | Err(Error::Lost(_)) => {}
            Err(error) => {
                tracing::warn!(lock = self.name(), %error, "a guard could not be released when it was dropped")
            }
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.grant.spec.name())
            .field("fence", &self.grant.fence)
            .field("token", &self.grant.token)
            .field("hold_count", &self.hold_count())
            .field("state", &self.grant.state.view())
            .finish_non_exhaustive()
    }
}
