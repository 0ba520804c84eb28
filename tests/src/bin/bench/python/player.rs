//! Python processes, steered by lines: `player.py` names the commands.

use std::str::FromStr;
use std::time::Duration;

use redlatch_tests::bench::Placement;
use redlatch_tests::{Interpreter, Process, Server};

/// How long a player may take for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// Where players play.
pub(crate) struct Stage<'a> {
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) server: &'a Server,
    pub(crate) placement: Placement,
}

/// A player as a handle.
pub(crate) struct Player(Process);

impl Player {
    /// On the clients' core.
    pub(crate) fn start(stage: &Stage<'_>) -> Player {
        let arguments = stage.interpreter.arguments(&stage.server.url());
        let mut process = Process::start(stage.interpreter.program(), arguments);
        stage.placement.pin_client_process(process.pid());
        process.expect("ready", LIMIT);
        Player(process)
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.send(command);
    }

    /// The numbers after the word in the next line that begins with it.
    pub(crate) fn expect<T: FromStr>(&mut self, word: &str) -> Vec<T> {
        let line = self.0.expect(word, LIMIT);
        let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("a number: {text:?} in {line:?}"));
        line.split_whitespace().skip(1).map(parse).collect()
    }
}
