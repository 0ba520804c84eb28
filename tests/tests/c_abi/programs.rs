//! Compiles the programs of `tests/c`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlatch_tests::Process;

use crate::library::{Build, library, run, scratch, workspace};

/// How long a program may run.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The scenarios and what they share.
pub(crate) const SCENARIOS: [&str; 11] =
    ["main", "support", "arguments", "options", "lock", "lease", "callbacks", "cancel", "log", "fork", "faults"];

/// How a program is made.
pub(crate) struct Recipe<'a> {
    pub(crate) compiler: &'a str,
    pub(crate) standard: &'a str,
    pub(crate) sources: &'a [&'a str],
    pub(crate) flags: &'a [&'a str],
    pub(crate) build: Build,
    /// Linked with `libredlatch.a`.
    pub(crate) linked_statically: bool,
}

impl Recipe<'_> {
    /// In C11 against the shared library.
    pub(crate) const PLAIN: Recipe<'static> = Recipe {
        compiler: "cc",
        standard: "c11",
        sources: &SCENARIOS,
        flags: &[],
        build: Build::Plain,
        linked_statically: false,
    };

    /// Compiles and links; warnings are errors. The program is a file of its own, which nobody else overwrites.
    pub(crate) fn make(&self) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let library = library(self.build);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let program = scratch().join(format!("program-{}-{number}", std::process::id()));
        let is_cpp = self.standard.starts_with("c++");
        let mut command = Command::new(self.compiler);
        command.arg(format!("-std={}", self.standard));
        command.args([
            "-g",
            "-O1",
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Wconversion",
            "-Wshadow",
            "-Werror",
        ]);
        command.args(self.flags);
        command.arg("-I").arg(workspace().join("include")).arg("-o").arg(&program);
        if is_cpp {
            command.args(["-x", "c++"]);
        } else {
            command.args(["-Wstrict-prototypes", "-x", "c"]);
        }
        command.args(self.sources.iter().map(|source| sources().join(source).with_extension("c")));
        command.args(["-x", "none"]);
        if self.linked_statically {
            command.arg(library.join("libredlatch.a")).args(["-ldl", "-lm", "-lrt", "-lutil", "-lgcc_s"]);
        } else {
            command.arg("-L").arg(&library).arg("-lredlatch").arg(format!("-Wl,-rpath,{}", library.display()));
        }
        run(command);
        program
    }
}

fn sources() -> PathBuf {
    workspace().join("tests/c")
}

/// A program that is removed with the last of its users.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn new(recipe: &Recipe<'_>) -> Program {
        Program(recipe.make())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn start(&self, args: &[&str]) -> Process {
        Process::start(&self.0, args)
    }

    /// Runs it to its end, which must be a good one; its standard output.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Vec<String> {
        finish(self.start(args), args)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits for the good end of a program.
#[track_caller]
pub(crate) fn finish(mut process: Process, args: &[&str]) -> Vec<String> {
    let status = process.wait_exit(LIMIT);
    let errors = || process.error_lines().join("\n");
    let Some(status) = status else { panic!("{args:?} still runs after {LIMIT:?}\n{}", errors()) };
    assert!(status.success(), "{args:?}: {status}\n{}", errors());
    process.lines()
}

/// Whether a tool can be run; where it must be there, a missing one is a failure.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs {tool}: `make setup` installs it");
        eprintln!("SKIPPED: {tool} not found");
    }
    found
}
