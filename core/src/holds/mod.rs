//! Which thread holds which lock how often, and what happens when a thread ends.

mod holder;
mod table;

pub(crate) use holder::{Holders, ThreadEnd, current_thread, on_thread_end};
pub use holder::{new_holder, thread_holder};
pub(crate) use table::{Ended, HashedKey, Hold, HoldTable, Left};
