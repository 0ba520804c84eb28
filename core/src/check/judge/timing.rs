//! Clocks, round trips, and pauses of the server.

use std::time::Duration;

use crate::check::account::{Account, TimeSample};
use crate::check::finding::FindingKind;
use crate::options::TTL;

use super::{Notes, Terms};

/// Clocks that are kept by NTP differ by far less.
const CLOCKS_AGREE: Duration = Duration::from_secs(1);

/// A ttl supports a round trip of this part of it: one try of a renewal has a sixth, and half of that is kept in reserve.
const TRIPS_IN_A_TTL: u32 = 12;

pub(super) fn judge(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    clock(&account.times, notes);
    round_trip(&account.times, terms, notes);
    fork(account, terms, notes);
}

fn clock(times: &[TimeSample], notes: &mut Notes<'_>) {
    // The quickest answer tells the time most exactly.
    let Some(sample) = times.iter().min_by_key(|sample| sample.trip) else { return };
    let TimeSample { trip, server, here } = *sample;
    let server = server.saturating_add(trip / 2);
    let (apart, is_ahead) = (server.abs_diff(here), server > here);
    if apart.saturating_sub(trip / 2) <= CLOCKS_AGREE {
        return;
    }
    let shown = millis(apart);
    let (side, step) = if is_ahead {
        (
            "ahead of",
            "A step back keeps locks of dead holders that much longer, and fences may fall behind those given before",
        )
    } else {
        ("behind", "A step forward ends leases that much early, and a second holder can be granted the lock")
    };
    let message = format!(
        "its clock is {shown} {side} this machine's. Locks do not depend on the difference, but ttls, turns and fences count by the \
         server's clock, which must not be stepped. {step}. Find out which of the two is wrong, and have it slewed, never \
         stepped"
    );
    notes.warning(FindingKind::Clock, message);
}

fn round_trip(times: &[TimeSample], terms: &Terms, notes: &mut Notes<'_>) {
    let mut trips: Vec<Duration> = times.iter().map(|sample| sample.trip).collect();
    trips.sort_unstable();
    let (Some(median), Some(worst)) = (trips.get(trips.len() / 2).copied(), trips.last().copied()) else { return };
    let shortest = supported(worst);
    let what = format!(
        "a request takes {} (median of {}), {} at worst, as measured now from here: that supports a ttl from {} on",
        millis(median),
        trips.len(),
        millis(worst),
        millis(shortest)
    );
    let io = terms.io_timeout;
    if worst > io / 2 {
        let message = format!(
            "{what}, and is more than half of io_timeout ({io:?}): requests will run out of time. Raise io_timeout, or bring client \
             and server closer together"
        );
        notes.warning(FindingKind::RoundTrip, message);
    } else if shortest > TTL.default_value() {
        let message = format!("{what}, longer than the default of {:?}. Set a ttl above that", TTL.default_value());
        notes.warning(FindingKind::RoundTrip, message);
    } else {
        notes.info(FindingKind::RoundTrip, what);
    }
}

/// The shortest ttl for which renewal has time enough.
fn supported(worst: Duration) -> Duration {
    let millis = (worst.saturating_mul(TRIPS_IN_A_TTL)).as_micros().div_ceil(1_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(TTL.min)
}

fn fork(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    let pause = Duration::from_micros(account.info.number("latest_fork_usec").unwrap_or(0));
    if pause < terms.io_timeout / 2 {
        return;
    }
    let message = format!(
        "it stood still for {} when it last forked, to write a snapshot or its append-only file anew: requests take that long then, \
         and are given up after io_timeout ({:?}). Keep each ttl above {}; turn transparent huge pages off there, or write \
         snapshots on a replica",
        millis(pause),
        terms.io_timeout,
        // A lease survives a silence of two thirds of its ttl, less what one more try takes.
        millis(pause.saturating_mul(3))
    );
    notes.warning(FindingKind::ForkPause, message);
}

/// A span in milliseconds, or seconds, as people read it.
fn millis(span: Duration) -> String {
    let millis = span.as_secs_f64() * 1e3;
    match millis {
        0.0..10.0 => format!("{millis:.2} ms"),
        10.0..10_000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::account;
    use crate::check::finding::Finding;
    use crate::check::finding::Severity::{Info, Warning};

    const NOW: Duration = Duration::from_secs(1_700_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn with(times: Vec<TimeSample>) -> Vec<Finding> {
        let mut account = account("", &[]);
        account.times = times;
        server(&account, &ALONE)
    }

    /// A sample of a server whose clock is as ours, but for `ahead` or `behind`.
    fn sample(trip: Duration, ahead: Duration, behind: Duration) -> TimeSample {
        TimeSample { trip, server: NOW + ahead - behind, here: NOW + trip / 2 }
    }

    #[test]
    fn a_clock_that_differs_by_more_than_the_trip_explains_is_told_of() {
        let of = |times: Vec<TimeSample>| severity(&with(times), FindingKind::Clock);
        let zero = Duration::ZERO;
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![sample(ms(2), zero, zero)]), None);
        assert_eq!((of(vec![sample(ms(2), SECOND, zero)]), of(vec![sample(ms(2), zero, SECOND)])), (None, None));
        assert_eq!(of(vec![sample(ms(2), SECOND * 2, zero)]), Some(Warning));
        assert_eq!(of(vec![sample(ms(2), zero, SECOND * 2)]), Some(Warning));
        assert_eq!(of(vec![sample(SECOND * 3, SECOND * 2, zero)]), None, "the answer may have taken all of that");
        let (slow, quick) = (sample(SECOND * 3, SECOND * 2, zero), sample(ms(2), zero, zero));
        assert_eq!(of(vec![slow, quick]), None, "the quickest answer counts");
    }

    #[test]
    fn what_a_wrong_clock_means_depends_on_its_side() {
        let message = |ahead, behind| {
            let found = with(vec![sample(ms(2), ahead, behind)]);
            found.into_iter().find(|finding| finding.kind() == FindingKind::Clock).unwrap().message().to_owned()
        };
        let (ahead, behind) = (message(SECOND * 9, Duration::ZERO), message(Duration::ZERO, SECOND * 9));
        assert!(ahead.contains("9000 ms ahead of") && ahead.contains("step back"), "{ahead}");
        assert!(behind.contains("9000 ms behind") && behind.contains("step forward"), "{behind}");
    }

    #[test]
    fn the_round_trip_tells_which_ttl_it_supports() {
        let of = |trips: &[u64]| {
            let times = trips.iter().map(|trip| sample(ms(*trip), Duration::ZERO, Duration::ZERO)).collect();
            let found = with(times);
            let finding = found.iter().find(|finding| finding.kind() == FindingKind::RoundTrip);
            finding.map(|finding| (finding.severity(), finding.message().to_owned()))
        };
        assert_eq!(of(&[]), None);
        let (severity, text) = of(&[1, 2, 3, 4, 50]).unwrap();
        assert_eq!(severity, Info);
        assert!(text.contains("3.00 ms (median of 5), 50 ms at worst") && text.contains("from 600 ms on"), "{text}");
        assert!(of(&[1]).unwrap().1.contains("from 100 ms on"), "no ttl is shorter");
        let (severity, text) = of(&[1, 501]).unwrap();
        assert_eq!(severity, Warning);
        assert!(text.contains("io_timeout (1s)"), "{text}");
    }

    #[test]
    fn a_trip_that_the_default_ttl_does_not_support_is_told_of() {
        let mut account = account("", &[]);
        account.times = vec![sample(ms(2_600), Duration::ZERO, Duration::ZERO)];
        let patient = Terms { io_timeout: SECOND * 60, ..ALONE };
        assert_eq!(severity(&server(&account, &patient), FindingKind::RoundTrip), Some(Warning));
        account.times = vec![sample(ms(2_400), Duration::ZERO, Duration::ZERO)];
        assert_eq!(severity(&server(&account, &patient), FindingKind::RoundTrip), Some(Info));
    }

    #[test]
    fn a_long_fork_is_told_of() {
        let of = |micros: u64| {
            severity(&server(&account(&format!("latest_fork_usec:{micros}"), &[]), &ALONE), FindingKind::ForkPause)
        };
        assert_eq!((of(0), of(499_999), of(500_000)), (None, None, Some(Warning)));
    }
}
