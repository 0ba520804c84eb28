//! The verbs: locks that belong to a thread, and leases that move between threads.

mod acquiring;
mod guard;
mod lease;
mod lease_handle;
mod releasing;
mod renewing;
mod stepping;
mod thread_lock;

pub(crate) use acquiring::{Acquiring, Wanted, acquire as acquire_grant};
pub use guard::Guard;
pub use lease::Lease;
pub use lease_handle::{HandleRequest, LeaseHandle};
pub use releasing::Released;
pub use stepping::{LeaseRequest, LockRequest, Progress};
pub use thread_lock::Lock;
pub(crate) use thread_lock::patience_until;
