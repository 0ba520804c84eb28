//! Statuses and reasons as numbers, which are never used again for anything else.

use std::ffi::{CStr, c_char};

use redlatch_core::{Error, LostReason};

/// Done; of an acquire: the lock is held.
pub const REDLATCH_OK: i32 = 0;

/// Someone else has the lock, and the call did not wait. NOT held.
pub const REDLATCH_BUSY: i32 = 1;

/// Someone else had the lock for the whole wait. NOT held.
pub const REDLATCH_TIMED_OUT: i32 = 2;

/// An inner release: the thread still holds the lock.
pub const REDLATCH_STILL_HELD: i32 = 3;

/// Released as far as this process is concerned, but the server did not confirm it in time. The library goes on
/// releasing in the background; at worst others wait until the ttl has passed.
pub const REDLATCH_UNCONFIRMED: i32 = 4;

/// The wait was called off by redlatch_cancel_fire. NOT held.
pub const REDLATCH_CANCELLED: i32 = 5;

/// Nobody has the lock (inspect, force_release), or the token does not have it any more (adopt).
pub const REDLATCH_NOT_FOUND: i32 = 6;

/// The buffer is too small for the text; the size that it needs is reported.
pub const REDLATCH_TRUNCATED: i32 = 7;

/// The call itself is wrong: NULL where a value must be, text that is not UTF-8, a negative wait, an options
/// struct that was not initialised. Nothing was done.
pub const REDLATCH_INVALID_ARGUMENT: i32 = -1;

/// A URL, name, token or option that is refused; the message names it and what would be accepted. Nothing was sent.
pub const REDLATCH_CONFIG: i32 = -2;

/// The lease ended while the caller still had it, and someone else may have the lock: stop the work that it
/// protected. redlatch_last_error_lost_reason says why.
pub const REDLATCH_LOST: i32 = -3;

/// The calling thread (or this lease handle) does not hold the lock.
pub const REDLATCH_NOT_HELD: i32 = -4;

/// No usable answer from the server within the caller's time. Whether the lock is free is unknown. Can be retried.
pub const REDLATCH_UNAVAILABLE: i32 = -5;

/// The server refuses the user name or password of the URL, or wants one.
pub const REDLATCH_AUTHENTICATION: i32 = -6;

/// The server's access rules forbid a command or key that the lock needs.
pub const REDLATCH_PERMISSION: i32 = -7;

/// A key that the lock needs holds foreign data. Nothing was written.
pub const REDLATCH_KEY_TYPE: i32 = -8;

/// The server answers, but cannot do what the lock needs. Retrying does not help.
pub const REDLATCH_INCOMPATIBLE: i32 = -9;

/// redlatch_client_close was called on the client.
pub const REDLATCH_CLOSED: i32 = -10;

/// Too few replicas acknowledged the grant (option min_replicas), so it was given up. Can be retried.
pub const REDLATCH_NOT_REPLICATED: i32 = -11;

/// The lease handle has the lock already, another thread uses it at this moment, or the log goes elsewhere.
pub const REDLATCH_IN_USE: i32 = -12;

/// A defect inside redlatch, such as a panic, which ended this call and nothing else. Please report it.
pub const REDLATCH_INTERNAL: i32 = -99;

/// Not lost.
pub const REDLATCH_LOST_NONE: i32 = 0;

/// The deadline passed without a successful renewal: the server was away or the process stalled.
pub const REDLATCH_LOST_EXPIRED: i32 = 1;

/// The server no longer has the holder's token under the key: deleted, evicted or taken over.
pub const REDLATCH_LOST_TAKEN: i32 = 2;

/// max_hold was reached.
pub const REDLATCH_LOST_MAX_HOLD: i32 = 3;

/// This process is a forked child; the lease belongs to its parent.
pub const REDLATCH_LOST_FORKED: i32 = 4;

/// The client was closed.
pub const REDLATCH_LOST_CLOSED: i32 = 5;

/// A defect inside redlatch ended it.
pub const REDLATCH_LOST_INTERNAL: i32 = 6;

/// The name of a status, such as "REDLATCH_BUSY", for logs; "unknown status" for a number that is none.
///
/// The text is static: do not free it.
/// Thread-safe. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_status_name(status: i32) -> *const c_char {
    status_name(status).as_ptr()
}

/// A stable word for a reason: "none", "expired", "taken", "max_hold", "forked", "closed", "internal"; "unknown" for
/// a number that is none.
///
/// The text is static: do not free it.
/// Thread-safe. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_lost_reason_name(reason: i32) -> *const c_char {
    reason_name(reason).as_ptr()
}

/// The version of the library that runs, such as "0.1.0"; REDLATCH_VERSION is the version of the header that the
/// program was built with.
///
/// The text is static: do not free it.
/// Thread-safe. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

fn status_name(status: i32) -> &'static CStr {
    match status {
        REDLATCH_OK => c"REDLATCH_OK",
        REDLATCH_BUSY => c"REDLATCH_BUSY",
        REDLATCH_TIMED_OUT => c"REDLATCH_TIMED_OUT",
        REDLATCH_STILL_HELD => c"REDLATCH_STILL_HELD",
        REDLATCH_UNCONFIRMED => c"REDLATCH_UNCONFIRMED",
        REDLATCH_CANCELLED => c"REDLATCH_CANCELLED",
        REDLATCH_NOT_FOUND => c"REDLATCH_NOT_FOUND",
        REDLATCH_TRUNCATED => c"REDLATCH_TRUNCATED",
        REDLATCH_INVALID_ARGUMENT => c"REDLATCH_INVALID_ARGUMENT",
        REDLATCH_CONFIG => c"REDLATCH_CONFIG",
        REDLATCH_LOST => c"REDLATCH_LOST",
        REDLATCH_NOT_HELD => c"REDLATCH_NOT_HELD",
        REDLATCH_UNAVAILABLE => c"REDLATCH_UNAVAILABLE",
        REDLATCH_AUTHENTICATION => c"REDLATCH_AUTHENTICATION",
        REDLATCH_PERMISSION => c"REDLATCH_PERMISSION",
        REDLATCH_KEY_TYPE => c"REDLATCH_KEY_TYPE",
        REDLATCH_INCOMPATIBLE => c"REDLATCH_INCOMPATIBLE",
        REDLATCH_CLOSED => c"REDLATCH_CLOSED",
        REDLATCH_NOT_REPLICATED => c"REDLATCH_NOT_REPLICATED",
        REDLATCH_IN_USE => c"REDLATCH_IN_USE",
        REDLATCH_INTERNAL => c"REDLATCH_INTERNAL",
        _ => c"unknown status",
    }
}

fn reason_name(reason: i32) -> &'static CStr {
    match reason {
        REDLATCH_LOST_NONE => c"none",
        REDLATCH_LOST_EXPIRED => c"expired",
        REDLATCH_LOST_TAKEN => c"taken",
        REDLATCH_LOST_MAX_HOLD => c"max_hold",
        REDLATCH_LOST_FORKED => c"forked",
        REDLATCH_LOST_CLOSED => c"closed",
        REDLATCH_LOST_INTERNAL => c"internal",
        _ => c"unknown",
    }
}

/// The status that stands for an error of the core.
pub(crate) fn of_error(error: &Error) -> i32 {
    match error {
        Error::Config { .. } => REDLATCH_CONFIG,
        Error::Lost(_) => REDLATCH_LOST,
        Error::NotHeld { .. } => REDLATCH_NOT_HELD,
        Error::Unavailable { .. } => REDLATCH_UNAVAILABLE,
        Error::NotReplicated { .. } => REDLATCH_NOT_REPLICATED,
        Error::Authentication { .. } => REDLATCH_AUTHENTICATION,
        Error::Permission { .. } => REDLATCH_PERMISSION,
        Error::KeyType { .. } => REDLATCH_KEY_TYPE,
        Error::Incompatible { .. } => REDLATCH_INCOMPATIBLE,
        Error::Cancelled { .. } => REDLATCH_CANCELLED,
        Error::InUse { .. } => REDLATCH_IN_USE,
        Error::Closed { .. } => REDLATCH_CLOSED,
        _ => REDLATCH_INTERNAL,
    }
}

/// The number of a reason; `None` is "not lost".
pub(crate) fn of_reason(reason: Option<LostReason>) -> i32 {
    match reason {
        None => REDLATCH_LOST_NONE,
        Some(LostReason::Expired) => REDLATCH_LOST_EXPIRED,
        Some(LostReason::Taken) => REDLATCH_LOST_TAKEN,
        Some(LostReason::MaxHold) => REDLATCH_LOST_MAX_HOLD,
        Some(LostReason::Forked) => REDLATCH_LOST_FORKED,
        Some(LostReason::Closed) => REDLATCH_LOST_CLOSED,
        Some(_) => REDLATCH_LOST_INTERNAL,
    }
}
