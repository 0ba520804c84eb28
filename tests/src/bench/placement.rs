//! Which core runs what: a round trip costs several times more when client and server share a core or move.

use std::fmt;
use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of server and client; `None` on a machine with one core, where nothing is pinned.
#[derive(Clone, Copy, Debug)]
pub struct Placement(Option<(usize, usize)>);

impl Placement {
    /// The first allowed core for the server, the last one for the client.
    pub fn choose() -> Placement {
        let allowed = sched_getaffinity(None).expect("a thread may read its own affinity");
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Placement(cores.next().zip(cores.next_back()))
    }

    /// The server's and the clients'.
    pub(super) fn cores(self) -> Vec<usize> {
        self.0.map_or_else(Vec::new, |(server, client)| vec![server, client])
    }

    #[cfg(test)]
    pub(super) fn none() -> Placement {
        Placement(None)
    }

    /// Pins the calling thread, and with it every thread that it starts from here on.
    pub fn pin_client(self) {
        if let Some((_, client)) = self.0 {
            sched_setaffinity(None, &only(client)).expect("a thread may pin itself");
        }
    }

    /// Pins every thread of the server's process; panics when it does not run.
    pub fn pin_server(self, pid: u32) {
        if let Some((server, _)) = self.0 {
            pin_process(pid, server);
        }
    }

    /// Pins every thread of a client's process, and with them those that they start from here on; panics when it does
    /// not run. A child of a pinned thread needs it as well: the harness starts its children on a thread of its own.
    pub fn pin_client_process(self, pid: u32) {
        if let Some((_, client)) = self.0 {
            pin_process(pid, client);
        }
    }
}

fn pin_process(pid: u32, core: usize) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    for task in tasks {
        let name = task.expect("the process runs").file_name();
        let id = name.to_str().and_then(|digits| digits.parse().ok()).and_then(Pid::from_raw);
        // A thread that has ended since needs no core.
        let _ = sched_setaffinity(Some(id.expect("tasks are numbers")), &only(core));
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((server, client)) => write!(
                f,
                "server on core {server}, clients on core {client}, both kept awake by processes of the lowest priority"
            ),
            None => f.write_str("not pinned: one core only, so that the ratios mean little"),
        }
    }
}

pub(super) fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}
