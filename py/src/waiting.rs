//! Drives an acquire in steps, so that signals are handled and other greenlets run while it waits.

use std::convert::Infallible;
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use redlatch::{HandleRequest, LockRequest, Progress, Result};

use crate::arguments;
use crate::cancel::CancelToken;
use crate::dispatch::call;
use crate::errors;

/// The longest step on the main thread, between two looks at signals.
const SIGNAL_SLICE: Duration = Duration::from_millis(50);

/// The longest step under gevent, between two looks at the inbox.
const HUB_SLICE: Duration = Duration::from_millis(10);

/// The longest step of a thread that handles no signals.
const FAR: Duration = Duration::from_secs(3600);

/// An argument that may be left out, which is not the same as `None`.
pub(crate) struct Given<'py>(pub(crate) Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> std::result::Result<Self, Infallible> {
        Ok(Given(Some(object.to_owned())))
    }
}

/// How an acquire was asked for.
pub(crate) struct Ask {
    /// The longest time to wait; `None` for no limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) cancel: Option<redlatch::CancelToken>,
}

impl Ask {
    /// Understands the arguments of `acquire`, as `threading.RLock` does.
    pub(crate) fn new(
        py: Python<'_>,
        blocking: Given<'_>,
        timeout: Given<'_>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<Ask> {
        let blocking = blocking.0.map_or(Ok(true), |blocking| arguments::zero_or_one("blocking", &blocking))?;
        let timeout = match &timeout.0 {
            Some(timeout) if !arguments::is_no_limit(timeout) => Some(arguments::wait("timeout", timeout, Some("-1"))?),
            _ => None,
        };
        let wait = match (blocking, timeout) {
            (true, timeout) => timeout,
            (false, None) => Some(Duration::ZERO),
            (false, Some(timeout)) => {
                let expected = "leave it out with blocking=False, which does not wait";
                return Err(errors::config(py, "timeout", &format!("{timeout:?}"), expected));
            }
        };
        Ok(Ask { wait, cancel: cancel.map(|cancel| cancel.token.clone()) })
    }

    /// Whether it may have to wait.
    pub(crate) fn blocks(&self) -> bool {
        self.wait != Some(Duration::ZERO)
    }
}

/// An acquire of either kind.
pub(crate) trait Request: Send {
    /// One step, as of the core's requests; what is granted stays where it belongs.
    fn advance(&mut self, block: Duration) -> Result<Progress<()>>;

    /// Releases what was granted.
    fn give_back(self);
}

impl Request for LockRequest {
    fn advance(&mut self, block: Duration) -> Result<Progress<()>> {
        Ok(match LockRequest::advance(self, block)? {
            Progress::Granted(guard) => {
                // A guard could not leave the detached part of its thread; the hold stays with the holder.
                guard.forget();
                Progress::Granted(())
            }
            Progress::Busy => Progress::Busy,
            Progress::Waiting(left) => Progress::Waiting(left),
        })
    }

    fn give_back(self) {
        LockRequest::give_back(self);
    }
}

impl Request for HandleRequest<'_> {
    fn advance(&mut self, block: Duration) -> Result<Progress<()>> {
        HandleRequest::advance(self, block)
    }

    fn give_back(self) {
        HandleRequest::give_back(self);
    }
}

/// How a thread waits.
enum Manner<'py> {
    /// Without interruption.
    Plain,
    /// In slices, between which signals are handled: the main thread.
    Signals,
    /// By gevent's sleep, so that other greenlets run.
    Hub(Bound<'py, PyAny>),
}

/// Asks and waits until the verdict; false: someone else has the lock.
///
/// Handles signals on the main thread. When one raises, whatever was granted meanwhile is given back, or the place in
/// the queue is given up, before this fails with what it raised.
pub(crate) fn drive<R: Request>(py: Python<'_>, mut request: R) -> PyResult<bool> {
    let mut manner = None;
    let mut block = Duration::ZERO;
    loop {
        let (progress, said) = call(py, || request.advance(block));
        let left = match progress {
            Ok(Progress::Granted(())) => {
                return match said.and_then(|()| py.check_signals()) {
                    Ok(()) => Ok(true),
                    Err(interruption) => {
                        let _ = call(py, || request.give_back());
                        Err(interruption)
                    }
                };
            }
            Ok(Progress::Busy) => return said.and_then(|()| py.check_signals()).map(|()| false),
            Ok(Progress::Waiting(left)) => left,
            Err(error) => return Err(said.err().unwrap_or_else(|| errors::raise(py, error))),
        };
        let paused = said.and_then(|()| pause(py, &mut manner, left));
        block = match paused {
            Ok(block) => block,
            Err(interruption) => {
                let _ = call(py, || drop(request));
                return Err(interruption);
            }
        };
    }
}

/// What happens between two steps; the length of the next one.
fn pause<'py>(py: Python<'py>, manner: &mut Option<Manner<'py>>, left: Duration) -> PyResult<Duration> {
    py.check_signals()?;
    let manner = match manner {
        Some(manner) => manner,
        None => manner.insert(Manner::of_this_thread(py)?),
    };
    match manner {
        Manner::Plain => Ok(FAR),
        Manner::Signals => Ok(SIGNAL_SLICE),
        Manner::Hub(sleep) => {
            sleep.call1((left.min(HUB_SLICE).as_secs_f64(),))?;
            Ok(Duration::ZERO)
        }
    }
}

impl Manner<'_> {
    fn of_this_thread(py: Python<'_>) -> PyResult<Manner<'_>> {
        let modules = py.import("sys")?.getattr("modules")?;
        let monkey = modules.call_method1("get", (intern!(py, "gevent.monkey"),))?;
        if !monkey.is_none() && monkey.call_method1("is_module_patched", ("time",))?.is_truthy()? {
            return Ok(Manner::Hub(py.import("gevent")?.getattr("sleep")?));
        }
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        let is_main = main.eq(threading.call_method0("get_ident")?)?;
        Ok(if is_main { Manner::Signals } else { Manner::Plain })
    }
}

/// The error of `with` when the time to wait is over.
pub(crate) fn timed_out(py: Python<'_>, name: &str, wait: Option<Duration>) -> PyErr {
    let waited = match wait {
        Some(wait) if !wait.is_zero() => format!("was not acquired within {wait:?}"),
        _ => "was not acquired".to_owned(),
    };
    let text = format!("lock {name:?} {waited}: someone else has it");
    errors::timed_out(py, &text, name)
}

/// The end of a `with` block: an exception of its body wins over what the release came to, which becomes a note of it.
pub(crate) fn leave(released: PyResult<()>, body: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let (Err(error), Some(body)) = (&released, body) else { return released };
    let py = body.py();
    if !error.is_instance_of::<PyException>(py) {
        // An interruption, which nobody may swallow.
        return released;
    }
    match add_note(body, error) {
        // What the exception does not take is in the log, for a lost lease and a release without an answer.
        Err(refused) if refused.is_instance_of::<PyException>(py) => Ok(()),
        outcome => outcome,
    }
}

fn add_note(body: &Bound<'_, PyAny>, error: &PyErr) -> PyResult<()> {
    let py = body.py();
    let note = format!("redlatch: {}: {}", error.get_type(py).name()?, error.value(py));
    if let Some(add_note) = body.getattr_opt(intern!(py, "add_note"))? {
        return add_note.call1((note,)).map(drop);
    }
    // Before Python 3.11 exceptions have no notes of their own; those who show notes look here.
    let notes = match body.getattr_opt(intern!(py, "__notes__"))? {
        Some(notes) => notes.cast_into::<PyList>()?,
        None => PyList::empty(py),
    };
    notes.append(note)?;
    body.setattr(intern!(py, "__notes__"), notes)
}
