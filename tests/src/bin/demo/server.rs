//! The server of the demo: the user's, or one that lives as long as the demo.

use std::env;
use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use redlatch_tests::{Process, ServerKind};

use crate::Outcome;

/// Limit of connecting, and of each command that the demo itself sends.
const LIMIT: Duration = Duration::from_secs(3);
/// How long a server may take to answer its first PING.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A server that answers.
#[derive(Debug)]
pub(crate) struct DemoServer {
    pub(crate) url: String,
    /// For people, without credentials.
    pub(crate) shown: String,
    /// Killed on drop; it has no data to save.
    _own: Option<Process>,
}

/// Why there is no server, in one line.
#[derive(Debug)]
pub(crate) struct NoServer(String);

impl Error for NoServer {}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DemoServer {
    pub(crate) fn find() -> Result<DemoServer, NoServer> {
        if let Some(url) = env::var("REDIS_URL").ok().filter(|url| !url.is_empty()) {
            return DemoServer::given(url);
        }
        let on_path = ["redis-server", "valkey-server"].into_iter().find_map(find_on_path);
        let installed = || ServerKind::ALL.into_iter().find_map(|kind| kind.binary().map(Path::to_owned));
        let binary = on_path.or_else(installed).ok_or_else(|| {
            NoServer(
                "no server: set REDIS_URL, or put redis-server or valkey-server on PATH (Debian: apt-get install \
                 redis-server), or let scripts/setup.sh demo fetch one"
                    .to_owned(),
            )
        })?;
        DemoServer::start(&binary)
    }

    fn given(url: String) -> Result<DemoServer, NoServer> {
        let unusable = |error: &dyn fmt::Display| NoServer(format!("cannot use the server of REDIS_URL: {error}"));
        if url.starts_with("memory:") {
            return Err(unusable(&"memory:// is a store inside one process, and the demo starts several"));
        }
        // Asked first because its errors never show the password.
        redlatch::Client::open(&url).map_err(|error| unusable(&error))?;
        let mut connection = connect(&url).map_err(|error| unusable(&error))?;
        redis::cmd("PING").exec(&mut connection).map_err(|error| unusable(&error))?;
        let shown = format!("{}, from REDIS_URL; the demo deletes its keys there", version(&mut connection));
        Ok(DemoServer { url, shown, _own: None })
    }

    fn start(binary: &Path) -> Result<DemoServer, NoServer> {
        let mut reason = String::new();
        // More than once, because another process may take the port first.
        for _ in 0..5 {
            match DemoServer::start_once(binary) {
                Ok(server) => return Ok(server),
                Err(error) => reason = error.to_string(),
            }
        }
        let binary = binary.display();
        Err(NoServer(format!("{binary} did not start ({reason}); set REDIS_URL to a server that runs")))
    }

    fn start_once(binary: &Path) -> Outcome<DemoServer> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let port = port.to_string();
        let args = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let mut process = Process::start(binary, args);
        let url = format!("redis://127.0.0.1:{port}/");
        let end = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = process.wait_exit(Duration::ZERO) {
                let lines = [process.error_lines(), process.lines()].concat();
                let last = lines.into_iter().rev().find(|line| !line.trim().is_empty());
                return Err(last.unwrap_or_else(|| status.to_string()).trim().into());
            }
            // Only the process that was started here may answer on the port.
            match connect(&url).and_then(|mut connection| Ok((info(&mut connection, "process_id")?, connection))) {
                Ok((pid, mut connection)) if pid.as_deref() == Some(process.pid().to_string().as_str()) => {
                    let version = version(&mut connection);
                    let shown = format!("{version}, {}, on port {port} for this run only", short(binary));
                    return Ok(DemoServer { url, shown, _own: Some(process) });
                }
                Ok(_) => return Err("another process answers on its port".into()),
                Err(error) if Instant::now() > end => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// A connection whose commands have a time limit.
pub(crate) fn connect(url: &str) -> redis::RedisResult<Connection> {
    let connection = redis::Client::open(url)?.get_connection_with_timeout(LIMIT)?;
    connection.set_read_timeout(Some(LIMIT))?;
    connection.set_write_timeout(Some(LIMIT))?;
    Ok(connection)
}

/// The path, or only its last part where the whole would fill the line.
fn short(binary: &Path) -> String {
    let path = binary.display().to_string();
    match binary.file_name() {
        Some(name) if path.len() > 50 => name.to_string_lossy().into_owned(),
        _ => path,
    }
}

/// "Redis 7.0.15"; some managed servers tell nobody.
fn version(connection: &mut Connection) -> String {
    for (field, name) in [("valkey_version", "Valkey"), ("redis_version", "Redis")] {
        if let Ok(Some(version)) = info(connection, field) {
            return format!("{name} {version}");
        }
    }
    "a server that does not tell its version".to_owned()
}

fn info(connection: &mut Connection, field: &str) -> redis::RedisResult<Option<String>> {
    let text: String = redis::cmd("INFO").arg("server").query(connection)?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.map(|value| value.trim().to_owned()))
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
