//! A waiter among answers: it never waits beyond its bounds, and its grant is one.

use std::time::Duration;

use crate::clock::Moment;
use crate::protocol::{Acquired, decode_acquire};
use crate::transport::{Answered, Exchange, Fault};
use crate::waiting::{Patience, Step, Timing, Verdict, Waiter, Wake};

use super::replies::parsed;

/// The longest poll interval with its jitter, or twice the longest pause after a failure.
const LONGEST_SLEEP: Duration = Duration::from_secs(36);

/// Longer than the first answer of a wait may take, however short the wait.
const OWED: Duration = Duration::from_millis(10);

const TIMING: Timing = Timing {
    ttl: Duration::from_secs(3),
    turn: Duration::from_secs(1),
    answer: Duration::from_secs(2),
    unavailable_after: Duration::from_secs(10),
};

/// The first byte of the input says how long an answer takes, in units of 20 ms; the rest is what comes from the socket,
/// as for [`reply`](super::reply): the answers to one acquire after another.
pub fn wait(data: &[u8]) {
    let Some((pace, data)) = data.split_first() else { return };
    let took = Duration::from_millis(20) * u32::from(*pace);
    let answers = parsed(data);
    for patience in [Patience::Try, Patience::Until(at(2_000)), Patience::Forever] {
        for inbox in [false, true] {
            let answers = answers.iter().map(|value| match value {
                redis::Value::ServerError(error) => Err(Fault::answered(error)),
                other => decode_acquire(other).map_err(Fault::garbled),
            });
            run(patience, took, inbox, answers);
        }
    }
}

fn at(millis: u64) -> Moment {
    // Not at zero: time before the start must not come out.
    Moment::from_nanos((millis + 1_000_000) * 1_000_000)
}

fn run(patience: Patience, took: Duration, inbox: bool, answers: impl Iterator<Item = Result<Acquired, Fault>>) {
    let started = at(0);
    let limit = match patience {
        Patience::Try => started.after(TIMING.answer),
        Patience::Until(limit) => limit,
        Patience::Forever => Moment::FAR,
    };
    let mut waiter = Waiter::new(patience, TIMING, started);
    let mut now = started;
    let mut last = None;
    for answer in answers {
        // At most three sleeps come between two requests: a poll, the rest until the limit, a recheck.
        let mut sleeps = 0;
        let by = loop {
            match waiter.next(now) {
                Step::Ask { join, by } => {
                    assert_eq!(join, patience != Patience::Try);
                    break by;
                }
                Step::Sleep { until } => {
                    assert!(until <= now.after(LONGEST_SLEEP) && until <= limit, "{until:?} at {now:?} of {limit:?}");
                    now = now.max(until);
                    waiter.woken(Wake::Tick, now);
                    sleeps += 1;
                    assert!(sleeps <= 3, "sleeps on and on");
                }
                Step::Done(verdict) => return ended(&verdict, last, now, limit),
            }
        };
        assert!(by >= now && by <= now.after(TIMING.answer) && by <= limit.max(now.after(OWED)), "{by:?} at {now:?}");
        let sent = now;
        now = now.after(took).min(by);
        last = answer.as_ref().ok().copied();
        let outcome: Exchange<Acquired> = answer.map(|reply| Answered { reply, sent });
        waiter.answered(outcome, inbox, now);
        if let Some(place) = waiter.place() {
            assert!(waiter.must_release(), "{place:?} would stay behind");
        }
    }
}

/// What the caller is told agrees with the last answer.
fn ended(verdict: &Verdict, last: Option<Acquired>, now: Moment, limit: Moment) {
    match (verdict, last) {
        (Verdict::Granted { fence, sent }, Some(Acquired::Granted { fence: given })) => {
            assert!(*fence == given && given > 0 && now.since(*sent) < TIMING.ttl, "{verdict:?} at {now:?}");
        }
        (Verdict::Busy, Some(Acquired::Busy { .. })) | (Verdict::Abandoned, Some(Acquired::Abandoned)) => {}
        (Verdict::TimedOut, _) => assert!(now >= limit, "{now:?} is before {limit:?}"),
        (Verdict::Unavailable(_), _) => assert!(now >= limit || now.since(at(0)) >= TIMING.unavailable_after),
        (Verdict::Failed(fault), None) => assert!(!fault.is_retryable(), "{fault:?}"),
        (other, last) => panic!("{other:?} after {last:?}"),
    }
}
