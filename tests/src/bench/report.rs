//! What was measured: as a table, as lines for machines, as JSON, as figures.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::{Extent, Figure, Placement, Spread};
use crate::Server;

/// How a time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    /// A time of so many nanoseconds in this unit.
    pub(super) fn show(self, nanos: f64) -> String {
        let (scale, unit) = match self {
            Unit::Seconds => (1e9, "s"),
            Unit::Millis => (1e6, "ms"),
            Unit::Micros => (1e3, "µs"),
            Unit::Nanos => (1.0, "ns"),
        };
        format!("{:.1} {unit}", nanos / scale)
    }
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    pub(super) fn value(self) -> Option<f64> {
        match self {
            Limit::AtMost(limit) | Limit::AtLeast(limit) | Limit::Exactly(limit) => Some(limit),
            Limit::None => None,
        }
    }

    pub(super) fn is_over(self, value: f64) -> bool {
        match self {
            // A value that is no number is over as well.
            Limit::AtMost(limit) => value.is_nan() || value > limit,
            Limit::AtLeast(limit) => value.is_nan() || value < limit,
            Limit::Exactly(limit) => value != limit,
            Limit::None => false,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Time {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) nanos: Spread,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) name: String,
    /// `null` in JSON where it is no number.
    #[serde(deserialize_with = "number_or_null")]
    pub(super) value: f64,
    #[serde(deserialize_with = "numbers_or_nothing")]
    pub(super) spread: Option<Spread>,
    pub(super) limit: Limit,
}

/// A spread of what is no number has `null` in it.
fn numbers_or_nothing<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Spread>, D::Error> {
    #[derive(Deserialize)]
    struct Written {
        low: Option<f64>,
        median: Option<f64>,
        high: Option<f64>,
    }
    let written: Option<Written> = Option::deserialize(from)?;
    Ok(written.and_then(|it| Some(Spread { low: it.low?, median: it.median?, high: it.high? })))
}

fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// What belongs together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) times: Vec<Time>,
    pub(super) values: Vec<Measured>,
    pub(super) plots: Vec<Figure>,
    pub(super) notes: Vec<String>,
}

/// Everything that one run measures.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub(super) setup: Vec<String>,
    pub(super) quick: bool,
    /// Sections that came to nothing.
    #[serde(default)]
    pub(super) failures: u32,
    pub(super) sections: Vec<Section>,
}

impl Report {
    /// Of a run against `server`, with the machine and its load as they are now.
    pub fn new(server: &Server, placement: Placement, extent: Extent) -> Report {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
        let setup =
            vec![machine(), server.kind().to_string(), placement.to_string(), format!("load before the run {load}")];
        Report { setup, quick: extent.is_quick(), failures: 0, sections: Vec::new() }
    }

    /// Adds what else was part of the run, such as versions.
    pub fn about(&mut self, what: &str) {
        if !self.setup.iter().any(|it| it == what) {
            self.setup.push(what.to_owned());
        }
    }

    /// What is reported from here on belongs to this section.
    pub fn section(&mut self, name: &str) {
        self.sections.push(Section { name: name.to_owned(), ..Section::default() });
    }

    /// A time in nanoseconds, for the table.
    pub fn row(&mut self, name: impl Into<String>, unit: Unit, nanos: Spread) {
        self.current().times.push(Time { name: name.into(), unit, nanos });
    }

    /// A ratio over all rounds; its median counts.
    pub fn ratio(&mut self, name: impl Into<String>, spread: Spread, limit: Limit) {
        let measured = Measured { name: name.into(), value: spread.median, spread: Some(spread), limit };
        self.current().values.push(measured);
    }

    /// A single value.
    pub fn value(&mut self, name: impl Into<String>, value: f64, limit: Limit) {
        self.current().values.push(Measured { name: name.into(), value, spread: None, limit });
    }

    /// A figure.
    pub fn plot(&mut self, figure: impl Into<Figure>) {
        self.current().plots.push(figure.into());
    }

    /// A sentence to the reader, such as what was left out and why.
    pub fn note(&mut self, text: impl Into<String>) {
        self.current().notes.push(text.into());
    }

    /// As [`note`](Report::note), of a section that came to nothing: the run fails, whatever the others say.
    pub fn failed(&mut self, text: impl Into<String>) {
        self.failures += 1;
        self.note(text);
    }

    fn current(&mut self) -> &mut Section {
        self.sections.last_mut().expect("a section is named first")
    }

    /// Ends a run of `program`: prints the report and writes it as `<program>.json`, with its figures beside it, into the
    /// folder `bench` of the target directory that this program was built in. A failure when a value is over its limit,
    /// unless `report_only`.
    pub fn finish(&self, program: &str, report_only: bool) -> ExitCode {
        self.print();
        match self.write(program) {
            Ok(path) => println!("\nwritten to {}", path.display()),
            Err(error) => {
                eprintln!("{program}: the report could not be written: {error}");
                return ExitCode::FAILURE;
            }
        }
        if self.failures > 0 || self.any_over() && !report_only { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn any_over(&self) -> bool {
        self.values().any(|it| it.limit.is_over(it.value))
    }

    fn values(&self) -> impl Iterator<Item = &Measured> {
        self.sections.iter().flat_map(|section| &section.values)
    }

    fn print(&self) {
        println!("{}", self.setup.join("; "));
        for Section { name, times, values, notes, .. } in &self.sections {
            println!("\n{name}");
            for Time { name, unit, nanos } in times {
                let [median, low, high] = [nanos.median, nanos.low, nanos.high].map(|it| unit.show(it));
                println!("  {name:<56} {median:>12} {low:>12} {high:>12}");
            }
            for it in values {
                let spread = |pick: fn(Spread) -> f64| it.spread.map(pick).map_or_else(String::new, number);
                let limit = it.limit.value().map_or_else(String::new, number);
                let (value, low, high) = (number(it.value), spread(|it| it.low), spread(|it| it.high));
                println!("  {:<56} {value:>12} {low:>12} {high:>12} {limit:>10}", it.name);
            }
            notes.iter().for_each(|note| println!("  {note}"));
        }
        println!("\nmedian, lower and upper quartile; limit\n");
        for it in self.values() {
            let Some(limit) = it.limit.value() else { continue };
            let verdict = if it.limit.is_over(it.value) { "over" } else { "ok" };
            println!("RATIO {} {} {} {verdict}", it.name, number(it.value), number(limit));
        }
    }

    fn write(&self, program: &str) -> io::Result<PathBuf> {
        let path = std::env::current_exe()?;
        let target =
            path.ancestors().nth(2).ok_or_else(|| io::Error::other("the program is in no target directory"))?;
        let dir = target.join("bench");
        fs::create_dir_all(&dir)?;
        for (name, svg) in self.figures() {
            fs::write(dir.join(name), svg)?;
        }
        let path = dir.join(format!("{program}.json"));
        fs::write(&path, self.json()?)?;
        Ok(path)
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Processor, cores and kernel.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name).trim().to_owned();
    // Not those that this pinned thread may use.
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    format!("{model}, {cores} cores, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Four significant digits, but never an exponent.
pub(super) fn number(value: f64) -> String {
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

    #[test]
    fn a_report_survives_json_with_what_could_not_be_measured() {
        let measured = Measured { name: "a".to_owned(), value: f64::NAN, spread: None, limit: Limit::AtMost(1.0) };
        let text = serde_json::to_string(&measured).expect("it is data");
        let back: Measured = serde_json::from_str(&text).expect("it was written here");
        assert!(back.value.is_nan() && back.limit == Limit::AtMost(1.0));
        let spread = Some(Spread { low: 1.0, median: f64::INFINITY, high: f64::INFINITY });
        let text = serde_json::to_string(&Measured { spread, ..measured }).expect("it is data");
        assert_eq!(serde_json::from_str::<Measured>(&text).expect("it was written here").spread, None);
    }
}
