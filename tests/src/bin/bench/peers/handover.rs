//! From just before a release to the return of acquire in a waiter of another process.

use redlatch_tests::bench::{Bars, Limit, Report, Spread, Unit, quantile};

use super::cast::Cast;
use super::player::Player;
use super::rounds::{Entry, entries, play_round, ratio_of, tell_ratios};
use super::subjects::{OURS_IN_PYTHON, Subject};
use crate::Stage;

/// How long a lock is kept at least once its next holder waits, in milliseconds.
const LEAST_HOLD: f64 = 20.0;
/// How much longer at most, where waiters do not sleep for longer between two looks.
const LEAST_PHASES: f64 = 10.0;
/// Half a second for each hand-over: not in a quick run.
const SLOWEST: &str = "portalocker";
/// Multiples of the golden ratio fall evenly between whole numbers, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

pub(crate) fn run(stage: &Stage, report: &mut Report) {
    let mut cast = Cast::start(stage, report, 2);
    let mut subjects = cast.subjects();
    if stage.extent.is_quick() {
        subjects.retain(|subject| subject.name != SLOWEST);
    }
    let mut play = |subject: &'static Subject, round: usize, handovers: usize, report: &mut Report| {
        let times = block(cast.players(subject), subject, round, handovers);
        cast.keep(subject, times, report)
    };
    // The first ones open connections and inboxes, on both sides.
    let mut all = entries(subjects);
    play_round(&mut all, 0, |subject| play(subject, 0, if subject.is_slow() { 1 } else { 2 }, report));
    all.iter_mut().for_each(|entry| entry.values.clear());

    // An odd number: the median is then one of the times.
    let (fast, slow, rounds) = stage.extent.pick((3, 1, 3), (9, 3, 30));
    for round in 0..rounds {
        play_round(&mut all, round, |subject| {
            play(subject, round, if subject.is_slow() { slow } else { fast }, report)
        });
    }

    let mut bars = Vec::new();
    let mut medians = entries(all.iter().map(|entry| entry.subject));
    for (Entry { subject, values: blocks }, medians) in all.iter().zip(&mut medians) {
        // A block is empty when on a busy machine each waiter asked only after the release.
        medians.values = blocks.iter().map(|block| median(block)).collect();
        let times = blocks.concat();
        if times.is_empty() {
            continue;
        }
        let spread = Spread::of(times.clone());
        report.row(format!("hand-over by {}", subject.title), Unit::Micros, spread);
        report.value(format!("{}_handover_p99_us", subject.name), quantile(&times, 0.99) / 1e3, Limit::None);
        bars.push(subject.bar(spread.median / 1e3));
    }
    tell_ratios(&medians, "handover", report);
    if let Some(ratio) = ratio_of(&medians, "redis_py", OURS_IN_PYTHON) {
        report.ratio("redis_py_handover_per_python_handover", ratio, Limit::AtLeast(100.0));
    }
    if let Some(ratio) = ratio_of(&medians, OURS_IN_PYTHON, "python_redis_lock") {
        report.ratio("python_handover_per_python_redis_lock", ratio, Limit::AtMost(1.0));
    }
    let title = "From release to acquire in another process".to_owned();
    let [file, x] = ["peers-hand-over", "µs, median"].map(str::to_owned);
    report.plot(Bars { file, title, x, bars });
}

/// NaN of none, which no ratio counts.
fn median(times: &[f64]) -> f64 {
    if times.is_empty() { f64::NAN } else { Spread::of(times.to_vec()).median }
}

/// Two processes hand the lock to and fro; the times in nanoseconds. At the end nobody has it.
fn block(players: &mut [Player], subject: &Subject, round: usize, handovers: usize) -> Result<Vec<f64>, String> {
    let name = subject.name;
    let mut times = Vec::new();
    let mut holder = round % 2;
    players[holder].send(&format!("hold {name}"));
    players[holder].expect("held")?;
    for number in 0..handovers {
        let hold = LEAST_HOLD + phase(round * handovers + number) * subject.pause.max(LEAST_PHASES);
        let next = 1 - holder;
        players[next].send(&format!("wait {name}"));
        players[next].expect("waits")?;
        players[holder].send(&format!("release {name} {hold}"));
        let released: Vec<u64> = players[holder].numbers("released")?;
        let granted: Vec<u64> = players[next].numbers("granted")?;
        times.extend(time_of(&released, &granted)?);
        holder = next;
    }
    players[holder].send(&format!("release {name} 0"));
    players[holder].expect("released")?;
    Ok(times)
}

/// From 0 to 1.
fn phase(number: usize) -> f64 {
    (number as f64 * GOLDEN).fract()
}

/// `None` when the waiter asked only after the release; an error when the lock had two holders at once.
fn time_of(released: &[u64], granted: &[u64]) -> Result<Option<f64>, String> {
    match (released, granted) {
        ([released], [asked, granted]) if released < granted => {
            Ok((asked < released).then(|| (granted - released) as f64))
        }
        ([released], [_, granted]) => Err(format!("granted at {granted}, released at {released}")),
        _ => Err(format!("not the instants of a hand-over: {released:?}, {granted:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_a_waiter_who_waited() {
        assert_eq!(time_of(&[50], &[10, 70]), Ok(Some(20.0)));
        assert_eq!(time_of(&[50], &[60, 70]), Ok(None), "it asked after the release");
        assert!(time_of(&[50], &[10, 40]).is_err(), "two holders");
        assert!(time_of(&[], &[10, 40]).is_err() && time_of(&[1], &[2]).is_err());
    }

    #[test]
    fn releases_fall_everywhere_between_two_looks_of_a_waiter() {
        let mut phases: Vec<f64> = (0..20).map(phase).collect();
        phases.sort_by(f64::total_cmp);
        let gaps = phases.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.fold(0.0, f64::max) < 0.1, "{phases:?}");
    }
}
