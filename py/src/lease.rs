//! Leases: locks that belong to the object that holds them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlatch::LockOptions;

use crate::cancel::CancelToken;
use crate::client::{Settings, Shared, with_callback};
use crate::dispatch::call;
use crate::waiting::{Ask, drive};
use crate::{arguments, errors, holders, waiting};

/// A lock held by this object: any thread, greenlet or task may release it, and nobody re-enters it.
#[pyclass(frozen, weakref, module = "redlatch")]
pub(crate) struct Lease {
    name: String,
    options: LockOptions,
    wait: Option<Duration>,
    on_lost: Mutex<Option<Py<PyAny>>>,
    slot: Mutex<Slot>,
    // The last field: the client must outlive what is made with it.
    shared: Arc<Shared>,
}

/// | state | set by | next |
/// |---|---|---|
/// | Free | new, release, into_token | Asking |
/// | Asking | acquire | Held, Free |
/// | Held | a grant, adopt | Free |
enum Slot {
    Free,
    Asking,
    Held(Arc<redlatch::Lease>),
}

impl Lease {
    pub(crate) fn new(py: Python<'_>, shared: Arc<Shared>, name: String, settings: Settings) -> PyResult<Lease> {
        let options = settings.options();
        // Checks the name where it is given, as for locks.
        shared.client().lock_with(&name, options.clone()).map_err(|error| errors::raise(py, error))?;
        let Settings { wait, on_lost, .. } = settings;
        Ok(Lease { name, options, wait, on_lost: Mutex::new(on_lost), slot: Mutex::new(Slot::Free), shared })
    }

    pub(crate) fn adopt(
        py: Python<'_>,
        shared: Arc<Shared>,
        name: String,
        token: &str,
        settings: Settings,
    ) -> PyResult<Lease> {
        let lease = Lease::new(py, shared, name, settings)?;
        holders::enter(py)?;
        let options = lease.options_of_grant(py);
        let (adopted, said) = call(py, || lease.shared.client().adopt(&lease.name, token, options));
        let adopted = match adopted.map_err(|error| errors::raise(py, error))? {
            Some(adopted) => adopted,
            None => return Err(errors::not_held(py, &lease.name, "the token does not have it any more")),
        };
        if let Err(interruption) = said.and_then(|()| py.check_signals()) {
            let _ = call(py, || adopted.release());
            return Err(interruption);
        }
        *lease.slot.lock() = Slot::Held(Arc::new(adopted));
        Ok(lease)
    }

    /// The options of one grant, which keeps the callback alive.
    fn options_of_grant(&self, py: Python<'_>) -> LockOptions {
        match self.on_lost.lock().as_ref() {
            Some(on_lost) => with_callback(&self.options, on_lost.clone_ref(py)),
            None => self.options.clone(),
        }
    }

    fn acquire_as(&self, py: Python<'_>, ask: &Ask) -> PyResult<bool> {
        let running = holders::enter(py)?;
        if running.in_event_loop && ask.blocks() {
            return Err(errors::would_block_loop(&self.name));
        }
        let mut asking = Asking::begin(py, self)?;
        let client = self.shared.client();
        let request = client.begin_lease(&self.name, self.options_of_grant(py), ask.wait, ask.cancel.as_ref());
        let request = request.map_err(|error| errors::raise(py, error))?;
        asking.granted = drive(py, request, |lease| drop(lease.release()))?;
        Ok(asking.granted.is_some())
    }

    fn current(&self) -> Option<Arc<redlatch::Lease>> {
        match &*self.slot.lock() {
            Slot::Held(lease) => Some(lease.clone()),
            Slot::Free | Slot::Asking => None,
        }
    }

    fn current_or_error(&self, py: Python<'_>) -> PyResult<Arc<redlatch::Lease>> {
        match self.current() {
            Some(lease) => Ok(lease),
            None => {
                holders::enter(py)?;
                Err(errors::not_held(py, &self.name, "this lease was not acquired, or was released before"))
            }
        }
    }

    fn take(&self) -> Option<Arc<redlatch::Lease>> {
        let mut slot = self.slot.lock();
        match &*slot {
            Slot::Held(lease) => {
                let lease = lease.clone();
                *slot = Slot::Free;
                Some(lease)
            }
            Slot::Free | Slot::Asking => None,
        }
    }

    fn release_lease(py: Python<'_>, lease: &Arc<redlatch::Lease>) -> PyResult<()> {
        holders::enter(py)?;
        let (outcome, said) = call(py, || lease.release_shared());
        // An unconfirmed release is in the log: the background goes on with it.
        outcome.map(drop).map_err(|error| errors::raise(py, error)).and(said)
    }
}

/// The time in which one thread acquires through a lease object.
struct Asking<'a> {
    lease: &'a Lease,
    granted: Option<redlatch::Lease>,
}

impl<'a> Asking<'a> {
    fn begin(py: Python<'_>, lease: &'a Lease) -> PyResult<Asking<'a>> {
        let mut slot = lease.slot.lock();
        let taken = match &*slot {
            Slot::Free => {
                *slot = Slot::Asking;
                return Ok(Asking { lease, granted: None });
            }
            Slot::Asking => "is being acquired by another thread through this object",
            Slot::Held(_) => "is held by this object already, and leases are not re-entrant",
        };
        drop(slot);
        let text = format!("lock {:?} {taken}: make another client.lease(…), or use client.lock(…)", lease.name);
        Err(errors::plain(py, "RedlatchError", &text, &lease.name))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        *self.lease.slot.lock() = match self.granted.take() {
            Some(granted) => Slot::Held(Arc::new(granted)),
            None => Slot::Free,
        };
    }
}

#[pymethods]
impl Lease {
    /// The lock's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Acquires the lock for this object: ``False`` when someone else has it.
    #[pyo3(
        signature = (blocking=None, timeout=None, *, cancel=None),
        text_signature = "($self, /, blocking=True, timeout=-1, *, cancel=None)"
    )]
    fn acquire(
        &self,
        py: Python<'_>,
        blocking: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<bool> {
        self.acquire_as(py, &Ask::new(py, blocking, timeout, cancel)?)
    }

    /// Releases the lock, from any thread.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            Some(lease) => Lease::release_lease(py, &lease),
            None => self.current_or_error(py).map(drop),
        }
    }

    /// Hands the lease over: renewal stops, nothing is released, and whoever gets the token can adopt the lease.
    fn into_token(&self, py: Python<'_>) -> PyResult<String> {
        let lease = match self.take() {
            Some(lease) => lease,
            None => self.current_or_error(py)?,
        };
        let lease = match Arc::try_unwrap(lease) {
            Ok(lease) => lease,
            Err(lease) => {
                *self.slot.lock() = Slot::Held(lease);
                let text = format!("lock {:?} is being renewed or released by another thread", self.name);
                return Err(errors::plain(py, "RedlatchError", &text, &self.name));
            }
        };
        holders::enter(py)?;
        let (token, said) = call(py, || lease.into_token());
        let token = token.map_err(|error| errors::raise(py, error))?;
        said?;
        Ok(token.as_str().to_owned())
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let lease = slf.get();
        if !lease.acquire_as(slf.py(), &Ask { wait: lease.wait, cancel: None })? {
            return Err(waiting::timed_out(slf.py(), &lease.name, lease.wait));
        }
        Ok(slf)
    }

    #[pyo3(signature = (exc_type, exc, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc: Option<&Bound<'_, PyAny>>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (exc_type, traceback);
        match self.take() {
            Some(lease) => waiting::leave(Lease::release_lease(py, &lease), exc),
            // Handed over or released in the body.
            None => Ok(()),
        }
    }

    /// The fencing token.
    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.current_or_error(py)?.fence())
    }

    /// The token, which proves ownership.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.current_or_error(py)?.token().as_str().to_owned())
    }

    /// Whether the lease is valid now, by the clock of this machine.
    #[getter]
    fn held(&self) -> bool {
        self.current().is_some_and(|lease| lease.is_held())
    }

    /// Seconds until the deadline.
    #[getter]
    fn remaining(&self) -> f64 {
        self.current().map_or(0.0, |lease| lease.remaining().as_secs_f64())
    }

    /// Why it was lost.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let lost = self.current().and_then(|lease| lease.lost());
        lost.map(|reason| errors::reason(py, reason)).transpose()
    }

    /// Returns while the lease is valid.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.current_or_error(py)?.check().map_err(|error| errors::raise(py, error))
    }

    /// Resets the lease to its full ttl now.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        let lease = self.current_or_error(py)?;
        let (outcome, said) = call(py, || lease.renew());
        outcome.map_err(|error| errors::raise(py, error)).and(said)
    }

    /// Whether anyone has the lock now, by asking the server.
    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        let (outcome, said) = call(py, || self.shared.client().inspect(&self.name));
        said?;
        outcome.map(|found| found.is_some()).map_err(|error| errors::raise(py, error))
    }

    fn __repr__(&self) -> String {
        let held = if self.held() { "True" } else { "False" };
        format!("<redlatch.Lease name={} held={held}>", arguments::shown(&self.name))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.on_lost.try_lock() {
            Some(on_lost) => visit.call(&*on_lost),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let on_lost = self.on_lost.lock().take();
        drop(on_lost);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A collection may not wait for a server.
        if let Slot::Held(lease) = std::mem::replace(self.slot.get_mut(), Slot::Free)
            && let Some(lease) = Arc::into_inner(lease)
        {
            lease.abandon();
        }
    }
}
