//! Which players there are on this machine, and which subjects they play.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use redlatch_tests::bench::Report;
use redlatch_tests::{Interpreter, c};

use super::player::{Player, Program};
use super::subjects::{SUBJECTS, Subject};
use crate::Stage;

/// Said of every run.
const NOT_HERE: &str =
    "Redisson, redsync, bsm/redislock and rueidislock are left out: there are no players in Java and Go.";

/// The programs of this run, and what there is to say about those that are missing.
#[derive(Debug)]
pub(super) struct Programs {
    found: Vec<Program>,
    about: Vec<String>,
    missing: Vec<String>,
}

impl Programs {
    /// Once a run.
    pub(super) fn get() -> &'static Programs {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(Programs::find)
    }

    fn find() -> Programs {
        let ours = std::env::current_exe().expect("this program has a path");
        let found = vec![Program { path: ours, arguments: vec!["peer".to_owned()] }];
        let mut programs = Programs { found, about: Vec::new(), missing: vec![NOT_HERE.to_owned()] };
        match Interpreter::find("peers/python/player.py") {
            Ok(interpreter) => {
                let mut arguments = interpreter.arguments("").to_vec();
                arguments.pop();
                programs.found.push(Program { path: interpreter.program().to_owned(), arguments });
                programs.about.push(interpreter.about().to_owned());
            }
            Err(reason) => programs.missing.push(format!("Python is left out: {reason}")),
        }
        match build_rust_peer() {
            Ok(path) => programs.found.push(Program { path, arguments: Vec::new() }),
            Err(reason) => programs.missing.push(format!("rslock is left out: it cannot be built: {reason}")),
        }
        programs
    }
}

/// Cargo does nothing where nothing has changed. The profile is that of this program.
fn build_rust_peer() -> Result<PathBuf, String> {
    let program = std::env::current_exe().expect("this program has a path");
    let target = program.ancestors().nth(2).ok_or("this program is in no target directory")?.join("peers");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(c::workspace().join("tests/peers/rust"));
    command.args(["build", "--quiet", "--locked", "--target-dir"]).arg(&target);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if profile == "release" {
        command.arg("--release");
        eprintln!("bench: building rslock, which takes a minute the first time");
    }
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().find(|line| line.starts_with("error"));
        return Err(first.unwrap_or("cargo failed").to_owned());
    }
    Ok(target.join(profile).join("redlatch-peers"))
}

/// The players of a section.
pub(crate) struct Cast<'a> {
    stage: &'a Stage,
    companies: Vec<Company>,
    /// Subjects that have failed.
    out: Vec<&'static str>,
}

/// Processes of one program.
struct Company {
    program: &'static Program,
    players: Vec<Player>,
}

impl Company {
    fn plays(&self, subject: &str) -> bool {
        self.players[0].plays.iter().any(|it| it == subject)
    }
}

impl<'a> Cast<'a> {
    /// Starts as many processes of each program. What is missing is a note in the first section that misses it.
    pub(crate) fn start(stage: &'a Stage, report: &mut Report, processes: usize) -> Cast<'a> {
        static TOLD: OnceLock<()> = OnceLock::new();
        let programs = Programs::get();
        programs.about.iter().for_each(|about| report.about(about));
        let mut notes = programs.missing.clone();
        let mut companies = Vec::new();
        for program in &programs.found {
            match start_all(program, stage, processes) {
                Ok(players) => {
                    let mut lacks = players[0].lacks.clone();
                    // The same for a lock and for that lock with other settings.
                    lacks.dedup();
                    notes.extend(lacks.into_iter().map(|reason| format!("Left out: {reason}")));
                    companies.push(Company { program, players });
                }
                Err(reason) => notes.push(format!("{} is left out: {reason}", program.name())),
            }
        }
        if TOLD.set(()).is_ok() {
            notes.into_iter().for_each(|note| report.note(note));
        }
        Cast { stage, companies, out: Vec::new() }
    }

    /// Those that can be played and have not failed.
    pub(crate) fn subjects(&self) -> Vec<&'static Subject> {
        let played = |name: &str| self.companies.iter().any(|company| company.plays(name));
        SUBJECTS.iter().filter(|it| played(it.name) && !self.out.contains(&it.name)).collect()
    }

    /// The processes that play this subject.
    pub(crate) fn players(&mut self, subject: &Subject) -> &mut [Player] {
        &mut self.company(subject).players
    }

    fn company(&mut self, subject: &Subject) -> &mut Company {
        self.companies.iter_mut().find(|company| company.plays(subject.name)).expect("it can be played")
    }

    /// What the subject answered. When it failed, it is out, the report says why, and the others get new processes.
    pub(crate) fn keep<T>(
        &mut self,
        subject: &'static Subject,
        result: Result<T, String>,
        report: &mut Report,
    ) -> Option<T> {
        let reason = match result {
            Ok(value) => return Some(value),
            Err(reason) => reason,
        };
        report.note(format!("{} is left out: {reason}", subject.title));
        self.out.push(subject.name);
        let stage = self.stage;
        let company = self.company(subject);
        match start_all(company.program, stage, company.players.len()) {
            Ok(players) => company.players = players,
            Err(reason) => report.note(format!("{} does not start again: {reason}", company.program.name())),
        }
        None
    }
}

fn start_all(program: &Program, stage: &Stage, processes: usize) -> Result<Vec<Player>, String> {
    (0..processes).map(|_| Player::start(program, stage)).collect()
}
