//! Waiting for a lock: one waiter's decisions (pure), and the waiters of a client that can be woken.

mod registry;
mod waiter;

pub(crate) use registry::{WaiterRegistry, Wake};
pub(crate) use waiter::{Patience, Step, Timing, Verdict, Waiter};
