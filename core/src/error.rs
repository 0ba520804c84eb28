//! The one error type, written for the person who reads it at night.

use std::fmt;
use std::time::Duration;

use crate::token::Token;

/// What can go wrong.
///
/// "Someone else has the lock" is not here: that is `Ok(None)` of the try calls. Every variant says when
/// it happens and what to do; [`is_retryable`](Error::is_retryable) answers whether the same call can
/// succeed later without a change. Tokens and passwords never appear in the text or in `Debug`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option, URL or name that cannot be used. Nothing was sent to a server.
    #[error("{option} = {value} is refused: {expected}")]
    Config {
        /// The option as the builders name it, or `url`, `name`, `token`.
        option: &'static str,
        /// What was given; for URLs without credentials.
        value: String,
        /// What would be accepted, with bounds and unit.
        expected: String,
    },

    /// The lease ended while the caller still had it. Whatever it protected may have another holder
    /// already: stop the work, and let the protected resource refuse lower fences.
    #[error(transparent)]
    Lost(#[from] LostInfo),

    /// The calling thread does not hold this lock: it never acquired it, released it before, or another
    /// thread of the same client holds it. The key on the server was not touched.
    #[error("lock {name:?} is not held by {caller}: {detail}")]
    NotHeld {
        /// The lock's name.
        name: String,
        /// Who asked.
        caller: String,
        /// Who holds it instead, as far as this client knows.
        detail: String,
    },

    /// No usable answer from the server within the caller's time. Whether the lock is free is unknown;
    /// a token that may have reached the server is given up in the background.
    #[error("cannot {}: no usable answer from {server} for {tried:?}: {detail}", deed(action, name))]
    Unavailable {
        /// What was asked: acquire, release, renew, inspect, check.
        action: &'static str,
        /// The lock's name; empty for `check`, which is about no lock.
        name: String,
        /// The server, without credentials.
        server: String,
        /// How long it was tried.
        tried: Duration,
        /// The last failure in words.
        detail: String,
        /// The last failure itself; its type is no part of this crate's promises.
        #[source]
        source: Option<Source>,
    },

    /// The lock was free, but fewer replicas than [`min_replicas`](crate::ClientBuilder::min_replicas) acknowledged the
    /// grant within [`replica_timeout`](crate::ClientBuilder::replica_timeout), or in what was left of the caller's time. It is
    /// given up again: the key is released at once, or by the background where the server does not answer. Bring the
    /// replicas back; whoever waits for the lock meets the same error. A call may be repeated.
    #[error(
        "lock {name:?} was given up: {acknowledged} replicas of {server} acknowledged it within {waited:?}, min_replicas is \
         {wanted}"
    )]
    NotReplicated {
        /// The lock's name.
        name: String,
        /// The server, without credentials.
        server: String,
        /// The option `min_replicas`.
        wanted: u32,
        /// How many acknowledged it.
        acknowledged: u32,
        /// How long was waited for them, in whole milliseconds: `replica_timeout` and up to 100 ms, or less where the
        /// caller's time or the ttl was shorter. Zero for `memory://`, which has no replicas.
        waited: Duration,
    },

    /// The server refuses the user name or password of the URL, or wants one.
    #[error("cannot {}: {server} refuses the credentials of the URL: {detail}", deed(action, name))]
    Authentication {
        /// What was asked.
        action: &'static str,
        /// The lock's name; empty for `check`.
        name: String,
        /// The server, without credentials.
        server: String,
        /// The server's words.
        detail: String,
    },

    /// The server's access rules forbid a command or key that the lock needs.
    #[error(
        "cannot {}: {server} denies the permission: {detail}; see the access rules in docs/operations.md",
        deed(action, name)
    )]
    Permission {
        /// What was asked.
        action: &'static str,
        /// The lock's name; empty for `check`.
        name: String,
        /// The server, without credentials.
        server: String,
        /// The server's words.
        detail: String,
    },

    /// A key that the lock needs holds data that is not redlatch's. Nothing was written; move or delete
    /// that key, or choose another name or `key_prefix`.
    #[error("cannot {action} {name:?}: the key {key:?} on {server} holds foreign data ({detail})")]
    KeyType {
        /// What was asked.
        action: &'static str,
        /// The lock's name.
        name: String,
        /// The key with the foreign data.
        key: String,
        /// The server, without credentials.
        server: String,
        /// What it should hold.
        detail: String,
    },

    /// The server answers, but cannot do what the lock needs (no scripting, an unknown command, another
    /// protocol). Retrying does not help.
    #[error("cannot {}: {server} cannot serve locks: {detail}", deed(action, name))]
    Incompatible {
        /// What was asked.
        action: &'static str,
        /// The lock's name; empty for `check`.
        name: String,
        /// The server, without credentials.
        server: String,
        /// The server's words.
        detail: String,
    },

    /// The wait was called off by its [`CancelToken`](crate::CancelToken). Its place in the queue is given up, in the
    /// background if the server is slow or away.
    #[error("the wait for lock {name:?} was cancelled")]
    Cancelled {
        /// The lock's name.
        name: String,
    },

    /// The object holds a lease already, or another thread uses it at this moment.
    #[error("cannot {action} lock {name:?}: {detail}")]
    InUse {
        /// What was asked.
        action: &'static str,
        /// The lock's name.
        name: String,
        /// Who has it in use.
        detail: String,
    },

    /// `close()` was called on the client.
    #[error("cannot {}: the client is closed", deed(action, name))]
    Closed {
        /// What was asked.
        action: &'static str,
        /// The lock's name; empty for `check`.
        name: String,
    },
}

/// What could not be done, with the lock it was about; a name is never empty.
fn deed(action: &str, name: &str) -> String {
    if name.is_empty() { format!("{action} the server") } else { format!("{action} {name:?}") }
}

/// A foreign error as a source: only for logs, its type may change in any release.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the same call can succeed later without any change by the caller.
    ///
    /// That says nothing of the work: after [`Lost`](Error::Lost) it may have overlapped with another holder's, so look at what
    /// was written before it is done again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::NotReplicated { .. } | Error::Lost(_))
    }

    /// The lock's name, where the error is about one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Error::Config { .. } => None,
            Error::Lost(info) => Some(info.name()),
            Error::NotHeld { name, .. }
            | Error::Unavailable { name, .. }
            | Error::NotReplicated { name, .. }
            | Error::Authentication { name, .. }
            | Error::Permission { name, .. }
            | Error::KeyType { name, .. }
            | Error::Incompatible { name, .. }
            | Error::Cancelled { name }
            | Error::InUse { name, .. }
            | Error::Closed { name, .. } => Some(name.as_str()).filter(|name| !name.is_empty()),
        }
    }

    pub(crate) fn config(option: &'static str, value: impl fmt::Display, expected: impl Into<String>) -> Error {
        Error::Config { option, value: value.to_string(), expected: expected.into() }
    }
}

/// Why a lease ended before its holder released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The deadline passed without a successful renewal: the server was away or the process stalled.
    Expired,
    /// The server no longer has the holder's token under the key: deleted, evicted or taken over.
    Taken,
    /// `max_hold` was reached.
    MaxHold,
    /// This process is a forked child; the lease belongs to its parent.
    Forked,
    /// The client was closed.
    Closed,
    /// A defect inside redlatch ended it; please report it.
    Internal,
}

impl LostReason {
    /// All reasons, in the order of the counters in [`Stats`](crate::Stats).
    pub const ALL: [LostReason; 6] = [
        LostReason::Expired,
        LostReason::Taken,
        LostReason::MaxHold,
        LostReason::Forked,
        LostReason::Closed,
        LostReason::Internal,
    ];

    /// A stable word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            LostReason::Expired => "expired",
            LostReason::Taken => "taken",
            LostReason::MaxHold => "max_hold",
            LostReason::Forked => "forked",
            LostReason::Closed => "closed",
            LostReason::Internal => "internal",
        }
    }

    fn explain(self) -> &'static str {
        match self {
            LostReason::Expired => "its deadline passed without a renewal",
            LostReason::Taken => "the server no longer has it under this holder's token (deleted or taken over)",
            LostReason::MaxHold => "it was held for max_hold",
            LostReason::Forked => "this process is a forked child and holds nothing of its parent's",
            LostReason::Closed => "the client was closed",
            LostReason::Internal => "of a defect inside redlatch",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A lease that was lost: what `on_lost` callbacks and [`Error::Lost`] carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock {name:?} (fence {fence}) was lost because {}; stop the work it protected", reason.explain())]
pub struct LostInfo {
    name: String,
    token: Token,
    fence: u64,
    reason: LostReason,
}

impl LostInfo {
    pub(crate) fn new(name: &str, token: &Token, fence: u64, reason: LostReason) -> LostInfo {
        LostInfo { name: name.to_owned(), token: token.clone(), fence, reason }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The token of the lost lease.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The fencing token of the lost lease.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Why it was lost.
    pub fn reason(&self) -> LostReason {
        self.reason
    }
}
