//! One server process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{ADMIN_PASSWORD, ADMIN_USER, ServerBuilder, ServerKind};
use crate::launch;
use crate::ports::free_port;
use crate::wire::RawConnection;

/// How long a server may take to answer its first PING.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of each of the harness's own commands.
pub(super) const ADMIN_LIMIT: Duration = Duration::from_secs(5);

/// A running server of the test's own, on 127.0.0.1 and a free port, in a temporary directory.
///
/// Dropping it kills the process and removes the directory. All methods take `&self`, so threads may
/// share it. In a forked child of the test process dropping it does nothing.
#[derive(Debug)]
pub struct Server {
    pub(super) options: ServerBuilder,
    port: u16,
    dir: PathBuf,
    owner: u32,
    process: Mutex<Option<Child>>,
    pub(super) admin: Mutex<Option<RawConnection>>,
    /// Addresses of the harness's own connections, which [`Monitor`](crate::Monitor) leaves out.
    pub(crate) own_addresses: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server with the defaults of [`ServerBuilder`]; panics as [`ServerBuilder::start`] does.
    pub fn start(kind: ServerKind) -> Self {
        Self::builder(kind).start()
    }

    /// Options for a server of this kind.
    pub fn builder(kind: ServerKind) -> ServerBuilder {
        ServerBuilder::new(kind)
    }

    pub(super) fn launch(options: ServerBuilder) -> Self {
        let dir = temporary_dir();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let server = Self {
                port: options.port.unwrap_or_else(free_port),
                options: options.clone(),
                dir: dir.clone(),
                owner: std::process::id(),
                process: Mutex::new(None),
                admin: Mutex::new(None),
                own_addresses: Arc::default(),
            };
            match server.run() {
                Ok(()) => return server,
                Err(reason) => {
                    let log = server.log();
                    // Another process was quicker to bind the port.
                    let collision = options.port.is_none() && log.contains("in use");
                    assert!(collision && attempts < 20, "{} did not start: {reason}\n{log}", options.kind);
                    drop(server);
                    fs::create_dir_all(&dir).expect("the temporary directory is writable");
                }
            }
        }
    }

    /// The server's kind.
    pub fn kind(&self) -> ServerKind {
        self.options.kind
    }

    /// Port on 127.0.0.1; the same after [`restart`](Self::restart).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id; panics when the server is not running.
    pub fn pid(&self) -> u32 {
        self.lock_process().as_ref().expect("the server is running").id()
    }

    /// Whether the process runs; a paused one does.
    pub fn is_running(&self) -> bool {
        self.lock_process().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Stops the process with SIGSTOP: connections stay open, connecting works, nothing is answered.
    ///
    /// Returns once the kernel reports the process as stopped.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        crate::assert_eventually("the server is stopped", Duration::from_secs(2), || self.is_paused());
    }

    /// Whether the process is stopped, or gone.
    pub fn is_paused(&self) -> bool {
        // The state is the word after the command name, which stands in parentheses.
        fs::read_to_string(format!("/proc/{}/stat", self.pid())).map_or(true, |text| text.contains(") T"))
    }

    /// Lets a paused process go on, with SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process with SIGKILL, paused or not, and waits for its end: connections are reset.
    pub fn kill(&self) {
        if let Some(mut child) = self.lock_process().take() {
            launch::kill_and_reap(&mut child);
        }
        *self.lock_admin() = None;
    }

    /// Ends the server in good order with `SHUTDOWN NOSAVE`, and waits for its end.
    pub fn stop(&self) {
        if !self.is_running() {
            return;
        }
        self.resume();
        let sent = self.connect_admin().and_then(|mut it| Ok(it.send(&["SHUTDOWN", "NOSAVE"])?));
        let gone =
            sent.is_ok() && self.lock_process().as_mut().is_some_and(|it| launch::wait_exit(it, ADMIN_LIMIT).is_some());
        self.kill();
        assert!(gone, "{} did not shut down within {ADMIN_LIMIT:?}", self.kind());
    }

    /// Starts the server again after [`kill`](Self::kill) or [`stop`](Self::stop), with the same port
    /// and options; a server that still runs is killed first. Data are gone unless persistence is on.
    pub fn restart(&self) {
        self.kill();
        if let Err(reason) = self.run() {
            panic!("{} did not start again: {reason}\n{}", self.kind(), self.log());
        }
    }

    /// What the server has logged since it was first started.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("server.log")).unwrap_or_default()
    }

    /// The server's own directory, removed on drop.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }

    fn run(&self) -> Result<(), String> {
        let binary = self.kind().binary().ok_or("its binary was not found; `make setup` installs it")?;
        let file = self.dir.join("server.conf");
        let text = self.options.configuration(self.port, &self.dir, &self.socket());
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = launch::bound_command(binary);
        command.arg(&file).args(&self.options.args).current_dir(&self.dir);
        command.envs(self.options.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Complaints about the configuration come before the log file is open.
        let log = fs::File::options().append(true).create(true).open(self.dir.join("server.log"));
        command.stderr(log.map_err(|error| error.to_string())?);
        let child = launch::spawn(command).map_err(|error| error.to_string())?;
        *self.lock_process() = Some(child);
        let end = Instant::now() + START_LIMIT;
        loop {
            match self.answers() {
                Ok(()) => return Ok(()),
                Err(_) if !self.is_running() => return Err("the process ended".to_owned()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(3)),
            }
        }
    }

    /// Whether PING is answered, and by this process rather than one that has taken the port.
    fn answers(&self) -> Result<(), String> {
        let mut connection = self.connect_admin().map_err(|error| error.to_string())?;
        connection.command::<String>(&["PING"]).map_err(|error| error.to_string())?;
        let info: String = connection.command(&["INFO", "server"]).map_err(|error| error.to_string())?;
        let pid = super::queries::info_field(&info, "process_id").and_then(|text| text.parse().ok());
        if pid == Some(self.pid()) {
            *self.lock_admin() = Some(connection);
            Ok(())
        } else {
            Err("another process answers on the port".to_owned())
        }
    }

    /// A bare connection of the admin user, left out of what a monitor shows.
    pub(crate) fn connect_admin(&self) -> redis::RedisResult<RawConnection> {
        let mut connection = RawConnection::connect(self.addr(), ADMIN_LIMIT)?;
        let address = connection.local_addr().to_string();
        self.own_addresses.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        connection.command::<()>(&["AUTH", ADMIN_USER, ADMIN_PASSWORD])?;
        Ok(connection)
    }

    fn signal(&self, signal: Signal) {
        let process = self.lock_process();
        let child = process.as_ref().expect("the server is running");
        launch::signal(child, signal).expect("the server's process exists");
    }

    fn lock_process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_admin(&self) -> MutexGuard<'_, Option<RawConnection>> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            self.kill();
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn temporary_dir() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("redlatch-{}-{number}", std::process::id()));
    // A leftover of an earlier process with this id.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the temporary directory is writable");
    dir
}
