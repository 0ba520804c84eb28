//! An uncontended acquire and release of one thread.

use std::time::{Duration, Instant};

use redlatch_tests::Monitor;
use redlatch_tests::bench::{Bars, Limit, Report, Spread, Unit};

use super::cast::Cast;
use super::commands::sent_by_clients;
use super::player::Player;
use super::rounds::{Entry, entries, play_round, tell_ratios};
use super::subjects::Subject;
use crate::Stage;

/// Rounds at least.
const LEAST: usize = 8;

pub(crate) fn run(stage: &Stage, report: &mut Report) {
    let mut cast = Cast::start(stage, report, 1);
    let mut times: Vec<Entry<f64>> = entries(cast.subjects().into_iter().filter(|subject| subject.pairs > 0));
    let mut play = |subject, report: &mut Report| {
        let took = block(&mut cast.players(subject)[0], subject);
        cast.keep(subject, took, report)
    };
    // The first pairs open connections, load scripts, start threads.
    play_round(&mut times, 0, |subject| play(subject, report));
    times.iter_mut().for_each(|entry| entry.values.clear());

    let monitor = Monitor::start(&stage.server);
    for subject in times.iter().map(|entry| entry.subject) {
        monitor.clear();
        stage.server.reset_stats();
        if play(subject, report).is_none() {
            continue;
        }
        let counts = stage.server.command_counts();
        monitor.wait_idle();
        let (shown, counted) = (monitor.count(|_| true) as f64, sent_by_clients(subject, &counts) as f64);
        if shown != counted {
            report.note(format!("{}: MONITOR shows {shown} commands, the server's counts {counted}", subject.title));
        }
        let name = format!("{}_commands_per_pair", subject.name);
        report.value(name, shown / subject.pairs as f64, Limit::None);
    }
    drop(monitor);

    let span = stage.extent.pick(Duration::from_secs(1), Duration::from_secs(60));
    let begin = Instant::now();
    let mut round = 0;
    while round < LEAST || begin.elapsed() < span {
        play_round(&mut times, round, |subject| play(subject, report));
        round += 1;
    }

    let mut bars = Vec::new();
    for Entry { subject, values } in &times {
        let spread = Spread::of(values.clone());
        report.row(format!("acquire + release by {}", subject.title), Unit::Micros, spread);
        bars.push(subject.bar(spread.median / 1e3));
    }
    tell_ratios(&times, "pair", report);
    let [file, title, x] = ["peers-pair", "Uncontended acquire + release", "µs, median"].map(str::to_owned);
    report.plot(Bars { file, title, x, bars });
}

/// The median of a block, in nanoseconds.
fn block(player: &mut Player, subject: &Subject) -> Result<f64, String> {
    player.send(&format!("pair {} {}", subject.name, subject.pairs));
    let times: Vec<f64> = player.numbers("took")?;
    if times.len() == subject.pairs { Ok(Spread::of(times).median) } else { Err(format!("took {times:?}")) }
}
