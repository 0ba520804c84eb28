//! The page that shows a run: a text in which each figure has a placeholder.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{{setup}}` | machine, server and versions, a list |
//! | `{{limits}}` | every value that has a limit, a table |
//! | `{{section NAME}}` | the tables, notes and figures of a section |
//! | `{{value NAME}}` | one value |
//! | `{{time SECTION: NAME}}` | the median of one time |

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::report::{Limit, Measured, Report, Section, Time, number};

/// The page as it is written by hand.
const PAGE: &str = include_str!("page.md");
/// From the page to what stands beside it.
const FOLDER: &str = "benchmarks";

impl Report {
    /// Of a run that was kept as JSON.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(json: &str) -> Result<Report, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// Writes the page `benchmarks.md` and what it shows into this folder of documents.
    ///
    /// # Errors
    /// A quick run, a run of some sections only, and a folder that cannot be written.
    pub fn write_page(&self, docs: &Path) -> io::Result<()> {
        if self.quick {
            return Err(io::Error::other("the page shows full runs"));
        }
        if self.failures > 0 {
            return Err(io::Error::other("the page shows runs in which nothing failed"));
        }
        let page = self.page().map_err(io::Error::other)?;
        let folder = docs.join(FOLDER);
        fs::create_dir_all(&folder)?;
        for (name, svg) in self.figures() {
            fs::write(folder.join(name), svg)?;
        }
        fs::write(folder.join("run.json"), self.json()?)?;
        fs::write(docs.join("benchmarks.md"), page)
    }

    /// The page of this run.
    ///
    /// # Errors
    /// What the page shows and this run has not measured.
    pub fn page(&self) -> Result<String, String> {
        self.fill(PAGE, FOLDER)
    }

    /// `text` with the figures of this run; `folder` leads from the page to the SVG files.
    ///
    /// # Errors
    /// A line about a placeholder that means nothing, or that this run has nothing for.
    fn fill(&self, text: &str, folder: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (placeholder, after) = after.split_once("}}").ok_or("a placeholder without an end")?;
            filled.push_str(before);
            filled.push_str(
                &self.figure(placeholder, folder).ok_or_else(|| format!("nothing for {{{{{placeholder}}}}}"))?,
            );
            rest = after;
        }
        Ok(filled + rest)
    }

    /// Every figure of this run with the name of its file.
    pub fn figures(&self) -> impl Iterator<Item = (String, String)> {
        let plots = self.sections.iter().flat_map(|section| &section.plots);
        plots.filter_map(|plot| Some((format!("{}.svg", plot.file()), plot.svg()?)))
    }

    fn figure(&self, placeholder: &str, folder: &str) -> Option<String> {
        match placeholder.split_once(' ') {
            None if placeholder == "setup" => Some(self.setup.iter().map(|it| format!("- {it}\n")).collect()),
            None if placeholder == "limits" => Some(self.limits()),
            Some(("section", name)) => {
                let section = self.sections.iter().find(|section| section.name == name)?;
                Some(section.tables(folder))
            }
            Some(("value", name)) => {
                let mut values = self.sections.iter().flat_map(|section| &section.values);
                values.find(|it| it.name == name).map(|it| number(it.value))
            }
            Some(("time", place)) => {
                let (section, name) = place.split_once(": ")?;
                let section = self.sections.iter().find(|it| it.name == section)?;
                section.times.iter().find(|it| it.name == name).map(|it| it.unit.show(it.nanos.median))
            }
            _ => None,
        }
    }

    fn limits(&self) -> String {
        let mut table = String::from("| value | measured | limit | |\n|---|---:|---:|---|\n");
        for it in self.sections.iter().flat_map(|section| &section.values) {
            let limit = match it.limit {
                Limit::AtMost(limit) => format!("≤ {}", number(limit)),
                Limit::AtLeast(limit) => format!("≥ {}", number(limit)),
                Limit::Exactly(limit) => number(limit),
                Limit::None => continue,
            };
            let verdict = if it.limit.is_over(it.value) { "**over**" } else { "ok" };
            let _ = writeln!(table, "| `{}` | {} | {limit} | {verdict} |", it.name, number(it.value));
        }
        table
    }
}

impl Section {
    fn tables(&self, folder: &str) -> String {
        let mut text = String::new();
        if !self.times.is_empty() {
            text += "| time | median | lower quartile | upper quartile |\n|---|---:|---:|---:|\n";
            for Time { name, unit, nanos } in &self.times {
                let [median, low, high] = [nanos.median, nanos.low, nanos.high].map(|it| unit.show(it));
                let _ = writeln!(text, "| {name} | {median} | {low} | {high} |");
            }
        }
        if !self.values.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            text += "| value | median | lower quartile | upper quartile |\n|---|---:|---:|---:|\n";
            for Measured { name, value, spread, .. } in &self.values {
                let [low, high] =
                    [spread.map(|it| it.low), spread.map(|it| it.high)].map(|it| it.map_or_else(String::new, number));
                let _ = writeln!(text, "| `{name}` | {} | {low} | {high} |", number(*value));
            }
        }
        for plot in &self.plots {
            let _ = writeln!(text, "\n![{}]({folder}/{}.svg)", plot.title(), plot.file());
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Line, Plot, Spread, Unit};
    use super::*;

    fn report() -> Report {
        let mut report = Report { setup: vec!["a machine".to_owned()], quick: true, failures: 0, sections: Vec::new() };
        report.section("pair");
        report.row("a pair", Unit::Micros, Spread { low: 1e3, median: 2e3, high: 3e3 });
        report.value("commands_per_pair", 2.0, Limit::Exactly(2.0));
        report.ratio("pair_per_bare", Spread { low: 1.0, median: 1.1, high: 1.2 }, Limit::AtMost(1.05));
        report.value("for_information", 7.5, Limit::None);
        let line = Line { name: "ours".to_owned(), points: vec![(1.0, 1.0)] };
        let [file, title, x, y] = ["it", "It", "x", "y"].map(str::to_owned);
        report.plot(Plot { file, title, x, y, lines: vec![line] });
        report.note("Nothing was left out.");
        report
    }

    #[test]
    fn each_placeholder_becomes_its_figure() {
        let text = "{{value commands_per_pair}}, {{time pair: a pair}}, {{value for_information}}\n{{setup}}";
        assert_eq!(report().fill(text, "f").expect("all exist"), "2, 2.0 µs, 7.500\n- a machine\n");
        let section = report().fill("{{section pair}}", "f").expect("it exists");
        for line in
            ["| a pair | 2.0 µs | 1.0 µs | 3.0 µs |", "| `pair_per_bare` | 1.100 | 1 | 1.200 |", "![It](f/it.svg)"]
        {
            assert!(section.contains(line), "{line} in {section}");
        }
        assert!(section.ends_with("\nNothing was left out.\n"));
        assert_eq!(report().figures().map(|(name, _)| name).collect::<Vec<_>>(), ["it.svg"]);
    }

    #[test]
    fn what_is_over_its_limit_is_said_to_be() {
        let limits = report().fill("{{limits}}", "f").expect("it exists");
        assert!(limits.contains("| `pair_per_bare` | 1.100 | ≤ 1.050 | **over** |"), "{limits}");
        assert!(
            limits.contains("| `commands_per_pair` | 2 | 2 | ok |") && !limits.contains("for_information"),
            "{limits}"
        );
    }

    #[test]
    fn a_figure_that_was_not_measured_is_no_figure() {
        for placeholder in ["{{value none}}", "{{time pair: none}}", "{{section none}}", "{{none}}", "{{value"] {
            assert!(report().fill(placeholder, "f").is_err(), "{placeholder}");
        }
    }
}
