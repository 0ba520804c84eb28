//! The Python extension: the core's verbs with Python's habits. No lock logic of its own.
//!
//! | module | what it does |
//! |---|---|
//! | `client`, `lock`, `lease`, `cancel`, `clock` | the classes |
//! | `waiting` | drives an acquire in steps, with signals, greenlets and event loops in mind |
//! | `holders` | who is asking: thread, greenlet, asyncio task |
//! | `arguments`, `errors`, `statistics` | Python's values to the core's, and back |
//! | `dispatch`, `callback`, `logs` | what Rust threads have to say, on a thread that may take the GIL |

#![forbid(unsafe_code)]

mod arguments;
mod callback;
mod cancel;
mod client;
mod clock;
mod dispatch;
mod errors;
mod holders;
mod lease;
mod lock;
mod logs;
mod statistics;
mod waiting;

use pyo3::prelude::*;

/// The extension: the Rust core with Python's habits. Import from ``redlatch``, not from here.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;
    use redlatch::options::{
        CONNECT_TIMEOUT, FENCE_RETENTION, IO_TIMEOUT, KEY_PREFIX, MIN_REPLICAS, POOL_SIZE, RENEWAL_THREADS,
        REPLICA_TIMEOUT, TTL, TURN, UNAVAILABLE_AFTER,
    };

    #[pymodule_export]
    use crate::cancel::CancelToken;
    #[pymodule_export]
    use crate::client::NativeClient;
    #[pymodule_export]
    use crate::clock::ManualClock;
    #[pymodule_export]
    use crate::dispatch::{next_event, report};
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::{after_fork, at_exit};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::dispatch::prepare();
        crate::logs::install();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("DEFAULT_URL", "redis://127.0.0.1:6379/0")?;
        module.add("KEY_PREFIX", KEY_PREFIX)?;
        for count in [POOL_SIZE, RENEWAL_THREADS, MIN_REPLICAS] {
            module.add(count.name.to_uppercase(), count.default)?;
        }
        for span in [CONNECT_TIMEOUT, IO_TIMEOUT, UNAVAILABLE_AFTER, TURN, FENCE_RETENTION, REPLICA_TIMEOUT, TTL] {
            module.add(span.name.to_uppercase(), span.default.map(|value| value.as_secs_f64()))?;
        }
        Ok(())
    }
}

/// For the at-fork hook: in a forked child every lease of the parent is inert from here on.
#[pyfunction]
fn after_fork() {
    redlatch::after_fork();
    dispatch::prepare();
}

/// For ``atexit``: runs the callbacks and log records that are queued, for 2 s at most; nothing is said after it.
#[pyfunction]
fn at_exit(py: Python<'_>) {
    py.detach(dispatch::end);
}
