//! Builds libredlatch as its users do, apart from the build that runs the tests.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A build of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// In the profile of development, for tests.
    Plain,
    /// As `Plain`, with the feature `test-panic`.
    Panicking,
    /// As it is installed.
    Release,
}

impl Build {
    fn directory(self) -> PathBuf {
        scratch().join(match self {
            Build::Plain => "plain",
            Build::Panicking => "panicking",
            Build::Release => "release",
        })
    }

    /// Where cargo puts its files.
    fn profile(self) -> &'static str {
        if self == Build::Release { "release" } else { "debug" }
    }
}

/// The root of the sources.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace")
}

/// Where all that is made here goes: `c-abi` in the target directory of the running program, wherever that is.
pub fn scratch() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a file");
    // Cargo's own mark; it puts no CACHEDIR.TAG into a directory that was there before.
    let target = program.ancestors().find(|dir| dir.join(".rustc_info.json").is_file());
    target.expect("the program is in a target directory of cargo's").join("c-abi")
}

/// The directory with `libredlatch.so`, `libredlatch.so.0` and `libredlatch.a`, which are up to date.
///
/// Builds them at the first call in a process; panics with the compiler's words when that fails.
pub fn library(build: Build) -> PathBuf {
    static FOR_TESTS: OnceLock<()> = OnceLock::new();
    static RELEASE: OnceLock<()> = OnceLock::new();
    match build {
        Build::Release => RELEASE.get_or_init(|| make_all(&[Build::Release])),
        Build::Plain | Build::Panicking => FOR_TESTS.get_or_init(|| make_all(&[Build::Panicking, Build::Plain])),
    };
    build.directory()
}

fn make_all(builds: &[Build]) {
    fs::create_dir_all(scratch()).expect("the target directory is writable");
    let lock = File::create(scratch().join("lock")).expect("the target directory is writable");
    // Another process makes the same files.
    lock.lock().expect("files can be locked");
    for build in builds {
        make(*build);
    }
}

fn make(build: Build) {
    let target = scratch().join("target");
    let made = target.join(build.profile());
    // Cargo gives builds with other features the same file names, and takes the file of one for that of another. Releases
    // have one set of features.
    if build != Build::Release {
        for name in ["libredlatch.so", "libredlatch.a", "deps/libredlatch.so", "deps/libredlatch.a"] {
            let _ = fs::remove_file(made.join(name));
        }
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).args(["build", "--quiet", "--locked", "-p", "redlatch-ffi", "--target-dir"]);
    command.arg(&target);
    match build {
        Build::Plain => {}
        Build::Panicking => {
            command.args(["--features", "test-panic"]);
        }
        Build::Release => {
            command.arg("--release");
        }
    }
    run_tool(command);
    let directory = build.directory();
    fs::create_dir_all(&directory).expect("the target directory is writable");
    let copies = [
        ("libredlatch.so", "libredlatch.so"),
        ("libredlatch.so", "libredlatch.so.0"),
        ("libredlatch.a", "libredlatch.a"),
    ];
    for (from, to) in copies {
        // In one step: a program that starts just now finds the old file or the new one.
        let new = directory.join("new");
        fs::copy(made.join(from), &new).unwrap_or_else(|error| panic!("{from}: {error}"));
        fs::rename(&new, directory.join(to)).expect("the target directory is writable");
    }
}

/// Runs a tool; its standard output. Panics with what it said when it fails.
#[track_caller]
pub fn run_tool(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Whether `tool` can be run.
///
/// Where it cannot, this writes `SKIPPED <tool>: not found` to standard error, past libtest's capture; where the variable
/// `CI` is `true` that is a panic instead.
pub fn has_tool(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs {tool}: `make setup` installs it");
        let _ = writeln!(io::stderr(), "SKIPPED {tool}: not found");
    }
    found
}
