//! What the largest costs of an uncontended pair were, each added to the two bare scripts: time before and after, in one run.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, nanos, patient_client};
use redlatch_tests::{Monitor, Server};

use super::bare::{Bare, Manner};
use super::pair::pair;

/// Pairs in a block, of which the median counts.
const CALLS: usize = 50;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = patient_client(server);
    let lock = client.lock("bench:uncontended").expect("the name is valid");
    pair(&lock);
    let monitor = Monitor::start(server);
    pair(&lock);
    monitor.wait_idle();
    let bare = RefCell::new(Bare::replaying(server, &monitor.client_commands()));
    drop(monitor);

    let block = |manner| {
        let mut bare = bare.borrow_mut();
        let times = (0..CALLS).map(|_| {
            let begin = Instant::now();
            bare.scripts_in(manner);
            nanos(begin.elapsed())
        });
        Spread::of(times.collect()).median
    };
    let [plain, thorough, limited, assembled] = in_turns(
        extent.pick(Duration::from_secs(1), Duration::from_secs(20)),
        &mut [
            &mut || block(Manner::Plain),
            &mut || block(Manner::Thorough),
            &mut || block(Manner::Limited),
            &mut || block(Manner::Assembled),
        ],
    );
    report.row("the two scripts bare, as the library sends them", Unit::Micros, Spread::of(plain.clone()));
    report.row("all keys read in any case", Unit::Micros, Spread::of(thorough.clone()));
    report.row("time limits of the socket set for each request", Unit::Micros, Spread::of(limited.clone()));
    report.row("requests put together from arguments", Unit::Micros, Spread::of(assembled.clone()));
    let ratio = |before: &[f64]| Spread::of_ratios(before, &plain);
    report.ratio("reading_all_keys_per_reading_few", ratio(&thorough), Limit::None);
    report.ratio("setting_time_limits_per_leaving_them", ratio(&limited), Limit::None);
    report.ratio("putting_together_per_writing_once", ratio(&assembled), Limit::None);
}
