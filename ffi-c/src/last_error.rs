//! What the last failure on a thread was, in words.

use std::cell::RefCell;
use std::ffi::c_char;

use redlatch_core::Error;

use crate::boundary::silent_call;
use crate::status::{self, REDLATCH_INTERNAL, REDLATCH_INVALID_ARGUMENT, REDLATCH_LOST_NONE};
use crate::text::{self, Overlong};

/// A call that failed. Boxed, so that the way of those that do not fail is short.
pub(crate) struct Failure(Box<Details>);

struct Details {
    status: i32,
    message: String,
    lost: i32,
    fence: u64,
}

impl Failure {
    /// With a status that no error of the core has.
    pub(crate) fn new(status: i32, message: impl Into<String>) -> Failure {
        Failure(Box::new(Details { status, message: message.into(), lost: REDLATCH_LOST_NONE, fence: 0 }))
    }

    /// The call itself is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(REDLATCH_INVALID_ARGUMENT, message)
    }

    /// A defect.
    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(REDLATCH_INTERNAL, message)
    }

    /// The status that the call returns.
    pub(crate) fn status(self) -> i32 {
        self.0.status
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (lost, fence) = match &error {
            Error::Lost(info) => (status::of_reason(Some(info.reason())), info.fence()),
            _ => (REDLATCH_LOST_NONE, 0),
        };
        Failure(Box::new(Details { status: status::of_error(&error), message: error.to_string(), lost, fence }))
    }
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Keeps a failure for the thread; its status.
pub(crate) fn set(failure: Failure) -> i32 {
    let status = failure.0.status;
    // Positive ones are ordinary outcomes. A thread that is ending may have no place for it any more.
    if status < 0 {
        let _ = LAST.try_with(|last| last.replace(Some(failure)));
    }
    status
}

fn look<T>(look: impl FnOnce(Option<&Failure>) -> T) -> Option<T> {
    LAST.try_with(|last| look(last.borrow().as_ref())).ok()
}

/// The message of the last call on this thread that returned a negative status; an empty text before the first.
///
/// A sentence in English, without tokens and passwords. Calls that succeed do not change it, so ask right after a
/// failure. buffer gets the text with a NUL at its end, cut at a character where capacity is too small. needed,
/// unless NULL, gets the capacity that the whole text takes, its NUL included. buffer may be NULL with capacity 0.
///
/// REDLATCH_OK; REDLATCH_TRUNCATED; REDLATCH_INVALID_ARGUMENT for a NULL buffer with a capacity, which leaves the
/// message as it is.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_last_error_message(buffer: *mut c_char, capacity: usize, needed: *mut usize) -> i32 {
    silent_call(|| {
        let message = look(|last| last.map(|failure| failure.0.message.clone())).flatten().unwrap_or_default();
        // SAFETY: the caller says that `buffer` takes `capacity` bytes, and that `needed` is NULL or takes a size.
        unsafe { text::write(&message, buffer, capacity, needed, Overlong::Cut) }
    })
}

/// Why the lease was lost, where the last call on this thread that returned a negative status returned
/// REDLATCH_LOST; otherwise REDLATCH_LOST_NONE.
///
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_last_error_lost_reason() -> i32 {
    look(|last| last.map(|failure| failure.0.lost)).flatten().unwrap_or(REDLATCH_LOST_NONE)
}

/// The fence of the lost lease, where the last call on this thread that returned a negative status returned
/// REDLATCH_LOST; otherwise 0, which no lease has. After a release it is told here only.
///
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_last_error_lost_fence() -> u64 {
    look(|last| last.map_or(0, |failure| failure.0.fence)).unwrap_or(0)
}
