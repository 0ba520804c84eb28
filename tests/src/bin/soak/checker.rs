//! Finds in the journals of all workers what must not have happened.

use std::collections::BTreeMap;
use std::time::Duration;

use redlatch_tests::history::{Held, Nanos, Story, Wait};

/// What the journals show.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acquisitions: usize,
    /// By worker and thread, kills or not.
    pub(crate) shares: BTreeMap<(usize, usize), usize>,
    /// Pairs of holders at the same time.
    pub(crate) overlaps: Vec<(Held, Held)>,
    /// Pairs of holders in a row, of which the later one has no larger fence.
    pub(crate) regressions: Vec<(Held, Held)>,
    /// Live waiters that got nothing for too long while others did.
    pub(crate) hung: Vec<Wait>,
    /// The longest time without a holder, and when it began.
    pub(crate) longest_gap: Duration,
    pub(crate) longest_gap_from: Nanos,
    /// The longest wait of a live waiter.
    pub(crate) longest_wait: Duration,
    /// Grants that were lost before anyone relied on them.
    pub(crate) stale: usize,
    /// Leases lost in their holder's hands and releases, by how they went.
    pub(crate) lost: BTreeMap<String, usize>,
    pub(crate) releases: BTreeMap<String, usize>,
    pub(crate) failures: Vec<String>,
}

/// Checks a story; `patience` is how long a waiter may get nothing.
pub(crate) fn check(story: Story, patience: Duration) -> Findings {
    let held = &story.held;
    let mut findings = Findings {
        acquisitions: held.len(),
        stale: story.stale,
        failures: story.failures.into_iter().map(|(_, error)| error).collect(),
        ..Findings::default()
    };
    story.losses.into_iter().for_each(|(_, reason)| *findings.lost.entry(reason).or_default() += 1);
    story.releases.into_iter().for_each(|(_, outcome)| *findings.releases.entry(outcome).or_default() += 1);
    for it in held {
        *findings.shares.entry((it.worker, it.thread)).or_default() += 1;
    }
    compare_neighbours(held, &mut findings);
    find_hung(held, story.waits, patience, &mut findings);
    findings
}

/// `held` is sorted by its beginnings.
fn compare_neighbours(held: &[Held], findings: &mut Findings) {
    let mut longest: Option<&Held> = None;
    let mut last: Option<&Held> = None;
    for it in held {
        if let Some(before) = longest {
            if it.from < before.until {
                findings.overlaps.push((before.clone(), it.clone()));
            } else if Duration::from_nanos(it.from - before.until) > findings.longest_gap {
                findings.longest_gap = Duration::from_nanos(it.from - before.until);
                findings.longest_gap_from = before.until;
            }
        }
        if let Some(before) = last.filter(|before| before.fence >= it.fence) {
            findings.regressions.push((before.clone(), it.clone()));
        }
        last = Some(it);
        if longest.is_none_or(|before| before.until <= it.until) {
            longest = Some(it);
        }
    }
}

/// A grant to others while it waited makes a long wait a hang; without any, it is a gap.
fn find_hung(held: &[Held], waits: Vec<Wait>, patience: Duration, findings: &mut Findings) {
    for wait in waits {
        let length = Duration::from_nanos(wait.until - wait.from);
        findings.longest_wait = findings.longest_wait.max(length);
        if length <= patience {
            continue;
        }
        let first = held.partition_point(|it| it.from <= wait.from);
        let other = |it: &Held| (it.worker, it.thread) != (wait.worker, wait.thread);
        if held[first..].iter().take_while(|it| it.from < wait.until).any(other) {
            findings.hung.push(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use redlatch_tests::history::{Ending, Event, Life, NOTHING, Record};

    use super::*;

    const PATIENCE: Duration = Duration::from_nanos(1_000);

    fn judge(lives: &[Life], end: Nanos) -> Findings {
        check(Story::of(lives, end), PATIENCE)
    }

    fn waits(thread: usize, at: Nanos) -> Record {
        Record { thread, key: 0, event: Event::Waits { at } }
    }

    fn granted(thread: usize, at: Nanos, fence: u64) -> Record {
        Record { thread, key: 0, event: Event::Granted { at, deadline: at + 500, fence } }
    }

    fn ends(thread: usize, at: Nanos) -> Record {
        Record { thread, key: 0, event: Event::Ends { at, lost: NOTHING.to_owned() } }
    }

    fn life(worker: usize, records: impl Into<Vec<Record>>) -> Life {
        Life { worker, records: records.into(), ..Life::default() }
    }

    #[test]
    fn a_clean_run_has_no_findings() {
        let one = life(0, [waits(0, 1), granted(0, 10, 1), ends(0, 20), waits(0, 21), granted(0, 50, 3), ends(0, 60)]);
        let other = life(1, [waits(0, 2), granted(0, 30, 2), ends(0, 40)]);
        let found = judge(&[one, other], 100);
        assert_eq!((found.acquisitions, found.overlaps.len(), found.regressions.len(), found.hung.len()), (3, 0, 0, 0));
        assert_eq!((found.longest_gap, found.longest_gap_from), (Duration::from_nanos(10), 20));
        assert_eq!(found.shares, BTreeMap::from([((0, 0), 2), ((1, 0), 1)]));
        assert_eq!(found.longest_wait, Duration::from_nanos(29));
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let one = life(0, [granted(0, 10, 1), ends(0, 20)]);
        let other = life(1, [granted(0, 19, 2), ends(0, 40)]);
        let found = judge(&[one, other], 100);
        assert_eq!(found.overlaps.len(), 1);
        assert_eq!((found.overlaps[0].0.worker, found.overlaps[0].1.worker), (0, 1));
    }

    #[test]
    fn a_short_hold_inside_a_long_one_hides_no_later_overlap() {
        let one = life(0, [granted(0, 10, 1), ends(0, 90)]);
        let others = life(1, [granted(0, 20, 2), ends(0, 30), granted(1, 50, 3), ends(1, 60)]);
        assert_eq!(judge(&[one, others], 100).overlaps.len(), 2);
    }

    #[test]
    fn a_killed_holder_has_the_lock_until_it_is_dead_but_not_beyond_its_deadline() {
        let late = |from| life(1, [granted(0, from, 2), ends(0, from + 10)]);
        let killed = |at| Life { killed: Some(at), ..life(0, [granted(0, 10, 1)]) };
        assert_eq!(judge(&[killed(100), late(99)], 2_000).overlaps.len(), 1);
        assert_eq!(judge(&[killed(100), late(100)], 2_000).overlaps.len(), 0);
        assert_eq!(judge(&[killed(900), late(509)], 2_000).overlaps.len(), 1);
        assert_eq!(judge(&[killed(900), late(510)], 2_000).overlaps.len(), 0);
    }

    #[test]
    fn a_holder_that_never_says_it_ended_has_the_lock_until_its_deadline() {
        let silent = life(0, [granted(0, 10, 1)]);
        let other = life(1, [granted(0, 509, 2), ends(0, 520)]);
        assert_eq!(judge(&[silent, other], 2_000).overlaps.len(), 1);
    }

    #[test]
    fn a_fence_that_falls_or_repeats_is_found() {
        for fence in [4, 5] {
            let one = life(0, [granted(0, 10, 5), ends(0, 20)]);
            let other = life(1, [granted(0, 30, fence), ends(0, 40)]);
            let found = judge(&[other, one], 100);
            assert_eq!((found.regressions.len(), found.overlaps.len()), (1, 0), "{fence}");
        }
    }

    #[test]
    fn a_waiter_that_others_pass_for_too_long_hangs() {
        let passed = life(0, [waits(0, 0), granted(0, 1_001, 9), ends(0, 1_010)]);
        let other = life(1, [waits(0, 1), granted(0, 30, 1), ends(0, 40)]);
        let found = judge(&[passed, other], 2_000);
        assert_eq!(found.hung, [Wait { worker: 0, thread: 0, key: 0, from: 0, until: 1_001, ending: Ending::Granted }]);
    }

    #[test]
    fn a_waiter_that_is_never_granted_hangs() {
        let other = || life(1, [granted(0, 30, 1), ends(0, 40)]);
        assert_eq!(judge(&[life(0, [waits(0, 0)]), other()], 1_001).hung.len(), 1);
        assert_eq!(judge(&[life(0, [waits(0, 0)]), other()], 1_000).hung.len(), 0);
        let killed = Life { killed: Some(900), ..life(0, [waits(0, 0)]) };
        assert_eq!(judge(&[killed, other()], 5_000).hung.len(), 0);
    }

    #[test]
    fn a_long_wait_in_which_nobody_was_served_is_a_gap() {
        let one = life(0, [granted(0, 10, 1), ends(0, 20), waits(0, 21), granted(0, 2_000, 2), ends(0, 2_010)]);
        let found = judge(&[one], 3_000);
        assert_eq!((found.hung.len(), found.longest_gap), (0, Duration::from_nanos(1_980)));
    }

    #[test]
    fn a_stopped_process_cannot_hang_while_it_is_stopped() {
        let others: Vec<Record> =
            (0..30).flat_map(|n| [granted(0, 100 * n + 1, n + 1), ends(0, 100 * n + 2)]).collect();
        let stopped = |resumed, until| {
            let records = [waits(0, 0), granted(0, until, 99), ends(0, until + 1)];
            Life { stops: vec![(500, resumed)], ..life(0, records) }
        };
        assert_eq!(judge(&[stopped(2_000, 2_950), life(1, others.clone())], 4_000).hung.len(), 0);
        assert_eq!(judge(&[stopped(1_900, 2_950), life(1, others)], 4_000).hung.len(), 1);
    }

    #[test]
    fn stale_grants_losses_and_failures_are_counted_but_are_no_holds() {
        let lost = Record { thread: 0, key: 0, event: Event::Ends { at: 20, lost: "expired".to_owned() } };
        let stale = Record { thread: 0, key: 0, event: Event::Stale { at: 50 } };
        let failed = Record { thread: 0, key: 0, event: Event::Failed { at: 60, error: "away".to_owned() } };
        let found = judge(&[life(0, [granted(0, 10, 1), lost, stale, failed])], 100);
        assert_eq!((found.acquisitions, found.stale, found.failures.len()), (1, 1, 1));
        assert_eq!(found.lost, BTreeMap::from([("expired".to_owned(), 1)]));
    }
}
