//! The command line that the benchmark programs have in common.

/// What the command line asks for.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    quick: bool,
    report_only: bool,
    document: bool,
    redraw: bool,
    only: Option<String>,
}

impl Arguments {
    /// Understands `--quick`, `--report-only`, `--document`, `--redraw` and `--only SECTION`; for anything else, and for a section that is not
    /// among `sections`, an error that shows how `program` is used.
    pub fn parse(
        program: &str,
        sections: &[&str],
        mut words: impl Iterator<Item = String>,
    ) -> Result<Arguments, String> {
        let usage = || {
            format!(
                "usage: {program} [--quick] [--report-only] [--document | --redraw] [--only {}]",
                sections.join("|")
            )
        };
        let mut arguments = Arguments::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.quick = true,
                "--document" => arguments.document = true,
                "--redraw" => arguments.redraw = true,
                "--report-only" => arguments.report_only = true,
                "--only" => {
                    let section = words.next().filter(|section| sections.contains(&section.as_str()));
                    arguments.only = Some(section.ok_or_else(usage)?);
                }
                _ => return Err(usage()),
            }
        }
        // The page shows whole runs.
        let partly = arguments.quick || arguments.redraw || arguments.only.is_some();
        if arguments.document && partly { Err(usage()) } else { Ok(arguments) }
    }

    /// How much is measured.
    pub fn extent(&self) -> Extent {
        Extent { quick: self.quick }
    }

    /// Whether values over their limits leave the exit status at 0.
    pub fn report_only(&self) -> bool {
        self.report_only
    }

    /// Whether the page in the documentation is to show this run.
    pub fn document(&self) -> bool {
        self.document
    }

    /// Whether that page is to be written anew from the run that is kept, and nothing measured.
    pub fn redraw(&self) -> bool {
        self.redraw
    }

    /// Whether this section is part of the run.
    pub fn wants(&self, section: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == section)
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    quick: bool,
}

impl Extent {
    /// Whether the run is a short one.
    pub fn is_quick(self) -> bool {
        self.quick
    }

    /// What applies to this run: `quick` or `full`.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse("program", &["one", "two"], line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn sections_that_are_not_asked_for_are_left_out() {
        let arguments = parse("--only two --quick").expect("understood");
        assert!(!arguments.wants("one") && arguments.wants("two") && arguments.extent().is_quick());
        assert!(parse("").is_ok_and(|all| all.wants("one") && all.wants("two") && !all.extent().is_quick()));
    }

    #[test]
    fn a_section_that_does_not_exist_is_refused() {
        for line in ["--only three", "--only", "--fast", "one", "--document --quick", "--only one --document"] {
            let usage = parse(line).expect_err(line);
            assert_eq!(usage, "usage: program [--quick] [--report-only] [--document | --redraw] [--only one|two]");
        }
    }
}
