//! From one waiter to the next.

mod chain;
mod crowd;
pub(crate) mod fair;
mod pair;
pub(crate) mod player;
mod times;

use redlatch_tests::bench::Report;

pub(crate) use fair::client_commands;

use crate::Stage;

pub(crate) fn run(section: &str, stage: &Stage, report: &mut Report) {
    match section {
        "hand-over" => pair::run(&stage.server, stage.extent, report),
        "fair" => fair::run(&stage.server, stage.extent, report),
        _ => crowd::run(&stage.server, stage.extent, report),
    }
}
