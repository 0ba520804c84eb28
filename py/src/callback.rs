//! `on_lost` callbacks.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
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
    /// The function and the `LostInfo` that it gets.
    pub(crate) fn into_arguments(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = CLASS.import(py, "redlatch._types", "LostInfo")?;
        let reason = errors::reason(py, self.info.reason())?;
        let info = class.call1((self.info.name(), self.info.token().as_str(), self.info.fence(), reason))?;
        Ok((self.function, info).into_pyobject(py)?.into_any().unbind())
    }
}
