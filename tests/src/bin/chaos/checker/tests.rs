//! Clean histories pass, and each kind of violation that is planted into one is found.

use fastrand::Rng;
use proptest::prelude::*;
use redlatch_tests::history::{Ending, Event, Life, NOTHING, Record};

use super::*;

const MS: Nanos = 1_000_000;
const KEYS: usize = 3;
const WORKERS: usize = 4;
const RULES: Rules = Rules {
    ttl: Duration::from_secs(1),
    stepped: Duration::ZERO,
    turn: Duration::from_secs(1),
    wait: Duration::from_secs(4),
    poll: Duration::from_millis(240),
    slack: Duration::from_millis(1_000),
};

/// A history in which every lock goes from worker to worker as it should: each waits from before the last release on.
fn clean(seed: u64, rounds: usize) -> (Vec<Life>, Vec<Served>) {
    let mut dice = Rng::with_seed(seed);
    let mut lives: Vec<Life> = (0..WORKERS).map(|worker| Life { worker, ..Life::default() }).collect();
    let mut served = Vec::new();
    for key in 0..KEYS {
        let (mut at, mut fence) = (1_000 * MS + dice.u64(..100 * MS), 1_700_000_000_000_000 + key as u64);
        for version in 0..rounds as u64 {
            let worker = dice.usize(..WORKERS);
            // One thread for each lock, so that the locks do not wait for each other.
            let mut note = |event| lives[worker].records.push(Record { thread: key, key, event });
            let asked = at;
            at += dice.u64(1..40) * MS;
            fence += dice.u64(1..1_000);
            note(Event::Waits { at: asked });
            note(Event::Granted { at, deadline: at + 980 * MS, fence });
            at += dice.u64(1..100) * MS;
            note(Event::Ends { at, lost: NOTHING.to_owned() });
            at += MS;
            note(Event::Released { at, outcome: "released".to_owned() });
            for verb in [Verb::Begin, Verb::Write] {
                served.push(Served { verb, key, fence, version, accepted: true });
            }
            at += MS;
        }
        for life in &mut lives {
            life.records.push(Record { thread: key, key, event: Event::Done { at } });
        }
    }
    (lives, served)
}

fn evidence(lives: &[Life], served: Vec<Served>) -> Evidence {
    Evidence { story: Story::of(lives, 1_000_000 * MS), served, ..Evidence::default() }
}

/// A clean history with something done to it.
fn spoilt(seed: u64, spoil: impl FnOnce(&mut Evidence, &mut Rng)) -> Vec<Violation> {
    let (lives, served) = clean(seed, 12);
    let mut evidence = evidence(&lives, served);
    spoil(&mut evidence, &mut Rng::with_seed(seed ^ 1));
    check(&evidence, &RULES)
}

/// Two neighbours of one lock, by their places.
fn neighbours(evidence: &Evidence, dice: &mut Rng) -> (usize, usize) {
    let key = dice.usize(..KEYS);
    let places: Vec<usize> = (0..evidence.story.held.len()).filter(|it| evidence.story.held[*it].key == key).collect();
    let first = dice.usize(..places.len() - 1);
    (places[first], places[first + 1])
}

/// An end of the first neighbour that lies in the time of the second.
fn overlapping_end(evidence: &Evidence, second: usize) -> Nanos {
    evidence.story.held[second].from + 1
}

fn kinds(found: &[Violation]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = found.iter().map(Violation::kind).collect();
    kinds.dedup();
    kinds
}

proptest! {
    #[test]
    fn a_clean_history_passes(seed: u64) {
        let found = spoilt(seed, |_, _| {});
        prop_assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn two_holders_at_once_are_found(seed: u64) {
        let found = spoilt(seed, |evidence, dice| {
            let (first, second) = neighbours(evidence, dice);
            evidence.story.held[first].until = overlapping_end(evidence, second);
        });
        prop_assert_eq!(kinds(&found), ["overlaps"]);
        prop_assert_eq!(found.len(), 1);
    }

    #[test]
    fn two_holders_at_once_are_forgiven_only_where_the_server_lost_its_data(seed: u64) {
        let overlap = |from_before: u64, until_after: u64| spoilt(seed, |evidence, dice| {
            let (first, second) = neighbours(evidence, dice);
            evidence.story.held[first].until = overlapping_end(evidence, second);
            let (from, until) = (evidence.story.held[second].from, evidence.story.held[first].until);
            evidence.forgiven.push((from + 1 - from_before, until - 1 + until_after));
        });
        prop_assert!(overlap(1, 1).is_empty());
        prop_assert_eq!(kinds(&overlap(1, 0)), ["overlaps"]);
        prop_assert_eq!(kinds(&overlap(0, 1)), ["overlaps"]);
    }

    #[test]
    fn a_fence_that_falls_or_repeats_is_found_also_where_the_server_lost_its_data(seed: u64, repeats: bool, loss: bool) {
        let found = spoilt(seed, |evidence, dice| {
            let (first, second) = neighbours(evidence, dice);
            let fence = evidence.story.held[first].fence;
            evidence.story.held[second].fence = if repeats { fence } else { fence - 1_000_000 };
            if loss {
                evidence.forgiven.push((0, Nanos::MAX / 2));
            }
        });
        prop_assert_eq!(kinds(&found), ["regressions"]);
    }

    #[test]
    fn a_fence_from_before_a_loss_may_be_known_late_but_only_then(seed: u64, forgiven: bool) {
        let found = spoilt(seed, |evidence, dice| {
            let (first, second) = neighbours(evidence, dice);
            // Asked for and granted before the first, known after it.
            evidence.story.held[second].asked = evidence.story.held[first].asked;
            evidence.story.held.iter_mut().for_each(|it| it.fence *= 2);
            evidence.story.held[second].fence = evidence.story.held[first].fence - 1;
            if forgiven {
                evidence.forgiven.push((evidence.story.held[first].from, evidence.story.held[second].from));
            }
        });
        prop_assert_eq!(found.is_empty(), forgiven, "{:?}", found);
    }

    #[test]
    fn a_stale_write_is_found(seed: u64, skip in 1..5u64) {
        let found = spoilt(seed, |evidence, dice| {
            let writes: Vec<usize> = (0..evidence.served.len())
                .filter(|it| evidence.served[*it].verb == Verb::Write && evidence.served[*it].version > 4)
                .collect();
            // It rests on a row that others have written since.
            evidence.served[dice.choice(writes).expect("there are writes")].version -= skip;
        });
        prop_assert_eq!(kinds(&found), ["stale_writes"]);
    }

    #[test]
    fn a_write_with_a_lower_fence_that_was_accepted_is_found(seed: u64) {
        let found = spoilt(seed, |evidence, dice| {
            let place = 2 * dice.usize(1..8);
            let mut late = evidence.served[place + 1].clone();
            late.version = evidence.served[place + 3].version + 1;
            evidence.served.insert(place + 4, late);
            evidence.served.truncate(place + 5);
        });
        prop_assert_eq!(kinds(&found), ["stale_writes"]);
    }

    #[test]
    fn a_store_that_refuses_everything_proves_nothing(seed: u64) {
        let found = spoilt(seed, |evidence, dice| {
            let place = dice.usize(..evidence.served.len());
            evidence.served[place].accepted = false;
            evidence.served.truncate(place + 1);
        });
        prop_assert_eq!(kinds(&found), ["wrong_refusals"]);
    }

    #[test]
    fn a_waiter_that_sleeps_on_while_its_lock_is_free_is_found(seed: u64, others in 0..4u32, beyond: bool) {
        // Itself, and the others that wait.
        let cap = RULES.poll * (others + 1) + RULES.slack;
        let found = spoilt(seed, |evidence, dice| {
            let key = dice.usize(..KEYS);
            let last = evidence.story.held.iter().filter(|it| it.key == key).filter_map(|it| it.released).max();
            let free = last.expect("each lock was released") + 10_000 * MS;
            let until = free + nanos(cap) + u64::from(beyond);
            let wait = |worker| Wait { worker, thread: 9, key, from: free, until, ending: Ending::Granted };
            evidence.story.waits.extend((0..=others as usize).map(wait));
        });
        prop_assert_eq!(kinds(&found), if beyond { vec!["slept"] } else { vec![] });
        prop_assert_eq!(found.len(), if beyond { others as usize + 1 } else { 0 });
    }
}

fn wait(from: Nanos, until: Nanos, ending: Ending) -> Wait {
    Wait { worker: 0, thread: 0, key: 0, from: from * MS, until: until * MS, ending }
}

fn judge(evidence: Evidence) -> Vec<&'static str> {
    kinds(&check(&evidence, &RULES))
}

#[test]
fn a_wait_is_no_sleep_where_a_lease_an_outage_or_a_dead_process_explains_it() {
    let sleeps = || {
        let mut evidence = Evidence::default();
        evidence.story.waits.push(wait(0, 2_000, Ending::Granted));
        evidence
    };
    assert_eq!(judge(sleeps()), ["slept"]);

    let mut held = sleeps();
    let lease = |from, until, released: Option<Nanos>| Held {
        worker: 1,
        thread: 0,
        key: 0,
        asked: from * MS,
        from: from * MS,
        until: until * MS,
        released: released.map(|at| at * MS),
        fence: from,
    };
    held.story.held.push(lease(1_000, 1_500, Some(1_600)));
    assert!(judge(held).is_empty());

    // Its key stays for a ttl after a death.
    let mut dead = sleeps();
    dead.story.held.push(lease(500, 600, None));
    assert!(judge(dead).is_empty());
    let mut released = sleeps();
    released.story.held.push(lease(500, 600, Some(600)));
    assert_eq!(judge(released), ["slept"]);

    let mut outage = sleeps();
    outage.outages.push((900 * MS, 1_100 * MS));
    assert!(judge(outage).is_empty());
    // One that died around an outage may get a turn, once.
    for (length, expected) in [(2_480, vec![]), (2_481, vec!["slept"])] {
        let mut silent = Evidence { outages: vec![(50 * MS, 60 * MS)], ..Evidence::default() };
        silent.story.waits.push(wait(10, 90, Ending::Killed));
        // The lapse of what the dead one may have had comes first.
        silent.story.waits.push(wait(1_090, 1_090 + length - 240, Ending::Granted));
        assert_eq!(judge(silent), expected);
    }

    // Only where the stopped one waits for the same lock.
    for (key, expected) in [(0, vec![]), (1, vec!["slept"])] {
        let mut stop = sleeps();
        stop.stops.push((3, (900 * MS, 950 * MS)));
        stop.story.waits.push(Wait { worker: 3, key, ..wait(950, 960, Ending::Granted) });
        assert_eq!(judge(stop), expected);
    }
    let mut killed = sleeps();
    killed.story.waits.push(wait(500, 1_000, Ending::Killed));
    assert!(judge(killed).is_empty());
}

#[test]
fn a_call_that_outlasts_its_time_is_found() {
    for (length, expected) in [(5_000, vec![]), (5_001, vec!["overdue"])] {
        let mut evidence = Evidence::default();
        evidence.story.waits.push(wait(0, length, Ending::Busy));
        evidence.outages.push((0, length * MS));
        assert_eq!(judge(evidence), expected);
    }
}

#[test]
fn a_lease_that_was_taken_is_found_unless_the_server_lost_its_data() {
    for how in ["taken", "closed", "error no usable answer"] {
        let mut evidence = Evidence::default();
        evidence.story.losses.push((500, how.to_owned()));
        assert_eq!(judge(evidence), ["taken"], "{how}");
    }
    for how in ["released", "unconfirmed", "expired"] {
        let mut evidence = Evidence::default();
        evidence.story.releases.push((500, how.to_owned()));
        assert!(judge(evidence).is_empty(), "{how}");
    }
    for (at, expected) in [(4, vec!["taken"]), (5, vec![]), (1_010 * MS, vec![]), (1_011 * MS, vec!["taken"])] {
        let mut evidence = Evidence { forgiven: vec![(5, 10 * MS)], ..Evidence::default() };
        evidence.story.losses.push((at, "taken".to_owned()));
        assert_eq!(judge(evidence), expected, "{at}");
    }
}

#[test]
fn a_holder_that_the_store_refuses_is_found_unless_the_server_lost_its_data() {
    for (forgiven, expected) in [(vec![], vec!["refused_holders"]), (vec![(5, 10)], vec![])] {
        let mut evidence = Evidence { forgiven, ..Evidence::default() };
        evidence.story.refusals.push((7, 0));
        assert_eq!(judge(evidence), expected);
    }
}

#[test]
fn a_lock_that_outlives_its_ttl_is_found() {
    let ended = 10_000 * MS;
    for (at, left, expected) in [
        (5_000, Some(1_000), vec![]),
        (5_000, Some(1_001), vec!["outlived"]),
        (5_000, None, vec!["outlived"]),
        (12_000, Some(1), vec![]),
        (12_001, Some(1), vec!["outlived"]),
    ] {
        let seen = vec![Seen { key: 0, at: at * MS, left }];
        assert_eq!(judge(Evidence { seen, ended, ..Evidence::default() }), expected, "{at} {left:?}");
    }
    let stepped = Rules { stepped: Duration::from_millis(500), ..RULES };
    for (at, left, expected) in [(5_000, 1_500, 0), (5_000, 1_501, 1), (12_500, 1, 0), (12_501, 1, 1)] {
        let seen = vec![Seen { key: 0, at: at * MS, left: Some(left) }];
        let found = check(&Evidence { seen, ended, ..Evidence::default() }, &stepped);
        assert_eq!(found.len(), expected, "{at} {left}");
    }
}

#[test]
fn a_worker_that_hangs_is_found_and_one_that_was_killed_is_none() {
    let life = |records: Vec<Event>| Life {
        records: records.into_iter().map(|event| Record { thread: 1, key: 0, event }).collect(),
        ..Life::default()
    };
    let judge = |life: Life| check(&Evidence { story: Story::of(&[life], 9), ..Evidence::default() }, &RULES);
    let hung = |threads: &[usize]| vec![Violation::Hung { worker: 0, threads: threads.to_vec() }];
    // Thread 0 has written nothing.
    assert_eq!(judge(life(vec![Event::Waits { at: 1 }])), hung(&[0, 1]));
    assert_eq!(judge(life(vec![Event::Waits { at: 1 }, Event::Busy { at: 2 }, Event::Done { at: 3 }])), hung(&[0]));
    assert_eq!(judge(Life { killed: Some(2), ..life(vec![Event::Waits { at: 1 }]) }), vec![]);
    // Killed because it did not end.
    assert_eq!(judge(Life { killed: Some(2), hung: true, ..life(vec![Event::Waits { at: 1 }]) }), hung(&[0, 1]));
    assert_eq!(judge(Life { killed: Some(2), hung: true, ..Life::default() }), hung(&[]));
}

#[test]
fn an_error_that_no_fault_explains_is_found() {
    for (error, expected) in [("unavailable for 3 s", vec![]), ("other cannot serve locks", vec!["failures"])] {
        let mut evidence = Evidence::default();
        evidence.story.failures.push((7, error.to_owned()));
        assert_eq!(judge(evidence), expected);
    }
}
