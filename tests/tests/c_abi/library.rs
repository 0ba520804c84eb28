//! Builds libredlatch as its users do, apart from the build that runs the tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A build of the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Plain,
    /// With the feature `test-panic`.
    Panicking,
}

pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace")
}

/// Where everything that these tests make goes: beside what cargo makes, wherever that is.
pub(crate) fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory").join("c-abi")
}

/// The directory with `libredlatch.so`, `libredlatch.so.0` and `libredlatch.a`.
pub(crate) fn library(build: Build) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(build_both);
    directory(build)
}

fn directory(build: Build) -> PathBuf {
    scratch().join(if build == Build::Plain { "plain" } else { "panicking" })
}

fn build_both() {
    fs::create_dir_all(scratch()).expect("the target directory is writable");
    let lock = File::create(scratch().join("lock")).expect("the target directory is writable");
    // Another process of these tests makes the same files.
    lock.lock().expect("files can be locked");
    for build in [Build::Panicking, Build::Plain] {
        make(build);
    }
}

fn make(build: Build) {
    let target = scratch().join("target");
    // Cargo gives both builds the same file names, and takes the file of one for that of the other.
    for part in ["debug", "debug/deps"] {
        for name in ["libredlatch.so", "libredlatch.a"] {
            let _ = fs::remove_file(target.join(part).join(name));
        }
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(workspace()).args(["build", "--quiet", "--locked", "-p", "redlatch-ffi", "--target-dir"]);
    command.arg(&target);
    if build == Build::Panicking {
        command.args(["--features", "test-panic"]);
    }
    run(command);
    let directory = directory(build);
    fs::create_dir_all(&directory).expect("the target directory is writable");
    for (from, to) in [
        ("libredlatch.so", "libredlatch.so"),
        ("libredlatch.so", "libredlatch.so.0"),
        ("libredlatch.a", "libredlatch.a"),
    ] {
        let to = directory.join(to);
        // A program that runs may have it open.
        let _ = fs::remove_file(&to);
        fs::copy(target.join("debug").join(from), to).unwrap_or_else(|error| panic!("{from}: {error}"));
    }
}

/// Runs a tool; its standard output. Panics with what it said when it fails.
pub(crate) fn run(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}
