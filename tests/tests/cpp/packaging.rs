//! `make install`, and programs outside the tree that are built against what it installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redlatch::Client;
use redlatch_tests::c::{Build, finish, has_tool, library, run_tool, scratch, workspace};
use redlatch_tests::{Process, Server, Signal, any_server, assert_eventually};

use crate::interop::Directory;

const LIMIT: Duration = Duration::from_secs(20);

/// `make TARGET` with variables, on the release that the tests have built.
fn make(target: &str, variables: &[(&str, &Path)]) {
    // Builds it, so that here it is only copied.
    library(Build::Release);
    let mut command = Command::new("make");
    command.current_dir(workspace()).arg(target).env("CARGO_TARGET_DIR", scratch().join("target"));
    // Of the make that runs the tests.
    for name in ["PREFIX", "LIBDIR", "DESTDIR", "MAKEFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    command.args(variables.iter().map(|(name, value)| format!("{name}={}", value.display())));
    run_tool(command);
}

/// Every file below a directory, sorted.
fn files(root: &Path) -> Vec<String> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => walk(&entry, root, found),
                false => found.push(entry.strip_prefix(root).expect("it is below").display().to_string()),
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

const INSTALLED: [&str; 9] = [
    "include/redlatch.h",
    "include/redlatch.hpp",
    "lib/cmake/redlatch/redlatchConfig.cmake",
    "lib/cmake/redlatch/redlatchConfigVersion.cmake",
    "lib/libredlatch.a",
    "lib/libredlatch.so",
    "lib/libredlatch.so.0",
    "lib/libredlatch.so.0.1.0",
    "lib/pkgconfig/redlatch.pc",
];

/// Installs into a staging directory, as packages are made, and moves what was installed to another place: nothing in
/// it may remember where it was.
fn installed_and_moved(directory: &Path) -> PathBuf {
    let stage = directory.join("stage");
    make("install", &[("PREFIX", Path::new("/opt/red latch")), ("DESTDIR", &stage)]);
    let staged = stage.join("opt/red latch");
    assert_eq!(files(&stage.join("opt")), INSTALLED.map(|file| format!("red latch/{file}")));
    for file in INSTALLED.iter().filter(|file| file.contains("pkgconfig") || file.contains("cmake")) {
        let text = fs::read_to_string(staged.join(file)).expect("a text");
        assert!(!text.contains('@') && !text.contains("/opt") && !text.contains("stage"), "{file}: {text}");
    }
    let moved = directory.join("moved");
    fs::rename(staged, &moved).expect("it can be moved");
    moved
}

/// The examples, where no file of the project is near.
fn examples(directory: &Path) -> PathBuf {
    let copy = directory.join("examples");
    let mut command = Command::new("cp");
    command.arg("-r").arg(workspace().join("examples")).arg(&copy);
    run_tool(command);
    copy
}

/// Runs both examples to their ends.
fn run_examples(worker: &Path, pool: Option<&Path>, library: &Path, url: &str) {
    let start = |program: &Path, args: &[&str]| {
        Process::start_with(program, |command| {
            command.env("LD_LIBRARY_PATH", library).args(args);
        })
    };
    // A C worker: two rounds, each with a larger fence.
    let lines = finish(start(worker, &[url, "report", "2"]), &["worker"]);
    let done: Vec<&String> = lines.iter().filter(|line| line.contains("SET done")).collect();
    assert!(done.len() == 2 && done[0] < done[1], "{lines:?}");

    // Another that waits for a lock of somebody else's, and is told to end.
    let client = Client::open(url).expect("the URL is usable");
    let guard = client.lock("held").expect("a name").acquire().expect("it is free");
    let waiting = start(worker, &[url, "held"]);
    assert_eventually("it waits", LIMIT, || {
        client.inspect("held").is_ok_and(|found| found.is_some_and(|found| found.waiters() == 1))
    });
    waiting.signal(Signal::TERM);
    assert!(finish(waiting, &["worker", "stopped"]).is_empty(), "it never had the lock");
    assert_eq!(guard.release().expect("it is still held"), redlatch::Released::Released);

    if let Some(pool) = pool {
        let lines = finish(start(pool, &[url, "60"]), &["thread_pool"]);
        assert_eq!(lines.last().map(String::as_str), Some("60 of 60 transfers, 4000 in all"), "{lines:?}");
    }
}

fn has_compilers() -> bool {
    has_tool("cc") && has_tool("g++") && has_tool("make")
}

#[test]
fn programs_outside_the_tree_build_with_pkg_config() {
    if !has_compilers() || !has_tool("pkg-config") {
        return;
    }
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let directory = Directory::new("pkg-config");
    let prefix = installed_and_moved(&directory.0);
    let copy = examples(&directory.0);
    // make splits names at spaces, the moved directory has none.
    let mut command = Command::new("make");
    command.current_dir(&copy).env_remove("MAKEFLAGS").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    run_tool(command);
    run_examples(&copy.join("worker"), Some(&copy.join("thread_pool")), &prefix.join("lib"), &server.url());

    // Statically: with what Libs.private names, and without the shared library at run time.
    let pkg_config = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments).arg("redlatch");
        run_tool(command).trim().to_owned()
    };
    assert_eq!(pkg_config(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let flags = pkg_config(&["--static", "--cflags", "--libs"]);
    let mut command = Command::new("cc");
    command.current_dir(&copy).args(["-std=gnu11", "-pthread", "-o", "static", "c/worker.c"]);
    // The archive, and not the shared library beside it.
    command.args(flags.split_whitespace().map(|flag| if flag == "-lredlatch" { "-l:libredlatch.a" } else { flag }));
    run_tool(command);
    run_examples(&copy.join("static"), None, Path::new("/nonexistent"), &server.url());
}

#[test]
fn programs_outside_the_tree_build_with_cmake() {
    if !has_compilers() || !has_tool("cmake") {
        return;
    }
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let directory = Directory::new("cmake");
    let prefix = installed_and_moved(&directory.0);
    let copy = examples(&directory.0);
    let build = directory.0.join("build");
    let configure = |arguments: &[&str]| {
        let mut command = Command::new("cmake");
        command.arg("-S").arg(&copy).arg("-B").arg(&build).args(arguments);
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        command
    };
    run_tool(configure(&["-DCMAKE_BUILD_TYPE=Release"]));
    let mut command = Command::new("cmake");
    command.arg("--build").arg(&build);
    run_tool(command);
    // CMake writes where the library is into what it builds.
    run_examples(&build.join("worker"), Some(&build.join("thread_pool")), Path::new("/nonexistent"), &server.url());
    run_examples(&build.join("worker_static"), None, Path::new("/nonexistent"), &server.url());

    // A version that is not there is refused, by name.
    let lists = copy.join("CMakeLists.txt");
    let text = fs::read_to_string(&lists).expect("a text");
    for wanted in ["0.0", "0.2", "0.1.9", "1.0"] {
        fs::write(&lists, text.replace("redlatch 0.1 REQUIRED", &format!("redlatch {wanted} REQUIRED")))
            .expect("written");
        let output = configure(&[]).output().expect("cmake runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("0.1.0"), "{wanted}: {errors}");
    }
    for wanted in ["", "0.1.0", "0.1.0 EXACT"] {
        fs::write(&lists, text.replace("redlatch 0.1 REQUIRED", &format!("redlatch {wanted} REQUIRED")))
            .expect("written");
        run_tool(configure(&[]));
    }
}

#[test]
fn a_library_directory_with_several_parts_is_found_from() {
    if !has_tool("make") || !has_tool("pkg-config") {
        return;
    }
    let directory = Directory::new("multiarch");
    make("install", &[("PREFIX", &directory.0), ("LIBDIR", Path::new("lib/x86_64-linux-gnu"))]);
    let library = directory.0.join("lib/x86_64-linux-gnu");
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", library.join("pkgconfig")).args(["--cflags", "redlatch"]);
    let flags = run_tool(command);
    let include = flags.trim().strip_prefix("-I").expect("a directory");
    assert!(Path::new(include).join("redlatch.hpp").exists(), "{flags}");
    assert!(library.join("libredlatch.so").exists(), "the link leads to the library");
}

#[test]
fn uninstalling_removes_what_was_installed_and_nothing_else() {
    if !has_tool("make") {
        return;
    }
    let directory = Directory::new("uninstall");
    fs::create_dir_all(directory.0.join("lib/pkgconfig")).expect("a directory");
    fs::write(directory.0.join("lib/pkgconfig/other.pc"), "").expect("a file");
    make("install", &[("PREFIX", &directory.0)]);
    assert_eq!(files(&directory.0).len(), INSTALLED.len() + 1);
    make("uninstall", &[("PREFIX", &directory.0)]);
    assert_eq!(files(&directory.0), ["lib/pkgconfig/other.pc"]);
}
