//! Calling off a wait.

use redlatch_core::CancelToken;

use crate::boundary::{borrow, call, free, place};
use crate::status::REDLATCH_OK;

/// Calls off waits, from another thread than the one that waits.
#[derive(Debug)]
pub struct Cancel {
    pub(crate) token: CancelToken,
}

/// Makes a cancel handle, which can be given to any number of waits.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_cancel_new(cancel: *mut *mut Cancel) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(cancel, "cancel") }?;
        out.make(|| Ok(Cancel { token: CancelToken::new() }))
    })
}

/// Calls off every wait that was given this handle; each returns REDLATCH_CANCELLED and gives up its place in the
/// queue. It stays fired: a wait that begins with it later returns at once. A request that is on its way is not
/// interrupted, which takes io_timeout at most. A lock that is granted before the wait notices stays granted.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Not for signal handlers. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_cancel_fire(cancel: *const Cancel) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { borrow(cancel, "cancel") }?.token.cancel();
        Ok(REDLATCH_OK)
    })
}

/// Frees the handle. Waits that were given it go on, and nobody can call them off any more. NULL is fine.
///
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_cancel_free(cancel: *mut Cancel) {
    // SAFETY: the caller says that it is NULL or a handle that nobody uses from here on.
    unsafe { free(cancel) }
}
