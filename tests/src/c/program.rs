//! Compiles and runs programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Build, library, run_tool, scratch, workspace};
use crate::Process;

/// How a program is made.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// `cc` or `g++`, for example.
    pub compiler: &'a str,
    /// As `-std` takes it; one that begins with `c++` makes it C++.
    pub standard: &'a str,
    /// Files of `tests/c`, without `.c`; paths of others from `tests`, with their extension: `cpp/main.cpp`.
    pub sources: &'a [&'a str],
    /// Further flags of the compiler.
    pub flags: &'a [&'a str],
    /// The library that it is linked with.
    pub build: Build,
    /// Whether that is `libredlatch.a`.
    pub linked_statically: bool,
}

impl Recipe<'_> {
    /// In C11, against the shared library in its build for tests.
    pub const fn c11<'a>(sources: &'a [&'a str]) -> Recipe<'a> {
        Recipe { compiler: "cc", standard: "c11", sources, flags: &[], build: Build::Plain, linked_statically: false }
    }

    /// In C++17, against the shared library in its build for tests.
    pub const fn cpp17<'a>(sources: &'a [&'a str]) -> Recipe<'a> {
        Recipe { compiler: "g++", standard: "c++17", ..Recipe::c11(sources) }
    }

    /// A file that nobody else overwrites. Warnings are errors.
    fn make(&self) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let library = library(self.build);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let program = scratch().join(format!("program-{}-{number}", std::process::id()));
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
        if self.standard.starts_with("c++") {
            command.args(["-x", "c++"]);
        } else {
            command.args(["-Wstrict-prototypes", "-x", "c"]);
        }
        let tests = workspace().join("tests");
        command.args(self.sources.iter().map(|source| match source.contains('.') {
            true => tests.join(source),
            false => tests.join("c").join(source).with_extension("c"),
        }));
        command.args(["-x", "none"]);
        if self.linked_statically {
            command.arg(library.join("libredlatch.a")).args(["-ldl", "-lm", "-lrt", "-lutil", "-lgcc_s"]);
        } else {
            command.arg("-L").arg(&library).arg("-lredlatch").arg(format!("-Wl,-rpath,{}", library.display()));
        }
        run_tool(command);
        program
    }
}

/// A compiled program; its file is removed when this is dropped.
#[derive(Debug)]
pub struct Program(PathBuf);

impl Program {
    /// Compiles and links it; panics with the compiler's words when that fails, warnings included.
    pub fn new(recipe: &Recipe<'_>) -> Program {
        Program(recipe.make())
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts it.
    pub fn start(&self, args: &[&str]) -> Process {
        Process::start(&self.0, args)
    }

    /// Runs it to its good end, as [`finish`]; its standard output.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Vec<String> {
        finish(self.start(args), args)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits for the end of a program that was started with `args`; its standard output. Panics with its standard error when
/// it fails, or runs for more than a minute.
#[track_caller]
pub fn finish(process: Process, args: &[&str]) -> Vec<String> {
    finish_within(process, args, Duration::from_secs(60))
}

/// As [`finish`], for one that may run for as long as `limit`.
#[track_caller]
pub fn finish_within(mut process: Process, args: &[&str], limit: Duration) -> Vec<String> {
    let status = process.wait_exit(limit);
    let errors = || process.error_lines().join("\n");
    let Some(status) = status else { panic!("{args:?} still runs after {limit:?}\n{}", errors()) };
    assert!(status.success(), "{args:?}: {status}\n{}", errors());
    process.lines()
}
