//! redlatch side by side with other locks on Redis: `tests/peers/README.md` says which, and with which settings.
//!
//! Each is used by processes of its own language that the benchmark steers. What is missing on this machine is a note in the
//! report.

mod cast;
mod commands;
mod contention;
mod handover;
pub(crate) mod ours;
mod pair;
mod player;
mod rounds;
mod subjects;

use redlatch_tests::bench::Report;

use crate::Stage;

/// Builds what these sections need.
pub(crate) fn build(sections: &[&str]) {
    if sections.iter().any(|section| section.starts_with("peers-")) {
        cast::Programs::get();
    }
}

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    match section {
        "peers-pair" => pair::run(stage, report),
        "peers-hand-over" => handover::run(stage, report),
        _ => contention::run(stage, report),
    }
}
