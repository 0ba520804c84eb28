//! The programs that the documentation shows.

use std::fs;

use redlatch_tests::c::{Program, Recipe, has_tool, workspace};

use crate::interop::Directory;

/// The programs of a page in one language.
fn programs(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let begin = format!("```{language}\n");
    let blocks = text.split(&begin).skip(1);
    blocks.map(|rest| rest.split("```").next().expect("a first part").to_owned()).collect()
}

/// Compiles and runs each; what they print.
fn run(page: &str, language: &str, recipe: Recipe<'_>) -> Vec<Vec<String>> {
    let directory = Directory::new(&format!("documents-{language}"));
    let found = programs(page, language);
    assert!(!found.is_empty(), "{page} shows no {language}");
    let paths = (0..found.len()).map(|at| directory.0.join(format!("{at}.{language}")));
    let run_one = |(program, path): (&String, std::path::PathBuf)| {
        fs::write(&path, program).expect("the target directory is writable");
        let source = path.to_str().expect("the target directory has a name in UTF-8");
        Program::new(&Recipe { sources: &[source], ..recipe }).run(&[])
    };
    found.iter().zip(paths).map(run_one).collect()
}

#[track_caller]
fn assert_writes_twice(printed: &[Vec<String>]) {
    for lines in printed {
        assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with("UPDATE orders SET ")), "{lines:?}");
    }
}

#[test]
fn the_readmes_c_program_does_what_it_says() {
    if has_tool("cc") {
        assert_writes_twice(&run("README.md", "c", Recipe::c11(&[])));
    }
}

#[test]
fn the_readmes_cpp_program_does_what_it_says() {
    if has_tool("g++") {
        assert_writes_twice(&run("README.md", "cpp", Recipe::cpp17(&[])));
    }
}
