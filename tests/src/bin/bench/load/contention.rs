//! Threads of one process on one lock, which they keep for no time at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::Client;
use redlatch_tests::bench::{Extent, Limit, Line, Plot, Report, Spread, patient_client};
use redlatch_tests::{Server, assert_eventually};

use super::shares::Shares;
use super::{MOST, steps};
use crate::core::open_inbox;
use crate::core::pair::pair;
use crate::handover::client_commands;

/// As many threads each get values of their own.
const TOLD: [usize; 2] = [8, MOST];

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = patient_client(server);
    // Otherwise those who come first would wait by polling for a while.
    open_inbox(server, &client);
    let steps = steps(extent);
    let mut spans: Vec<Vec<Span>> = steps.iter().map(|_| Vec::new()).collect();
    for round in 0..extent.pick(1, 5) {
        // Who begins changes from round to round.
        for turn in 0..steps.len() {
            let step = (round + turn) % steps.len();
            let threads = steps[step];
            let length = Duration::from_millis(extent.pick(if TOLD.contains(&threads) { 400 } else { 100 }, 1_000));
            spans[step].push(Span::measure(server, &client, threads, length));
        }
    }
    let of = |spans: &[Span], pick: fn(&Span) -> f64| Spread::of(spans.iter().map(pick).collect());
    for (threads, spans) in steps.iter().zip(&spans).filter(|(threads, _)| TOLD.contains(threads)) {
        let name = |what: &str| format!("one_lock_{threads}_threads_{what}");
        report.ratio(name("pairs_per_second"), of(spans, |it| it.per_second), Limit::None);
        report.ratio(name("least_share_per_largest"), of(spans, |it| it.least_per_largest), Limit::None);
        report.ratio(name("commands_per_acquisition"), of(spans, |it| it.commands), Limit::None);
    }
    let points =
        steps.iter().zip(&spans).map(|(threads, spans)| (*threads as f64, of(spans, |it| it.per_second).median));
    report.plot(Plot {
        file: "one-lock".to_owned(),
        title: "Threads of one process on one lock".to_owned(),
        x: "threads".to_owned(),
        y: "acquisitions/s".to_owned(),
        lines: vec![Line { name: "redlatch".to_owned(), points: points.collect() }],
    });
}

/// What was seen of threads within a span.
struct Span {
    per_second: f64,
    least_per_largest: f64,
    /// Commands to the server for each acquisition.
    commands: f64,
}

impl Span {
    fn measure(server: &Server, client: &Client, threads: usize, length: Duration) -> Span {
        let (counts, stop): (Vec<AtomicU64>, _) =
            ((0..threads).map(|_| AtomicU64::new(0)).collect(), AtomicBool::new(false));
        let look = || counts.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<u64>>();
        thread::scope(|scope| {
            for count in &counts {
                let lock = client.lock("bench:one-lock").expect("the name is valid");
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        pair(&lock);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            assert_eventually("everyone has had the lock", Duration::from_secs(30), || !look().contains(&0));
            server.reset_stats();
            let (begin, before) = (Instant::now(), look());
            thread::sleep(length);
            let (took, after) = (begin.elapsed(), look());
            let commands = client_commands(&server.command_counts());
            stop.store(true, Ordering::Relaxed);
            let shares = Shares::between(&before, &after);
            Span {
                per_second: shares.sum() / took.as_secs_f64(),
                least_per_largest: shares.least_per_largest(),
                commands: commands as f64 / shares.sum(),
            }
        })
    }
}
