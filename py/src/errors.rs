//! The core's errors as Python's exceptions, which live in `redlatch._errors` because each has two bases.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use redlatch::{Error, LostReason};

use crate::holders;

/// `error` as the exception that stands for it.
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    let name = error.name().map(str::to_owned);
    let details = PyDict::new(py);
    let kind = match &error {
        Error::Config { .. } => "ConfigError",
        Error::Lost(info) => {
            let filled = reason(py, info.reason()).and_then(|reason| {
                details.set_item("reason", reason)?;
                details.set_item("fence", info.fence())
            });
            if let Err(error) = filled {
                return error;
            }
            "LostError"
        }
        Error::NotHeld { .. } => "NotHeldError",
        Error::Unavailable { .. } => "UnavailableError",
        Error::Authentication { .. } => "AuthenticationError",
        Error::Permission { .. } => "PermissionDeniedError",
        Error::NotReplicated { .. } => "NotReplicatedError",
        Error::KeyType { .. } => "KeyTypeError",
        Error::Incompatible { .. } => "IncompatibleError",
        Error::Cancelled { .. } => "CancelledError",
        Error::Closed { .. } => "ClosedError",
        _ => "RedlatchError",
    };
    make(py, kind, &text, name.as_deref(), &details)
}

/// A `ConfigError` in the core's words.
pub(crate) fn config(py: Python<'_>, option: &'static str, value: &str, expected: &str) -> PyErr {
    raise(py, Error::Config { option, value: value.to_owned(), expected: expected.to_owned() })
}

/// A `NotHeldError` in the core's words.
pub(crate) fn not_held(py: Python<'_>, name: &str, detail: &str) -> PyErr {
    let caller = holders::name(holders::current());
    raise(py, Error::NotHeld { name: name.to_owned(), caller, detail: detail.to_owned() })
}

/// An `AcquireTimeout`.
pub(crate) fn timed_out(py: Python<'_>, text: &str, name: &str) -> PyErr {
    make(py, "AcquireTimeout", text, Some(name), &PyDict::new(py))
}

/// Whether it is a `NotHeldError`.
pub(crate) fn is_not_held(py: Python<'_>, error: &PyErr) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS
        .import(py, "redlatch._errors", "NotHeldError")
        .is_ok_and(|class: &Bound<'_, PyAny>| error.matches(py, class).unwrap_or(false))
}

/// For a call that would block an event loop.
pub(crate) fn would_block_loop(name: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "acquiring lock {name:?} would block the running event loop: make a client.lease({name:?}) and await \
         asyncio.to_thread(lease.acquire), or ask once with acquire(blocking=False)"
    ))
}

/// `LostReason` as Python has it.
pub(crate) fn reason(py: Python<'_>, reason: LostReason) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.import(py, "redlatch._types", "LostReason")?;
    Ok(class.call1((reason.as_str(),))?.unbind())
}

fn make(py: Python<'_>, kind: &str, text: &str, name: Option<&str>, details: &Bound<'_, PyDict>) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = MAKE.import(py, "redlatch._errors", "_make").and_then(|make| make.call1((kind, text, name, details)));
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
