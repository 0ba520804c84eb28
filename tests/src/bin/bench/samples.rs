//! Medians with their spread, and blocks of measurements that take turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A median and the quartiles around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |quarters: usize| values[(values.len() - 1) * quarters / 4];
        Spread { low: at(1), median: at(2), high: at(3) }
    }

    /// Of `left[n] / right[n]` over all rounds n.
    pub(crate) fn of_ratios(left: &[f64], right: &[f64]) -> Spread {
        Spread::of(left.iter().zip(right).map(|(left, right)| left / right).collect())
    }
}

/// Measures every subject once a round, one value a subject and round, until `span` has passed and there are 20 rounds.
///
/// Who begins changes from round to round, so that nobody always follows the same neighbour. A round before the
/// first one does not count.
pub(crate) fn in_turns<T, const N: usize>(span: Duration, subjects: &mut [&mut dyn FnMut() -> T; N]) -> [Vec<T>; N] {
    const LEAST: usize = 20;
    let mut values = std::array::from_fn(|_| Vec::new());
    for subject in subjects.iter_mut() {
        black_box(subject());
    }
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < LEAST || begin.elapsed() < span {
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
pub(crate) fn mean_of_block(calls: u32, mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        work();
    }
    nanos(begin.elapsed()) / f64::from(calls)
}

pub(crate) fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}
