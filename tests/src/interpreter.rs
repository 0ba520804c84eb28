//! Which Python runs the harness's programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names an interpreter.
const VARIABLE: &str = "REDLATCH_PYTHON";
/// The environment that is preferred.
const PREFERRED: &str = "venv-3.11";

/// A Python that has the wheel and whatever else a program needs.
#[derive(Debug)]
pub struct Interpreter {
    program: PathBuf,
    about: String,
    script: &'static str,
}

impl Interpreter {
    /// The one that the variable `REDLATCH_PYTHON` names, or else the first of the environments in `target/py` in which
    /// `script`, a path below `tests`, can run: with the argument `about` it prints one line of versions, or
    /// fails where something is missing. An error says in one line what to run.
    pub fn find(script: &'static str) -> Result<Interpreter, String> {
        if let Some(program) = env::var_os(VARIABLE).filter(|program| !program.is_empty()) {
            let program = PathBuf::from(program);
            let refuse = |reason| format!("{VARIABLE}={} will not do: {reason}", program.display());
            return Interpreter::ask(&program, script).map_err(refuse);
        }
        let mut reasons = Vec::new();
        for program in environments() {
            match Interpreter::ask(&program, script) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => reasons.push(format!("{}: {reason}", program.display())),
            }
        }
        let found = reasons.into_iter().next().unwrap_or_else(|| "there is none".to_owned());
        Err(format!(
            "no environment in target/py will do ({found}): run `make test-py`, or name a Python in {VARIABLE}"
        ))
    }

    fn ask(program: &Path, script: &'static str) -> Result<Interpreter, String> {
        let asked = Command::new(program).args(arguments(script, "about")).output();
        let asked = asked.map_err(|error| error.to_string())?;
        let last = |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
        if !asked.status.success() {
            return Err(last(&asked.stderr));
        }
        Ok(Interpreter { program: program.to_owned(), about: last(&asked.stdout), script })
    }

    /// What the script says of itself, with versions.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The interpreter's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The arguments with which the interpreter runs the script, with one of its own. Isolated: neither variables nor the
    /// current folder lead it to another redlatch.
    pub fn arguments(&self, argument: &str) -> [String; 3] {
        arguments(self.script, argument)
    }

    /// As [`arguments`](Self::arguments), for another script below `tests`.
    pub fn arguments_of(script: &str, argument: &str) -> [String; 3] {
        arguments(script, argument)
    }
}

fn arguments(script: &str, argument: &str) -> [String; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    ["-I".to_owned(), path.to_string_lossy().into_owned(), argument.to_owned()]
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
