//! No waiter sleeps on while its lock is free.

use redlatch_tests::history::{Ending, Nanos, Wait};

use super::{Evidence, Rules, Span, Violation, by_key, nanos};

/// A lock counts as free where nothing known explains that it is not: no lease that was not surely released and has not
/// surely lapsed, no request that may have been granted without anybody knowing, no outage. A waiter that sees it free for
/// longer than the cap has slept on: one turn, which a dead waiter may have been given, and a poll, which comes the later
/// the more others wait.
pub(super) fn find(evidence: &Evidence, rules: &Rules, found: &mut Vec<Violation>) {
    let mut taken: Vec<Vec<Span>> = Vec::new();
    let mut take = |key: usize, span: Span| {
        if taken.len() <= key {
            taken.resize(key + 1, Vec::new());
        }
        taken[key].push(span);
    };
    let ttl = nanos(rules.ttl);
    for it in &evidence.story.held {
        take(it.key, (it.from, it.released.unwrap_or(it.until + ttl).max(it.until)));
    }
    for wait in &evidence.story.waits {
        match wait.ending {
            // Its last request may have been granted, and nobody released that.
            Ending::Failed | Ending::Stale | Ending::Killed => take(wait.key, (wait.until, wait.until + ttl)),
            Ending::Granted | Ending::Busy | Ending::Open => {}
        }
    }
    // A stopped process may be given a lock that it does not know of until it goes on.
    let keys = evidence.story.waits.iter().map(|wait| wait.key).max().map_or(0, |last| last + 1);
    for (_, (from, until)) in &evidence.stops {
        (0..keys).for_each(|key| take(key, (*from, (*from + ttl).max(*until))));
    }
    for (key, waits) in by_key(&evidence.story.waits, |wait| wait.key).into_iter().enumerate() {
        let mut spans = taken.get(key).cloned().unwrap_or_default();
        spans.extend(&evidence.outages);
        let spans = merged(spans);
        for wait in &waits {
            let others = waits.iter().filter(|it| it.from < wait.until && wait.from < it.until).count() as u32;
            let cap = nanos(rules.turn + rules.poll * others + rules.slack);
            let free = longest_gap(&spans, wait).filter(|(from, until)| until - from > cap);
            found.extend(free.map(|free| Violation::Slept { wait: (*wait).clone(), free }));
        }
    }
}

/// Sorted, and no two of them touch.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, until) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => merged.push((from, until)),
        }
    }
    merged
}

/// The longest part of the wait that none of the spans covers.
fn longest_gap(spans: &[Span], wait: &Wait) -> Option<Span> {
    let mut begin: Nanos = wait.from;
    let mut longest: Option<Span> = None;
    let mut gap = |from: Nanos, until: Nanos| {
        if from < until && longest.is_none_or(|(begin, end)| end - begin < until - from) {
            longest = Some((from, until));
        }
    };
    let first = spans.partition_point(|(_, until)| *until <= wait.from);
    for (from, until) in spans[first..].iter().take_while(|(from, _)| *from < wait.until) {
        gap(begin, *from);
        begin = begin.max(*until);
    }
    gap(begin, wait.until);
    longest
}
