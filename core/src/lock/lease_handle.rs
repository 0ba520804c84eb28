//! One object through which leases of one lock are acquired and released, for bindings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::Client;
use crate::error::{Error, LostReason, Result};
use crate::options::LockOptions;
use crate::token::Token;
use crate::waiting::CancelToken;

use super::{Lease, LeaseRequest, Progress, Released};

/// A lock that belongs to this object: for languages whose objects are shared between threads and live on after a release.
///
/// It has one lease at a time, and never two: nobody re-enters it. `Send` and `Sync`. Dropping it while it has a lease leaves
/// the release to the background, as [`Lease::abandon`].
///
/// ```
/// use redlatch::{Client, LeaseHandle, LockOptions, Progress};
/// use std::time::Duration;
///
/// let client = Client::open("memory://")?;
/// let handle = LeaseHandle::new(&client, "report", LockOptions::new())?;
/// let mut request = handle.begin(None, None, None)?;
/// while let Progress::Waiting(_) = request.advance(Duration::from_secs(1))? {}
/// assert!(handle.is_held());
/// let _ = handle.release()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
pub struct LeaseHandle {
    client: Client,
    name: Box<str>,
    options: LockOptions,
    slot: Mutex<Slot>,
}

/// | state | set by | next |
/// |---|---|---|
/// | Free | new, release, into_token, an acquire that ended without a grant | Asking |
/// | Asking | begin | Held, Free |
/// | Held | a grant, adopt | Free |
#[derive(Debug)]
enum Slot {
    Free,
    Asking,
    Held(Arc<Lease>),
}

impl LeaseHandle {
    /// A handle that has no lease yet. Asks no server.
    ///
    /// # Errors
    /// [`Config`](Error::Config) for a refused name or option.
    pub fn new(client: &Client, name: &str, options: LockOptions) -> Result<LeaseHandle> {
        client.lock_with(name, options.clone())?;
        Ok(LeaseHandle { client: client.clone(), name: name.into(), options, slot: Mutex::new(Slot::Free) })
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins an acquire that is driven in steps, with `options` instead of the handle's where given. As
    /// [`Client::begin_lease`]; the lease goes to this handle.
    ///
    /// # Errors
    /// [`InUse`](Error::InUse) while the handle has a lease, or another thread acquires through it.
    pub fn begin(
        &self,
        options: Option<LockOptions>,
        wait: Option<Duration>,
        cancel: Option<&CancelToken>,
    ) -> Result<HandleRequest<'_>> {
        let options = options.unwrap_or_else(|| self.options.clone());
        let request = self.client.begin_lease(&self.name, options, wait, cancel)?;
        self.reserve("acquire")?;
        Ok(HandleRequest { handle: self, request, granted: false })
    }

    /// Takes over the lease that `token` proves, as [`Client::adopt`]; false when the lock is not held by that token any
    /// more.
    ///
    /// # Errors
    /// As [`Client::adopt`]; [`InUse`](Error::InUse), as [`begin`](LeaseHandle::begin).
    pub fn adopt(&self, token: &str, options: Option<LockOptions>) -> Result<bool> {
        self.reserve("adopt")?;
        let adopted = self.client.adopt(&self.name, token, options.unwrap_or_else(|| self.options.clone()));
        let (granted, outcome) = match adopted {
            Ok(lease) => (lease, None),
            Err(error) => (None, Some(error)),
        };
        let done = granted.is_some();
        self.settle(granted);
        outcome.map_or(Ok(done), Err)
    }

    fn reserve(&self, action: &'static str) -> Result<()> {
        let mut slot = self.slot.lock();
        let detail = match &*slot {
            Slot::Free => {
                *slot = Slot::Asking;
                return Ok(());
            }
            Slot::Asking => "another thread acquires through this object; use one for each",
            Slot::Held(_) => "this object has the lock already, and a lease is not re-entrant",
        };
        Err(Error::InUse { action, name: self.name.to_string(), detail: detail.to_owned() })
    }

    fn settle(&self, granted: Option<Lease>) {
        *self.slot.lock() = granted.map_or(Slot::Free, |lease| Slot::Held(Arc::new(lease)));
    }

    /// The lease it has.
    ///
    /// # Errors
    /// [`NotHeld`](Error::NotHeld) when it has none.
    pub fn lease(&self) -> Result<Arc<Lease>> {
        match &*self.slot.lock() {
            Slot::Held(lease) => Ok(lease.clone()),
            Slot::Free | Slot::Asking => Err(self.holds_nothing()),
        }
    }

    fn holds_nothing(&self) -> Error {
        self.client.not_held(&self.name, "this lease was not acquired, or was released before")
    }

    fn take(&self) -> Result<Arc<Lease>> {
        let mut slot = self.slot.lock();
        match std::mem::replace(&mut *slot, Slot::Free) {
            Slot::Held(lease) => Ok(lease),
            other => {
                *slot = other;
                Err(self.holds_nothing())
            }
        }
    }

    /// Whether it has a lease that is valid now, by the clock of this machine. Asks no server.
    pub fn is_held(&self) -> bool {
        self.lease().is_ok_and(|lease| lease.is_held())
    }

    /// Why its lease is lost; `None` while it is not, and without one.
    pub fn lost(&self) -> Option<LostReason> {
        self.lease().ok().and_then(|lease| lease.lost())
    }

    /// Until the deadline of its lease; zero without one.
    pub fn remaining(&self) -> Duration {
        self.lease().map_or(Duration::ZERO, |lease| lease.remaining())
    }

    /// Whether anyone has the lock now, as [`Lock::is_locked`](crate::Lock::is_locked).
    ///
    /// # Errors
    /// As [`Client::inspect`].
    pub fn is_locked(&self) -> Result<bool> {
        Ok(self.client.inspect(&self.name)?.is_some())
    }

    /// Releases its lease, as [`Lease::release`]; on any thread.
    ///
    /// # Errors
    /// As [`Lease::release`]; [`NotHeld`](Error::NotHeld) when it has none.
    pub fn release(&self) -> Result<Released> {
        self.take()?.release_shared()
    }

    /// Hands its lease over, as [`Lease::into_token`].
    ///
    /// # Errors
    /// As [`Lease::into_token`]; [`NotHeld`](Error::NotHeld) when it has none.
    #[allow(clippy::wrong_self_convention, reason = "it ends what this object has")]
    pub fn into_token(&self) -> Result<Token> {
        self.take()?.into_token_shared()
    }
}

impl Drop for LeaseHandle {
    fn drop(&mut self) {
        if let Slot::Held(lease) = std::mem::replace(self.slot.get_mut(), Slot::Free)
            && let Some(lease) = Arc::into_inner(lease)
        {
            lease.abandon();
        }
    }
}

/// An acquire through a [`LeaseHandle`]; dropped, it gives up.
#[must_use = "nothing is asked before advance()"]
pub struct HandleRequest<'a> {
    handle: &'a LeaseHandle,
    request: LeaseRequest,
    /// The handle has the lease.
    granted: bool,
}

impl HandleRequest<'_> {
    /// As [`LeaseRequest::advance`]. What is granted belongs to the handle.
    ///
    /// # Errors
    /// As [`LeaseRequest::advance`].
    pub fn advance(&mut self, block: Duration) -> Result<Progress<()>> {
        Ok(match self.request.advance(block)? {
            Progress::Granted(lease) => {
                self.handle.settle(Some(lease));
                self.granted = true;
                Progress::Granted(())
            }
            Progress::Busy => Progress::Busy,
            Progress::Waiting(left) => Progress::Waiting(left),
        })
    }

    /// Releases what was granted, for a caller who is called off at the last moment.
    pub fn give_back(self) {
        if self.granted {
            // Nothing has been done under it: how its release went concerns nobody.
            let _ = self.handle.release();
        }
    }
}

impl Drop for HandleRequest<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.handle.settle(None);
        }
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHandle").field("name", &self.name).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl fmt::Debug for HandleRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandleRequest").field(&self.handle.name).finish()
    }
}
