//! Cores that do not sleep while something is measured.

use std::hint::black_box;

use rustix::process::setpriority_process;
use rustix::thread::sched_setaffinity;

use super::Placement;
use super::placement::only;
use crate::Process;

/// One process for each core of a placement, of the lowest priority, that computes all the time: the core never sleeps, and
/// whoever has something to do there displaces it at once.
///
/// A core that sleeps wakes slowly in a virtual machine, where that takes longer than a server takes for a request, and not
/// the same each time. They end when this is dropped.
#[derive(Debug)]
pub struct Awake(#[allow(dead_code, reason = "held until it is dropped")] Vec<Process>);

impl Awake {
    /// The first argument with which this program is one of them.
    pub const WORD: &str = "awake";

    /// Starts them; the program must call [`Awake::run`] where its first argument is [`Awake::WORD`].
    pub fn start(placement: Placement) -> Awake {
        let program = std::env::current_exe().expect("this program has a path");
        let start = |core: usize| {
            let mut process = Process::start(&program, [Awake::WORD, &core.to_string()]);
            process.expect("awake", std::time::Duration::from_secs(10));
            process
        };
        Awake(placement.cores().into_iter().map(start).collect())
    }

    /// Computes until it is killed, on this core.
    pub fn run(core: &str) -> ! {
        let core = core.parse().expect("a core is a number");
        sched_setaffinity(None, &only(core)).expect("a thread may pin itself");
        setpriority_process(None, 19).expect("a process may lower its priority");
        println!("awake");
        let mut number = 0_u64;
        loop {
            number = black_box(number.wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_with_one_core_needs_none() {
        assert!(super::Placement::none().cores().is_empty());
    }
}
