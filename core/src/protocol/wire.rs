//! Requests to bytes, replies to types.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Value;

use crate::token::Token;

use super::call::Call;
use super::{
    Acquire, Acquired, Ask, Inspection, Key, NO_INBOX, Place, Release, ReleaseAnswer, Renew, Renewal, Role,
    SIBLING_LIFE,
};

/// A script of the protocol and how to call it.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    sha: String,
}

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("acquire.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("release.lua")));
static UNLOCK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("unlock.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("renew.lua")));

impl Script {
    fn new(source: &'static str) -> Script {
        Script { source, sha: redis::Script::new(source).get_hash().to_owned() }
    }

    /// The begin of a call on `keys` keys, with that many words after it, keys included, of about so many bytes in all.
    fn call(&self, whole: bool, keys: usize, words: usize, bytes: usize) -> Call {
        let (verb, what) = if whole { ("EVAL", self.source) } else { ("EVALSHA", self.sha.as_str()) };
        let mut call = Call::begin(3 + words, verb.len() + what.len() + 4 + bytes);
        call.word(verb).word(what).number(keys as u64);
        call
    }
}

/// The command of a script that the server denies, by its words. Not every server names it, but all say where in which script
/// it stands, or the script has appended it.
pub(crate) fn denied_command(words: &str) -> Option<&str> {
    if let Some((_, last)) = words.strip_suffix(']').and_then(|it| it.rsplit_once(" [")) {
        return Some(last);
    }
    let scripts: [&'static Script; 4] = [&ACQUIRE, &RELEASE, &UNLOCK, &RENEW];
    let script = scripts.into_iter().find(|script| words.contains(&script.sha))?;
    let (_, line) = words.rsplit_once("@user_script:")?;
    let digits = line.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    let line = script.source.lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)?;
    let (_, call) = line.split_once("redis.call('")?;
    call.split('\'').next()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The acquire request as bytes; `whole` carries the script itself instead of its hash.
pub(crate) fn encode_acquire(request: &Acquire<'_>, whole: bool) -> Vec<u8> {
    let mut call = on_one_lock(&ACQUIRE, whole, request.key, request.token, 8);
    call.word(request.token.as_str()).number(millis(request.ttl)).number(millis(request.fence_retention));
    match &request.ask {
        Ask::Try => call.word("try").word("").word(NO_INBOX),
        Ask::Join { score: Some(score), inbox } => call.word("join").number(*score).word(inbox),
        Ask::Join { score: None, inbox } => call.word("join").word("").word(inbox),
        Ask::Adopt { .. } => call.word("adopt").word("").word(NO_INBOX),
    };
    let from = if let Ask::Adopt { from } = request.ask { from.as_str() } else { "" };
    call.number(millis(SIBLING_LIFE)).word(from);
    call.finish()
}

/// The release request as bytes. `counts_all`: the server's `PUBSUB NUMSUB` sees every subscriber.
pub(crate) fn encode_release(request: &Release<'_>, counts_all: bool, whole: bool) -> Vec<u8> {
    let mut call = on_one_lock(&RELEASE, whole, request.key, request.token, 5);
    call.word(request.token.as_str()).number(request.tombstone.map_or(0, millis)).number(millis(request.turn));
    call.number(millis(SIBLING_LIFE)).number(counts_all.into());
    call.finish()
}

/// The begin of a call with all keys of a lock, and that many arguments.
fn on_one_lock(script: &Script, whole: bool, key: &Key, token: &Token, arguments: usize) -> Call {
    // Besides key and token the longest arguments are the words that mark a sibling, and an inbox.
    let bytes = 7 * key.as_str().len() + 2 * token.as_str().len() + 300;
    let mut call = script.call(whole, 7, 7 + arguments, bytes);
    for role in [Role::Lock, Role::Fence, Role::Queue, Role::Waiters, Role::Turn] {
        call.joined(&key.of(role).parts());
    }
    call.joined(&key.gone(token.as_str()).parts()).joined(&key.of(Role::Probe).parts());
    call
}

/// The renewing request for a batch, which must not be empty, as bytes; with the probe except on a migrating slot.
pub(crate) fn encode_renew(batch: &[Renew<'_>], probe: bool, whole: bool) -> Vec<u8> {
    let probe = batch.first().filter(|_| probe).map(|first| first.key.of(Role::Probe));
    let keys = batch.len() + usize::from(probe.is_some());
    let bytes: usize = batch.iter().map(|item| item.key.as_str().len() + item.token.as_str().len() + 8).sum();
    let mut call = RENEW.call(whole, keys, keys + 2 * batch.len(), bytes + 64);
    for item in batch {
        call.word(item.key.as_str());
    }
    if let Some(probe) = probe {
        call.joined(&probe.parts());
    }
    for item in batch {
        call.word(item.token.as_str()).number(millis(item.ttl));
    }
    call.finish()
}

/// The tombstone of a token as a command on one key.
pub(crate) fn encode_tombstone(request: &Release<'_>, life: Duration) -> Vec<u8> {
    let mut command = redis::cmd("SET");
    command.arg(request.key.gone(request.token.as_str())).arg(1).arg("PX").arg(millis(life));
    command.get_packed_command()
}

/// Compare-and-delete of the lock key alone, as bytes.
pub(crate) fn encode_unlock(request: &Release<'_>, whole: bool) -> Vec<u8> {
    let mut call = UNLOCK.call(whole, 1, 2, request.key.as_str().len() + request.token.as_str().len());
    call.word(request.key.as_str()).word(request.token.as_str());
    call.finish()
}

/// One transaction that reads a lock's keys: the last of that many replies counts.
pub(crate) fn encode_inspection(key: &Key) -> (Vec<u8>, usize) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    for (_, command) in inspecting(key) {
        pipe.add_command(command);
    }
    (pipe.get_packed_pipeline(), 6)
}

/// The commands of [`encode_inspection`] without a transaction, each with the key that it reads.
pub(crate) fn encode_inspection_parts(key: &Key) -> [(Role, Vec<u8>); 4] {
    inspecting(key).map(|(role, command)| (role, command.get_packed_command()))
}

fn inspecting(key: &Key) -> [(Role, redis::Cmd); 4] {
    let words = [("GET", Role::Lock), ("PTTL", Role::Lock), ("GET", Role::Fence), ("ZCARD", Role::Queue)];
    words.map(|(verb, role)| {
        let mut command = redis::cmd(verb);
        command.arg(key.of(role));
        (role, command)
    })
}

/// The request to wait, for `limit` at most, until `replicas` have what this connection has written so far.
pub(crate) fn encode_wait(replicas: u32, limit: Duration) -> Vec<u8> {
    // 0 ms would be no limit.
    redis::cmd("WAIT").arg(replicas).arg(millis(limit).max(1)).get_packed_command()
}

/// A reply of none of the shapes that the protocol knows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

fn malformed(what: &str, value: &Value) -> Malformed {
    let shape = match value {
        Value::Nil => "nil",
        Value::Int(_) => "integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "string",
        Value::Array(_) => "array of another shape",
        _ => "value of another kind",
    };
    Malformed(format!("the reply to {what} is a {shape}"))
}

fn integer(value: &Value) -> Option<i64> {
    if let Value::Int(number) = value { Some(*number) } else { None }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// The reply of the acquire script.
pub(crate) fn decode_acquire(value: &Value) -> Result<Acquired, Malformed> {
    let parse = || {
        let Value::Array(fields) = value else { return None };
        let [status, left, rank, score, fence] = fields.as_slice() else { return None };
        let (status, left, rank) = (integer(status)?, integer(left)?, integer(rank)?);
        match status {
            // No script gives a fence of 0, and a resource that has seen none yet would take it for one.
            1 => Some(Acquired::Granted { fence: text(fence)?.parse().ok().filter(|fence| *fence > 0)? }),
            0 => {
                let left = u64::try_from(left).ok().map(Duration::from_millis);
                let place = match u64::try_from(rank) {
                    Ok(rank) => Some(Place { rank, score: text(score)?.parse().ok()? }),
                    Err(_) => None,
                };
                Some(Acquired::Busy { left, place })
            }
            -1 => Some(Acquired::Abandoned),
            _ => None,
        }
    };
    parse().ok_or_else(|| malformed("acquire", value))
}

/// The reply of the release script.
pub(crate) fn decode_release(value: &Value) -> Result<ReleaseAnswer, Malformed> {
    let parse = || {
        let Value::Array(fields) = value else { return None };
        let [released, woken, denied, damaged] = fields.as_slice() else { return None };
        Some(ReleaseAnswer {
            released: flag(released)?,
            woken: flag(woken)?,
            publish_denied: flag(denied)?,
            damaged: match text(damaged)? {
                "" => None,
                word => Some(Role::parse(word)?),
            },
        })
    };
    parse().ok_or_else(|| malformed("release", value))
}

/// The reply of compare-and-delete.
pub(crate) fn decode_unlock(value: &Value) -> Result<bool, Malformed> {
    flag(value).ok_or_else(|| malformed("release", value))
}

fn flag(value: &Value) -> Option<bool> {
    match integer(value)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The reply of the renew script for `count` leases.
pub(crate) fn decode_renew(value: &Value, count: usize) -> Result<Vec<Renewal>, Malformed> {
    let each = |field| flag(field).map(|renewed| if renewed { Renewal::Renewed } else { Renewal::NotOurs });
    let parse = || {
        let Value::Array(fields) = value else { return None };
        (fields.len() == count).then_some(())?;
        fields.iter().map(each).collect()
    };
    parse().ok_or_else(|| malformed("renew", value))
}

/// How many replicas have it.
pub(crate) fn decode_wait(value: &Value) -> Result<u32, Malformed> {
    integer(value).and_then(|count| u32::try_from(count).ok()).ok_or_else(|| malformed("WAIT", value))
}

/// The reply of the inspecting transaction; `Err(Ok(role))` names a key with foreign data.
pub(crate) fn decode_inspection(value: &Value) -> Result<Inspection, Result<Role, Malformed>> {
    let unreadable = || Err(malformed("inspect", value));
    let Value::Array(fields) = value else { return Err(unreadable()) };
    let [holder, left, fence, waiters] = fields.as_slice() else { return Err(unreadable()) };
    for (role, field) in [(Role::Lock, holder), (Role::Fence, fence), (Role::Queue, waiters)] {
        if let Value::ServerError(error) = field {
            return Err(if error.code() == "WRONGTYPE" { Ok(role) } else { unreadable() });
        }
    }
    let token = match holder {
        Value::Nil => None,
        Value::BulkString(bytes) => Some(Token::foreign(&String::from_utf8_lossy(bytes))),
        _ => return Err(unreadable()),
    };
    let fence = match fence {
        Value::Nil => None,
        other => Some(text(other).and_then(|digits| digits.parse().ok()).ok_or(Ok(Role::Fence))?),
    };
    let (Some(left), Some(waiters)) = (integer(left), integer(waiters)) else { return Err(unreadable()) };
    Ok(Inspection {
        token,
        left: u64::try_from(left).ok().map(Duration::from_millis),
        fence,
        waiters: u64::try_from(waiters).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn replies_of_the_documented_shapes_are_understood() {
        let granted =
            Value::Array(vec![Value::Int(1), Value::Int(-1), Value::Int(-1), bulk(""), bulk("1764496000000001")]);
        assert_eq!(decode_acquire(&granted), Ok(Acquired::Granted { fence: 1_764_496_000_000_001 }));
        let busy = Value::Array(vec![Value::Int(0), Value::Int(25), Value::Int(3), bulk("17"), bulk("")]);
        let place = Some(Place { rank: 3, score: 17 });
        assert_eq!(decode_acquire(&busy), Ok(Acquired::Busy { left: Some(Duration::from_millis(25)), place }));
        let tried = Value::Array(vec![Value::Int(0), Value::Int(-1), Value::Int(-1), bulk(""), bulk("")]);
        assert_eq!(decode_acquire(&tried), Ok(Acquired::Busy { left: None, place: None }));
        assert_eq!(
            decode_renew(&Value::Array(vec![Value::Int(1), Value::Int(0)]), 2),
            Ok(vec![Renewal::Renewed, Renewal::NotOurs])
        );
    }

    #[test]
    fn a_wait_for_replicas_is_never_without_a_limit() {
        let words = |limit| String::from_utf8(encode_wait(2, limit)).unwrap();
        assert_eq!(words(Duration::from_millis(70)), "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$2\r\n70\r\n");
        assert!(words(Duration::from_micros(999)).ends_with("$1\r\n1\r\n"));
        assert_eq!(decode_wait(&Value::Int(2)), Ok(2));
        for value in [Value::Int(-1), Value::Nil, Value::Okay, bulk("1")] {
            assert!(decode_wait(&value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn anything_else_is_malformed_not_a_grant() {
        let short = Value::Array(vec![Value::Int(1)]);
        let no_fence = Value::Array(vec![Value::Int(1), Value::Int(-1), Value::Int(-1), bulk(""), bulk("")]);
        let fence_zero = Value::Array(vec![Value::Int(1), Value::Int(-1), Value::Int(-1), bulk(""), bulk("0")]);
        for value in [Value::Nil, Value::Int(1), Value::Okay, short.clone(), no_fence, fence_zero] {
            assert!(decode_acquire(&value).is_err(), "{value:?}");
        }
        for value in [Value::Nil, Value::Array(vec![Value::Int(2)]), Value::Array(vec![])] {
            assert!(decode_renew(&value, 1).is_err(), "{value:?}");
            assert!(decode_release(&value).is_err(), "{value:?}");
            assert!(decode_inspection(&value).is_err(), "{value:?}");
        }
    }
}
