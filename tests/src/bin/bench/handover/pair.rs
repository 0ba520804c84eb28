//! From just before a release to the grant in a waiter: of another process, and of another thread.

use std::cell::RefCell;

use redlatch_tests::bench::{Extent, Limit, Line, Plot, Report, Spread, Unit, rounds_in_turns};
use redlatch_tests::{Monitor, Server};

use super::chain::assert_same_messages;
use super::player::{Hold, LIBRARY_KEY, Player};
use super::times::Times;

/// Holds of each of the two in a block, of which the median counts.
const HOLDS: usize = 25;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let processes = between_processes(server, extent.pick(9, 420), report);
    let threads = between_threads(server, extent.pick(6, 420), report);
    let lines = [
        ("redlatch, processes", &processes[0]),
        ("bare messages, processes", &processes[1]),
        ("redlatch, threads", &threads[0]),
        ("bare messages, threads", &threads[1]),
    ];
    report.plot(Plot {
        file: "hand-over".to_owned(),
        title: "Hand-overs that take longer".to_owned(),
        x: "one hand-over in …".to_owned(),
        y: "takes at least, µs".to_owned(),
        lines: lines.map(|(name, times)| Line { name: name.to_owned(), points: times.points() }).into(),
    });
}

fn between_processes(server: &Server, rounds: usize, report: &mut Report) -> [Times; 2] {
    let pair = RefCell::new(Pair::of_processes(server));
    let [library, chain, wakeups] = rounds_in_turns(
        rounds,
        &mut [
            &mut || pair.borrow_mut().handovers("library"),
            &mut || pair.borrow_mut().handovers("chain"),
            &mut || pair.borrow_mut().wakeups(),
        ],
    )
    .map(Times::of);
    report.row("hand-over by the library", Unit::Micros, library.spread());
    report.row("hand-over by the bare messages", Unit::Micros, chain.spread());
    report.row("PUBLISH to a reader of another process", Unit::Micros, wakeups.spread());
    tell("", &library, &chain, [Limit::AtMost(1.3), Limit::AtMost(3.0)], report);
    let per_wakeup = Spread::of_ratios(library.medians(), wakeups.medians());
    report.ratio("handover_per_publish", per_wakeup, Limit::None);
    [library, chain]
}

/// Of one client, whose inbox wakes them; the bare messages have connections and an inbox for each.
fn between_threads(server: &Server, rounds: usize, report: &mut Report) -> [Times; 2] {
    let pair = RefCell::new(Pair::of_threads(server));
    let [library, chain] = rounds_in_turns(
        rounds,
        &mut [&mut || pair.borrow_mut().handovers("library"), &mut || pair.borrow_mut().handovers("chain")],
    )
    .map(Times::of);
    report.row("hand-over between threads by the library", Unit::Micros, library.spread());
    report.row("hand-over between threads by the bare messages", Unit::Micros, chain.spread());
    tell("thread_", &library, &chain, [Limit::None, Limit::None], report);
    [library, chain]
}

/// What the values of both are called; the limits are those of the medians' ratio and of the tails.
fn tell(prefix: &str, library: &Times, chain: &Times, [per_bare, tail]: [Limit; 2], report: &mut Report) {
    let ratios = Spread::of_ratios(library.medians(), chain.medians());
    report.ratio(format!("{prefix}handover_per_bare_messages"), ratios, per_bare);
    let medians = [library, chain].map(|times| times.spread().median);
    for (name, one_in, tail) in [("p99", 100.0, tail), ("p999", 1_000.0, Limit::None)] {
        let (Some(ours), Some(bare)) = (library.tail(one_in), chain.tail(one_in)) else {
            report.note(format!("{} hand-overs are too few for {prefix}handover_{name}", library.count()));
            continue;
        };
        report.value(format!("{prefix}handover_{name}_per_bare_{name}"), ours / bare, tail);
        report.value(format!("{prefix}handover_{name}_per_median"), ours / medians[0], tail);
        report.value(format!("{prefix}bare_{name}_per_median"), bare / medians[1], Limit::None);
        report.value(format!("{prefix}handover_{name}_us"), ours / 1e3, Limit::None);
    }
}

/// Two who hand one lock to and fro.
struct Pair {
    players: Vec<Player>,
    /// Of each player.
    threads: usize,
}

impl Pair {
    fn of_processes(server: &Server) -> Pair {
        Pair::begin(server, 2)
    }

    fn of_threads(server: &Server) -> Pair {
        Pair::begin(server, 1)
    }

    fn begin(server: &Server, processes: usize) -> Pair {
        let players = (0..processes).map(|_| Player::start(&server.url())).collect();
        let mut pair = Pair { players, threads: 2 / processes };
        let monitor = Monitor::start(server);
        // The first blocks open connections and the inbox.
        pair.handovers("library");
        pair.handovers("library");
        monitor.wait_idle();
        assert_same_messages(LIBRARY_KEY, &monitor.client_commands());
        drop(monitor);
        pair.handovers("chain");
        pair
    }

    /// One block: the times of all hand-overs between the two, in nanoseconds.
    fn handovers(&mut self, subject: &str) -> Vec<f64> {
        let threads = self.threads;
        self.players.iter_mut().for_each(|player| player.send(&format!("{subject} {threads} {HOLDS}")));
        let took: Vec<Vec<Hold>> =
            self.players.iter_mut().flat_map(|player| (0..threads).map(|_| player.holds())).collect();
        times_between(&took)
    }

    /// One block: how long texts take from one process through a channel to a reader of the other, in nanoseconds.
    fn wakeups(&mut self) -> Vec<f64> {
        let [publisher, listener] = &mut self.players[..] else { panic!("two processes") };
        listener.send(&format!("listen {HOLDS}"));
        let channel = listener.expect("listening");
        publisher.send(&format!("publish {channel} {HOLDS}"));
        let (published, heard) = (publisher.instants("published"), listener.instants("heard"));
        assert_eq!((published.len(), heard.len()), (HOLDS, HOLDS));
        published.iter().zip(&heard).map(|(sent, read)| (read - sent) as f64).collect()
    }
}

/// Of the hand-overs among the holds of two.
fn times_between(took: &[Vec<Hold>]) -> Vec<f64> {
    let holds = took.iter().enumerate().flat_map(|(number, holds)| holds.iter().map(move |hold| (number, *hold)));
    let mut holds: Vec<(usize, Hold)> = holds.collect();
    holds.sort_by_key(|(_, hold)| hold.granted);
    let mut times = Vec::new();
    for pair in holds.windows(2) {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        assert!(before.fence < after.fence && before.released < after.granted, "one holder at a time: {pair:?}");
        // Otherwise nobody was waiting, or the same one asked again.
        if from != to && after.asked < before.released {
            times.push((after.granted - before.released) as f64);
        }
    }
    assert!(times.len() >= HOLDS, "the two take turns: {holds:?}");
    times
}
