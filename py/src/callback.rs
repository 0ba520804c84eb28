//! `on_lost` callbacks.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use redlatch::LostInfo;

use crate::dispatch::{self, Event};
use crate::errors;

/// A callback for one lease: called once at most. It keeps the function alive while the lease is, and only that long,
/// so that a function that refers to its lock can be collected with it.
pub(crate) struct Callback(Mutex<Option<Py<PyAny>>>);

impl Callback {
    pub(crate) fn new(function: Py<PyAny>) -> Arc<Callback> {
        Arc::new(Callback(Mutex::new(Some(function))))
    }

    /// Has it called on the dispatcher's thread.
    pub(crate) fn fire(&self, info: &LostInfo) {
        if let Some(function) = self.take() {
            dispatch::post(Event::Lost(Loss { function, info: info.clone() }));
        }
    }

    fn take(&self) -> Option<Py<PyAny>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // Leases end on any thread and under locks of the core, where no code of a destructor may run.
        if let Some(function) = self.take() {
            dispatch::post(Event::Garbage(function));
        }
    }
}

/// A lost lease and the function to be told.
pub(crate) struct Loss {
    function: Py<PyAny>,
    info: LostInfo,
}

impl Loss {
    /// Calls the function. What it raises is logged, whatever it is: nobody else could be told.
    pub(crate) fn deliver(self, py: Python<'_>) {
        let called = self.info(py).and_then(|info| self.function.call1(py, (info,)));
        if let Err(error) = called {
            let logged = self.log(py, error.clone_ref(py));
            if logged.is_err() {
                error.write_unraisable(py, Some(self.function.bind(py)));
            }
        }
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.import(py, "redlatch._types", "LostInfo")?;
        let reason = errors::reason(py, self.info.reason())?;
        class.call1((self.info.name(), self.info.token().as_str(), self.info.fence(), reason))
    }

    fn log(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", ("redlatch.events",))?;
        let details = PyDict::new(py);
        details.set_item("exc_info", error.into_value(py))?;
        let text = "an on_lost callback raised: lock %r, lost because %s";
        logger.call_method("error", (text, self.info.name(), self.info.reason().as_str()), Some(&details))?;
        Ok(())
    }
}
