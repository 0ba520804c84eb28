//! What a server knows of a lock.

use std::time::Duration;

use crate::protocol::Inspection;
use crate::token::Token;

/// A lock as [`Client::inspect`](crate::Client::inspect) found it. Out of date as soon as it is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    name: String,
    token: Token,
    ttl_left: Option<Duration>,
    fence: Option<u64>,
    waiters: u64,
}

impl LockInfo {
    /// `None` for a lock that nobody has.
    pub(crate) fn new(name: &str, found: Inspection) -> Option<LockInfo> {
        let Inspection { token, left, fence, waiters } = found;
        Some(LockInfo { name: name.to_owned(), token: token?, ttl_left: left, fence, waiters })
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The holder's token; of a plain client, its value.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Who has it, `<host>:<pid>[:<label>]`; `None` for a client that is not redlatch.
    pub fn owner(&self) -> Option<&str> {
        self.token.owner()
    }

    /// Time until the key lapses unless renewed; `None` for a key without ttl, which never lapses.
    pub fn ttl_left(&self) -> Option<Duration> {
        self.ttl_left
    }

    /// The last fence given for this lock: the holder's, unless a plain client has it. `None` when none is kept.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// How many wait in its queue; some may be gone.
    pub fn waiters(&self) -> u64 {
        self.waiters
    }
}
