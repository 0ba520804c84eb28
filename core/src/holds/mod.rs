//! Which thread holds which lock how often, and what happens when a thread ends.

mod holder;
mod table;

pub(crate) use holder::{HolderFn, ThreadEnd, current_thread, on_thread_end};
pub(crate) use table::{HashedKey, Hold, HoldTable, Left};
