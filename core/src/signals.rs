//! Keeps signals away from threads.
//!
//! A write over TLS, or to a Unix socket, whose other end has gone raises SIGPIPE, which ends a program that neither ignores nor blocks
//! it. Rust and Python ignore it; a C program may not.
//!
//! A read with a time limit ends when a signal's handler runs, whatever the handler does. Repeated like that, a request
//! whose answer takes longer than the period of a timer's signals would never end.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// For a thread of the library's own: no SIGPIPE.
pub(crate) fn block_sigpipe() {
    // It cannot fail for a valid signal.
    let _ = sigpipe().thread_block();
}

/// Runs `work` on a thread of the program: whatever it writes to, no SIGPIPE reaches the program.
pub(crate) fn without_sigpipe<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let pipe = sigpipe();
    let before = Quiet { before: pipe.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() };
    let outcome = work();
    if outcome.is_err() {
        // Raised or not, it waits no more; a failure here leaves things as they were without all this.
        let raised = SignalFd::with_flags(&pipe, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let _ = raised.and_then(|raised| raised.read_signal());
    }
    drop(before);
    outcome
}

fn sigpipe() -> SigSet {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    pipe
}

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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::clock::Clock;
    use crate::events::Counters;
    use crate::renewal::Threads;

    fn blocked(signal: Signal) -> bool {
        SigSet::thread_get_mask().unwrap().contains(signal)
    }

    #[test]
    fn a_thread_of_the_library_was_ended_by_sigpipe() {
        let (told, tells) = mpsc::channel();
        let threads = Threads::default();
        let counters = Arc::new(Counters::new());
        assert!(threads.start("redlatch-test", &Clock::System, &counters, move || {
            told.send((blocked(Signal::SIGPIPE), blocked(Signal::SIGTERM))).unwrap();
        }));
        assert_eq!(tells.recv().unwrap(), (true, false));
        threads.join();
    }

    #[test]
    fn a_panic_left_sigpipe_blocked_on_a_thread_of_the_program() {
        assert_eq!(without_sigpipe(|| Ok::<_, ()>(blocked(Signal::SIGPIPE))), Ok(true));
        assert!(!blocked(Signal::SIGPIPE));
        let panicked = std::panic::catch_unwind(|| without_sigpipe(|| -> Result<(), ()> { panic!("on purpose") }));
        assert!(panicked.is_err() && !blocked(Signal::SIGPIPE));
    }

    #[test]
    fn signals_come_back_after_a_quiet_time() {
        let before = blocked(Signal::SIGUSR1);
        let quiet = Quiet::begin();
        assert!(blocked(Signal::SIGUSR1));
        drop(quiet);
        assert_eq!(blocked(Signal::SIGUSR1), before);
    }
}
