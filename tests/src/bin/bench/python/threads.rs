//! A process that holds a thousand locks while they are renewed.

use std::thread;
use std::time::{Duration, Instant};

use redlatch::options::RENEWAL_THREADS;
use redlatch_tests::bench::{Extent, Limit, Report};

use super::player::{Player, Stage};

const LOCKS: usize = 1_000;
pub(crate) fn run(stage: &Stage<'_>, extent: Extent, report: &mut Report) {
    let ttl = Duration::from_secs(extent.pick(17, 30));
    let mut player = Player::start(stage);
    player.send(&format!("many {LOCKS} {}", ttl.as_secs()));
    player.expect::<u64>("held");

    // Each is renewed after a third of its ttl.
    let wanted = extent.pick(1, 3) * LOCKS;
    let end = Instant::now() + 4 * ttl;
    let (mut most_threads, mut renewed, mut lost) = (0, 0, 0);
    while renewed < wanted {
        assert!(Instant::now() < end, "{renewed} renewals, where {wanted} were due long ago");
        thread::sleep(ttl / 60);
        player.send("look");
        let looked = player.expect::<usize>("looked");
        let [threads, renewals, losses] = looked[..] else { panic!("three numbers: {looked:?}") };
        if renewals > 0 {
            // Those that end when they have nothing to do have ended by now.
            most_threads = most_threads.max(threads);
        }
        renewed = renewals;
        lost = lost.max(losses);
    }
    let keys: Vec<String> = (0..LOCKS).map(|number| format!("lock:bench:many:{number}")).collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(keys.iter().map(String::as_str));
    let on_server: usize = stage.server.query(&exists);
    lost = lost.max(LOCKS - on_server);

    let most = f64::from(RENEWAL_THREADS.default + 4);
    report.value("threads_of_1000_held_locks", most_threads as f64, Limit::AtMost(most));
    report.value("lost_of_1000_held_locks", lost as f64, Limit::Exactly(0.0));
    report.value("renewals_of_each_held_lock", renewed as f64 / LOCKS as f64, Limit::None);
}
