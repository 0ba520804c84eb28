//! One lease: its state and time arithmetic (pure), and the record that the threads of a client share.

mod grant;
mod state;

pub(crate) use grant::{Grant, LockSpec};
pub(crate) use state::{Ended, LeaseState, View, deadline, margin};
