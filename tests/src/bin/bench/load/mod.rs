//! Many threads of one process that do nothing but acquire and release.

mod contention;
mod scaling;
mod shares;

use redlatch_tests::bench::{Extent, Report};

use crate::Stage;

/// The most threads that there are.
const MOST: usize = 64;

/// How many threads there are, from step to step.
fn steps(extent: Extent) -> &'static [usize] {
    extent.pick(&[1, 8, MOST], &[1, 2, 4, 8, 16, 32, MOST])
}

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    match section {
        "contention" => contention::run(&stage.server, stage.extent, report),
        _ => scaling::run(&stage.server, stage.extent, report),
    }
}
