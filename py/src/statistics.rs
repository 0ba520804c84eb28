//! Counters and timings as a `dict`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlatch::{Histogram, LostReason, Stats};

/// All of `stats`, under the core's names; times in seconds.
pub(crate) fn as_dict<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, value) in stats.counters().into_iter().chain(stats.gauges()) {
        all.set_item(name, value)?;
    }
    let lost = PyDict::new(py);
    for reason in LostReason::ALL {
        lost.set_item(reason.as_str(), stats.lost(reason))?;
    }
    all.set_item("lost", lost)?;
    all.set_item("wait_seconds", summary(py, &stats.wait_micros, 1e-6)?)?;
    all.set_item("hold_seconds", summary(py, &stats.hold_micros, 1e-6)?)?;
    all.set_item("hold_percent_of_ttl", summary(py, &stats.hold_percent_of_ttl, 1.0)?)?;
    all.set_item("renewal_delay_seconds", summary(py, &stats.renewal_delay_micros, 1e-6)?)?;
    let longest = stats.longest_hold_now.as_ref().map(|longest| {
        let entry = PyDict::new(py);
        entry.set_item("name", &longest.name)?;
        entry.set_item("held", longest.held.as_secs_f64())?;
        Ok::<_, PyErr>(entry)
    });
    all.set_item("longest_hold_now", longest.transpose()?)?;
    let hottest = stats.hottest.iter().map(|hot| {
        let entry = PyDict::new(py);
        entry.set_item("name", &hot.name)?;
        entry.set_item("waits", hot.waits)?;
        Ok(entry)
    });
    all.set_item("hottest", hottest.collect::<PyResult<Vec<_>>>()?)?;
    Ok(all)
}

#[allow(clippy::cast_precision_loss, reason = "values are at most 24 h in µs")]
fn summary<'py>(py: Python<'py>, histogram: &Histogram, unit: f64) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("count", histogram.count())?;
    entry.set_item("mean", histogram.mean() * unit)?;
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        entry.set_item(name, histogram.quantile(quantile) as f64 * unit)?;
    }
    entry.set_item("max", histogram.max() as f64 * unit)?;
    Ok(entry)
}
