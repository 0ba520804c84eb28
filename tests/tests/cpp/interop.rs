//! Processes in several languages that share one lock.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redlatch::Client;
use redlatch_tests::c::{Build, Program, Recipe, finish, has_tool, library, scratch, workspace};
use redlatch_tests::{Process, each_server};

const ROUNDS: u64 = 100;
const NAME: &str = "shared by languages";

/// A directory that is removed with its handle.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = scratch().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target directory is writable");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Python that can import the package; `scripts/python.sh` makes it.
fn python_with_redlatch() -> Option<PathBuf> {
    let entries = fs::read_dir(workspace().join("target/py")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("bin/python")).collect();
    found.sort();
    found.retain(|python| {
        let output = Command::new(python).args(["-c", "import redlatch; redlatch.Client"]).output();
        output.is_ok_and(|output| output.status.success())
    });
    if found.is_empty() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs the Python package: `make test-py` makes it");
        let _ = writeln!(io::stderr(), "SKIPPED Python: no environment of target/py has the package");
    }
    found.into_iter().next()
}

/// Counts with a Rust client, as the programs do.
fn count(url: &str, file: &Path) {
    let lock = Client::open(url).unwrap().lock(NAME).unwrap();
    let mut last = 0;
    for _ in 0..ROUNDS {
        let guard = lock.acquire().unwrap();
        assert!(guard.fence() > last);
        last = guard.fence();
        let count: u64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        guard.check().unwrap();
        fs::write(file, (count + 1).to_string()).unwrap();
        let _ = guard.release().unwrap();
    }
}

#[test]
fn rust_cpp_and_python_share_one_lock_and_one_counter() {
    if !has_tool("g++") || !has_tool("/usr/bin/python3") {
        return;
    }
    let program = Program::new(&Recipe::cpp17(&["cpp/counts.cpp"]));
    let python = python_with_redlatch();
    let shared = library(Build::Plain).join("libredlatch.so.0");
    let directory = Directory::new("interop");
    let file = directory.0.join(format!("{NAME}.count"));
    let path = file.to_str().expect("the target directory has a name in UTF-8");
    let rounds = ROUNDS.to_string();
    each_server(|server| {
        let url = server.url();
        fs::write(&file, "0").unwrap();
        let args = [url.as_str(), NAME, path, rounds.as_str()];
        let mut processes = vec![program.start(&args)];
        // The C ABI from another runtime, and the package.
        processes.push(Process::start_with("/usr/bin/python3", |command| {
            command.current_dir(&directory.0).arg(workspace().join("examples/python/ctypes_lock.py"));
            command.arg(&shared).args([&url, NAME, &rounds]);
        }));
        if let Some(python) = &python {
            processes.push(Process::start_with(python, |command| {
                command.arg(workspace().join("tests/python/counts.py")).args(args);
            }));
        }
        let writers = processes.len() as u64 + 1;
        count(&url, &file);
        for process in processes {
            finish(process, &args);
        }
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), (writers * ROUNDS).to_string(), "no update is lost");
        assert!(!server.exists(&format!("lock:{NAME}")), "nobody has it any more");
    });
}

#[test]
fn a_lease_moves_from_cpp_to_rust() {
    if !has_tool("g++") {
        return;
    }
    let program = Program::new(&Recipe::cpp17(&["cpp/gives.cpp"]));
    each_server(|server| {
        let token = program.run(&[&server.url(), "handed over"]).pop().expect("a token");
        let client = Client::open(&server.url()).unwrap();
        let lease =
            client.adopt("handed over", &token, redlatch::LockOptions::new()).unwrap().expect("it is still held");
        assert!(lease.remaining() > Duration::from_secs(20));
        assert_eq!(lease.release().unwrap(), redlatch::Released::Released);
    });
}

#[test]
fn another_runtime_finds_a_busy_lock_and_its_errors() {
    if !has_tool("/usr/bin/python3") {
        return;
    }
    let shared = library(Build::Plain).join("libredlatch.so.0");
    let directory = Directory::new("ctypes");
    let output = Command::new("/usr/bin/python3")
        .current_dir(&directory.0)
        .arg(workspace().join("examples/python/ctypes_lock.py"))
        .arg(&shared)
        .args(["http://:hunter2@nowhere/", "name", "1"])
        .output()
        .expect("Python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("RedlatchError: ") && errors.contains("url"), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(!last.contains("hunter2"), "{last}");
}
