//! What was measured: as a table, as lines for machines, as JSON.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{Extent, Placement, Spread};
use crate::Server;

/// How a time is shown.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Not more than this.
    AtMost(f64),
    /// Not less than this.
    AtLeast(f64),
    /// This and nothing else.
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

#[derive(Debug)]
struct Time {
    name: String,
    unit: Unit,
    nanos: Spread,
}

#[derive(Debug)]
struct Measured {
    name: &'static str,
    value: f64,
    spread: Option<Spread>,
    limit: Limit,
}

/// Everything that one run measures.
#[derive(Debug)]
pub struct Report {
    heading: String,
    quick: bool,
    times: Vec<Time>,
    measured: Vec<Measured>,
}

impl Report {
    /// Of a run against `server`, with the load of the machine as it is now.
    pub fn new(server: &Server, placement: Placement, extent: Extent) -> Report {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
        let heading = format!("{}; {placement}; load before the run {load}", server.kind());
        Report { heading, quick: extent.is_quick(), times: Vec::new(), measured: Vec::new() }
    }

    /// Adds to the heading what else was part of the run.
    pub fn about(&mut self, what: &str) {
        self.heading = format!("{}; {what}", self.heading);
    }

    /// A time in nanoseconds, for the table.
    pub fn row(&mut self, name: impl Into<String>, unit: Unit, nanos: Spread) {
        self.times.push(Time { name: name.into(), unit, nanos });
    }

    /// A ratio over all rounds; its median counts.
    pub fn ratio(&mut self, name: &'static str, spread: Spread, limit: Limit) {
        self.measured.push(Measured { name, value: spread.median, spread: Some(spread), limit });
    }

    /// A single value.
    pub fn value(&mut self, name: &'static str, value: f64, limit: Limit) {
        self.measured.push(Measured { name, value, spread: None, limit });
    }

    /// Ends a run of `program`: prints the report and writes it to `file`, in the folder `bench` of the target
    /// directory that this program was built in. A failure when a value is over its limit, unless `report_only`.
    pub fn finish(&self, program: &str, file: &str, report_only: bool) -> ExitCode {
        self.print();
        match self.write(file) {
            Ok(path) => println!("\nwritten to {}", path.display()),
            Err(error) => eprintln!("{program}: the JSON report could not be written: {error}"),
        }
        if self.any_over() && !report_only { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn any_over(&self) -> bool {
        self.measured.iter().any(|it| it.limit.is_over(it.value))
    }

    fn print(&self) {
        println!("{}\n", self.heading);
        println!("{:<50} {:>10} {:>10} {:>10}", "time", "median", "quartile", "quartile");
        for Time { name, unit, nanos } in &self.times {
            let (scale, unit) = match unit {
                Unit::Micros => (1e3, "µs"),
                Unit::Nanos => (1.0, "ns"),
            };
            let [median, low, high] =
                [nanos.median, nanos.low, nanos.high].map(|it| format!("{:.1} {unit}", it / scale));
            println!("{name:<50} {median:>10} {low:>10} {high:>10}");
        }
        println!("\n{:<50} {:>10} {:>10} {:>10} {:>10}", "value", "median", "quartile", "quartile", "limit");
        for it in &self.measured {
            let spread = |pick: fn(Spread) -> f64| it.spread.map(pick).map_or_else(String::new, number);
            let limit = it.limit.value().map_or_else(String::new, number);
            let (value, low, high) = (number(it.value), spread(|it| it.low), spread(|it| it.high));
            println!("{:<50} {value:>10} {low:>10} {high:>10} {limit:>10}", it.name);
        }
        println!();
        for it in &self.measured {
            let Some(limit) = it.limit.value() else { continue };
            let verdict = if it.limit.is_over(it.value) { "over" } else { "ok" };
            println!("RATIO {} {} {} {verdict}", it.name, number(it.value), number(limit));
        }
    }

    /// Writes `bench/<file>` into the target directory that this program was built in.
    fn write(&self, file: &str) -> io::Result<PathBuf> {
        let program = std::env::current_exe()?;
        let target =
            program.ancestors().nth(2).ok_or_else(|| io::Error::other("the program is in no target directory"))?;
        let dir = target.join("bench");
        fs::create_dir_all(&dir)?;
        let path = dir.join(file);
        fs::write(&path, self.json())?;
        Ok(path)
    }

    fn json(&self) -> String {
        let spread =
            |it: &Spread| format!("\"low\": {:.4}, \"median\": {:.4}, \"high\": {:.4}", it.low, it.median, it.high);
        let times = self.times.iter().map(|it| format!("{{\"name\": {:?}, {}}}", it.name, spread(&it.nanos)));
        let values = self.measured.iter().map(|it| {
            let mut text = format!("{{\"name\": {:?}, \"value\": {:.6}", it.name, it.value);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_is_not_over_it() {
        assert!(!Limit::AtMost(1.25).is_over(1.25) && Limit::AtMost(1.25).is_over(1.2501));
        assert!(!Limit::AtLeast(1.8).is_over(1.8) && Limit::AtLeast(1.8).is_over(1.7999));
        assert!(!Limit::Exactly(2.0).is_over(2.0) && Limit::Exactly(2.0).is_over(2.005));
        assert!(!Limit::None.is_over(f64::INFINITY));
    }

    #[test]
    fn what_could_not_be_measured_is_over_every_limit() {
        for limit in [Limit::AtMost(1.0), Limit::AtLeast(1.0), Limit::Exactly(1.0)] {
            assert!(limit.is_over(f64::NAN), "{limit:?}");
        }
    }

    #[test]
    fn numbers_have_four_digits_and_no_exponent() {
        let shown = [12345.6, 345.67, 34.567, 3.4567, 0.034567, 6.0].map(number);
        assert_eq!(shown, ["12346", "345.7", "34.57", "3.457", "0.03457", "6"]);
    }
}
