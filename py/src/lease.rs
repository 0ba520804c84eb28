//! Leases: locks that belong to the object that holds them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlatch::{LeaseHandle, LockOptions};

use crate::cancel::CancelToken;
use crate::client::{Settings, Shared, with_callback};
use crate::dispatch::call;
use crate::waiting::{Ask, Given, drive};
use crate::{arguments, errors, holders, waiting};

/// A lock held by this object: any thread, greenlet or task may release it, and nobody re-enters it.
///
/// Made by ``Client.lease`` (not yet acquired) and ``Client.adopt`` (held, so not for ``with``). Otherwise as ``Lock``.
/// An object that is collected while it holds the lock has it released in the background.
#[pyclass(frozen, weakref, module = "redlatch")]
pub(crate) struct Lease {
    /// Dropped while it has a lease, it leaves the release to the background: a collection may not wait for a server.
    handle: LeaseHandle,
    options: LockOptions,
    wait: Option<Duration>,
    on_lost: Mutex<Option<Py<PyAny>>>,
    // The last field: the client must outlive what is made with it.
    shared: Arc<Shared>,
}

impl Lease {
    pub(crate) fn new(py: Python<'_>, shared: Arc<Shared>, name: &str, settings: Settings) -> PyResult<Lease> {
        let options = settings.options();
        let handle = LeaseHandle::new(shared.client(), name, options.clone());
        let handle = handle.map_err(|error| errors::raise(py, error))?;
        let Settings { wait, on_lost, .. } = settings;
        Ok(Lease { handle, options, wait, on_lost: Mutex::new(on_lost), shared })
    }

    pub(crate) fn adopt(
        py: Python<'_>,
        shared: Arc<Shared>,
        name: &str,
        token: &str,
        settings: Settings,
    ) -> PyResult<Lease> {
        let lease = Lease::new(py, shared, name, settings)?;
        holders::enter(py)?;
        lease.shared.used(py)?;
        let options = lease.options_of_grant(py);
        let (adopted, said) = call(py, || lease.handle.adopt(token, options));
        if !adopted.map_err(|error| errors::raise(py, error))? {
            return Err(errors::not_held(py, name, "the token does not have it any more"));
        }
        if let Err(interruption) = said.and_then(|()| py.check_signals()) {
            let _ = call(py, || lease.handle.release());
            return Err(interruption);
        }
        Ok(lease)
    }

    /// The options of one grant where there is a callback: it, and not this object, keeps the callback alive.
    fn options_of_grant(&self, py: Python<'_>) -> Option<LockOptions> {
        let on_lost = self.on_lost.lock().as_ref().map(|on_lost| on_lost.clone_ref(py))?;
        Some(with_callback(&self.options, on_lost))
    }

    fn acquire_as(&self, py: Python<'_>, ask: &Ask) -> PyResult<bool> {
        let running = holders::enter(py)?;
        if running.in_event_loop && ask.blocks() {
            return Err(errors::would_block_loop(self.handle.name()));
        }
        self.shared.used(py)?;
        let request = self.handle.begin(self.options_of_grant(py), ask.wait, ask.cancel.as_ref());
        drive(py, request.map_err(|error| errors::raise(py, error))?)
    }

    /// The lease it has, or `NotHeldError`.
    fn lease(&self, py: Python<'_>) -> PyResult<Arc<redlatch::Lease>> {
        holders::enter(py)?;
        self.handle.lease().map_err(|error| errors::raise(py, error))
    }

    fn release_as(&self, py: Python<'_>) -> PyResult<()> {
        holders::enter(py)?;
        let (outcome, said) = call(py, || self.handle.release());
        // An unconfirmed release is in the log: the background goes on with it.
        outcome.map(drop).map_err(|error| errors::raise(py, error)).and(said)
    }
}

#[pymethods]
impl Lease {
    /// The lock's name.
    #[getter]
    fn name(&self) -> &str {
        self.handle.name()
    }

    /// As ``Lock.acquire``, but never nested: ``RedlatchError`` when this object has the lock already.
    #[pyo3(
        signature = (blocking=Given(None), timeout=Given(None), *, cancel=None),
        text_signature = "($self, /, blocking=True, timeout=-1, *, cancel=None)"
    )]
    fn acquire(
        &self,
        py: Python<'_>,
        blocking: Given<'_>,
        timeout: Given<'_>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<bool> {
        self.acquire_as(py, &Ask::new(py, blocking, timeout, cancel)?)
    }

    /// As ``Lock.release``, from any thread.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.release_as(py)
    }

    /// Hands the lease over: renewal stops, nothing is released, and whoever gets the token can adopt the lease.
    ///
    /// Renews it first, within ``io_timeout``, so that a full ttl is left. Raises as ``renew()``, and then ends the
    /// lease as ``release()`` does: within another ``io_timeout``, or else in the background. ``RedlatchError`` while
    /// another thread uses this object; it keeps the lease then.
    #[allow(clippy::wrong_self_convention, reason = "Python's name for what ends this object's hold")]
    fn into_token(&self, py: Python<'_>) -> PyResult<String> {
        holders::enter(py)?;
        let (token, said) = call(py, || self.handle.into_token());
        let token = token.map_err(|error| errors::raise(py, error))?;
        said?;
        Ok(token.as_str().to_owned())
    }

    /// Acquires within the lease's ``wait``, or raises ``AcquireTimeout``. Returns the lease.
    ///
    /// ``RedlatchError`` when this object has the lock already, as after ``Client.adopt``: end that by ``release()``.
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let lease = slf.get();
        if !lease.acquire_as(slf.py(), &Ask { wait: lease.wait, cancel: None })? {
            return Err(waiting::timed_out(slf.py(), lease.handle.name(), lease.wait));
        }
        Ok(slf)
    }

    /// Releases, unless the body handed the lease over or released it. Exceptions as ``Lock.__exit__``.
    #[pyo3(signature = (exc_type, exc, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc: Option<&Bound<'_, PyAny>>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (exc_type, traceback);
        match self.release_as(py) {
            // Handed over or released in the body.
            Err(error) if errors::is_not_held(py, &error) => Ok(()),
            released => waiting::leave(released, exc),
        }
    }

    /// The fencing token: larger for every later lease. ``NotHeldError`` while this object holds nothing.
    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lease(py)?.fence())
    }

    /// The token, which proves ownership: keep it secret. ``NotHeldError`` while this object holds nothing.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.lease(py)?.token().as_str().to_owned())
    }

    /// Whether the lease is valid now, by the clock of this machine. Asks no server.
    #[getter]
    fn held(&self) -> bool {
        self.handle.is_held()
    }

    /// Seconds until the deadline; renewal moves it. 0.0 when it is over or there is none.
    #[getter]
    fn remaining(&self) -> f64 {
        self.handle.remaining().as_secs_f64()
    }

    /// Why it was lost; ``None`` while it is not, and after its release.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.handle.lost().map(|reason| errors::reason(py, reason)).transpose()
    }

    /// Returns while the lease is valid. Raises ``LostError`` or ``NotHeldError``. Asks no server.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.lease(py)?.check().map_err(|error| errors::raise(py, error))
    }

    /// As ``Lock.renew``.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        let lease = self.lease(py)?;
        let (outcome, said) = call(py, || lease.renew());
        outcome.map_err(|error| errors::raise(py, error)).and(said)
    }

    /// As ``Lock.locked``.
    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        let (outcome, said) = call(py, || self.handle.is_locked());
        said?;
        outcome.map_err(|error| errors::raise(py, error))
    }

    fn __repr__(&self) -> String {
        let held = if self.held() { "True" } else { "False" };
        format!("<redlatch.Lease name={} held={held}>", arguments::shown(self.handle.name()))
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
