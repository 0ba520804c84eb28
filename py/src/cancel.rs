//! Calling off a wait.

use pyo3::prelude::*;

/// Calls off waits from another thread; pass it to ``acquire(cancel=…)``.
#[pyclass(frozen, weakref, module = "redlatch")]
#[derive(Debug)]
pub(crate) struct CancelToken {
    pub(crate) token: redlatch::CancelToken,
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken { token: redlatch::CancelToken::new() }
    }

    /// Wakes every wait that uses this token; each raises ``CancelledError``. Does not block.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.token.cancel());
    }

    /// Whether ``cancel()`` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    fn __repr__(&self) -> String {
        let cancelled = if self.token.is_cancelled() { "True" } else { "False" };
        format!("CancelToken(cancelled={cancelled})")
    }
}
