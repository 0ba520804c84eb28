//! Keeps signals away from threads.
//!
//! A read with a time limit ends when a signal's handler runs, whatever the handler does. Repeated like that, a request
//! whose answer takes longer than the period of a timer's signals would never end.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// For a thread of the library's own: writing to a connection that has ended, over TLS, raises no SIGPIPE, which would end a
/// program that is not Rust's. Rust programs ignore it anyway.
pub(crate) fn block_sigpipe() {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    // It cannot fail for a valid signal.
    let _ = pipe.thread_block();
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
    fn signals_come_back_after_a_quiet_time() {
        let before = blocked(Signal::SIGUSR1);
        let quiet = Quiet::begin();
        assert!(blocked(Signal::SIGUSR1));
        drop(quiet);
        assert_eq!(blocked(Signal::SIGUSR1), before);
    }
}
