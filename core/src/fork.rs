//! Notices that this process is a forked child, which holds nothing of what its parent held.
//!
//! A generation counter is compared on every call (one load); the pid itself, a system call, only
//! where input and output happen anyway. Bindings bump the generation from an at-fork hook.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static PID: AtomicU32 = AtomicU32::new(0);
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation as far as it is known without asking the system.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// The generation after comparing the pid.
pub(crate) fn detect() -> u64 {
    let pid = std::process::id();
    let seen = PID.load(Ordering::Acquire);
    if seen != pid && PID.compare_exchange(seen, pid, Ordering::AcqRel, Ordering::Acquire).is_ok() && seen != 0 {
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }
    generation()
}

/// Tells redlatch that this process may be a freshly forked child.
///
/// For bindings and programs that fork: called in the child (from `pthread_atfork`,
/// `os.register_at_fork`, or right after `fork` returned 0), it makes every lease of the parent inert
/// at once. Without it the child notices at its first call that talks to a server or at
/// `check()`/`is_held()`; only a nested acquire of a lock the parent held can slip through before that.
/// Does nothing in a process that has not forked. Never blocks, and only stores to atomics.
pub fn after_fork() {
    detect();
}
