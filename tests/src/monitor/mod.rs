//! Capture of everything a server executes, through MONITOR.

mod line;

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use line::MonitorLine;

use crate::launch::harness_thread;
use crate::servers::{ADMIN_PASSWORD, ADMIN_USER};
use crate::wire::RawConnection;
use crate::{Server, assert_eventually};

/// How long a drain may take.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Records the commands that a server executes, from [`start`](Self::start) on.
///
/// It ends with the server: after a restart, start another one; what came between the restart and the
/// new monitor is in [`Server::command_counts`] only. MONITOR never shows AUTH, nor administrative
/// commands like CONFIG.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    marker: Mutex<RawConnection>,
    own_addresses: Arc<Mutex<Vec<String>>>,
    stream: TcpStream,
    reader: Option<JoinHandle<()>>,
    owner: u32,
}

#[derive(Debug, Default)]
struct Shared {
    record: Mutex<Record>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Record {
    lines: Vec<String>,
    commands: Vec<MonitorLine>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, reader: impl BufRead) {
        for line in reader.split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches('\r').trim_start_matches('+');
            let received = Instant::now();
            let mut record = self.lock();
            record.commands.extend(MonitorLine::parse(line, received));
            record.lines.push(line.to_owned());
            self.grown.notify_all();
        }
        self.lock().ended = true;
        self.grown.notify_all();
    }
}

impl Monitor {
    /// Starts recording; when it returns, every later command is recorded.
    ///
    /// Panics when the server does not answer.
    pub fn start(server: &Server) -> Self {
        let marker = server.connect_admin().expect("the server accepts a marker connection");
        let stream = TcpStream::connect(server.addr()).expect("the server accepts a monitor");
        stream.set_read_timeout(Some(DRAIN_LIMIT)).expect("the limit is not zero");
        let mut writer = &stream;
        write!(writer, "AUTH {ADMIN_USER} {ADMIN_PASSWORD}\r\nMONITOR\r\n").expect("the server reads");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket can be duplicated"));
        for step in ["AUTH", "MONITOR"] {
            let mut reply = String::new();
            reader.read_line(&mut reply).expect("the server answers");
            assert_eq!(reply, "+OK\r\n", "{}: {step}", server.kind());
        }
        stream.set_read_timeout(None).expect("a socket has options");
        let shared = Arc::<Shared>::default();
        let thread = harness_thread("monitor", {
            let shared = Arc::clone(&shared);
            move || shared.read(reader)
        });
        Self {
            shared,
            marker: Mutex::new(marker),
            own_addresses: Arc::clone(&server.own_addresses),
            stream,
            reader: Some(thread),
            owner: std::process::id(),
        }
    }

    /// Every line so far, as the server wrote it.
    pub fn lines(&self) -> Vec<String> {
        self.shared.lock().lines.clone()
    }

    /// Every command so far, parsed, including those of scripts and of the harness.
    pub fn commands(&self) -> Vec<MonitorLine> {
        self.shared.lock().commands.clone()
    }

    /// The commands that clients sent: without those that scripts call, without those of the harness
    /// ([`Server::query`] and the like, [`wait_idle`](Self::wait_idle)).
    pub fn client_commands(&self) -> Vec<MonitorLine> {
        let own = self.own_addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut commands = self.commands();
        commands.retain(|line| !line.lua && !own.contains(&line.client));
        commands
    }

    /// How many of the [`client_commands`](Self::client_commands) satisfy the condition.
    pub fn count(&self, mut condition: impl FnMut(&MonitorLine) -> bool) -> usize {
        self.client_commands().iter().filter(|line| condition(line)).count()
    }

    /// Forgets what was recorded so far.
    pub fn clear(&self) {
        let mut record = self.shared.lock();
        record.lines.clear();
        record.commands.clear();
    }

    /// Returns once everything the server executed before this call is recorded.
    ///
    /// It sends a marker of its own and waits until MONITOR shows it. Panics after 10 s, as when the
    /// server is paused, and when the server has closed the monitor's connection.
    pub fn wait_idle(&self) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let text = format!("redlatch-marker-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut marker = self.marker.lock().unwrap_or_else(PoisonError::into_inner);
        marker.command::<String>(&["ECHO", &text]).expect("the server answers the marker");
        let seen = |record: &mut Record| {
            let shown = record.commands.iter().rev().any(|line| line.args.last() == Some(&text));
            !shown && !record.ended
        };
        let waited = self.shared.grown.wait_timeout_while(self.shared.lock(), DRAIN_LIMIT, seen);
        let (record, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "MONITOR did not show the marker within {DRAIN_LIMIT:?}");
        assert!(!record.ended, "the server has closed the monitor's connection");
    }

    /// Waits at most `timeout` until a client's command satisfies the condition; panics with `what`
    /// and the commands seen when none does.
    pub fn wait_for(&self, what: &str, timeout: Duration, mut condition: impl FnMut(&MonitorLine) -> bool) {
        assert_eventually(what, timeout, || self.client_commands().iter().any(&mut condition));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            let _ = self.stream.shutdown(Shutdown::Both);
            let _ = self.reader.take().map(JoinHandle::join);
        }
    }
}
