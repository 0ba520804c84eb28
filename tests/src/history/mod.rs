//! What worker processes did, as they wrote it down themselves, and what that says about the locks.
//!
//! | need | use |
//! |---|---|
//! | write down what a worker does, so that it outlives the worker | [`Journal`], [`Event`], [`now`] |
//! | start, stop, kill and end a worker, and keep the instants | [`Worker`] |
//! | who could rely on which lock when, and who waited | [`Story::of`], [`Held`], [`Wait`] |

mod journal;
mod story;
mod worker;

pub use journal::{Event, Journal, NOTHING, Record, read_journal};
pub use story::{Ending, Held, Life, Story, Wait};
pub use worker::Worker;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock that all processes of the machine share and that counts suspended time.
pub type Nanos = u64;

/// The present instant: `CLOCK_BOOTTIME`, which other languages read as well.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
