//! Tests as the documentation names them.

use std::path::PathBuf;

use crate::c::workspace;

/// The name of a test: `behaviour::fences::t` is the function `t` of `tests/tests/behaviour/fences.rs`, `core::lease::state::t`
/// that of `core/src/lease/state.rs`, and `py::test_fork::test_t` that of `py/tests/test_fork.py`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestName {
    suite: Suite,
    modules: Vec<String>,
    function: String,
}

/// What runs a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The unit tests of `core`.
    Unit,
    /// An integration test of `tests/tests`, by its name for cargo.
    Integration(String),
    /// pytest.
    Python,
}

impl TestName {
    /// Takes a name apart; `None` where it has too few parts.
    pub fn parse(name: &str) -> Option<TestName> {
        let mut parts: Vec<String> = name.split("::").map(str::to_owned).collect();
        let function = parts.pop()?;
        if parts.is_empty() || parts.iter().any(String::is_empty) || function.is_empty() {
            return None;
        }
        let suite = match parts.remove(0).as_str() {
            "core" => Suite::Unit,
            "py" => Suite::Python,
            target => Suite::Integration(target.to_owned()),
        };
        (suite != Suite::Python || parts.len() == 1).then_some(TestName { suite, modules: parts, function })
    }

    /// What runs it.
    pub fn suite(&self) -> &Suite {
        &self.suite
    }

    /// Its last part.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Its file, whether or not there is one.
    pub fn file(&self) -> PathBuf {
        let (mut path, extension) = match &self.suite {
            Suite::Unit => (workspace().join("core/src"), "rs"),
            Suite::Integration(target) => (workspace().join("tests/tests").join(target), "rs"),
            Suite::Python => (workspace().join("py/tests"), "py"),
        };
        if self.modules.is_empty() && path.is_dir() {
            path.push("main");
        }
        path.extend(&self.modules);
        path.with_extension(extension)
    }

    /// Fails, with the reason, unless its file has a function of that name.
    pub fn find(&self) -> Result<(), String> {
        let path = self.file();
        let source = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let keyword = if self.suite == Suite::Python { "\ndef" } else { "fn" };
        let found = source.contains(&format!("{keyword} {}(", self.function));
        if found { Ok(()) } else { Err(format!("{} has no {}", path.display(), self.function)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_file() {
        let file = |name: &str| TestName::parse(name).map(|name| name.file());
        let at = |path: &str| Some(workspace().join(path));
        assert_eq!(file("behaviour::fences::t"), at("tests/tests/behaviour/fences.rs"));
        assert_eq!(file("soak::t"), at("tests/tests/soak.rs"));
        assert_eq!(file("model::t"), at("tests/tests/model/main.rs"));
        assert_eq!(file("core::lease::state::t"), at("core/src/lease/state.rs"));
        assert_eq!(file("py::test_fork::test_t"), at("py/tests/test_fork.py"));
        for name in ["", "t", "py::t", "a::", "::t"] {
            assert_eq!(file(name), None, "{name}");
        }
    }

    #[test]
    fn a_test_that_is_gone_is_not_found() {
        assert_eq!(
            TestName::parse("soak::a_process_that_was_stopped_keeps_its_inbox").map(|name| name.find()),
            Some(Ok(()))
        );
        assert!(TestName::parse("soak::no_such_test").is_some_and(|name| name.find().is_err()));
        assert!(TestName::parse("nowhere::no_such_test").is_some_and(|name| name.find().is_err()));
    }
}
