//! From just before a release to the return of acquire in a waiter of another process.

use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit};

use super::player::{Player, Stage};

const SUBJECTS: [&str; 3] = ["library", "redis-py", "python-redis-lock"];
/// Hand-overs in a block, of which the median counts.
const HANDOVERS: usize = 5;
/// How long a lock is kept at least once its next holder waits, in milliseconds.
const LEAST_HOLD: f64 = 20.0;
/// How much longer at most: redis-py's lock asks every 100 ms, and the release may fall anywhere in between.
const PHASES: f64 = 100.0;
/// Multiples of the golden ratio fall evenly between whole numbers, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let mut games = SUBJECTS.map(|subject| Game::begin(stage, subject));
    // The first ones open connections and inboxes, on both sides.
    for game in &mut games {
        game.handover(LEAST_HOLD);
        game.handover(LEAST_HOLD);
    }
    let mut all = [const { Vec::new() }; 3];
    let mut medians = [const { Vec::new() }; 3];
    for round in 0..extent.pick(10, 50) {
        // Who begins changes from round to round.
        for turn in 0..games.len() {
            let subject = (round + turn) % games.len();
            let times = games[subject].block(round);
            medians[subject].push(Spread::of(times.clone()).median);
            all[subject].extend(times);
        }
    }
    let [library, redis_py, python_redis_lock] = medians;
    for (times, name) in all.into_iter().zip(["Python", "redis-py's Lock", "python-redis-lock"]) {
        report.row(format!("hand-over by {name}"), Unit::Micros, Spread::of(times));
    }
    let per_library = Spread::of_ratios(&redis_py, &library);
    report.ratio("redis_py_handover_per_python_handover", per_library, Limit::AtLeast(100.0));
    let per_peer = Spread::of_ratios(&library, &python_redis_lock);
    report.ratio("python_handover_per_python_redis_lock", per_peer, Limit::AtMost(1.0));
}

/// Two processes that hand one lock to and fro.
struct Game {
    subject: &'static str,
    players: [Player; 2],
    holder: usize,
}

impl Game {
    fn begin(stage: &Stage<'_>, subject: &'static str) -> Game {
        let mut players = [Player::start(stage), Player::start(stage)];
        players[0].send(&format!("hold {subject}"));
        players[0].expect::<u64>("held");
        Game { subject, players, holder: 0 }
    }

    /// The times of one block, in nanoseconds.
    fn block(&mut self, round: usize) -> Vec<f64> {
        let phases = (round * HANDOVERS..).map(|number| (number as f64 * GOLDEN).fract() * PHASES);
        phases.filter_map(|phase| self.handover(LEAST_HOLD + phase)).take(HANDOVERS).collect()
    }

    /// One hand-over, so many milliseconds after its waiter was about to ask; `None` when on a busy machine the waiter
    /// asked only after the release.
    fn handover(&mut self, hold: f64) -> Option<f64> {
        let (from, to) = (self.holder, 1 - self.holder);
        self.players[to].send(&format!("wait {}", self.subject));
        self.players[to].expect::<u64>("waits");
        self.players[from].send(&format!("release {} {hold}", self.subject));
        let released = self.players[from].expect::<u64>("released")[0];
        let instants = self.players[to].expect::<u64>("granted");
        let [asked, granted] = instants[..] else { panic!("two instants: {instants:?}") };
        assert!(released < granted, "{}: one holder at a time", self.subject);
        self.holder = to;
        (asked < released).then(|| (granted - released) as f64)
    }
}
