//! The wire protocol: keys, the three scripts, typed requests and replies. Pure.

mod call;
mod key;
mod wire;

use std::time::Duration;

pub(crate) use key::Key;
pub(crate) use wire::{
    Malformed, decode_acquire, decode_inspection, decode_release, decode_renew, decode_unlock, decode_wait,
    denied_command,
};
pub(crate) use wire::{
    encode_acquire, encode_inspection, encode_inspection_parts, encode_release, encode_renew, encode_tombstone,
    encode_unlock, encode_wait,
};

use crate::token::Token;

/// How long the bookkeeping of waiters lives after the last poll that touched it.
pub(crate) const SIBLING_LIFE: Duration = Duration::from_secs(60);

/// Most locks in one renewing command: bounds how long one script blocks a server (about 1 ms).
pub(crate) const RENEW_BATCH: usize = 256;

/// What stands before the rest of an inbox's name; access rules name it.
pub(crate) const INBOX_PREFIX: &str = "redlatch:inbox:";

/// The oldest Redis that is tested, with the Valkey and others that are compatible with it or later: major and minor.
pub(crate) const OLDEST_SERVER: (u32, u32) = (6, 2);

/// The oldest Redis whose scripts may write after they have read its clock, as all grants do.
pub(crate) const OLDEST_THAT_RUNS_SCRIPTS: (u32, u32) = (5, 0);

/// The oldest Redis that applies `min-replicas-to-write` to what scripts write; before, it takes all that they write.
pub(crate) const OLDEST_THAT_COUNTS_REPLICAS: (u32, u32) = (7, 0);

/// Inbox of a client that has none.
pub(crate) const NO_INBOX: &str = "-";

/// How long a tombstone must outlive its token's last acquire.
pub(crate) fn tombstone_life(ttl: Duration) -> Duration {
    ttl.max(SIBLING_LIFE)
}

/// One request of the acquire script.
#[derive(Clone, Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) key: &'a Key,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Duration,
    pub(crate) fence_retention: Duration,
    pub(crate) ask: Ask<'a>,
    /// What a grant needs besides.
    pub(crate) replication: Option<Replication>,
}

/// How many replicas have to acknowledge a grant before it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replication {
    /// At least 1.
    pub(crate) wanted: u32,
    /// How long the server waits for them.
    pub(crate) within: Duration,
}

/// How much longer than asked a server may wait: where nothing else happens, it looks at its clients' time limits this
/// often (`hz` 10, the default of each).
pub(crate) const SERVER_TICK: Duration = Duration::from_millis(100);

/// What an acquire asks for when the lock is busy.
#[derive(Clone, Debug)]
pub(crate) enum Ask<'a> {
    /// Only an answer.
    Try,
    /// A place in the queue; with the score of an earlier place, if there was one.
    Join { score: Option<u64>, inbox: &'a str },
    /// The lock of another token, which the caller was given.
    Adopt { from: &'a Token },
}

/// Answer to [`Acquire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted {
        fence: u64,
    },
    /// Granted on the server, and only that many replicas acknowledged it for `waited`: to be given up.
    NotReplicated {
        acknowledged: u32,
        waited: Duration,
    },
    /// Another's; `left` until its ttl or turn ends, if that is known. Rank and score for [`Ask::Join`].
    Busy {
        left: Option<Duration>,
        place: Option<Place>,
    },
    /// The token was given up before; it can never be granted.
    Abandoned,
}

/// A place in a lock's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Waiters before this one.
    pub(crate) rank: u64,
    /// Server time of the first join, in µs.
    pub(crate) score: u64,
}

/// One request of the release script.
#[derive(Clone, Debug)]
pub(crate) struct Release<'a> {
    pub(crate) key: &'a Key,
    pub(crate) token: &'a Token,
    /// Life of the tombstone, where an acquire of this token may still be on its way.
    pub(crate) tombstone: Option<Duration>,
    pub(crate) turn: Duration,
}

/// Answer to [`Release`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseAnswer {
    /// The key was the token's and is deleted.
    pub(crate) released: bool,
    /// A waiter was woken by push.
    pub(crate) woken: bool,
    /// The server's rules forbid to publish; waiters poll.
    pub(crate) publish_denied: bool,
    /// A bookkeeping key with foreign data, by its role.
    pub(crate) damaged: Option<Role>,
}

/// One lease in a renewing request.
#[derive(Clone, Debug)]
pub(crate) struct Renew<'a> {
    pub(crate) key: &'a Key,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Duration,
}

/// What became of one lease in a renewing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It has its full ttl again.
    Renewed,
    /// The lock is not its token's any more.
    NotOurs,
    /// No answer for this one; where the request may have been executed, `unanswered`.
    Unknown { unanswered: bool },
}

/// What is under a lock's keys right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) token: Option<Token>,
    pub(crate) left: Option<Duration>,
    pub(crate) fence: Option<u64>,
    pub(crate) waiters: u64,
}

/// Which of a lock's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Lock,
    Fence,
    Queue,
    Waiters,
    Turn,
    Probe,
}

impl Role {
    pub(crate) const ALL: [Role; 6] = [Role::Lock, Role::Fence, Role::Queue, Role::Waiters, Role::Turn, Role::Probe];

    /// The last part of the key; empty for the lock itself, whose word in replies is `lock`.
    fn suffix(self) -> &'static str {
        match self {
            Role::Lock => "",
            Role::Fence => "fence",
            Role::Queue => "queue",
            Role::Waiters => "waiters",
            Role::Turn => "turn",
            Role::Probe => "probe",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Role> {
        let named = |role: &Role| *role != Role::Lock && role.suffix() == word;
        if word == "lock" { Some(Role::Lock) } else { Role::ALL.into_iter().find(named) }
    }

    /// What belongs under the key, for error texts.
    pub(crate) fn content(self) -> &'static str {
        match self {
            Role::Lock => "a lock is a string with its holder's token",
            Role::Fence => "it should be a string with the last fence, a whole number",
            Role::Queue => "it should be a sorted set of waiting tokens",
            Role::Waiters => "it should be a hash of waiting tokens",
            Role::Turn => "it should be a string with due time, token and inbox",
            Role::Probe => "it should not exist",
        }
    }
}
