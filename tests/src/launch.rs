//! Starting, signalling and reaping child processes.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What the names of all threads of the harness begin with.
pub(crate) const THREAD_PREFIX: &str = "rlt-";

/// Starts a thread of the harness; `name` has at most 11 bytes.
pub(crate) fn harness_thread(name: &str, body: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().name(format!("{THREAD_PREFIX}{name}")).spawn(body).expect("a thread can be started")
}

struct Job {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

struct Launcher {
    /// Process whose thread reads the queue: a forked child has no such thread.
    owner: u32,
    jobs: Mutex<Sender<Job>>,
}

static LAUNCHER: OnceLock<Launcher> = OnceLock::new();

/// A command for `program` that the kernel kills when this test process dies, where `setpriv`
/// (util-linux) can arrange that.
pub(crate) fn bound_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let has_setpriv = *SETPRIV.get_or_init(|| {
        let mut probe = Command::new("setpriv");
        probe.args(["--pdeathsig", "KILL", "true"]);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if has_setpriv {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Spawns from one thread that lives as long as this process: the kernel sends the death signal when
/// the *thread* that started the child ends, and test threads end early.
pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        harness_thread("launcher", move || {
            for mut job in jobs {
                let _ = job.answer.send(job.command.spawn());
            }
        });
        Launcher { owner: std::process::id(), jobs: Mutex::new(sender) }
    });
    if launcher.owner != std::process::id() {
        return command.spawn();
    }
    let (answer, result) = mpsc::channel();
    let job = Job { command, answer };
    let sent = launcher.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    sent.map_err(|_| io::Error::other("the launcher thread has ended"))?;
    result.recv().map_err(|_| io::Error::other("the launcher thread has ended"))?
}

/// Sends `signal` to a child that has not been waited for.
pub(crate) fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
    let pid = Pid::from_raw(raw).ok_or_else(|| io::Error::other("process id 0"))?;
    Ok(kill_process(pid, signal)?)
}

/// Waits at most `timeout` for the child to end; `None` when it still runs.
pub(crate) fn wait_exit(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + timeout;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// SIGKILL, which also ends a stopped process, and wait.
pub(crate) fn kill_and_reap(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
