//! The synchronization primitives of what is tested in interleavings: `parking_lot`'s and std's, or [`shuttled`].

#[cfg(shuttle)]
mod shuttled;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

/// What threads block on. std's mutex and condition, see [`Monitor`](crate::clock::Monitor).
#[cfg(not(shuttle))]
pub(crate) mod blocking {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(shuttle)]
pub(crate) use shuttled::{Mutex, blocking, thread, time};
