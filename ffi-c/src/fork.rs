//! The at-fork handler.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sees to it that a forked child knows at once that it holds nothing of its parent's.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // No lock: a child forked in the middle of this must not wait for a thread that it does not have.
    if !WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler lives as long as the process, because the library is never unloaded, and does only what a
        // forked child may do. Without it, should memory be short, the core notices at the next call that does I/O.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Only stores to atomics.
unsafe extern "C" fn in_child() {
    redlatch_core::after_fork();
}
