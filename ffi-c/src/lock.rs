//! Locks that belong to the thread that acquires them.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use redlatch_core::{CancelToken, Guard, Released};

use crate::boundary::{Outcome, borrow, call, free, place};
use crate::callback::{Destroy, OnLost, Registration, Slot};
use crate::cancel::Cancel;
use crate::client::Client;
use crate::last_error::Failure;
use crate::options::{self, LockOptions};
use crate::status::{self, REDLATCH_BUSY, REDLATCH_OK, REDLATCH_STILL_HELD, REDLATCH_TIMED_OUT, REDLATCH_UNCONFIRMED};
use crate::text::{self, Overlong};
use crate::wait;

/// A lock by name, re-entrant: what is held belongs to client, thread and name, so two handles of one name are the
/// same lock.
#[derive(Debug)]
pub struct Lock {
    lock: redlatch_core::Lock,
    options: redlatch_core::LockOptions,
    on_lost: Slot,
    client: redlatch_core::Client,
}

impl Lock {
    fn acquire(&self, wait: Option<Duration>, cancel: Option<&CancelToken>) -> Outcome {
        // A nested acquire takes what the first one's grant has; only a new grant takes the callback of now.
        let granted = match self.on_lost.applied(&self.options) {
            None => ask(&self.lock, wait, cancel)?,
            Some(options) => match self.lock.reacquire()? {
                Some(guard) => Some(guard),
                None => ask(&self.client.lock_with(self.lock.name(), options)?, wait, cancel)?,
            },
        };
        match granted {
            Some(guard) => {
                guard.forget();
                Ok(REDLATCH_OK)
            }
            None => Ok(not_granted(wait)),
        }
    }

    /// What this thread's hold tells; an error when it has none.
    fn look<T>(&self, look: impl FnOnce(&Guard) -> redlatch_core::Result<T>) -> Result<T, Failure> {
        Ok(self.lock.with_held(look).and_then(|outcome| outcome)?)
    }
}

fn ask(
    lock: &redlatch_core::Lock,
    wait: Option<Duration>,
    cancel: Option<&CancelToken>,
) -> redlatch_core::Result<Option<Guard>> {
    match (wait, cancel) {
        (wait, Some(cancel)) => lock.acquire_cancellable(wait, cancel),
        (Some(wait), None) => lock.try_acquire_for(wait),
        (None, None) => lock.acquire().map(Some),
    }
}

/// The status of an acquire that ended because someone else has the lock.
pub(crate) fn not_granted(wait: Option<Duration>) -> i32 {
    if wait == Some(Duration::ZERO) { REDLATCH_BUSY } else { REDLATCH_TIMED_OUT }
}

/// The status of a release.
pub(crate) fn released(released: Released) -> i32 {
    match released {
        Released::Released => REDLATCH_OK,
        Released::StillHeld(_) => REDLATCH_STILL_HELD,
        Released::Unconfirmed => REDLATCH_UNCONFIRMED,
    }
}

/// Until the deadline, in whole milliseconds.
pub(crate) fn millis(left: Duration) -> i64 {
    i64::try_from(left.as_millis()).unwrap_or(i64::MAX)
}

/// The lock that the caller names.
///
/// # Safety
/// `lock` is NULL or a handle that lives for `'a`.
unsafe fn at<'a>(lock: *const Lock) -> Result<&'a Lock, Failure> {
    // SAFETY: as promised by the caller.
    unsafe { borrow(lock, "lock") }
}

/// Makes a handle of the lock name, name_len bytes: 1 to 1024 bytes of UTF-8, any characters. options may be NULL for
/// the defaults. Asks no server.
///
/// REDLATCH_OK; REDLATCH_CONFIG for a name or option that is refused; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_new(
    client: *const Client,
    name: *const c_char,
    name_len: usize,
    options: *const LockOptions,
    lock: *mut *mut Lock,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(lock, "lock") }?;
        out.make(|| {
            // SAFETY: the caller says that it is NULL or a handle that lives.
            let client = unsafe { borrow(client, "client") }?.client.clone();
            // SAFETY: the caller says that the text can be read.
            let name = unsafe { text::read(name, name_len, "name") }?;
            // SAFETY: the caller says that they are NULL or as large as they say.
            let options = unsafe { options::lock(options) }?;
            let lock = client.lock_with(name, options.clone())?;
            Ok(Lock { lock, options, on_lost: Slot::default(), client })
        })
    })
}

/// Frees the handle. What is held stays held: it can be released through another handle of the same client and name,
/// by the same thread. NULL is fine.
///
/// Thread-safe. Blocks as redlatch_client_close where it frees the client's last handle, which releases what is held.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_free(lock: *mut Lock) {
    // SAFETY: the caller says that it is NULL or a handle that nobody uses from here on.
    unsafe { free(lock) }
}

/// Acquires the lock for this thread, waiting for wait_ms at most, 0 to ask once, REDLATCH_WAIT_FOREVER for no limit.
/// The thread has it if and only if REDLATCH_OK is returned, and then owes one redlatch_lock_release. A thread that has
/// the lock already gets it once more at once, without asking the server.
///
/// The wait covers everything, connecting included, and has nothing to do with the ttl. One below 10 ms may take
/// 10 ms. Without a limit an outage of unavailable_after ends it.
///
/// REDLATCH_OK; REDLATCH_BUSY when wait_ms is 0, otherwise REDLATCH_TIMED_OUT: someone else has it; REDLATCH_LOST when
/// this thread had it and its lease was lost, so that it must release first; REDLATCH_CLOSED;
/// REDLATCH_INVALID_ARGUMENT; from the server REDLATCH_UNAVAILABLE, REDLATCH_NOT_REPLICATED, REDLATCH_AUTHENTICATION,
/// REDLATCH_PERMISSION, REDLATCH_KEY_TYPE, REDLATCH_INCOMPATIBLE.
/// Thread-safe. Blocks for wait_ms; with 0 for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_acquire(lock: *const Lock, wait_ms: i64) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| unsafe { at(lock) }?.acquire(wait::limit(wait_ms)?, None))
}

/// As redlatch_lock_acquire with a wait of 0: asks once.
///
/// REDLATCH_OK; REDLATCH_BUSY; otherwise as redlatch_lock_acquire.
/// Thread-safe. Blocks for connect_timeout + io_timeout at most. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_try_acquire(lock: *const Lock) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| unsafe { at(lock) }?.acquire(Some(Duration::ZERO), None))
}

/// As redlatch_lock_acquire, until another thread fires cancel.
///
/// REDLATCH_CANCELLED; otherwise as redlatch_lock_acquire.
/// Thread-safe. Blocks for wait_ms. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_acquire_cancellable(
    lock: *const Lock,
    wait_ms: i64,
    cancel: *const Cancel,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that both are NULL or handles that live.
        let (lock, cancel) = unsafe { (at(lock)?, borrow(cancel, "cancel")?) };
        lock.acquire(wait::limit(wait_ms)?, Some(&cancel.token))
    })
}

/// Gives up one hold of this thread. The last one stops renewal and releases the lock on the server. The hold is gone
/// whatever is returned, unless that is REDLATCH_NOT_HELD or REDLATCH_INVALID_ARGUMENT.
///
/// REDLATCH_OK: free for others; REDLATCH_STILL_HELD: an inner release; REDLATCH_UNCONFIRMED: the server did not
/// confirm within io_timeout, and the background goes on; REDLATCH_LOST: the lease was lost, and the work may have
/// overlapped with another holder's; REDLATCH_NOT_HELD: this thread does not hold it; REDLATCH_INVALID_ARGUMENT; from
/// the server REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_KEY_TYPE, REDLATCH_INCOMPATIBLE, after which the
/// key lapses by its ttl.
/// Only the thread that acquired. Blocks for io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_release(lock: *const Lock) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that lives.
    call(|| Ok(released(unsafe { at(lock) }?.lock.release()?)))
}

/// Resets the lease to its full ttl now, by one round trip. Only needed with auto_renew 0.
///
/// REDLATCH_OK; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT; from the server as redlatch_lock_acquire,
/// after which the lease still counts until its deadline.
/// Only the thread that acquired. Blocks for io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_renew(lock: *const Lock) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { at(lock) }?.look(Guard::renew)?;
        Ok(REDLATCH_OK)
    })
}

/// Whether this thread's lease is valid now, by the clock of this machine: to be called before every step that must
/// not happen twice. Asks no server.
///
/// REDLATCH_OK: valid; REDLATCH_LOST; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
/// Only the thread that acquired. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_check(lock: *const Lock) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { at(lock) }?.look(Guard::check)?;
        Ok(REDLATCH_OK)
    })
}

/// *held is 1 where redlatch_lock_check returns REDLATCH_OK, otherwise 0: also on a thread that does not hold the lock.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_is_held(lock: *const Lock, held: *mut i32) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lock, out) = unsafe { (at(lock)?, place(held, "held")?) };
        out.set(i32::from(lock.lock.with_held(Guard::is_held).unwrap_or(false)));
        Ok(REDLATCH_OK)
    })
}

/// *fence is the fencing token of this thread's lease, for the protected resource, which should refuse a lower one than
/// it has seen. It grows with every lease of the lock; nested holds share it. Also told of a lease that is lost, until
/// it is released.
///
/// REDLATCH_OK; REDLATCH_NOT_HELD; REDLATCH_INVALID_ARGUMENT.
/// Only the thread that acquired. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_fence(lock: *const Lock, fence: *mut u64) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lock, out) = unsafe { (at(lock)?, place(fence, "fence")?) };
        out.set(lock.look(|guard| Ok(guard.fence()))?);
        Ok(REDLATCH_OK)
    })
}

/// The token of this thread's lease, into buffer with a NUL at its end; REDLATCH_TOKEN_SIZE always takes it. needed,
/// unless NULL, gets the capacity that it takes, its NUL included. buffer may be NULL with capacity 0. Who knows the
/// token can release the lock: keep it out of logs.
///
/// REDLATCH_OK; REDLATCH_TRUNCATED: too small, and only needed was written; REDLATCH_NOT_HELD;
/// REDLATCH_INVALID_ARGUMENT.
/// Only the thread that acquired. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_token(
    lock: *const Lock,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let token = unsafe { at(lock) }?.look(|guard| Ok(guard.token().clone()))?;
        // SAFETY: the caller says that `buffer` takes `capacity` bytes, and that `needed` is NULL or takes a size.
        unsafe { text::write(token.as_str(), buffer, capacity, needed, Overlong::Refuse) }
    })
}

/// *count is how often this thread holds the lock; 0 when it does not.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_hold_count(lock: *const Lock, count: *mut u32) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lock, out) = unsafe { (at(lock)?, place(count, "count")?) };
        out.set(lock.lock.hold_count());
        Ok(REDLATCH_OK)
    })
}

/// *remaining_ms is the time until the deadline of this thread's lease, which renewal moves; 0 when it is over, and on
/// a thread that does not hold the lock.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_remaining_ms(lock: *const Lock, remaining_ms: *mut i64) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lock, out) = unsafe { (at(lock)?, place(remaining_ms, "remaining_ms")?) };
        out.set(lock.lock.with_held(Guard::remaining).map_or(0, millis));
        Ok(REDLATCH_OK)
    })
}

/// *reason is why this thread's lease was lost, one of REDLATCH_LOST_...; REDLATCH_LOST_NONE while it is not, and on a
/// thread that does not hold the lock.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_lost_reason(lock: *const Lock, reason: *mut i32) -> i32 {
    call(|| {
        // SAFETY: the caller says that they are NULL, or a handle that lives and a place for a number.
        let (lock, out) = unsafe { (at(lock)?, place(reason, "reason")?) };
        out.set(status::of_reason(lock.lock.with_held(Guard::lost).unwrap_or(None)));
        Ok(REDLATCH_OK)
    })
}

/// Has callback called once for each lease that is lost, of those that are acquired through this handle from now on;
/// what is held already keeps the callback that it was acquired with. NULL ends it.
///
/// See "Callbacks" at the top for where and when callback runs. With REDLATCH_OK the library owns user_data: destroy,
/// unless NULL, is called with it exactly once, after the last call of callback, when this callback was replaced or the
/// handle was freed, and every lease that was acquired with it has ended. That may be inside this call. Otherwise
/// nothing is called.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_on_lost(
    lock: *const Lock,
    callback: OnLost,
    user_data: *mut c_void,
    destroy: Destroy,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let lock = unsafe { at(lock) }?;
        // SAFETY: the header says on which threads and how often they are called.
        lock.on_lost.set(unsafe { Registration::new(callback, user_data, destroy) });
        Ok(REDLATCH_OK)
    })
}
