//! The C ABI. `include/redlatch.h` is its manual and is generated from here; no lock logic of its own.
//!
//! | module | what it does |
//! |---|---|
//! | `client`, `lock`, `lease`, `cancel` | the handles and their functions |
//! | `check` | whether a server is fit for locks |
//! | `options` | structs that begin with their size |
//! | `status`, `last_error` | what a call came to |
//! | `boundary` | every call: panics and NULL end here |
//! | `text`, `json`, `wait` | C's values to the core's, and back |
//! | `callback`, `deferred`, `log` | what the library has to tell the program |
//! | `fork` | the at-fork handler |

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "what a caller owes is said once, at the top of the header")]

mod boundary;
pub mod callback;
pub mod cancel;
pub mod check;
pub mod client;
mod deferred;
mod fork;
mod json;
pub mod last_error;
pub mod lease;
pub mod lock;
pub mod log;
pub mod options;
pub mod status;
#[cfg(feature = "test-panic")]
pub mod test_panic;
pub mod text;
pub mod wait;
