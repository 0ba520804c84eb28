//! Players as handles.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redlatch_tests::Process;

use crate::Stage;

/// How long a player may take for anything: longer than any player waits for a lock.
const LIMIT: Duration = Duration::from_secs(90);

/// How a player is started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Program {
    /// For the report, which names no folders of a machine.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A process that uses locks as it is told.
pub(crate) struct Player {
    process: Process,
    /// The subjects that it can play.
    pub(crate) plays: Vec<String>,
    /// Why it cannot play others.
    pub(crate) lacks: Vec<String>,
    /// Why it cannot go on.
    broken: Option<String>,
}

impl Player {
    /// On the clients' core; an error when it does not begin.
    pub(crate) fn start(program: &Program, stage: &Stage) -> Result<Player, String> {
        let arguments = program.arguments.iter().cloned().chain([stage.server.url()]);
        let process = Process::start(&program.path, arguments);
        stage.placement.pin_client_process(process.pid());
        let mut player = Player { process, plays: Vec::new(), lacks: Vec::new(), broken: None };
        loop {
            let line = player.line()?;
            match line.split_once(' ') {
                Some(("lacks", what)) => player.lacks.extend(what.split_once(' ').map(|(_, why)| why.to_owned())),
                Some(("ready", subjects)) => {
                    player.plays = subjects.split(' ').map(str::to_owned).collect();
                    return Ok(player);
                }
                _ => return Err(format!("said {line:?} when it began")),
            }
        }
    }

    /// Nothing is sent to one that cannot go on: its next answer says why.
    pub(crate) fn send(&mut self, command: &str) {
        if self.broken.is_none() {
            self.process.send(command);
        }
    }

    /// What follows this word in the answer; an error when it fails instead.
    pub(crate) fn expect(&mut self, word: &str) -> Result<String, String> {
        let line = self.line()?;
        match line.strip_prefix(word) {
            Some(rest) if rest.is_empty() || rest.starts_with(' ') => Ok(rest.trim().to_owned()),
            _ => Err(line),
        }
    }

    /// The numbers that follow this word in the answer.
    pub(crate) fn numbers<T: FromStr>(&mut self, word: &str) -> Result<Vec<T>, String> {
        let text = self.expect(word)?;
        let parse = |digits: &str| digits.parse().map_err(|_| format!("not a number: {digits:?}"));
        text.split_whitespace().map(parse).collect()
    }

    fn line(&mut self) -> Result<String, String> {
        if let Some(reason) = &self.broken {
            return Err(reason.clone());
        }
        self.process.try_expect("", LIMIT).ok_or_else(|| {
            let errors = self.process.error_lines();
            let last = errors.iter().rev().find(|line| !line.trim().is_empty());
            let reason = last.map_or_else(|| "no answer".to_owned(), |line| line.trim().to_owned());
            self.broken.insert(reason).clone()
        })
    }
}
