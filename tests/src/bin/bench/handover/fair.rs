//! Sixteen threads of four processes on one lock: who gets it how often, and what it costs the server.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use redlatch_tests::Server;
use redlatch_tests::bench::{Extent, Limit, Report};

use super::player::{Player, now};

const PROCESSES: usize = 4;
const THREADS: usize = 4;
/// Until everyone has joined and every inbox is open.
const BEGIN: Duration = Duration::from_millis(1_000);
/// How long the players go on after what is counted.
const END: Duration = Duration::from_millis(300);

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let mut players: Vec<Player> = (0..PROCESSES).map(|_| Player::start(&server.url())).collect();
    let span = Duration::from_secs(extent.pick(1, 15));
    let whole = BEGIN + span + END;
    players.iter_mut().for_each(|player| player.send(&format!("share {THREADS} {}", whole.as_millis())));
    thread::sleep(BEGIN);
    server.reset_stats();
    let begin = now();
    thread::sleep(span);
    let end = now();
    let commands = client_commands(&server.command_counts());
    let mut shares = Vec::new();
    for player in &mut players {
        for grants in player.expect("shared").split_whitespace() {
            let times = grants.split(',').map(|time| time.parse::<u64>().expect("a time"));
            shares.push(times.filter(|time| (begin..end).contains(time)).count());
        }
    }
    assert_eq!(shares.len(), PROCESSES * THREADS);
    let least = shares.iter().min().copied().unwrap_or(0) as f64;
    let most = shares.iter().max().copied().unwrap_or(0) as f64;
    let acquisitions = shares.iter().sum::<usize>() as f64;
    report.value("least_share_per_largest", least / most, Limit::AtLeast(0.95));
    report.value("commands_per_acquisition", commands as f64 / acquisitions, Limit::AtMost(4.0));
    report.value("acquisitions_per_second", acquisitions / span.as_secs_f64(), Limit::None);
}

/// What scripts call and clients of this benchmark do not send; what the harness itself sends.
const NOT_OF_CLIENTS: [&str; 22] = [
    "get",
    "set",
    "del",
    "exists",
    "pttl",
    "pexpire",
    "time",
    "zscore",
    "zrem",
    "zadd",
    "zrank",
    "zrange",
    "hget",
    "hset",
    "hdel",
    "hgetall",
    "pubsub|numsub",
    "pubsub",
    "publish",
    "info",
    "config",
    "config|resetstat",
];

/// How many commands clients have sent.
pub(crate) fn client_commands(counts: &BTreeMap<String, u64>) -> u64 {
    counts.iter().filter(|(name, _)| !NOT_OF_CLIENTS.contains(&name.as_str())).map(|(_, calls)| calls).sum()
}
