//! Who got how much.

/// Acquisitions of each thread within a span.
#[derive(Debug, PartialEq)]
pub(crate) struct Shares(Vec<u64>);

impl Shares {
    /// What each has gained between two looks at counts that only grow.
    pub(crate) fn between(before: &[u64], after: &[u64]) -> Shares {
        assert_eq!(before.len(), after.len(), "the same threads");
        Shares(before.iter().zip(after).map(|(before, after)| after - before).collect())
    }

    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64
    }

    /// 1 when all got the same, 0 when one got nothing.
    pub(crate) fn least_per_largest(&self) -> f64 {
        let least = self.0.iter().min().copied().unwrap_or(0) as f64;
        let largest = self.0.iter().max().copied().unwrap_or(0) as f64;
        least / largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_no_share() {
        let shares = Shares::between(&[100, 5, 0], &[110, 25, 16]);
        assert_eq!(shares, Shares(vec![10, 20, 16]));
        assert_eq!((shares.sum(), shares.least_per_largest()), (46.0, 0.5));
    }

    #[test]
    fn one_that_got_nothing_makes_the_least_share_zero() {
        assert_eq!(Shares::between(&[3, 1], &[3, 9]).least_per_largest(), 0.0);
        assert_eq!(Shares::between(&[0], &[4]).least_per_largest(), 1.0);
    }

    #[test]
    fn shares_of_nothing_are_no_number() {
        assert!(Shares::between(&[2, 2], &[2, 2]).least_per_largest().is_nan());
    }
}
