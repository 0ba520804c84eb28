//! The two scripts sent bare by C.

use std::process::{Command, Stdio};

use redlatch_tests::c::{Program, Recipe};

use super::BUILD;
use super::player::{Player, Stage};
use crate::core::bare::Bare;

/// Stands for the token in the arguments of the program.
const TOKEN: &str = "%";

/// `tests/c/bench_hiredis.c`; an error says what is missing.
pub(crate) fn program() -> Result<Program, String> {
    let mut asked = Command::new("cc");
    asked.args(["-E", "-include", "hiredis/hiredis.h", "-x", "c", "/dev/null"]);
    asked.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !asked.status().is_ok_and(|status| status.success()) {
        return Err("hiredis is not installed (libhiredis-dev), so that C has no floor to be compared with".to_owned());
    }
    // The library stands before what needs it, and some linkers would leave it out there.
    let flags = ["-O2", "-Wl,--no-as-needed", "-lhiredis"];
    Ok(Program::new(&Recipe { flags: &flags, build: BUILD, ..Recipe::c11(&["bench_hiredis", "support"]) }))
}

pub(crate) fn start(stage: &Stage<'_>, program: &Program, bare: &Bare) -> Player {
    let [acquire, release] = bare.words(TOKEN);
    let (port, count) = (stage.server.port().to_string(), acquire.len().to_string());
    let words = [port.as_str(), bare.owner(), &count].into_iter();
    let words: Vec<&str> = words.chain(acquire.iter().chain(&release).map(String::as_str)).collect();
    Player::start_with(&Stage { program, ..*stage }, &words)
}
