//! One correct distributed lock on Redis and Valkey.
//!
//! A lease is not a proof: a process that stalls longer than its ttl comes back believing in a lock that has
//! another holder. Call [`Guard::check`] before every step that must not happen twice, and let the protected
//! resource refuse a lower [`Guard::fence`] than it has seen.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::{Client, LockOptions};
//!
//! # fn main() -> Result<(), redlatch::Error> {
//! let client = Client::open("memory://")?; // in production: redis://host:6379/0
//! let lock = client.lock_with("order:17", LockOptions::new().ttl(Duration::from_secs(10)))?;
//! if let Some(guard) = lock.try_acquire_for(Duration::from_secs(5))? {
//!     let fence = guard.fence();
//!     println!("UPDATE orders SET fence = {fence} WHERE id = 17 AND fence <= {fence}"); // before anything is read
//!     guard.check()?; // still ours, by this machine's clock
//!     println!("UPDATE orders SET state = 'paid' WHERE id = 17 AND fence = {fence}"); // no row: someone came after
//!     let _ = guard.release()?; // Err(Lost) when the lease was lost on the way
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | connect | [`Client::open`], [`Client::builder`] |
//! | hold a lock on this thread, nested if need be | [`Client::lock`], [`Lock::acquire`], [`Guard`] |
//! | ask once, or wait for some time | [`Lock::try_acquire`], [`Lock::try_acquire_for`] |
//! | move a held lock to another thread or process | [`Client::lease`], [`Lease::into_token`], [`Client::adopt`] |
//! | be told that a lease is lost | [`LockOptions::on_lost`], [`Guard::check`], [`Error::Lost`] |
//! | call off a wait | [`CancelToken`], [`Lock::acquire_cancellable`] |
//! | do something else while waiting | [`Lock::begin`], [`Client::begin_lease`] |
//! | see whether a server is fit for locks | [`Client::check_server`], [`Finding`] |
//! | look, and step in | [`Client::inspect`], [`Client::force_release`], [`Client::stats`] |
//! | test without a server | `memory://`, [`ManualClock`] |
//! | fork | [`after_fork`] |
//! | write a binding | [`LeaseHandle`], [`log_to`], [`ClientBuilder::holder_function`] |

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "redlatch is for Linux: leases are measured by CLOCK_BOOTTIME, and signals kept away by Linux's own calls"
);

mod check;
mod client;
mod clock;
mod engine;
mod error;
mod events;
mod fork;
#[cfg(test)]
#[cfg(not(fuzzing))]
#[allow(unreachable_pub, reason = "its functions are public for the fuzzer")]
mod fuzzing;
#[cfg(fuzzing)]
#[doc(hidden)]
#[allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "built for the fuzzer alone")]
pub mod fuzzing;
mod holds;
mod lease;
mod lock;
pub mod options;
mod protocol;
mod renewal;
mod signals;
mod sync;
mod token;
mod transport;
mod waiting;

pub use check::{Finding, FindingKind, Severity};
pub use client::{Client, ClientBuilder, LockInfo};
pub use clock::ManualClock;
pub use error::{Error, LostInfo, LostReason, Result, Source};
pub use events::{Histogram, HotName, LogLevel, LogRecord, LongestHold, Stats, log_to};
pub use fork::after_fork;
pub use holds::{new_holder, thread_holder};
pub use lock::{Guard, HandleRequest, Lease, LeaseHandle, LeaseRequest, Lock, LockRequest, Progress, Released};
pub use options::LockOptions;
pub use token::Token;
pub use waiting::CancelToken;

/// Runs the Rust code of the pages.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/operations.md")]
struct Pages;
