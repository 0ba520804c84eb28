//! What was measured: as a table, as lines for machines, as JSON.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use redlatch_tests::Server;

use crate::placement::Placement;
use crate::samples::Spread;

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    Exactly(f64),
    /// For information.
    None,
}

impl Limit {
    fn value(self) -> Option<f64> {
        match self {
            Limit::AtMost(limit) | Limit::AtLeast(limit) | Limit::Exactly(limit) => Some(limit),
            Limit::None => None,
        }
    }

    fn is_over(self, value: f64) -> bool {
        match self {
            // A value that is no number is over as well.
            Limit::AtMost(limit) => value.is_nan() || value > limit,
            Limit::AtLeast(limit) => value.is_nan() || value < limit,
            Limit::Exactly(limit) => value != limit,
            Limit::None => false,
        }
    }
}

struct Time {
    name: &'static str,
    nanos: Spread,
}

struct Measured {
    name: &'static str,
    value: f64,
    spread: Option<Spread>,
    limit: Limit,
}

/// Everything that one run measures.
pub(crate) struct Report {
    heading: String,
    quick: bool,
    times: Vec<Time>,
    measured: Vec<Measured>,
}

impl Report {
    pub(crate) fn new(server: &Server, placement: Placement, quick: bool) -> Report {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
        let heading = format!("{}; {placement}; load before the run {load}", server.kind());
        Report { heading, quick, times: Vec::new(), measured: Vec::new() }
    }

    /// A time in nanoseconds, for the table.
    pub(crate) fn row(&mut self, name: &'static str, nanos: Spread) {
        self.times.push(Time { name, nanos });
    }

    /// A ratio over all rounds; its median counts.
    pub(crate) fn ratio(&mut self, name: &'static str, spread: Spread, limit: Limit) {
        self.measured.push(Measured { name, value: spread.median, spread: Some(spread), limit });
    }

    /// A single value.
    pub(crate) fn value(&mut self, name: &'static str, value: f64, limit: Limit) {
        self.measured.push(Measured { name, value, spread: None, limit });
    }

    pub(crate) fn any_over(&self) -> bool {
        self.measured.iter().any(|it| it.limit.is_over(it.value))
    }

    pub(crate) fn print(&self) {
        println!("{}\n", self.heading);
        println!("{:<40} {:>10} {:>10} {:>10}", "time", "median", "quartile", "quartile");
        for Time { name, nanos } in &self.times {
            let [median, low, high] = [nanos.median, nanos.low, nanos.high].map(|it| format!("{:.1} µs", it / 1e3));
            println!("{name:<40} {median:>10} {low:>10} {high:>10}");
        }
        println!("\n{:<40} {:>10} {:>10} {:>10} {:>10}", "value", "median", "quartile", "quartile", "limit");
        for it in &self.measured {
            let spread = |pick: fn(Spread) -> f64| it.spread.map(pick).map_or_else(String::new, number);
            let limit = it.limit.value().map_or_else(String::new, number);
            let (value, low, high) = (number(it.value), spread(|it| it.low), spread(|it| it.high));
            println!("{:<40} {value:>10} {low:>10} {high:>10} {limit:>10}", it.name);
        }
        println!();
        for it in &self.measured {
            let Some(limit) = it.limit.value() else { continue };
            let verdict = if it.limit.is_over(it.value) { "over" } else { "ok" };
            println!("RATIO {} {} {} {verdict}", it.name, number(it.value), number(limit));
        }
    }

    /// Writes `bench/handover.json` into the target directory that this program was built in.
    pub(crate) fn write(&self) -> io::Result<PathBuf> {
        let program = std::env::current_exe()?;
        let target =
            program.ancestors().nth(2).ok_or_else(|| io::Error::other("the program is in no target directory"))?;
        let dir = target.join("bench");
        fs::create_dir_all(&dir)?;
        let path = dir.join("handover.json");
        fs::write(&path, self.json())?;
        Ok(path)
    }

    fn json(&self) -> String {
        let spread =
            |it: &Spread| format!("\"low\": {:.4}, \"median\": {:.4}, \"high\": {:.4}", it.low, it.median, it.high);
        let times = self.times.iter().map(|it| format!("{{\"name\": {:?}, {}}}", it.name.trim(), spread(&it.nanos)));
        let values = self.measured.iter().map(|it| {
            let mut text = format!("{{\"name\": {:?}, \"value\": {:.6}", it.name.trim(), it.value);
            if let Some(values) = &it.spread {
                let _ = write!(text, ", {}", spread(values));
            }
            if let Some(limit) = it.limit.value() {
                let _ = write!(text, ", \"limit\": {limit}, \"over\": {}", it.limit.is_over(it.value));
            }
            text + "}"
        });
        let list = |items: Vec<String>| format!("[\n    {}\n  ]", items.join(",\n    "));
        format!(
            "{{\n  \"setup\": {:?},\n  \"quick\": {},\n  \"times_ns\": {},\n  \"values\": {}\n}}\n",
            self.heading,
            self.quick,
            list(times.collect()),
            list(values.collect()),
        )
    }
}

/// Four significant digits, but never an exponent.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}
