//! Notices that this process is a forked child, which holds nothing of what its parent held.
//!
//! A generation counter is compared on every call (one load); the pid itself, a system call, only
//! where input and output happen anyway. Bindings bump the generation from an at-fork hook.

use std::sync::atomic::{AtomicU64, Ordering};

/// Generation in the upper half, the pid that it belongs to in the lower one: one word, so that no thread of a child
/// sees the new pid with the old generation.
static STATE: AtomicU64 = AtomicU64::new(1 << 32);

/// The generation as far as it is known without asking the system.
pub(crate) fn generation() -> u64 {
    STATE.load(Ordering::Acquire) >> 32
}

/// The generation after comparing the pid.
pub(crate) fn detect() -> u64 {
    let pid = u64::from(std::process::id());
    let moved = |state: u64| match state & u64::from(u32::MAX) {
        seen if seen == pid => None,
        0 => Some(state | pid),
        _ => Some((((state >> 32) + 1) << 32) | pid),
    };
    // Fails when there is nothing to change.
    let _ = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
    generation()
}

/// Tells redlatch that this process may be a freshly forked child.
///
/// For bindings and programs that fork: called in the child (from `pthread_atfork`,
/// `os.register_at_fork`, or right after `fork` returned 0), it makes every lease of the parent inert
/// at once. Without it the child notices at its first call that talks to a server or at
/// `check()`/`is_held()`; what asks nobody (a nested acquire of a lock the parent held, `hold_count`, `stats`) can
/// still answer as in the parent before that.
/// Does nothing in a process that has not forked. Never blocks, and only stores to atomics.
pub fn after_fork() {
    detect();
}
