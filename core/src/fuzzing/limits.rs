//! Options: accepted within their bounds, refused by name outside of them.

use std::time::Duration;

use crate::client::{Client, ClientBuilder};
use crate::error::{Error, Result};
use crate::options::{self, CountOption, DurationOption, LockOptions, MAX_HOLD, TTL};
use crate::token::plain;

const TIMES: [DurationOption; 9] = [
    TTL,
    MAX_HOLD,
    options::CONNECT_TIMEOUT,
    options::IO_TIMEOUT,
    options::POOL_TIMEOUT,
    options::UNAVAILABLE_AFTER,
    options::FENCE_RETENTION,
    options::TURN,
    options::REPLICA_TIMEOUT,
];

const COUNTS: [CountOption; 3] = [options::POOL_SIZE, options::RENEWAL_THREADS, options::MIN_REPLICAS];

/// Each line of the input is an option and its value, as `ttl 100`: milliseconds, a count, or a text. All go to one
/// client and one lock of it; a number with a point goes to [`DurationOption::check_seconds`] besides.
pub fn option(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut builder = Client::builder("memory://");
    let mut lock = LockOptions::new();
    // What must be refused, and the ttl and max_hold as they will be.
    let (mut refused, mut ttl, mut max_hold) = (Vec::new(), TTL.default, None);
    for line in text.lines().take(64) {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(option) = TIMES.iter().find(|option| option.name == name) {
            if let Ok(seconds) = value.parse::<f64>()
                && value.contains(['.', 'e', 'n', 'N'])
            {
                check_seconds(option, seconds);
                continue;
            }
            let Some((nanos, valid)) = time(option, value) else { continue };
            builder = with_time(builder, name, nanos);
            match name {
                "ttl" => (lock, ttl) = (lock.ttl(nanos), Some(nanos)),
                "max_hold" => (lock, max_hold) = (lock.max_hold(nanos), Some(nanos)),
                _ => {}
            }
            note(&mut refused, option.name, valid);
        } else if let Some(option) = COUNTS.iter().find(|option| option.name == name) {
            let Ok(count) = value.parse::<u32>() else { continue };
            let valid = (option.min..=option.max).contains(&count);
            assert_eq!(option.check(count).ok(), valid.then_some(count), "{line}");
            builder = match name {
                "pool_size" => builder.pool_size(count),
                "renewal_threads" => builder.renewal_threads(count),
                _ => builder.min_replicas(count),
            };
            note(&mut refused, option.name, valid);
        } else if name == "label" {
            builder = builder.label(value);
            let valid = (1..=options::MAX_LABEL_BYTES).contains(&value.len()) && value.chars().all(plain);
            note(&mut refused, "label", valid);
        } else if name == "key_prefix" {
            builder = builder.key_prefix(value);
            note(&mut refused, "key_prefix", value.len() <= options::MAX_PREFIX_BYTES);
        }
    }
    let of_lock = |name: &&'static str| matches!(*name, "ttl" | "max_hold");
    let (mut for_lock, for_client): (Vec<_>, Vec<_>) = refused.into_iter().partition(of_lock);
    if let (Some(ttl), Some(max_hold)) = (ttl, max_hold)
        && whole_millis(max_hold) < whole_millis(ttl)
    {
        for_lock.push("max_hold");
    }
    verdict(lock.validated().map(drop), &for_lock, &text);
    verdict(builder.build().map(drop), &for_client, &text);
}

/// A value in milliseconds, or of nanoseconds behind an `n`, and whether it is within the bounds.
fn time(option: &DurationOption, value: &str) -> Option<(Duration, bool)> {
    let within = |span: Duration| span >= option.min && span <= option.max;
    if let Some(nanos) = value.strip_suffix('n') {
        let span = Duration::from_nanos(nanos.parse().ok()?);
        return Some((span, within(span)));
    }
    let millis: i64 = value.parse().ok()?;
    let checked = option.check_millis(millis);
    let Ok(positive) = u64::try_from(millis) else {
        refusal(checked.map(drop), option.name);
        return None;
    };
    let span = Duration::from_millis(positive);
    assert_eq!(checked.ok(), within(span).then_some(span), "{} {value}", option.name);
    Some((span, within(span)))
}

fn check_seconds(option: &DurationOption, seconds: f64) {
    let checked = option.check_seconds(seconds);
    let (min, max) = (option.min.as_secs_f64(), option.max.as_secs_f64());
    match checked {
        Ok(span) => {
            assert!(span >= option.min && span <= option.max, "{} {seconds}", option.name);
            assert_eq!(span, whole_millis(span), "{} {seconds}", option.name);
            assert!((span.as_secs_f64() - seconds).abs() < 0.001_001, "{} {seconds}", option.name);
        }
        Err(error) => {
            assert!(!(min..=max).contains(&seconds), "{} {seconds}: {error}", option.name);
            refusal(Err(error), option.name);
        }
    }
}

fn with_time(builder: ClientBuilder, name: &str, value: Duration) -> ClientBuilder {
    match name {
        "connect_timeout" => builder.connect_timeout(value),
        "io_timeout" => builder.io_timeout(value),
        "pool_timeout" => builder.pool_timeout(value),
        "unavailable_after" => builder.unavailable_after(value),
        "fence_retention" => builder.fence_retention(value),
        "turn" => builder.turn(value),
        "replica_timeout" => builder.replica_timeout(value),
        _ => builder,
    }
}

/// The last value of an option is the one that counts.
fn note(refused: &mut Vec<&'static str>, option: &'static str, valid: bool) {
    refused.retain(|name| *name != option);
    if !valid {
        refused.push(option);
    }
}

#[track_caller]
fn verdict(outcome: Result<()>, refused: &[&'static str], text: &str) {
    match outcome {
        Ok(()) => assert!(refused.is_empty(), "{refused:?} of {text:?} are accepted"),
        Err(Error::Config { option, .. }) => assert!(refused.contains(&option), "{option} of {text:?} is refused"),
        Err(other) => panic!("{other}"),
    }
}

/// An error that names the option, and both of its bounds.
#[track_caller]
fn refusal(outcome: Result<()>, option: &str) {
    let text = outcome.expect_err("out of bounds").to_string();
    let known = TIMES.iter().find(|known| known.name == option).expect("an option");
    assert!(text.starts_with(&format!("{option} = ")), "{text}");
    assert!(text.contains(&format!("from {:?} to {:?}", known.min, known.max)), "{text}");
}

fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}
