//! Many threads of one process that do nothing but acquire and release.

mod contention;
mod scaling;
mod shares;

use redlatch_tests::bench::Report;

use crate::Stage;

/// How many threads there are, from step to step.
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    match section {
        "contention" => contention::run(&stage.server, stage.extent, report),
        _ => scaling::run(&stage.server, stage.extent, report),
    }
}
