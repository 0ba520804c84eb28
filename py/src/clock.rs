//! The time of a test.

use std::time::Duration;

use pyo3::prelude::*;

use crate::{arguments, dispatch};

/// The time of a ``memory://`` client in a test: it stands still until it is advanced.
#[pyclass(frozen, module = "redlatch._native")]
#[derive(Debug)]
pub(crate) struct ManualClock {
    pub(crate) clock: redlatch::ManualClock,
}

#[pymethods]
impl ManualClock {
    #[new]
    fn new() -> ManualClock {
        ManualClock { clock: redlatch::ManualClock::new() }
    }

    /// Moves the time, letting the background do its work on the way: leases with automatic renewal survive.
    ///
    /// Blocks for as long as that work takes; a step in which a callback blocks ends after 2 s.
    fn advance(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        let span = arguments::wait("seconds", seconds, None)?;
        py.detach(|| {
            self.clock.advance(span);
            dispatch::settle(Duration::from_secs(2));
        });
        Ok(())
    }
}
