//! The times of many hand-overs, measured in blocks.

use redlatch_tests::bench::{Spread, quantile};

/// A quantile is told when at least so many values are above it.
const LEAST_ABOVE: f64 = 5.0;
/// And shown in a figure when at least so many are.
const LEAST_ABOVE_IN_FIGURE: f64 = 2.0;

/// In nanoseconds.
pub(crate) struct Times {
    medians: Vec<f64>,
    all: Vec<f64>,
}

impl Times {
    /// Of at least one block with at least one value.
    pub(crate) fn of(blocks: Vec<Vec<f64>>) -> Times {
        let medians = blocks.iter().map(|block| Spread::of(block.clone()).median).collect();
        Times { medians, all: blocks.concat() }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// One value for each block.
    pub(crate) fn medians(&self) -> &[f64] {
        &self.medians
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.all.clone())
    }

    /// The value that all but one of `one_in` do not exceed; `None` where too few do.
    pub(crate) fn tail(&self, one_in: f64) -> Option<f64> {
        self.beyond(one_in, LEAST_ABOVE)
    }

    /// From one in two to one in 10,000 as far as there are values, in microseconds.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        let positions =
            [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0].into_iter();
        let point = |one_in| Some((one_in, self.beyond(one_in, LEAST_ABOVE_IN_FIGURE)? / 1e3));
        positions.filter_map(point).collect()
    }

    fn beyond(&self, one_in: f64, least: f64) -> Option<f64> {
        let enough = self.all.len() as f64 / one_in >= least;
        enough.then(|| quantile(&self.all, 1.0 - 1.0 / one_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 to 2,000 µs in two blocks.
    fn times() -> Times {
        let block = |from: u32| (from..from + 1_000).map(|micros| f64::from(micros) * 1e3).collect();
        Times::of(vec![block(1), block(1_001)])
    }

    #[test]
    fn medians_are_those_of_blocks_and_the_spread_is_that_of_all() {
        assert_eq!(times().medians(), [500e3, 1_500e3]);
        assert_eq!((times().count(), times().spread().median), (2_000, 1_000e3));
    }

    #[test]
    fn a_tail_of_too_few_values_is_not_told() {
        assert_eq!(times().tail(100.0), Some(1_980e3));
        assert!(times().tail(400.0).is_some(), "five values are above it");
        assert_eq!(times().tail(1_000.0), None, "two values are above it");
    }

    #[test]
    fn a_figure_ends_where_single_values_would_decide() {
        let points = times().points();
        assert_eq!(points.first(), Some(&(2.0, 1_000.0)));
        assert_eq!(points.last().map(|(one_in, _)| *one_in), Some(1_000.0));
        assert!(points.windows(2).all(|pair| pair[0].1 < pair[1].1), "{points:?}");
    }
}
