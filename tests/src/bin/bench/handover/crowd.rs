//! Two thousand threads of one process wait for one lock.

use std::thread;
use std::time::Duration;

use redlatch::{Client, Released};
use redlatch_tests::bench::{Extent, Limit, Report};
use redlatch_tests::{Server, assert_eventually};

use super::fair::client_commands;
use super::player::{CROWDED, Player};

const WAITERS: u64 = 2_000;
/// The load is looked at this often.
const SLICE: Duration = Duration::from_secs(1);

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = Client::open(&server.url()).expect("the URL is valid");
    let guard = client.lock(CROWDED).and_then(|lock| lock.acquire()).expect("the lock is free");
    let mut player = Player::start(&server.url());
    player.send(&format!("crowd {WAITERS}"));
    player.expect("crowded");
    let queue = format!("{{lock:{CROWDED}}}:redlatch:queue");
    let joined = || server.query::<u64>(&["ZCARD", &queue]) == WAITERS;
    assert_eventually("all have joined the queue", Duration::from_secs(10), joined);
    // Those who joined before the inbox was open ask again within 0.2 s.
    thread::sleep(Duration::from_millis(500));
    let subscribers: String = server.query(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    // The player's other inbox is that of the bare messages.
    let inboxes = subscribers.lines().count() - 1;

    let slices: Vec<u64> = (0..extent.pick(2, 75))
        .map(|_| {
            server.reset_stats();
            thread::sleep(SLICE);
            client_commands(&server.command_counts())
        })
        .collect();
    let load = slices.iter().sum::<u64>() as f64 / slices.len() as f64;
    let peak = slices.iter().max().copied().unwrap_or(0) as f64;

    server.reset_stats();
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
    let served = player.expect("served");
    let numbers: Vec<u64> = served.split_whitespace().map(|text| text.parse().expect("a number")).collect();
    let [came, pushes, _polls] = numbers[..] else { panic!("three numbers: {served:?}") };
    assert_eq!(came, WAITERS, "everyone was served: {}", player.complaints());
    let counts = server.command_counts();
    let published = counts.get("publish").copied().unwrap_or(0);
    // Every release but the last one finds a waiter; the first is the holder's.
    report.value("inbox_connections_of_a_process", inboxes as f64, Limit::Exactly(1.0));
    report.value("messages_per_release_with_waiters", published as f64 / WAITERS as f64, Limit::Exactly(1.0));
    report.value("messages_received_per_waiter", pushes as f64 / WAITERS as f64, Limit::None);
    report.value("commands_per_waiter_served", client_commands(&counts) as f64 / WAITERS as f64, Limit::None);
    report.value("poll_load_of_2000_waiters_per_second", load, Limit::AtMost(100.0));
    report.value("poll_load_peak_second", peak, Limit::None);
}
