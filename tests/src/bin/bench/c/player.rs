//! Processes in C and C++, steered by lines: `tests/c/bench_player.c` names the commands.

use std::cell::RefCell;
use std::time::Duration;

use redlatch_tests::bench::Placement;
use redlatch_tests::c::Program;
use redlatch_tests::{Process, Server};

/// How long a player may take for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// Where players play, and by which program.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) program: &'a Program,
    pub(crate) server: &'a Server,
    pub(crate) placement: Placement,
}

/// A player as a handle.
pub(crate) struct Player(RefCell<Process>);

impl Player {
    /// On the clients' core.
    pub(crate) fn start(stage: &Stage<'_>) -> Player {
        Player::start_with(stage, &[&stage.server.url()])
    }

    /// As [`start`](Self::start), with other arguments than the server's URL.
    pub(crate) fn start_with(stage: &Stage<'_>, arguments: &[&str]) -> Player {
        let mut process = stage.program.start(arguments);
        stage.placement.pin_client_process(process.pid());
        process.expect("ready", LIMIT);
        Player(RefCell::new(process))
    }

    /// The times that it answers to a command, in nanoseconds.
    pub(crate) fn times(&self, command: &str) -> Vec<f64> {
        let mut process = self.0.borrow_mut();
        process.send(command);
        let line = process.expect("took", LIMIT);
        let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("a number: {text:?} in {line:?}"));
        line.split_whitespace().skip(1).map(parse).collect()
    }
}
