//! What a run of a test shows.

use redlatch_tests::{Suite, TestName};

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With the words of the test.
    Killed(String),
    Survived,
    DoesNotBuild(String),
    NoTestRan,
    Hung,
    BrokeOff(String),
    Skipped(String),
}

impl Verdict {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Verdict::Killed(_) => "killed",
            Verdict::Survived => "SURVIVED",
            Verdict::DoesNotBuild(_) => "DOES NOT BUILD",
            Verdict::NoTestRan => "NO TEST RAN",
            Verdict::Hung => "HUNG",
            Verdict::BrokeOff(_) => "BROKE OFF",
            Verdict::Skipped(_) => "skipped",
        }
    }

    /// What there is to say besides.
    pub(crate) fn words(&self) -> &str {
        match self {
            Verdict::Killed(words) | Verdict::DoesNotBuild(words) => words,
            Verdict::BrokeOff(words) | Verdict::Skipped(words) => words,
            Verdict::Survived | Verdict::NoTestRan | Verdict::Hung => "",
        }
    }
}

/// How the process that ran the tests ended: its exit status, if it ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exit(Option<i32>),
    OutOfTime,
}

/// Places of the harness where a panic says that a program could not be made, or a server not be started.
const NO_ASSERTION: [&str; 3] = ["tests/src/c/", "tests/src/servers/", "tests/src/launch.rs"];

/// Judges `log`, which the run of `test` has printed.
pub(crate) fn judge(test: &TestName, log: &str, end: End) -> Verdict {
    let status = match end {
        End::OutOfTime => return Verdict::Hung,
        End::Exit(status) => status,
    };
    match test.suite() {
        Suite::Python => judge_pytest(test, log, status),
        Suite::Unit | Suite::Integration(_) => judge_libtest(test, log, status),
    }
}

fn judge_libtest(test: &TestName, log: &str, status: Option<i32>) -> Verdict {
    let results = log.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let results = results.filter(|(path, _)| path.split("::").any(|part| part == test.function()));
    let results: Vec<&str> = results.map(|(_, result)| result).collect();
    if status == Some(0) {
        let passed = results.iter().any(|result| result.starts_with("ok"));
        return if passed { Verdict::Survived } else { Verdict::NoTestRan };
    }
    let failed = results.iter().any(|result| result.starts_with("FAILED"));
    let mut panics = log.lines().skip_while(|line| !line.contains("panicked at "));
    let place = panics.next().and_then(|line| line.split_once("panicked at ")).map(|(_, place)| place);
    let words = first_words(panics);
    match place {
        Some(place) if failed && !NO_ASSERTION.iter().any(|part| place.contains(part)) => Verdict::Killed(words),
        _ => Verdict::BrokeOff(words),
    }
}

fn judge_pytest(test: &TestName, log: &str, status: Option<i32>) -> Verdict {
    match status {
        Some(0) if log.contains(" passed") => Verdict::Survived,
        Some(0 | 5) => Verdict::NoTestRan,
        _ => {
            let failed = |line: &&str| line.starts_with("FAILED ") && line.contains(test.function());
            match log.lines().find(failed) {
                Some(line) => {
                    let said = log.lines().filter(|line| line.starts_with("E  "));
                    Verdict::Killed(first_words(said.map(|line| &line[1..]).chain([line])))
                }
                None => Verdict::BrokeOff(first_words(log.lines().rev())),
            }
        }
    }
}

/// The first two lines with something in them, cut to what fits.
pub(crate) fn first_words<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("note: run with"));
    let lines: Vec<String> = lines.take(2).map(|line| line.chars().take(110).collect()).collect();
    lines.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(test: &str, log: &str, status: i32) -> Verdict {
        judge(&TestName::parse(test).expect("a name"), log, End::Exit(Some(status)))
    }

    const FAILED: &str = "test a::t::memory ... ok\ntest a::t::redis_7_0 ... FAILED\n\nfailures:\n\
                          thread 'a::t::redis_7_0' (7) panicked at tests/tests/behaviour/a.rs:3:5:\nnot equal\n\n left: 1\n right: 2\n";

    #[test]
    fn only_a_failed_assertion_of_the_test_kills() {
        assert_eq!(judged("behaviour::a::t", FAILED, 101), Verdict::Killed("not equal | left: 1".to_owned()));
        assert_eq!(judged("behaviour::a::other", FAILED, 101), Verdict::BrokeOff("not equal | left: 1".to_owned()));
        let compiler = FAILED.replace("tests/tests/behaviour/a.rs", "tests/src/c/program.rs");
        assert_eq!(judged("behaviour::a::t", &compiler, 101), Verdict::BrokeOff("not equal | left: 1".to_owned()));
        let crashed = "running 1 test\nprocess didn't exit successfully (signal: 11)\n";
        assert_eq!(judged("behaviour::a::t", crashed, 101), Verdict::BrokeOff(String::new()));
        let name = TestName::parse("behaviour::a::t").expect("a name");
        assert_eq!(judge(&name, FAILED, End::OutOfTime), Verdict::Hung);
    }

    #[test]
    fn a_run_without_the_test_is_no_survivor() {
        let passed = "test a::t ... ok\ntest result: ok. 1 passed\n";
        assert_eq!(judged("behaviour::a::t", passed, 0), Verdict::Survived);
        assert_eq!(judged("behaviour::a::u", passed, 0), Verdict::NoTestRan);
        assert_eq!(judged("behaviour::a::t", "test result: ok. 0 passed\n", 0), Verdict::NoTestRan);
    }

    #[test]
    fn a_test_of_python_is_judged_by_its_summary() {
        let failed = "E   assert 1 == 2\nFAILED py/tests/test_a.py::test_t - assert 1 == 2\n1 failed\n";
        assert!(matches!(judged("py::test_a::test_t", failed, 1), Verdict::Killed(_)));
        assert!(matches!(judged("py::test_a::test_u", failed, 1), Verdict::BrokeOff(_)));
        assert!(matches!(judged("py::test_a::test_t", "ERROR at setup\n", 1), Verdict::BrokeOff(_)));
        assert_eq!(judged("py::test_a::test_t", "1 passed in 2 s", 0), Verdict::Survived);
        assert_eq!(judged("py::test_a::test_t", "1 skipped in 2 s", 0), Verdict::NoTestRan);
        assert_eq!(judged("py::test_a::test_t", "no tests ran", 5), Verdict::NoTestRan);
    }
}
