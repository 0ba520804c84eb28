//! From just before a release to the grant in a waiter of another process.

use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, quantile};
use redlatch_tests::{Monitor, Server};

use super::chain::assert_same_messages;
use super::player::{Hold, LIBRARY_KEY, Player};

/// Holds of each player in a block, of which the median counts.
const HOLDS: usize = 25;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let mut players = [Player::start(&server.url()), Player::start(&server.url())];
    let monitor = Monitor::start(server);
    // The first blocks open connections and the inbox.
    handovers(&mut players, "library");
    handovers(&mut players, "library");
    monitor.wait_idle();
    assert_same_messages(LIBRARY_KEY, &monitor.client_commands());
    drop(monitor);
    handovers(&mut players, "chain");

    let mut rounds = [Vec::new(), Vec::new()];
    let subjects = ["library", "chain"];
    for round in 0..extent.pick(70, 400) {
        // Who begins changes from round to round.
        for turn in 0..2 {
            let subject = (round + turn) % 2;
            rounds[subject].push(handovers(&mut players, subjects[subject]));
        }
    }
    let medians =
        rounds.each_ref().map(|rounds| rounds.iter().map(|it| Spread::of(it.clone()).median).collect::<Vec<_>>());
    let [library, chain] = rounds.map(|rounds| rounds.concat());
    let tails = [&library, &chain].map(|all| quantile(all, 0.99));
    report.row("hand-over by the library", Unit::Micros, Spread::of(library));
    report.row("hand-over by the bare messages", Unit::Micros, Spread::of(chain));
    let all = [Spread::of(medians[0].clone()).median, Spread::of(medians[1].clone()).median];
    report.ratio("handover_per_bare_messages", Spread::of_ratios(&medians[0], &medians[1]), Limit::AtMost(1.3));
    report.value("handover_p99_per_bare_p99", tails[0] / tails[1], Limit::AtMost(3.0));
    report.value("handover_p99_per_median", tails[0] / all[0], Limit::AtMost(3.0));
    report.value("bare_p99_per_median", tails[1] / all[1], Limit::None);
    report.value("handover_p99_us", tails[0] / 1e3, Limit::None);
}

/// One block: the times of all hand-overs between the players, in nanoseconds.
fn handovers(players: &mut [Player; 2], subject: &str) -> Vec<f64> {
    players.iter_mut().for_each(|player| player.send(&format!("{subject} {HOLDS}")));
    let mut holds: Vec<(usize, Hold)> = Vec::new();
    for (number, player) in players.iter_mut().enumerate() {
        holds.extend(player.holds().into_iter().map(|hold| (number, hold)));
    }
    holds.sort_by_key(|(_, hold)| hold.granted);
    let mut times = Vec::new();
    for pair in holds.windows(2) {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        assert!(before.fence < after.fence && before.released < after.granted, "one holder at a time: {pair:?}");
        // Otherwise nobody was waiting, or the same process asked again.
        if from != to && after.asked < before.released {
            times.push((after.granted - before.released) as f64);
        }
    }
    assert!(times.len() >= HOLDS, "the players take turns: {holds:?}");
    times
}
