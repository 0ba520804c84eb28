//! No waiter sleeps on while its lock is free.

use std::collections::BTreeMap;
use std::time::Duration;

use redlatch_tests::history::{Ending, Nanos, Wait};

use super::{Evidence, Rules, Span, Violation, by_key, nanos};

/// A lock counts as free where nothing known explains that it is not: no lease that was not surely released and has not
/// surely lapsed, no request that may have been granted without anybody knowing, no turn of a waiter that is dead or
/// stopped, no outage. A waiter that sees it free for longer than the cap has slept on: its poll comes the later the more
/// others wait.
pub(super) fn find(evidence: &Evidence, rules: &Rules, found: &mut Vec<Violation>) {
    let slept = free_in_waits(evidence, rules).into_iter().filter(|it| it.free.1 - it.free.0 > it.cap);
    found.extend(slept.map(|it| Violation::Slept { wait: it.wait.clone(), free: it.free }));
}

/// The longest span in which a waiter saw its lock free, and all such spans together.
pub(crate) fn watched(evidence: &Evidence, rules: &Rules) -> (Nanos, Nanos) {
    let lengths = free_in_waits(evidence, rules).into_iter().map(|it| it.free.1 - it.free.0);
    lengths.fold((0, 0), |(longest, sum), length| (length.max(longest), sum + length))
}

/// A wait that saw its lock free.
struct Free<'a> {
    wait: &'a Wait,
    /// The longest span.
    free: Span,
    cap: Nanos,
}

fn free_in_waits<'a>(evidence: &'a Evidence, rules: &Rules) -> Vec<Free<'a>> {
    let taken = taken(evidence, rules);
    let mut all = Vec::new();
    for (key, waits) in by_key(&evidence.story.waits, |wait| wait.key).into_iter().enumerate() {
        let mut spans = taken.get(&key).cloned().unwrap_or_default();
        spans.extend(&evidence.outages);
        let spans = merged(spans);
        for wait in &waits {
            let others = waits.iter().filter(|it| it.from < wait.until && wait.from < it.until).count() as u32;
            let turn = if after_a_silent_death(wait, &waits, &evidence.outages) { rules.turn } else { Duration::ZERO };
            let cap = nanos(turn + rules.poll * others + rules.slack);
            all.extend(longest_gap(&spans, wait).map(|free| Free { wait, free, cap }));
        }
    }
    all
}

/// Whether one that waited for the same lock was killed while it may have had no inbox, as around an outage: a release
/// cannot tell that it is dead, and gives it a turn.
fn after_a_silent_death(wait: &Wait, waits: &[&Wait], outages: &[Span]) -> bool {
    let met_an_outage = |it: &Wait| outages.iter().any(|(from, until)| it.from <= *until && *from <= it.until);
    let dead = waits.iter().filter(|it| it.ending == Ending::Killed && it.until < wait.until);
    dead.into_iter().any(|it| met_an_outage(it))
}

/// When which lock may not have been free.
fn taken(evidence: &Evidence, rules: &Rules) -> BTreeMap<usize, Vec<Span>> {
    let mut taken: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
    let mut take = |key: usize, span: Span| taken.entry(key).or_default().push(span);
    // A lease or a turn that nobody gives up ends then.
    let lapse = nanos(rules.ttl.max(rules.turn));
    for it in &evidence.story.held {
        take(it.key, (it.from, it.released.unwrap_or(it.until + lapse).max(it.until)));
    }
    for wait in &evidence.story.waits {
        match wait.ending {
            // Its last request may have been granted, or its turn come, and nobody took that.
            Ending::Failed | Ending::Stale | Ending::Killed => take(wait.key, (wait.until, wait.until + lapse)),
            Ending::Granted | Ending::Busy | Ending::Open => {}
        }
        // A stopped process may be given a lock or a turn that it does not know of until it goes on.
        let stops = evidence.stops.iter().filter(|(worker, _)| *worker == wait.worker).map(|(_, span)| *span);
        for (from, until) in stops.filter(|(from, until)| wait.from <= *until && *from <= wait.until) {
            take(wait.key, (from, (from + lapse).max(until)));
        }
    }
    taken
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
