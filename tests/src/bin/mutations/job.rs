//! Builds and runs tests of the copy, each within a time.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redlatch_tests::c::{scratch, workspace};
use redlatch_tests::mutations::Mutation;
use redlatch_tests::{ServerKind, Suite};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::python::Python;
use crate::tree::Tree;
use crate::verdict::{End, Verdict, first_words, judge};

/// How long a build may take: the first one has all dependencies to compile.
const BUILD: Duration = Duration::from_secs(1_800);
/// How long one test may take: the slowest take half a minute.
const TEST: Duration = Duration::from_secs(180);

/// The copy, its builds and its logs.
#[derive(Debug)]
pub(crate) struct Workshop {
    folder: PathBuf,
    tree: Tree,
    python: Result<Python, String>,
}

impl Workshop {
    /// Copies the sources.
    pub(crate) fn prepare(mutations: &[Mutation]) -> Result<Workshop, String> {
        let target = scratch();
        let folder = target.parent().expect("a target directory").join("mutations");
        let tree = Tree::copy(workspace(), folder.join("tree"), mutations)?;
        fs::create_dir_all(folder.join("logs")).map_err(|error| error.to_string())?;
        let wanted = mutations.iter().any(|mutation| *mutation.test.suite() == Suite::Python);
        let python = if wanted { Python::prepare(workspace(), &folder) } else { Err(String::new()) };
        match &python {
            Err(reason) if wanted && std::env::var("CI").is_ok_and(|ci| ci == "true") => Err(reason.clone()),
            _ => Ok(Workshop { folder, tree, python }),
        }
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Fails unless all tests of `mutations` pass on the copy as it is.
    pub(crate) fn all_pass(&self, mutations: &[Mutation]) -> Result<(), String> {
        let mut rest: Vec<&Mutation> = mutations.iter().collect();
        while let Some(first) = rest.first() {
            let suite = first.test.suite().clone();
            let (these, others) = rest.into_iter().partition::<Vec<_>, _>(|mutation| *mutation.test.suite() == suite);
            let name = match &suite {
                Suite::Unit => "core",
                Suite::Integration(target) => target,
                Suite::Python => "python",
            };
            let log = self.logs().join(format!("without-{name}.log"));
            match self.test(&these, &log) {
                Verdict::Survived => {}
                Verdict::Skipped(reason) => println!("mutations: {name} is left out: {reason}"),
                verdict => {
                    let words = verdict.words();
                    return Err(format!(
                        "{name} without a mutation: {} {words} (log: {})",
                        verdict.word(),
                        log.display()
                    ));
                }
            }
            rest = others;
        }
        Ok(())
    }

    /// Runs one mutation.
    pub(crate) fn run(&self, mutation: &Mutation) -> Verdict {
        let log = self.logs().join(format!("{}.log", mutation.name));
        let verdict = self.tree.with(&mutation.patch, || self.test(&[mutation], &log));
        verdict.unwrap_or_else(Verdict::DoesNotBuild)
    }

    /// Builds and runs tests of one suite. Where there are several, what survives is all of them.
    fn test(&self, these: &[&Mutation], log: &Path) -> Verdict {
        let Some(first) = these.first() else { return Verdict::NoTestRan };
        let _ = fs::remove_file(log);
        let (builds, test) = match self.commands(these) {
            Ok(commands) => commands,
            Err(reason) => return Verdict::Skipped(reason),
        };
        for build in builds {
            let mark = fs::metadata(log).map_or(0, |file| file.len() as usize);
            if !matches!(self.execute(build, log, BUILD), Ok(End::Exit(Some(0)))) {
                let text = fs::read_to_string(log).unwrap_or_default();
                let errors = text.get(mark..).unwrap_or_default().lines().filter(|line| line.contains("error"));
                return Verdict::DoesNotBuild(first_words(errors));
            }
        }
        let mark = fs::metadata(log).map_or(0, |file| file.len() as usize);
        let limit = TEST.saturating_mul(u32::try_from(these.len()).unwrap_or(u32::MAX));
        let end = match self.execute(test, log, limit) {
            Ok(end) => end,
            Err(error) => return Verdict::BrokeOff(error.to_string()),
        };
        let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
        let text = text.get(mark..).unwrap_or_default();
        let verdicts = these.iter().map(|mutation| judge(&mutation.test, text, end));
        let verdicts: Vec<Verdict> = verdicts.collect();
        let odd = verdicts.iter().find(|verdict| **verdict != Verdict::Survived);
        match (these.len(), odd) {
            (1, _) => verdicts[0].clone(),
            (_, None) => Verdict::Survived,
            (_, Some(Verdict::NoTestRan)) => {
                let missing = these.iter().zip(&verdicts).find(|(_, verdict)| **verdict == Verdict::NoTestRan);
                let name = missing.map_or(first.name.as_str(), |(mutation, _)| &mutation.name);
                Verdict::BrokeOff(format!("the test of {name} did not run"))
            }
            (_, Some(verdict)) => verdict.clone(),
        }
    }

    /// What builds these tests of one suite, and what runs them.
    fn commands(&self, these: &[&Mutation]) -> Result<(Vec<Command>, Command), String> {
        let (tree, target) = (self.tree.root(), self.folder.join("target"));
        let functions = these.iter().map(|mutation| mutation.test.function());
        let cargo = |words: &[&str]| {
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.args(["test", "--locked", "--all-features"]).args(words);
            command
        };
        let (build, test) = match these[0].test.suite() {
            Suite::Python => {
                let python = self.python.as_ref().map_err(Clone::clone)?;
                let file = |mutation: &&Mutation| {
                    let file = mutation.test.file();
                    let file = file.file_name().unwrap_or_default().to_string_lossy();
                    format!("{file}::{}", mutation.test.function())
                };
                let tests: Vec<String> = these.iter().map(file).collect();
                (python.build(tree, &target)?, python.test(tree, &tests))
            }
            suite => {
                let words = match suite {
                    Suite::Integration(name) => vec!["-p", "redlatch-tests", "--test", name],
                    _ => vec!["-p", "redlatch", "--lib"],
                };
                let mut build = cargo(&words);
                build.arg("--no-run");
                let mut test = cargo(&words);
                test.args(["--", "--format", "pretty", "--test-threads=2"]).args(functions);
                (vec![build], test)
            }
        };
        Ok((build, test))
    }

    /// Runs `command` in the copy, with its output added to `log`; ends it and all that it started after `limit`.
    fn execute(&self, mut command: Command, log: &Path, limit: Duration) -> io::Result<End> {
        let file = File::options().create(true).append(true).open(log)?;
        command.current_dir(self.tree.root()).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        command.env("CARGO_TARGET_DIR", self.folder.join("target")).env("RUST_BACKTRACE", "0");
        // What a debugger needs doubles the time of each build.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
        for kind in ServerKind::ALL {
            if let Some(binary) = kind.binary() {
                command.env(kind.variable(), binary);
            }
        }
        let mut child = command.process_group(0).spawn()?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = child.try_wait()? {
                return Ok(End::Exit(status.code()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        end_group(&mut child);
        Ok(End::OutOfTime)
    }
}

/// Ends a child that leads a process group, and its group.
fn end_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}
