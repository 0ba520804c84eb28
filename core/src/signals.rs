//! Keeps signals away from a thread while it repeats what a signal interrupted.
//!
//! A read with a time limit ends when a signal's handler runs, whatever the handler does. Repeated like that, a request
//! whose answer takes longer than the period of a timer's signals would never end.

use nix::sys::signal::{SigSet, SigmaskHow};

/// Signals wait, or go to another thread, until this is dropped. Those that tell of a fault of the thread's own do not.
#[derive(Debug)]
pub(crate) struct Quiet {
    before: Option<SigSet>,
}

impl Quiet {
    pub(crate) fn begin() -> Quiet {
        // Without it the request is interrupted again, at worst.
        Quiet { before: SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = before.thread_set_mask();
        }
    }
}
