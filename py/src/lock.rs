//! Locks that belong to the holder that acquires them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlatch::{Guard, LockOptions};

use crate::cancel::CancelToken;
use crate::client::{Settings, Shared, with_callback};
use crate::dispatch::call;
use crate::holders;
use crate::waiting::{Ask, Given, drive};
use crate::{arguments, errors, waiting};

/// A lock by name, re-entrant like ``threading.RLock``, for all processes that use the same server.
///
/// Made by ``Client.lock``; asks no server until it is acquired. What is held is known by client, holder and name, so
/// two objects of one name are the same lock. The holder is the running thread; where greenlets or asyncio tasks run,
/// the running one of them.
///
/// A lease is not a proof: call ``check()`` before every step that must not happen twice, and let the protected
/// resource refuse a lower ``fence`` than it has seen.
#[pyclass(frozen, weakref, module = "redlatch")]
pub(crate) struct Lock {
    lock: redlatch::Lock,
    options: LockOptions,
    wait: Option<Duration>,
    on_lost: Mutex<Option<Py<PyAny>>>,
    // The last field: the client must outlive what is made with it.
    shared: Arc<Shared>,
}

impl Lock {
    pub(crate) fn new(py: Python<'_>, shared: Arc<Shared>, name: &str, settings: Settings) -> PyResult<Lock> {
        let options = settings.options();
        let lock = shared.client().lock_with(name, options.clone()).map_err(|error| errors::raise(py, error))?;
        let Settings { wait, on_lost, .. } = settings;
        Ok(Lock { lock, options, wait, on_lost: Mutex::new(on_lost), shared })
    }

    /// Acquires; `false`: someone else has it.
    fn acquire_as(&self, py: Python<'_>, ask: &Ask) -> PyResult<bool> {
        let running = holders::enter(py)?;
        if running.in_event_loop && ask.blocks() {
            return Err(errors::would_block_loop(self.lock.name()));
        }
        if let Some(guard) = self.lock.reacquire().map_err(|error| errors::raise(py, error))? {
            guard.forget();
            return match py.check_signals() {
                Ok(()) => Ok(true),
                Err(interruption) => {
                    // The handler may have let another greenlet run.
                    holders::enter(py)?;
                    let _ = call(py, || self.lock.release());
                    Err(interruption)
                }
            };
        }
        let client = self.shared.used(py)?;
        // A grant of its own options where there is a callback: it, and not this object, keeps the callback alive.
        let on_lost = self.on_lost.lock().as_ref().map(|on_lost| on_lost.clone_ref(py));
        let request = match on_lost {
            None => self.lock.begin(ask.wait, ask.cancel.as_ref()),
            Some(on_lost) => {
                let options = with_callback(&self.options, on_lost);
                let lock = client.lock_with(self.lock.name(), options);
                lock.map_err(|error| errors::raise(py, error))?.begin(ask.wait, ask.cancel.as_ref())
            }
        };
        // Before the grant: whatever comes of it, the end of this holder is noticed.
        running.holds(py, &self.shared)?;
        drive(py, request)
    }

    /// The running holder's view of its lease; the outer error says that it has none.
    fn look<T>(&self, py: Python<'_>, look: impl FnOnce(&Guard) -> T) -> PyResult<redlatch::Result<T>> {
        holders::enter(py)?;
        Ok(self.lock.with_held(look))
    }

    /// As [`look`](Self::look), where holding nothing is an error like any other.
    fn look_held<T>(&self, py: Python<'_>, look: impl FnOnce(&Guard) -> redlatch::Result<T>) -> PyResult<T> {
        self.look(py, look)?.and_then(|outcome| outcome).map_err(|error| errors::raise(py, error))
    }

    fn release_as(&self, py: Python<'_>) -> PyResult<()> {
        holders::enter(py)?;
        if self.lock.hold_count() > 1 {
            // Counts down, as a nested acquire counts up: nothing that could block.
            return self.lock.release().map(drop).map_err(|error| errors::raise(py, error));
        }
        let (outcome, said) = call(py, || self.lock.release());
        // An unconfirmed release is in the log: the background goes on with it.
        outcome.map(drop).map_err(|error| errors::raise(py, error)).and(said)
    }
}

#[pymethods]
impl Lock {
    /// The lock's name.
    #[getter]
    fn name(&self) -> &str {
        self.lock.name()
    }

    /// Acquires the lock: ``True`` when this holder has it, ``False`` when someone else has.
    ///
    /// ``blocking=False`` asks once. ``timeout`` is the longest time to wait in seconds, everything included; -1
    /// waits as long as someone else has it, and while the server is away for ``unavailable_after`` at most. A nested
    /// call counts, and asks no server.
    ///
    /// Signals are handled at least every 50 ms while the main thread waits; a signal that raises gives up the place in
    /// the queue, or the lock if it was just granted, before it is raised here.
    ///
    /// Raises ``LostError`` when this holder had the lock and its lease was lost: release it first.
    /// ``UnavailableError``, ``AuthenticationError``, ``PermissionDeniedError``, ``KeyTypeError``,
    /// ``IncompatibleError``, ``NotReplicatedError`` from the server; ``CancelledError``; ``ClosedError``;
    /// ``ConfigError`` or ``TypeError`` for a refused argument; ``RuntimeError`` for a call that would block inside a
    /// running asyncio event loop.
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

    /// Releases the lock; a nested one counts down and asks no server. Within ``io_timeout``.
    ///
    /// The hold is gone whatever is raised. A release that the server did not confirm is a warning in the log: the
    /// background goes on until the key has lapsed.
    ///
    /// Raises ``NotHeldError`` when this holder does not have the lock, and then touches nothing; ``LostError`` when
    /// the lease was lost on the way: the work may have overlapped with another holder's.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.release_as(py)
    }

    /// Acquires within the lock's ``wait``, or raises ``AcquireTimeout``. Returns the lock.
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let lock = slf.get();
        if !lock.acquire_as(slf.py(), &Ask { wait: lock.wait, cancel: None })? {
            return Err(waiting::timed_out(slf.py(), lock.lock.name(), lock.wait));
        }
        Ok(slf)
    }

    /// Releases. An exception of the body wins over what the release raises, which becomes a note of it.
    #[pyo3(signature = (exc_type, exc, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc: Option<&Bound<'_, PyAny>>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (exc_type, traceback);
        waiting::leave(self.release_as(py), exc)
    }

    /// The fencing token of this holder's lease: larger for every later lease. ``NotHeldError`` without one.
    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<u64> {
        self.look_held(py, |guard| Ok(guard.fence()))
    }

    /// The token of this holder's lease, which proves ownership: keep it secret. ``NotHeldError`` without one.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        self.look_held(py, |guard| Ok(guard.token().as_str().to_owned()))
    }

    /// How often this holder has the lock; 0 when it does not. Asks no server.
    #[getter]
    fn hold_count(&self, py: Python<'_>) -> PyResult<u32> {
        holders::enter(py)?;
        Ok(self.lock.hold_count())
    }

    /// Whether this holder's lease is valid now, by the clock of this machine. Asks no server.
    #[getter]
    fn held(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.look(py, Guard::is_held)?.unwrap_or(false))
    }

    /// Seconds until the deadline of this holder's lease; renewal moves it. 0.0 when it is over or there is none.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.look(py, Guard::remaining)?.unwrap_or_default().as_secs_f64())
    }

    /// Why this holder's lease was lost; ``None`` while it is not, and after its release.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let lost = self.look(py, Guard::lost)?.unwrap_or(None);
        lost.map(|reason| errors::reason(py, reason)).transpose()
    }

    /// Returns while this holder's lease is valid, by the clock of this machine. Asks no server.
    ///
    /// Raises ``LostError``; ``NotHeldError`` when this holder does not have the lock.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.look_held(py, Guard::check)
    }

    /// Resets the lease to its full ttl now, within ``io_timeout``. Only needed with ``auto_renew=False``.
    ///
    /// Raises as ``check()``, and as ``acquire()`` for what the server answers; the lease then still counts until its
    /// deadline.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        holders::enter(py)?;
        let (outcome, said) = call(py, || self.lock.with_held(Guard::renew).and_then(|outcome| outcome));
        outcome.map_err(|error| errors::raise(py, error)).and(said)
    }

    /// Whether anyone has the lock now, by asking the server. Out of date as soon as it is returned.
    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        let (outcome, said) = call(py, || self.lock.is_locked());
        said?;
        outcome.map_err(|error| errors::raise(py, error))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        holders::enter(py)?;
        let name = arguments::shown(self.lock.name());
        Ok(format!("<redlatch.Lock name={name} hold_count={}>", self.lock.hold_count()))
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
