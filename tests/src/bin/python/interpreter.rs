//! Which Python is measured.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names an interpreter.
const VARIABLE: &str = "REDLATCH_PYTHON";
/// The environment that is preferred.
const PREFERRED: &str = "venv-3.11";

/// A Python that has the wheel and what it is compared with.
#[derive(Debug)]
pub(crate) struct Interpreter {
    program: PathBuf,
    about: String,
}

impl Interpreter {
    /// The one that is named, or else the first usable one of `target/py`; an error says in one line what to run.
    pub(crate) fn find() -> Result<Interpreter, String> {
        if let Some(program) = env::var_os(VARIABLE).filter(|program| !program.is_empty()) {
            let program = PathBuf::from(program);
            let refuse = |reason| format!("{VARIABLE}={} will not do: {reason}", program.display());
            return Interpreter::ask(&program).map_err(refuse);
        }
        let mut reasons = Vec::new();
        for program in environments() {
            match Interpreter::ask(&program) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => reasons.push(format!("{}: {reason}", program.display())),
            }
        }
        let found = reasons.into_iter().next().unwrap_or_else(|| "there is none".to_owned());
        Err(format!("no environment in target/py will do ({found}): run `make bench`, or name a Python in {VARIABLE}"))
    }

    fn ask(program: &Path) -> Result<Interpreter, String> {
        let asked = Command::new(program).args(arguments("about")).output().map_err(|error| error.to_string())?;
        let last = |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
        if !asked.status.success() {
            return Err(last(&asked.stderr));
        }
        Ok(Interpreter { program: program.to_owned(), about: last(&asked.stdout) })
    }

    /// What it measures, with versions and path.
    pub(crate) fn about(&self) -> &str {
        &self.about
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }
}

/// The arguments with which an interpreter runs the player. Isolated: neither variables nor the current folder lead it to
/// another redlatch.
pub(crate) fn arguments(what: &str) -> [String; 3] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/python/player.py");
    ["-I".to_owned(), script.to_string_lossy().into_owned(), what.to_owned()]
}

/// The interpreters of `target/py`, the preferred one first.
fn environments() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
    let entries = fs::read_dir(root.join("target/py")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.path()).filter(|path| name_of(path).starts_with("venv-"));
    let mut environments: Vec<PathBuf> = names.collect();
    environments.sort_by_key(|path| (name_of(path) != PREFERRED, path.clone()));
    environments.into_iter().map(|path| path.join("bin/python3")).collect()
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
