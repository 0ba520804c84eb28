//! Waiting for a lock: one waiter's decisions (pure), and the waiters of a client that can be woken.

mod cancel;
#[cfg(test)]
mod crossings;
mod inbox;
#[cfg(all(test, shuttle))]
mod interleavings;
mod registry;
mod waiter;

pub use cancel::CancelToken;
pub(crate) use inbox::Inbox;
pub(crate) use registry::{Sleeper, WaiterRegistry, Wake};
pub(crate) use waiter::{Patience, Step, Timing, Verdict, Waiter};
