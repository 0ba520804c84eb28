//! Mutations: small patches of the sources, each of which takes one defence out, and the test that must notice.
//!
//! A file `tests/mutations/NAME.patch` is a unified diff below a header of three paragraphs:
//!
//! ```text
//! Defence: what is taken out
//! Without it: the fault that this lets through
//! Test: behaviour::releasing::the_test_that_must_fail
//! --- a/core/src/…
//! ```
//!
//! The program `mutations` runs them; `make test` checks that each still applies and that its test exists.

mod patch;

use std::fs;
use std::path::Path;

pub use patch::Patch;

use crate::TestName;
use crate::c::workspace;

/// Where the sources may be mutated: everything that users are given.
const SOURCES: [&str; 5] = ["core/src/", "ffi-c/src/", "py/src/", "py/python/", "include/"];

/// One mutation.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Its file, without the extension.
    pub name: String,
    /// What is taken out.
    pub defence: String,
    /// What can happen then.
    pub fault: String,
    /// What must fail.
    pub test: TestName,
    /// What is changed.
    pub patch: Patch,
}

impl Mutation {
    /// Reads the file `text` of the mutation `name`; an error says what is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Mutation, String> {
        let (header, diff) = text.split_once("\n--- ").ok_or("no line that begins with ---")?;
        let paragraph = |label: &str| {
            let (_, rest) = header.split_once(label).ok_or(format!("no paragraph {label:?}"))?;
            let lines = rest.lines().enumerate().take_while(|(at, line)| *at == 0 || line.starts_with("  "));
            let words: Vec<&str> = lines.flat_map(|(_, line)| line.split_whitespace()).collect();
            if words.is_empty() { Err(format!("nothing after {label:?}")) } else { Ok(words.join(" ")) }
        };
        let test = paragraph("Test:")?;
        let patch = Patch::parse(&format!("--- {diff}"))?;
        if let Some(path) = patch.files().find(|path| !SOURCES.iter().any(|source| path.starts_with(source))) {
            return Err(format!("{path} is not one of {SOURCES:?}"));
        }
        Ok(Mutation {
            name: name.to_owned(),
            defence: paragraph("Defence:")?,
            fault: paragraph("Without it:")?,
            test: TestName::parse(&test).ok_or(format!("{test:?} is no name of a test"))?,
            patch,
        })
    }

    /// All that there are, by name. An error names the file that is none.
    pub fn all() -> Result<Vec<Mutation>, String> {
        let folder = workspace().join("tests/mutations");
        let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
        paths.sort();
        paths.iter().map(|path| Mutation::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Mutation, String> {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: String| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Mutation::parse(&name, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Defence: a release compares
  the token.
Without it: it removes another's lock.
Test: behaviour::releasing::a_test

--- a/core/src/a.lua
+++ b/core/src/a.lua
@@ -1,2 +1,2 @@
 one
-two
+three
";

    #[test]
    fn a_mutation_has_its_words_and_its_test() {
        let mutation = Mutation::parse("a", TEXT).expect("a mutation");
        assert_eq!(mutation.defence, "a release compares the token.");
        assert_eq!(mutation.fault, "it removes another's lock.");
        assert_eq!(mutation.test.function(), "a_test");
        assert_eq!(mutation.patch.files().collect::<Vec<_>>(), ["core/src/a.lua"]);
    }

    #[test]
    fn a_mutation_that_lacks_a_part_is_refused() {
        for (from, to) in [
            ("Defence:", "Purpose:"),
            ("it removes another's lock.", ""),
            ("behaviour::releasing::a_test", "a_test"),
            ("core/src/a.lua", "tests/tests/a.rs"),
            ("--- a/", "from a/"),
        ] {
            assert!(Mutation::parse("a", &TEXT.replace(from, to)).is_err(), "{from:?} to {to:?}");
        }
    }
}
