//! Calling off a wait.

use pyo3::prelude::*;

/// Calls off waits from another thread; pass it to ``acquire(cancel=…)``.
///
/// Once cancelled it stays so: a wait that begins with it fails at once. One token can call off many waits.
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

    /// Wakes every wait that uses this token; each raises ``CancelledError`` and gives up its place in the queue.
    ///
    /// A request that is on its way is not interrupted: that takes ``io_timeout`` at most. Does not block.
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
