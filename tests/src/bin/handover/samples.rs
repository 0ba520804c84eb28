//! Medians with their spread, and quantiles.

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

/// The value that this part of all values does not exceed; of at least one value.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}
