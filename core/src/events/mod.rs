//! What happened, for people and dashboards: counters, timings and log events.

mod counters;
mod hot;
mod sink;
mod stats;

pub(crate) use counters::{Count, Counters, Waiting};
pub use sink::{LogLevel, LogRecord, log_to};
pub(crate) use stats::Gauges;
pub use stats::{Histogram, HotName, LongestHold, Stats};

use crate::error::LostReason;
use crate::lease::Grant;

/// Logs a loss. Names the lock, its fence and the reason; never the token.
pub(crate) fn log_loss(grant: &Grant, reason: LostReason) {
    let (name, fence) = (grant.spec.name(), grant.fence);
    let ttl_ms = grant.ttl().as_millis() as u64;
    match reason {
        LostReason::MaxHold => {
            tracing::warn!(lock = name, fence, ttl_ms, "max_hold reached: lease ended, key lapses within one ttl");
        }
        LostReason::Expired if !grant.spec.options.auto_renew => {
            tracing::warn!(lock = name, fence, ttl_ms, "held longer than its ttl without renewal: lease lost");
        }
        LostReason::Closed => {
            tracing::info!(lock = name, fence, ttl_ms, "client closed while the lease was held");
        }
        LostReason::Expired | LostReason::Taken | LostReason::Forked | LostReason::Internal => {
            tracing::error!(lock = name, fence, ttl_ms, reason = reason.as_str(), "lease lost while held");
        }
    }
}
