//! Leases: locks that belong to their handle.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use redlatch_core::{CancelToken, LeaseHandle, Progress};

use crate::boundary::{Outcome, borrow, call, free, place};
use crate::callback::{Destroy, OnLost, Registration, Slot};
use crate::cancel::Cancel;
use crate::client::Client;
use crate::last_error::Failure;
use crate::lock::{millis, not_granted, released};
use crate::options::{self, LockOptions};
use crate::status::{self, REDLATCH_NOT_FOUND, REDLATCH_OK};
use crate::text::{self, Overlong};
use crate::wait;

/// A lock that belongs to its handle: any thread may use and release it, and nobody re-enters it.
#[derive(Debug)]
pub struct Lease {
    handle: LeaseHandle,
    options: redlatch_core::LockOptions,
    on_lost: Slot,
}

/// The longest step of an acquire, whose end changes nothing.
const STEP: Duration = Duration::from_secs(3600);

impl Lease {
    /// # Safety
    /// As [`redlatch_lease_new`].
    unsafe fn new(
        client: *const Client,
        name: *const c_char,
        name_len: usize,
        options: *const LockOptions,
    ) -> Result<Lease, Failure> {
        // SAFETY: as promised by the caller.
        let client = unsafe { borrow(client, "client") }?;
        // SAFETY: as promised by the caller.
        let name = unsafe { text::read(name, name_len, "name") }?;
        // SAFETY: as promised by the caller.
        let options = unsafe { options::lock(options) }?;
        let handle = LeaseHandle::new(&client.client, name, options.clone())?;
        Ok(Lease { handle, options, on_lost: Slot::default() })
    }

    fn acquire(&self, wait: Option<Duration>, cancel: Option<&CancelToken>) -> Outcome {
        let mut request = self.handle.begin(self.on_lost.applied(&self.options), wait, cancel)?;
        loop {
            match request.advance(STEP)? {
                Progress::Granted(()) => return Ok(REDLATCH_OK),
                Progress::Busy => return Ok(not_granted(wait)),
                Progress::Waiting(_) => {}
            }
        }
    }

    fn adopt(&self, token: &str) -> Result<bool, Failure> {
        Ok(self.handle.adopt(token, self.on_lost.applied(&self.options))?)
    }

    fn lease(&self) -> Result<Arc<redlatch_core::Lease>, Failure> {
        Ok(self.handle.lease()?)
    }
}

/// The lease that the caller names.
///
/// # Safety
/// `lease` is NULL or a handle that lives for `'a`.
unsafe fn at<'a>(lease: *const Lease) -> Result<&'a Lease, Failure> {
    // SAFETY: as promised by the caller.
    unsafe { borrow(lease, "lease") }
}

/// Makes a handle that can hold the lock name, and does not hold it yet; arguments and statuses as redlatch_lock_new.
///
/// For hand-over: any thread may use the handle, and with redlatch_lease_into_token and redlatch_adopt the lease moves
/// to another process. It has one lease at a time, and acquiring it again before a release is an error.
///
/// REDLATCH_OK; REDLATCH_CONFIG; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_new(
    client: *const Client,
    name: *const c_char,
    name_len: usize,
    options: *const LockOptions,
    lease: *mut *mut Lease,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(lease, "lease") }?;
        // SAFETY: the caller says that each can be read.
        out.make(|| unsafe { Lease::new(client, name, name_len, options) })
    })
}

/// Frees the handle. A lease that it still has is released in the background, and a warning is logged. NULL is fine.
///
/// Thread-safe. Blocks as redlatch_client_close where it frees the client's last handle. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_free(lease: *mut Lease) {
    // SAFETY: the caller says that it is NULL or a handle that nobody uses from here on.
    unsafe { free(lease) }
}

/// Acquires the lock for this handle; wait_ms as in redlatch_lock_acquire. The handle has it if and only if REDLATCH_OK
/// is returned, and then owes one redlatch_lease_release or redlatch_lease_into_token.
///
/// REDLATCH_IN_USE: the handle has the lock already, or another thread acquires through it; otherwise as
/// redlatch_lock_acquire, without REDLATCH_LOST.
/// Thread-safe. Blocks for wait_ms; with 0 for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_acquire(lease: *const Lease, wait_ms: i64) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| unsafe { at(lease) }?.acquire(wait::limit(wait_ms)?, None))
}

/// As redlatch_lease_acquire with a wait of 0: asks once.
///
/// REDLATCH_OK; REDLATCH_BUSY; otherwise as redlatch_lease_acquire.
/// Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_try_acquire(lease: *const Lease) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| unsafe { at(lease) }?.acquire(Some(Duration::ZERO), None))
}

/// As redlatch_lease_acquire, until another thread fires cancel.
///
/// REDLATCH_CANCELLED; otherwise as redlatch_lease_acquire.
/// Thread-safe. Blocks for wait_ms. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_acquire_cancellable(
    lease: *const Lease,
    wait_ms: i64,
    cancel: *const Cancel,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that both are NULL or handles that live.
        let (lease, cancel) = unsafe { (at(lease)?, borrow(cancel, "cancel")?) };
        lease.acquire(wait::limit(wait_ms)?, Some(&cancel.token))
    })
}

/// Stops renewal and releases the lock on the server. The handle has no lease any more, whatever is returned, and can
/// acquire again.
///
/// REDLATCH_NOT_HELD: the handle has no lease; otherwise as redlatch_lock_release, without REDLATCH_STILL_HELD.
/// Thread-safe. Blocks for io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_release(lease: *const Lease) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| Ok(released(unsafe { at(lease) }?.handle.release()?)))
}

/// As redlatch_lock_renew, for the lease of this handle.
///
/// REDLATCH_OK; REDLATCH_LOST; REDLATCH_NOT_HELD; otherwise as redlatch_lock_renew.
/// Thread-safe. Blocks for io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_renew(lease: *const Lease) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { at(lease) }?.lease()?.renew()?;
        Ok(REDLATCH_OK)
    })
}

/// As redlatch_lock_check, for the lease of this handle.
///
/// REDLATCH_OK: valid; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_check(lease: *const Lease) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { at(lease) }?.lease()?.check()?;
        Ok(REDLATCH_OK)
    })
}

/// *held is 1 where redlatch_lease_check returns REDLATCH_OK, otherwise 0.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_is_held(lease: *const Lease, held: *mut i32) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lease, out) = unsafe { (at(lease)?, place(held, "held")?) };
        out.set(i32::from(lease.handle.is_held()));
        Ok(REDLATCH_OK)
    })
}

/// As redlatch_lock_fence, for the lease of this handle.
///
/// REDLATCH_OK; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_fence(lease: *const Lease, fence: *mut u64) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lease, out) = unsafe { (at(lease)?, place(fence, "fence")?) };
        out.set(lease.lease()?.fence());
        Ok(REDLATCH_OK)
    })
}

/// As redlatch_lock_token, for the lease of this handle, which goes on.
///
/// REDLATCH_OK; REDLATCH_TRUNCATED; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_token(
    lease: *const Lease,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let lease = unsafe { at(lease) }?.lease()?;
        // SAFETY: the caller says that `buffer` takes `capacity` bytes, and that `needed` is NULL or takes a size.
        unsafe { text::write(lease.token().as_str(), buffer, capacity, needed, Overlong::Refuse) }
    })
}

/// As redlatch_lock_remaining_ms, for the lease of this handle; 0 without one.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_remaining_ms(lease: *const Lease, remaining_ms: *mut i64) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lease, out) = unsafe { (at(lease)?, place(remaining_ms, "remaining_ms")?) };
        out.set(millis(lease.handle.remaining()));
        Ok(REDLATCH_OK)
    })
}

/// As redlatch_lock_lost_reason, for the lease of this handle; REDLATCH_LOST_NONE without one.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_lost_reason(lease: *const Lease, reason: *mut i32) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lease, out) = unsafe { (at(lease)?, place(reason, "reason")?) };
        out.set(status::of_reason(lease.handle.lost()));
        Ok(REDLATCH_OK)
    })
}

/// As redlatch_lock_on_lost, for the leases that this handle gets from now on.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_on_lost(
    lease: *const Lease,
    callback: OnLost,
    user_data: *mut c_void,
    destroy: Destroy,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let lease = unsafe { at(lease) }?;
        // SAFETY: the header says on which threads and how often they are called.
        lease.on_lost.set(unsafe { Registration::new(callback, user_data, destroy) });
        Ok(REDLATCH_OK)
    })
}

/// Hands the lease over: renews it, stops renewal, releases nothing, and writes its token into buffer, as
/// redlatch_lock_token does; use REDLATCH_TOKEN_SIZE. Whoever gets the token can adopt the lease until its ttl has
/// passed. The handle has no lease then, and can acquire again.
///
/// REDLATCH_OK; REDLATCH_TRUNCATED: too small, only needed was written, and the handle still has the lease;
/// REDLATCH_NOT_HELD; REDLATCH_IN_USE: another thread uses the lease at this moment, and the handle still has it;
/// REDLATCH_INVALID_ARGUMENT. With any other status the lease was not handed over, and is released: REDLATCH_LOST, and
/// from the server as redlatch_lock_acquire.
/// Thread-safe. Blocks for io_timeout at most, and once more where a request went unanswered before. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_into_token(
    lease: *const Lease,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let lease = unsafe { at(lease) }?;
        let enough = {
            let held = lease.lease()?;
            // Every token of a client is as long as this one.
            held.token().as_str().len() < capacity
        };
        if buffer.is_null() || !enough {
            let held = lease.lease()?;
            // SAFETY: the caller says that `buffer` takes `capacity` bytes, and that `needed` is NULL or takes a size.
            return unsafe { text::write(held.token().as_str(), buffer, capacity, needed, Overlong::Refuse) };
        }
        let token = lease.handle.into_token()?;
        // SAFETY: as above.
        unsafe { text::write(token.as_str(), buffer, capacity, needed, Overlong::Refuse) }
    })
}

/// Makes a lease handle as redlatch_lease_new, and takes over the lease that token, token_len bytes, proves: it becomes
/// a new lease with a new token and a new, larger fence. To set a callback before, use redlatch_lease_adopt.
///
/// REDLATCH_OK; REDLATCH_NOT_FOUND: the lock is not held by that token any more; otherwise as redlatch_lease_adopt, and
/// as redlatch_lease_new. *lease is NULL unless REDLATCH_OK is returned.
/// Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_adopt(
    client: *const Client,
    name: *const c_char,
    name_len: usize,
    token: *const c_char,
    token_len: usize,
    options: *const LockOptions,
    lease: *mut *mut Lease,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(lease, "lease") }?;
        out.set(std::ptr::null_mut());
        // SAFETY: the caller says that the text can be read.
        let token = unsafe { text::read(token, token_len, "token") }?;
        // SAFETY: the caller says that each can be read.
        let made = unsafe { Lease::new(client, name, name_len, options) }?;
        if made.adopt(token)? { out.make(|| Ok(made)) } else { Ok(REDLATCH_NOT_FOUND) }
    })
}

/// Takes over the lease that token, token_len bytes, proves, into a handle that has none; see redlatch_adopt.
///
/// REDLATCH_OK; REDLATCH_NOT_FOUND: the lock is not held by that token any more; REDLATCH_CONFIG: the token is none;
/// REDLATCH_IN_USE; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT; from the server as redlatch_lock_acquire. After
/// REDLATCH_UNAVAILABLE the lock may have been taken over and then released again; after REDLATCH_NOT_REPLICATED it was.
/// Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lease_adopt(lease: *const Lease, token: *const c_char, token_len: usize) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let lease = unsafe { at(lease) }?;
        // SAFETY: the caller says that the text can be read.
        let token = unsafe { text::read(token, token_len, "token") }?;
        Ok(if lease.adopt(token)? { REDLATCH_OK } else { REDLATCH_NOT_FOUND })
    })
}
