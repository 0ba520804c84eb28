//! Names in the documentation: tests, promises, counters, log messages, links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redlatch::{FindingKind, Severity};
use redlatch_tests::TestName;

const PAGES: [&str; 9] = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/protocol.md",
    "docs/guarantees.md",
    "docs/operations.md",
    "docs/python.md",
    "docs/c.md",
    "docs/ffi.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Rust files below `dir`.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of each row of the tables in `text`, without heads.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let rows = (0..lines.len()).filter(|at| lines[*at].starts_with("| ") && !is_head(*at));
    rows.map(|at| lines[at].trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The part of a page under a heading, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().expect("a first part")
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = read("docs/guarantees.md");
    for (heading, least) in [("The promises", 40), ("In Python, C and C++", 25)] {
        let promises = rows(section(&page, heading));
        assert!(promises.len() >= least, "{heading}: {}", promises.len());
        for row in promises {
            let [number, _, _, tests] = row[..] else { panic!("not four cells: {row:?}") };
            let tests: Vec<&str> = quoted(tests).collect();
            assert!(!tests.is_empty(), "{number} names no test");
            for name in tests {
                let test = TestName::parse(name).unwrap_or_else(|| panic!("{number}: {name} is no name"));
                test.find().unwrap_or_else(|error| panic!("{number}, {name}: {error}"));
            }
        }
    }
}

#[test]
fn the_readme_refers_to_promises_that_exist() {
    let (guarantees, readme) = (read("docs/guarantees.md"), read("README.md"));
    let numbers: BTreeSet<&str> = rows(section(&guarantees, "The promises")).iter().map(|row| row[0]).collect();
    for heading in ["What happens when", "Compared with `SET NX PX` and `DEL`"] {
        for row in rows(section(&readme, heading)) {
            let cited = row.last().expect("a last cell").split(' ');
            cited.for_each(|number| assert!(numbers.contains(number), "{number:?} in {row:?}"));
        }
    }
}

#[test]
fn every_counter_is_explained_to_operators() {
    let source = read("core/src/events/stats.rs");
    let (_, fields) = source.split_once("pub struct Stats {").expect("the struct");
    let (fields, _) = fields.split_once("\n}").expect("its end");
    let page = read("docs/operations.md");
    let explained: BTreeSet<&str> = quoted(section(&page, "What to watch")).collect();
    let fields = fields.lines().filter_map(|line| line.trim_start().strip_prefix("pub ")?.split_once(':'));
    let missing: Vec<&str> = fields.map(|(name, _)| name).filter(|name| !explained.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_kind_of_finding_is_explained_to_operators() {
    let page = read("docs/operations.md");
    let kinds: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let severities: Vec<&str> = Severity::ALL.iter().map(|severity| severity.as_str()).collect();
    let explained = rows(section(&page, "Check a server"));
    let explained: Vec<&str> = explained.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(explained, [severities, kinds].concat());
}

#[test]
fn every_log_message_is_explained_to_operators() {
    let paths = sources(&root().join("core/src"));
    let source: String = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let page = read("docs/operations.md");
    let explained = rows(section(&page, "Logs"));
    let mut missing = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        let events = source.matches(&format!("tracing::{level}!(")).count();
        let rows: Vec<_> = explained.iter().filter(|row| row[0] == level).collect();
        for row in &rows {
            let message = row[1].trim_matches('`');
            if !source.contains(&format!("\"{message}\"")) {
                missing.push(message.to_owned());
            }
        }
        if rows.len() != events {
            missing.push(format!("{events} events of level {level} and {} rows", rows.len()));
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_link_within_the_documentation_leads_somewhere() {
    for page in PAGES {
        let text = read(page);
        let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for target in targets.filter(|target| !target.starts_with("https://")) {
            let file = target.split('#').next().expect("a first part");
            let from = root().join(page);
            assert!(from.parent().expect("a folder").join(file).exists(), "{page}: {target}");
        }
    }
}

#[test]
fn every_make_target_in_the_documentation_is_one() {
    let makefile = read("Makefile");
    for page in PAGES {
        let text = read(page);
        let mut named: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("make ")).collect();
        named.extend(quoted(&text).filter_map(|code| code.strip_prefix("make ")));
        for target in named.iter().filter_map(|words| words.split([' ', '`']).next()) {
            assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}: "))), "{page}: make {target}");
        }
    }
}
