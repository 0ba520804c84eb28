//! How long a call may wait.

use std::time::Duration;

use crate::last_error::Failure;

/// No limit to the wait; while the server is away, unavailable_after still ends it.
pub const REDLATCH_WAIT_FOREVER: i64 = -1;

/// `None` is no limit.
pub(crate) fn limit(wait_ms: i64) -> Result<Option<Duration>, Failure> {
    if wait_ms == REDLATCH_WAIT_FOREVER {
        return Ok(None);
    }
    match u64::try_from(wait_ms) {
        Ok(wait) => Ok(Some(Duration::from_millis(wait))),
        Err(_) => Err(Failure::invalid(format!(
            "wait_ms is {wait_ms}: milliseconds from 0 up are expected, or REDLATCH_WAIT_FOREVER"
        ))),
    }
}
