//! Leases that move between threads, and between processes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, LostReason, Result};
use crate::fork;
use crate::lease::Grant;
use crate::renewal::{Abandoned, Job};
use crate::token::Token;
use crate::waiting::Patience;

use super::releasing::{Released, release};
use super::renewing::renew;
use super::{Wanted, acquire_grant};

/// A lock held by whoever has this value: not re-entrant, not bound to a thread, `Send` and `Sync`.
///
/// For hand-over: pass it to another thread, or its token to another process
/// ([`into_token`](Lease::into_token), [`Client::adopt`](crate::Client::adopt)). Otherwise as
/// [`Guard`](crate::Guard): check before every step that must not happen twice, and use the fence.
///
/// ```
/// fn moves<T: Send + Sync>() {}
/// moves::<redlatch::Lease>();
/// ```
#[must_use = "the lock is released as soon as the lease is dropped"]
pub struct Lease {
    engine: Arc<Engine>,
    grant: Arc<Grant>,
    /// It was released, handed over or abandoned.
    over: AtomicBool,
}

impl Lease {
    pub(crate) fn new(engine: Arc<Engine>, grant: Arc<Grant>) -> Lease {
        Lease { engine, grant, over: AtomicBool::new(false) }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.grant.spec.name()
    }

    /// The fencing token: larger for every later lease of the lock.
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

    /// As [`is_held`](Lease::is_held), with the reason why not.
    ///
    /// # Errors
    /// [`Lost`](Error::Lost).
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

    /// Resets the lease to its full ttl now, as [`Guard::renew`](crate::Guard::renew).
    ///
    /// # Errors
    /// As [`Guard::renew`](crate::Guard::renew).
    pub fn renew(&self) -> Result<()> {
        renew(&self.engine, &self.grant)
    }

    /// Stops renewal and releases the lock on the server, within `io_timeout`.
    ///
    /// The lease is over whatever is returned.
    ///
    /// # Errors
    /// As [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> Result<Released> {
        self.release_shared()
    }

    /// As [`release`](Lease::release), for bindings whose callers share the lease between threads.
    ///
    /// # Errors
    /// As [`release`](Lease::release); [`NotHeld`](Error::NotHeld) the second time.
    pub fn release_shared(&self) -> Result<Released> {
        if self.over.swap(true, Ordering::AcqRel) {
            return Err(self.engine.not_held(self.name(), "it was released before"));
        }
        release(&self.engine, &self.grant)
    }

    /// Leaves the release to the background, for code that may not block where a lease ends, such as a garbage collector's.
    /// Logs a warning. Never blocks.
    pub fn abandon(self) {
        self.over.store(true, Ordering::Release);
        fork::detect();
        if !self.engine.is_inherited() {
            self.engine.abandon_grant(&self.grant, Abandoned::Lease);
        }
    }

    /// Hands the lease over: renewal stops, nothing is released, and whoever gets the token can
    /// [adopt](crate::Client::adopt) the lease until its ttl has passed. Renews it first, so that a full ttl is left.
    ///
    /// # Errors
    /// As [`renew`](Lease::renew), and, where a clean token has to be fetched first, as
    /// [`Lock::try_acquire`](crate::Lock::try_acquire); the lease is then released, as when it is dropped.
    pub fn into_token(self) -> Result<Token> {
        self.into_token_shared()
    }

    /// As [`into_token`](Lease::into_token), for bindings whose callers share the lease between threads.
    ///
    /// # Errors
    /// As [`into_token`](Lease::into_token); [`NotHeld`](Error::NotHeld) when it was released or handed over before.
    #[allow(clippy::wrong_self_convention, reason = "it is over for this value all the same")]
    pub fn into_token_shared(&self) -> Result<Token> {
        if self.over.swap(true, Ordering::AcqRel) {
            return Err(self.engine.not_held(self.name(), "it was released before"));
        }
        let handed_over = self.hand_over();
        if handed_over.is_err() {
            self.let_go();
        }
        handed_over
    }

    fn hand_over(&self) -> Result<Token> {
        self.renew()?;
        let grant = if self.grant.acquire_unanswered { self.clean_grant()? } else { self.grant.clone() };
        if grant.state.release().is_err() {
            self.engine.check(&grant)?;
        }
        self.engine.keeper.forget(&grant);
        Ok(grant.token.clone())
    }

    /// The lease under a new token, with the old one buried: a late copy of its acquire could be granted after the next
    /// owner has released.
    fn clean_grant(&self) -> Result<Arc<Grant>> {
        let (engine, old) = (&self.engine, &self.grant);
        let wanted = Wanted::HandedOver(old.token.clone());
        let Some(new) = acquire_grant(engine, &old.spec, Patience::Try, wanted, None)? else {
            engine.keeper.lose(old, LostReason::Taken);
            return Err(old.lost_info(LostReason::Taken).into());
        };
        let _ = old.state.release();
        engine.keeper.forget(old);
        let now = engine.config.clock.now();
        let until = now.after(old.ttl()).after(old.ttl());
        engine.janitor.release(Job::new(&old.spec, &old.token, true, now, until));
        Ok(new)
    }

    /// Releases it where nobody is told how that went.
    fn let_go(&self) {
        match release(&self.engine, &self.grant) {
            // Both are logged where they are found.
            Ok(_) | Err(Error::Lost(_) | Error::NotHeld { .. }) => {}
            Err(error) => {
                tracing::warn!(lock = self.name(), %error, "a lease could not be released when it was dropped")
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !*self.over.get_mut() {
            self.let_go();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.grant.spec.name())
            .field("fence", &self.grant.fence)
            .field("token", &self.grant.token)
            .field("state", &self.grant.state.view())
            .finish_non_exhaustive()
    }
}
