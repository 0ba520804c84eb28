//! A helper process that a test steers by lines.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::launch;

/// A running program whose standard input and output are lines of text.
///
/// Dropping it kills the program. In a forked child of the test process dropping it does nothing.
/// An integration test passes `env!("CARGO_BIN_EXE_<name>")` as the program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Output>,
    readers: Vec<JoinHandle<()>>,
    owner: u32,
}

#[derive(Debug, Default)]
struct Output {
    transcript: Mutex<Transcript>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Transcript {
    /// Lines of standard output.
    lines: Vec<String>,
    /// How many of them `expect` has gone past.
    read: usize,
    /// Lines of standard error.
    errors: Vec<String>,
    ended: bool,
}

impl Process {
    /// Starts `program` with `args`; panics when it cannot be started.
    pub fn start(program: impl AsRef<OsStr>, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::start_with(program, |command| {
            command.args(args);
        })
    }

    /// As [`start`](Self::start), with arguments, variables and directory set by `configure`.
    pub fn start_with(program: impl AsRef<OsStr>, configure: impl FnOnce(&mut Command)) -> Self {
        let mut command = launch::bound_command(&program);
        configure(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            launch::spawn(command).unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
        let output = Arc::<Output>::default();
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        let readers = vec![
            launch::harness_thread("stdout", {
                let output = Arc::clone(&output);
                move || output.read(stdout, true)
            }),
            launch::harness_thread("stderr", {
                let output = Arc::clone(&output);
                move || output.read(stderr, false)
            }),
        ];
        let input = child.stdin.take();
        Self { child, input, output, readers, owner: std::process::id() }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to the program's standard input; panics when it has ended.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        if let Err(error) = writeln!(input, "{line}").and_then(|()| input.flush()) {
            panic!("cannot send {line:?}: {error}\n{}", self.transcript());
        }
    }

    /// Closes the program's standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Returns the next line of standard output that begins with `prefix`, and passes over the lines
    /// before it; panics with the whole output when none comes within `timeout`.
    #[track_caller]
    pub fn expect(&mut self, prefix: &str, timeout: Duration) -> String {
        match self.try_expect(prefix, timeout) {
            Some(line) => line,
            None => panic!("no line {prefix:?}… within {timeout:?}\n{}", self.transcript()),
        }
    }

    /// As [`expect`](Self::expect), but `None` when no such line comes; then no line is passed over.
    pub fn try_expect(&mut self, prefix: &str, timeout: Duration) -> Option<String> {
        let end = Instant::now() + timeout;
        let mut transcript = self.output.lock();
        loop {
            let unread = &transcript.lines[transcript.read..];
            if let Some(offset) = unread.iter().position(|line| line.starts_with(prefix)) {
                let line = unread[offset].clone();
                transcript.read += offset + 1;
                return Some(line);
            }
            let left = end.saturating_duration_since(Instant::now());
            if transcript.ended || left.is_zero() {
                return None;
            }
            let waited = self.output.grown.wait_timeout(transcript, left);
            transcript = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Every line of standard output so far.
    pub fn lines(&self) -> Vec<String> {
        self.output.lock().lines.clone()
    }

    /// Every line of standard error so far.
    pub fn error_lines(&self) -> Vec<String> {
        self.output.lock().errors.clone()
    }

    /// Sends a signal; panics when the program has been waited for.
    pub fn signal(&self, signal: Signal) {
        launch::signal(&self.child, signal).expect("the process has not been waited for");
    }

    /// Stops the program with SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped program go on, with SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the program with SIGKILL and waits for its end.
    pub fn kill9(&mut self) {
        launch::kill_and_reap(&mut self.child);
    }

    /// Waits for the program to end by itself; `None` when it still runs after `timeout`.
    ///
    /// On return with a status all of its output has been read, unless a child of its own keeps it open.
    pub fn wait_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let status = launch::wait_exit(&mut self.child, timeout)?;
        let readers = &self.readers;
        crate::eventually(Duration::from_secs(1), || readers.iter().all(JoinHandle::is_finished));
        Some(status)
    }

    fn transcript(&self) -> String {
        let transcript = self.output.lock();
        let mut text = String::from("standard output:\n");
        for line in &transcript.lines {
            let _ = writeln!(text, "  {line}");
        }
        text.push_str("standard error:\n");
        for line in &transcript.errors {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            self.kill9();
        }
    }
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Transcript> {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, stream: impl Read, is_stdout: bool) {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            let mut transcript = self.lock();
            if is_stdout {
                transcript.lines.push(line)
            } else {
                transcript.errors.push(line)
            }
            drop(transcript);
            self.grown.notify_all();
        }
        if is_stdout {
            self.lock().ended = true;
            self.grown.notify_all();
        }
    }
}
