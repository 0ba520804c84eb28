//! Options, their defaults and their bounds: the one place for each, which bindings read from here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, LostInfo, Result};

/// A time option: its name, default and bounds (both included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationOption {
    /// The name as builders and bindings spell it, without a unit suffix.
    pub name: &'static str,
    /// What applies when it is not set; `None` where that is "no limit".
    pub default: Option<Duration>,
    /// The smallest accepted value.
    pub min: Duration,
    /// The largest accepted value.
    pub max: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const fn duration(name: &'static str, default: Duration, min: Duration, max: Duration) -> DurationOption {
    DurationOption { name, default: Some(default), min, max }
}

/// How long a lease lives without renewal: 30 s by default, 100 ms to 24 h.
pub const TTL: DurationOption = duration("ttl", Duration::from_secs(30), Duration::from_millis(100), DAY);
/// Limit of opening a connection, name lookup and login included: 1 s by default, 10 ms to 60 s.
pub const CONNECT_TIMEOUT: DurationOption =
    duration("connect_timeout", Duration::from_secs(1), Duration::from_millis(10), Duration::from_secs(60));
/// Limit of one request and its reply: 1 s by default, 10 ms to 60 s.
pub const IO_TIMEOUT: DurationOption =
    duration("io_timeout", Duration::from_secs(1), Duration::from_millis(10), Duration::from_secs(60));
/// Limit of the wait for a pool slot: whatever is left of the caller's time by default, 10 ms to 60 s.
pub const POOL_TIMEOUT: DurationOption = DurationOption {
    name: "pool_timeout",
    default: None,
    min: Duration::from_millis(10),
    max: Duration::from_secs(60),
};
/// Continuous outage after which an acquire without a limit gives up: 10 s by default, 100 ms to 24 h.
pub const UNAVAILABLE_AFTER: DurationOption =
    duration("unavailable_after", Duration::from_secs(10), Duration::from_millis(100), DAY);
/// How long the server keeps a lock's last fence after a grant: 1 h by default, 1 s to 30 days.
pub const FENCE_RETENTION: DurationOption =
    duration("fence_retention", HOUR, Duration::from_secs(1), Duration::from_secs(30 * 24 * 3600));
/// How long a released lock stays reserved for the first waiter: 1 s by default, 500 ms to 10 s.
pub const TURN: DurationOption =
    duration("turn", Duration::from_secs(1), Duration::from_millis(500), Duration::from_secs(10));
/// How long a server waits for its replicas to acknowledge a grant: 100 ms by default, 10 ms to 60 s.
pub const REPLICA_TIMEOUT: DurationOption =
    duration("replica_timeout", Duration::from_millis(100), Duration::from_millis(10), Duration::from_secs(60));
/// Longest time a lease is renewed for: no limit by default, from the ttl up.
pub const MAX_HOLD: DurationOption =
    DurationOption { name: "max_hold", default: None, min: TTL.min, max: Duration::from_secs(365 * 24 * 3600) };

/// A count option: its name, default and bounds (both included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountOption {
    /// The name as builders and bindings spell it.
    pub name: &'static str,
    /// What applies when it is not set.
    pub default: u32,
    /// The smallest accepted value.
    pub min: u32,
    /// The largest accepted value.
    pub max: u32,
}

/// Connections that callers share: 8 by default, 1 to 1024.
pub const POOL_SIZE: CountOption = CountOption { name: "pool_size", default: 8, min: 1, max: 1024 };
/// Threads that renew leases: 2 by default, 1 to 64.
pub const RENEWAL_THREADS: CountOption = CountOption { name: "renewal_threads", default: 2, min: 1, max: 64 };
/// Replicas that must acknowledge a grant: none by default, 0 to 16.
pub const MIN_REPLICAS: CountOption = CountOption { name: "min_replicas", default: 0, min: 0, max: 16 };

/// The default of `key_prefix`.
pub const KEY_PREFIX: &str = "lock:";
/// Longest name of a lock, in bytes of UTF-8; the shortest has 1.
pub const MAX_NAME_BYTES: usize = 1024;
/// Longest `key_prefix`, in bytes of UTF-8; it may be empty.
pub const MAX_PREFIX_BYTES: usize = 256;
/// Longest `label`, in bytes; the shortest has 1.
pub const MAX_LABEL_BYTES: usize = 64;

impl DurationOption {
    /// `value`, cut to whole milliseconds, if it is within the bounds.
    ///
    /// # Errors
    /// [`Config`](Error::Config), naming the option, the value and the bounds.
    pub fn check(&self, value: Duration) -> Result<Duration> {
        if value < self.min || value > self.max {
            return Err(self.refuse(format_args!("{value:?}")));
        }
        // The protocol speaks milliseconds: a part of one would be cut off unseen.
        Ok(Duration::from_millis(u64::try_from(value.as_millis()).unwrap_or(u64::MAX)))
    }

    /// `seconds` as a span within the bounds; NaN, negative and infinite values are refused by name.
    ///
    /// # Errors
    /// As [`check`](DurationOption::check).
    pub fn check_seconds(&self, seconds: f64) -> Result<Duration> {
        let value = Duration::try_from_secs_f64(seconds).map_err(|_| self.refuse(format_args!("{seconds} s")))?;
        self.check(value)
    }

    /// `millis` as a span within the bounds; negative values are refused by name.
    ///
    /// # Errors
    /// As [`check`](DurationOption::check).
    pub fn check_millis(&self, millis: i64) -> Result<Duration> {
        let value = u64::try_from(millis).map_err(|_| self.refuse(format_args!("{millis} ms")))?;
        self.check(Duration::from_millis(value))
    }

    fn refuse(&self, value: impl fmt::Display) -> Error {
        Error::config(self.name, value, format!("from {:?} to {:?}", self.min, self.max))
    }

    pub(crate) fn default_value(&self) -> Duration {
        self.default.unwrap_or(self.max)
    }
}

impl CountOption {
    /// `value` if it is within the bounds.
    ///
    /// # Errors
    /// [`Config`](Error::Config), naming the option, the value and the bounds.
    pub fn check(&self, value: u32) -> Result<u32> {
        if value < self.min || value > self.max {
            return Err(Error::config(self.name, value, format!("from {} to {}", self.min, self.max)));
        }
        Ok(value)
    }
}

/// Called once for every lost lease that it was set for.
pub(crate) type OnLost = Arc<dyn Fn(&LostInfo) + Send + Sync>;

/// Options of one lock.
///
/// Values are checked when the lock is made, so that an error names the option there.
/// While a thread holds a lock, the options of its first acquire apply until its last release.
#[derive(Clone)]
#[must_use = "options do nothing until they are passed to lock_with, lease or adopt"]
pub struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) auto_renew: bool,
    /// Apart, because every held lease has options and few have these.
    rare: Option<Box<Rare>>,
}

/// Options that most locks leave out.
#[derive(Clone, Default)]
struct Rare {
    max_hold: Option<Duration>,
    on_lost: Option<OnLost>,
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> LockOptions {
        LockOptions { ttl: TTL.default_value(), auto_renew: true, rare: None }
    }

    /// How long the lease lives without renewal: after a crash of the holder, others wait at most this
    /// long. 100 ms to 24 h, in whole milliseconds. Defaults to 30 s.
    pub fn ttl(mut self, ttl: Duration) -> LockOptions {
        self.ttl = ttl;
        self
    }

    /// Whether the lease is renewed in the background, every third of the ttl. Without it the lease is
    /// fixed: it ends after one ttl unless [`renew`](crate::Guard::renew) is called. Defaults to true.
    pub fn auto_renew(mut self, auto_renew: bool) -> LockOptions {
        self.auto_renew = auto_renew;
        self
    }

    /// The longest time a lease is kept, whatever its holder does: renewal stops then and the lease is lost
    /// with [`MaxHold`](crate::LostReason::MaxHold); the key lapses one ttl later at most. From the ttl to 365 days.
    /// Defaults to no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> LockOptions {
        self.rare.get_or_insert_default().max_hold = Some(max_hold);
        self
    }

    /// Calls `callback` once when a lease is lost, on a thread of the client's own, within milliseconds
    /// of the deadline. Callbacks of one client run one after another, so they should be short; a panic in
    /// one is caught and logged. Defaults to none.
    pub fn on_lost(mut self, callback: impl Fn(&LostInfo) + Send + Sync + 'static) -> LockOptions {
        self.rare.get_or_insert_default().on_lost = Some(Arc::new(callback));
        self
    }

    /// As set by [`max_hold`](LockOptions::max_hold).
    pub(crate) fn longest_hold(&self) -> Option<Duration> {
        self.rare.as_ref().and_then(|rare| rare.max_hold)
    }

    /// As set by [`on_lost`](LockOptions::on_lost).
    pub(crate) fn loss_callback(&self) -> Option<&OnLost> {
        self.rare.as_ref().and_then(|rare| rare.on_lost.as_ref())
    }

    pub(crate) fn validated(mut self) -> Result<LockOptions> {
        self.ttl = TTL.check(self.ttl)?;
        if let Some(max_hold) = self.longest_hold() {
            let checked = MAX_HOLD.check(max_hold)?;
            if checked < self.ttl {
                let expected = format!("at least the ttl, {:?}", self.ttl);
                return Err(Error::config(MAX_HOLD.name, format_args!("{max_hold:?}"), expected));
            }
            self = self.max_hold(checked);
        }
        Ok(self)
    }
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        LockOptions::new()
    }
}

impl fmt::Debug for LockOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockOptions { ttl, auto_renew, rare } = self;
        let Rare { max_hold, on_lost } = rare.as_deref().cloned().unwrap_or_default();
        f.debug_struct("LockOptions")
            .field("ttl", ttl)
            .field("auto_renew", auto_renew)
            .field("max_hold", &max_hold)
            .field("on_lost", &on_lost.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(result: Result<Duration>) {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("ttl") && text.contains("100ms") && text.contains("86400s"), "{text}");
    }

    #[test]
    fn a_ttl_that_cannot_be_kept_is_refused_by_name_and_bounds() {
        refused(TTL.check(Duration::ZERO));
        refused(TTL.check(Duration::from_micros(500)));
        refused(TTL.check(Duration::from_secs(1 << 62)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 9.3e18, 0.0005] {
            refused(TTL.check_seconds(seconds));
        }
        refused(TTL.check_millis(-1));
        refused(TTL.check_millis(i64::MAX));
        assert_eq!(TTL.check_seconds(0.1).unwrap(), Duration::from_millis(100));
    }

    #[test]
    fn defaults_are_within_their_own_bounds() {
        for option in [TTL, CONNECT_TIMEOUT, IO_TIMEOUT, UNAVAILABLE_AFTER, FENCE_RETENTION, TURN, REPLICA_TIMEOUT] {
            assert_eq!(option.check(option.default_value()).unwrap(), option.default_value());
        }
        for option in [POOL_SIZE, RENEWAL_THREADS, MIN_REPLICAS] {
            assert_eq!(option.check(option.default).unwrap(), option.default);
        }
    }

    #[test]
    fn max_hold_below_the_ttl_is_refused() {
        let options = LockOptions::new().ttl(Duration::from_secs(10)).max_hold(Duration::from_secs(5));
        assert!(options.validated().unwrap_err().to_string().contains("max_hold"));
    }
}
