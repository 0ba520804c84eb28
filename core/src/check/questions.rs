//! What a server is asked. Nothing of it changes data: each is a request that only reads, or that the server refuses
//! because of its arguments, some once it has let the command pass, others before it looks at the access rules.

use redis::Cmd;

use crate::protocol::{Key, Role};

/// A question that every server is asked in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Info,
    /// A setting, by its name.
    Setting(&'static str),
    ClusterInfo,
    /// A script by a hash that no script has.
    ScriptByHash,
    /// A script with a number of keys that is none.
    ScriptWithSource,
    /// Whether a lock's key is there.
    LockKey,
    /// Whether a sibling of it is there.
    SiblingKey,
    /// How many hear an inbox that is nobody's.
    Subscribers,
    /// A message to that inbox.
    Publish,
    Ping,
    /// For no replica at all.
    Wait,
    Time,
    /// A command of the scripts, without its arguments: whether it is there under its name.
    Bare(&'static str),
}

pub(super) const SAVE: &str = "save";
pub(super) const APPENDFSYNC: &str = "appendfsync";
pub(super) const STOP_WRITES: &str = "stop-writes-on-bgsave-error";
pub(super) const MIN_REPLICAS_TO_WRITE: &str = "min-replicas-to-write";
pub(super) const TIMEOUT: &str = "timeout";
/// Of KeyDB; others know no such setting.
pub(super) const ACTIVE_REPLICA: &str = "active-replica";

pub(super) const SETTINGS: [&str; 6] = [SAVE, APPENDFSYNC, STOP_WRITES, MIN_REPLICAS_TO_WRITE, TIMEOUT, ACTIVE_REPLICA];

/// The commands that scripts call, besides those that are asked with arguments. None of them does anything without.
pub(super) const BARE: [&str; 15] = [
    "GET", "SET", "DEL", "PTTL", "PEXPIRE", "ZADD", "ZCARD", "ZRANGE", "ZRANK", "ZREM", "ZSCORE", "HDEL", "HGET",
    "HGETALL", "HSET",
];

/// What the questions are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// Some key of the client; `None` where its prefix makes none that the server can have.
    pub(super) key: Option<&'a Key>,
    /// An inbox that nobody listens on.
    pub(super) inbox: &'a str,
    /// Whether grants wait for replicas.
    pub(super) waits: bool,
}

/// The questions for a client.
pub(super) fn questions(subject: &Subject<'_>) -> Vec<Question> {
    let mut all = vec![Question::Info, Question::ClusterInfo];
    all.extend(SETTINGS.map(Question::Setting));
    all.extend([Question::ScriptByHash, Question::ScriptWithSource]);
    if subject.key.is_some() {
        all.extend([Question::LockKey, Question::SiblingKey]);
    }
    all.push(Question::Time);
    all.extend(BARE.map(Question::Bare));
    all.extend([Question::Subscribers, Question::Publish, Question::Ping]);
    if subject.waits {
        all.push(Question::Wait);
    }
    all
}

impl Question {
    pub(super) fn command(self, subject: &Subject<'_>) -> Cmd {
        let words: &[&str] = match self {
            Question::Info => &["INFO"],
            Question::Setting(name) => &["CONFIG", "GET", name],
            Question::ClusterInfo => &["CLUSTER", "INFO"],
            Question::ScriptByHash => &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
            Question::ScriptWithSource => &["EVAL", "return 1", "none"],
            Question::LockKey => &["EXISTS", &key_of(subject, Role::Lock)],
            Question::SiblingKey => &["EXISTS", &key_of(subject, Role::Probe)],
            Question::Subscribers => &["PUBSUB", "NUMSUB", subject.inbox],
            Question::Publish => &["PUBLISH", subject.inbox, "check"],
            Question::Ping => &["PING"],
            Question::Wait => &["WAIT", "0", "1"],
            Question::Time => &["TIME"],
            Question::Bare(name) => &[name],
        };
        command(words)
    }

    /// What a denial of it denies, in the words of access rules.
    pub(super) fn right(self) -> &'static str {
        match self {
            Question::Info => "INFO",
            Question::Setting(_) => "CONFIG GET",
            Question::ClusterInfo => "CLUSTER INFO",
            Question::ScriptByHash => "EVALSHA",
            Question::ScriptWithSource => "EVAL",
            Question::LockKey => "EXISTS on a lock's key",
            Question::SiblingKey => "EXISTS on a key beside it (~{prefix*)",
            Question::Subscribers => "PUBSUB NUMSUB",
            Question::Publish => "PUBLISH",
            Question::Ping => "PING",
            Question::Wait => "WAIT",
            Question::Time => "TIME",
            Question::Bare(name) => name,
        }
    }

    /// The command that it asks with.
    pub(super) fn command_name(self) -> &'static str {
        match self {
            Question::LockKey | Question::SiblingKey => "EXISTS",
            other => other.right(),
        }
    }
}

fn key_of(subject: &Subject<'_>, role: Role) -> String {
    subject.key.map(|key| key.of(role).to_string()).unwrap_or_default()
}

pub(super) fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}
