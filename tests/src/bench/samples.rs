//! Medians with their spread, quantiles, and blocks of measurements that take turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A median and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// A quarter of the values is not above it.
    pub low: f64,
    /// Half of the values is not above it.
    pub median: f64,
    /// Three quarters of the values are not above it.
    pub high: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |quarters: usize| values[(values.len() - 1) * quarters / 4];
        Spread { low: at(1), median: at(2), high: at(3) }
    }

    /// Of `left[n] / right[n]` over all rounds n in which both were measured, that is not NaN; NaN where there is none.
    pub fn of_ratios(left: &[f64], right: &[f64]) -> Spread {
        let ratios = left.iter().zip(right).map(|(left, right)| left / right);
        // Sorted among the others they would be the largest ones, which is good where a ratio has to be large.
        let measured: Vec<f64> = ratios.filter(|ratio| !ratio.is_nan()).collect();
        Spread::of(if measured.is_empty() { vec![f64::NAN] } else { measured })
    }
}

/// The value that this part of all values does not exceed; of at least one value.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// Measures every subject once a round, one value a subject and round, until `span` has passed and there are 20 rounds.
///
/// Who begins changes from round to round, so that nobody always follows the same neighbour. A round before the
/// first one does not count.
pub fn in_turns<T, const N: usize>(span: Duration, subjects: &mut [&mut dyn FnMut() -> T; N]) -> [Vec<T>; N] {
    const LEAST: usize = 20;
    let begin = Instant::now();
    let mut unmeasured = Duration::ZERO;
    take_turns(subjects, |rounds| {
        if rounds == 0 {
            unmeasured = begin.elapsed();
        }
        rounds < LEAST || begin.elapsed() - unmeasured < span
    })
}

/// As [`in_turns`], for blocks that take long: so many rounds.
pub fn rounds_in_turns<T, const N: usize>(rounds: usize, subjects: &mut [&mut dyn FnMut() -> T; N]) -> [Vec<T>; N] {
    take_turns(subjects, |done| done < rounds)
}

fn take_turns<T, const N: usize>(
    subjects: &mut [&mut dyn FnMut() -> T; N],
    mut goes_on: impl FnMut(usize) -> bool,
) -> [Vec<T>; N] {
    let mut values = std::array::from_fn(|_| Vec::new());
    for subject in subjects.iter_mut() {
        black_box(subject());
    }
    let mut rounds = 0;
    while goes_on(rounds) {
        for turn in 0..N {
            let subject = (rounds + turn) % N;
            values[subject].push(subjects[subject]());
        }
        rounds += 1;
    }
    values
}

/// The mean time of one call of `work` in a block of `calls` calls, in nanoseconds: for calls that take about as
/// long as reading the clock.
pub fn mean_of_block(calls: u32, mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        work();
    }
    nanos(begin.elapsed()) / f64::from(calls)
}

/// A span in nanoseconds.
pub fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_the_sorted_values() {
        let Spread { low, median, high } = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!([low, median, high], [2.0, 3.0, 4.0]);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The machine was ten times slower in the second round, which hit both.
        assert_eq!(Spread::of_ratios(&[2.0, 20.0, 2.0], &[1.0, 10.0, 1.0]).high, 2.0);
    }

    #[test]
    fn a_round_that_was_not_measured_made_a_ratio_larger() {
        let ratios = Spread::of_ratios(&[3.0, f64::NAN, 1.0, f64::NAN, 2.0], &[1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(ratios, Spread { low: 1.0, median: 2.0, high: 2.0 });
        assert!(Spread::of_ratios(&[f64::NAN], &[1.0]).median.is_nan());
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (0..=1_000).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999, 1.0].map(|part| quantile(&values, part)),
            [0.0, 500.0, 990.0, 999.0, 1_000.0]
        );
        assert_eq!(quantile(&[7.0], 0.999), 7.0);
    }

    #[test]
    fn as_many_rounds_count_as_are_asked_for() {
        let calls = std::cell::Cell::new(0);
        let mut count = || calls.set(calls.get() + 1);
        assert_eq!(rounds_in_turns(3, &mut [&mut count]).map(|values| values.len()), [3]);
        assert_eq!(calls.get(), 4, "one round does not count");
    }

    #[test]
    fn each_subject_begins_as_often_as_the_others() {
        let order = std::cell::RefCell::new(Vec::new());
        let took =
            in_turns(Duration::ZERO, &mut [&mut || order.borrow_mut().push(0), &mut || order.borrow_mut().push(1)]);
        assert_eq!(took.map(|values| values.len()), [20, 20]);
        let order = order.into_inner();
        assert_eq!(order[..6], [0, 1, 0, 1, 1, 0], "a round that does not count, and two that do");
    }
}
