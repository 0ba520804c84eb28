//! Answers of a server, whatever it is and whatever it says.

use std::sync::Arc;

use redis::Value;

use crate::check::Info;
use crate::clock::{Clock, Moment};
use crate::error::Error;
use crate::protocol::{
    Acquired, Malformed, Renewal, decode_acquire, decode_release, decode_renew, decode_unlock, decode_wait,
};
use crate::token::Token;
use crate::transport::{
    Endpoint, Fault, FaultKind, LoginStep, Map, Redirect, SLOTS, Target, confirmed, inspected, read_address, read_slots,
};
use crate::waiting::{WaiterRegistry, Wake};

use super::{PLACEHOLDER, SECRET, assert_hidden, assert_presentable};

/// Most answers of one input.
const ANSWERS: usize = 32;

/// The input is what comes from the socket; each answer in it is taken for the answer to every request that there is. A
/// `^` stands for what the server repeats of a request: the password, or the random part of a token.
pub fn reply(data: &[u8]) {
    for value in parsed(data) {
        scripts(&value);
        login(&value);
        topology(&value);
        message(&value);
        if let Value::ServerError(error) = &value {
            fault(Fault::answered(error));
        }
    }
}

/// The answers in `data`, up to the first that is broken or not complete.
pub(super) fn parsed(data: &[u8]) -> Vec<Value> {
    let mut bytes = Vec::with_capacity(data.len());
    for byte in data {
        match char::from(*byte) {
            PLACEHOLDER => bytes.extend_from_slice(SECRET.as_bytes()),
            _ => bytes.push(*byte),
        }
    }
    let mut parser = redis::Parser::new();
    let mut rest = bytes.as_slice();
    // The parser keeps what it has read too much.
    (0..ANSWERS).map_while(|_| parser.parse_value(&mut rest).ok()).collect()
}

fn scripts(value: &Value) {
    match decode_acquire(value) {
        Ok(Acquired::Granted { fence }) => assert!(fence > 0, "a grant without a fence: {value:?}"),
        Ok(Acquired::Busy { left, .. }) => assert!(left.is_none_or(|left| left.as_millis() <= i64::MAX as u128)),
        Ok(Acquired::Abandoned) => {}
        Ok(other) => panic!("no script answers {other:?}"),
        Err(words) => malformed(words),
    }
    match decode_release(value) {
        Ok(_) => {}
        Err(words) => malformed(words),
    }
    decode_unlock(value).map_or_else(malformed, drop);
    decode_wait(value).map_or_else(malformed, drop);
    for count in 0..4 {
        match decode_renew(value, count) {
            Ok(renewed) => {
                assert_eq!(renewed.len(), count);
                assert!(!renewed.iter().any(|renewal| matches!(renewal, Renewal::Unknown { .. })), "{renewed:?}");
            }
            Err(words) => malformed(words),
        }
    }
    match inspected(value) {
        Ok(inspection) => assert_hidden(&format!("{inspection:?}")),
        Err(other) => fault(other),
    }
}

fn malformed(words: Malformed) {
    let garbled = Fault::garbled(words);
    assert!(garbled.unanswered && garbled.is_retryable(), "{garbled:?}");
    fault(garbled);
}

/// Whatever failed can be told to people.
fn fault(fault: Fault) {
    assert_presentable(&fault.detail);
    assert_hidden(&format!("{fault:?}"));
    let retryable = fault.is_retryable();
    let passes = matches!(fault.kind, FaultKind::Unreachable | FaultKind::Refusing);
    assert_eq!(retryable, passes);
    if let Some(redirect) = Redirect::of(&fault) {
        assert!(retryable, "{redirect:?}");
        let (Redirect::Moved { host, port, .. } | Redirect::Ask { host, port }) = redirect;
        led_to(&host, port);
    }
    let text = Error::Incompatible {
        action: "acquire",
        name: "a".to_owned(),
        server: "redis://h:6379/0".to_owned(),
        detail: fault.at("redis://h:6379/0").detail,
    };
    assert_presentable(&text.to_string());
}

fn login(value: &Value) {
    let with_password = endpoint(&format!("redis://me:{SECRET}@h:6379/1"));
    let steps = [LoginStep::Authenticate, LoginStep::ChooseDatabase, LoginStep::AskRole, LoginStep::TellName];
    for step in steps {
        match step.accept(value, &with_password.login) {
            // Servers may not know what only tells a name.
            Ok(()) => {
                assert!(!matches!(value, Value::ServerError(_)) || step == LoginStep::TellName, "{step:?} {value:?}");
            }
            Err(other) => {
                assert!(step != LoginStep::TellName || other.kind != FaultKind::Permission, "{other:?}");
                fault(other);
            }
        }
    }
}

fn topology(value: &Value) {
    match read_address(value) {
        Ok(None) => assert_eq!(value, &Value::Nil),
        Ok(Some((host, port))) => {
            assert!(!host.is_empty());
            led_to(&host, port);
        }
        Err(other) => fault(other),
    }
    if let Err(other) = confirmed(value) {
        fault(other);
    }
    let Some(ranges) = read_slots(value, "asked") else { return };
    assert!(ranges.len() <= SLOTS, "{} ranges of {SLOTS} slots", ranges.len());
    let login = endpoint("redis://h:6379");
    let mut map = Map::empty();
    map.replace(&ranges, &login);
    assert!(map.owners().len() <= ranges.len());
    for range in &ranges {
        assert!(range.first <= range.last && usize::from(range.last) < SLOTS, "{range:?}");
        assert!(!range.host.is_empty(), "{range:?}");
        assert!(map.owner(range.first).is_some() && map.owner(range.last).is_some());
    }
}

/// A connection to where the server says.
fn led_to(host: &str, port: u16) {
    let with_password = endpoint(&format!("redis://me:{SECRET}@h:6379/1")).at(host, port);
    assert_eq!((with_password.host(), with_password.login.db()), (host, 1));
    assert!(!host.contains(|c: char| c.is_control() || c.is_whitespace()) && host.len() <= 253, "{host:?}");
    if !host.contains(SECRET) {
        assert_hidden(&format!("{with_password:?} {}", with_password.as_str()));
    }
}

fn endpoint(url: &str) -> Endpoint {
    match Target::parse(url) {
        Ok(Target::Server(endpoint)) => *endpoint,
        other => panic!("{other:?}"),
    }
}

/// A text is read as `INFO`, and as a message of the inbox: that wakes the waiter of its token, and no other.
fn message(value: &Value) {
    let text = match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.into(),
        _ => return,
    };
    // The same text as the reply to `INFO`.
    let info = Info::parse(&text);
    assert!(info.replicas().len() <= text.lines().count());
    assert!(info.version().is_none() || info.get("redis_version").is_some());
    let registry = Arc::new(WaiterRegistry::new(&Clock::System));
    let other = registry.join(&Token::foreign("another"), "lock:a", None);
    let own = registry.join(&Token::foreign(&text), "lock:a", None);
    registry.push(&text);
    let now = Moment::from_nanos(0);
    assert_eq!(own.sleep(now, None), Some(Wake::Push));
    if text != "another" {
        assert_eq!(other.sleep(now, None), Some(Wake::Tick));
    }
}
