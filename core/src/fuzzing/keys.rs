//! Keys of locks: those of two names never meet, and those of one name share a cluster slot.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use crate::error::Error;
use crate::protocol::{
    Acquire, Ask, Key, Release, Renew, Role, encode_acquire, encode_inspection_parts, encode_release, encode_renew,
    encode_tombstone, encode_unlock,
};
use crate::token::Token;
use crate::transport::{SLOTS, slot_of};

const TTL: Duration = Duration::from_secs(30);

/// The lines of the input are a key prefix, two names and a token; `\n` in a line is a line end of its own.
pub fn key(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n').map(|line| line.replace("\\n", "\n"));
    let [prefix, one, other, token] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    let names = [one.as_str(), other.as_str()];
    let made: Vec<Key> = names.into_iter().filter_map(|name| accepted(&prefix, name)).collect();
    for key in &made {
        packed(key, &token);
    }
    for name in names {
        together(&prefix, name, &token);
    }
    if let [one_key, other_key] = made.as_slice()
        && one != other
    {
        assert_ne!(one_key.as_str(), other_key.as_str());
        let (of_one, of_other) = (keys_of(one_key, &token), keys_of(other_key, &token));
        let shared: Vec<&String> = of_one.intersection(&of_other).collect();
        assert!(shared.is_empty(), "{one:?} and {other:?} share {shared:?}");
    }
}

/// The key of a name, or `None` for one that is rightly refused.
fn accepted(prefix: &str, name: &str) -> Option<Key> {
    let text = format!("{prefix}{name}");
    let reserved = text.contains(":redlatch:") || (text.starts_with('{') && text.ends_with('}'));
    match Key::new(prefix, name) {
        Ok(key) => {
            assert!((1..=1024).contains(&name.len()) && !reserved, "{text:?} is accepted");
            assert_eq!(key.as_str(), text);
            Some(key)
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(!(1..=1024).contains(&name.len()) || reserved, "{text:?} is refused: {shown}");
            assert!(matches!(error, Error::Config { option: "name", .. }) && shown.starts_with("name = "), "{shown}");
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
            None
        }
    }
}

/// All keys that a lock and one token of it may have.
fn keys_of(key: &Key, token: &str) -> BTreeSet<String> {
    let of_roles = Role::ALL.into_iter().map(|role| key.of(role));
    let keys: BTreeSet<String> = of_roles.chain([key.gone(token)]).map(|sibling| sibling.to_string()).collect();
    assert_eq!(keys.len(), Role::ALL.len() + 1, "of {key:?}");
    keys
}

/// On a cluster a lock's keys are in one slot, or it is refused.
fn together(prefix: &str, name: &str, token: &str) {
    let Ok(key) = Key::new(prefix, name) else { return };
    let keys = keys_of(&key, token);
    let slots: BTreeSet<u16> = keys.iter().map(|key| slot_of(key)).collect();
    assert!(slots.iter().all(|slot| usize::from(*slot) < SLOTS));
    assert!(keys.iter().all(|key| slot_of(key) == slot_by_the_book(key.as_bytes())));
    let odd = key.as_str().contains(['{', '}']) && tag_of(key.as_str().as_bytes()).is_none();
    match key.for_cluster() {
        Ok(_) => assert!(slots.len() == 1 && !odd, "{keys:?}"),
        Err(error) => assert!(odd, "{prefix}{name} is refused: {error}"),
    }
}

/// The slot of a key, word for word as the cluster specification has it.
fn slot_by_the_book(key: &[u8]) -> u16 {
    let mut crc = 0u16;
    for byte in tag_of(key).unwrap_or(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let end = rest.iter().position(|byte| *byte == b'}')?;
    (end > 0).then(|| &rest[..end])
}

/// Every request has exactly the arguments that it is made of, whatever is in them.
fn packed(key: &Key, text: &str) {
    let token = Token::foreign(text);
    let inbox = "redlatch:inbox:x";
    for ask in [Ask::Try, Ask::Join { score: Some(u64::MAX), inbox }, Ask::Adopt { from: &token }] {
        let request = Acquire { key, token: &token, ttl: TTL, fence_retention: TTL, ask, replication: None };
        let words = arguments(&encode_acquire(&request, false, false));
        assert_eq!((words.len(), words[2].as_str()), (18, "7"), "{words:?}");
        let thorough = arguments(&encode_acquire(&request, true, false));
        assert_eq!((&thorough[..18], &thorough[18..]), (&words[..], &["1".to_owned()][..]));
        assert_eq!(words[3], key.as_str());
        assert_eq!(words[3..10].iter().cloned().collect::<BTreeSet<_>>(), keys_of(key, text));
        assert_eq!((words[10].as_str(), words[11].as_str()), (text, "30000"));
    }
    let release = Release { key, token: &token, tombstone: Some(TTL), turn: TTL };
    let words = arguments(&encode_release(&release, true, false, false));
    assert_eq!((words.len(), words[3].as_str(), words[10].as_str()), (15, key.as_str(), text));
    let thorough = arguments(&encode_release(&release, true, true, false));
    assert_eq!((&thorough[..15], &thorough[15..]), (&words[..], &["1".to_owned()][..]));
    let gone = key.gone(text).to_string();
    assert_eq!(arguments(&encode_tombstone(&release, TTL))[1], gone);
    assert_eq!(arguments(&encode_unlock(&release, false))[2..], ["1", key.as_str(), text]);
    let renew = Renew { key, token: &token, ttl: TTL };
    let words = arguments(&encode_renew(&[renew.clone(), renew], false, false));
    assert_eq!(words[2..], ["2", key.as_str(), key.as_str(), text, "30000", text, "30000"]);
    for (role, command) in encode_inspection_parts(key) {
        assert_eq!(arguments(&command)[1], key.of(role).to_string());
    }
}

fn arguments(command: &[u8]) -> Vec<String> {
    let Ok(Value::Array(fields)) = redis::parse_redis_value(command) else { panic!("no command: {command:?}") };
    let text = |field| match field {
        Value::BulkString(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?} in a command"),
    };
    fields.into_iter().map(text).collect()
}
