//! What each of many gets, and what it costs the server.

use std::time::Duration;

use redlatch_tests::{Process, Server, any_server, assert_eventually};

use crate::alone::machine_to_myself;
use crate::support::{SECOND, helper};

const PROCESSES: usize = 4;
const THREADS: usize = 4;

/// Rounds of each thread: a few more or less are under one percent.
const ROUNDS: u64 = 500;

fn counts(processes: &mut [Process]) -> Vec<u64> {
    let mut counts = Vec::new();
    for process in processes {
        process.send("counts");
        let line = process.expect("counts", 10 * SECOND);
        counts.extend(line.split_whitespace().skip(1).map(|count| count.parse::<u64>().unwrap()));
    }
    counts
}

/// Commands that clients sent: the scripts, and what their connections cost. Scripts call none of these.
fn client_commands(server: &Server) -> u64 {
    let of_clients = ["evalsha", "eval", "hello", "auth", "select", "ping", "subscribe", "unsubscribe"];
    let counts = server.command_counts();
    let is_clients = |name: &str| of_clients.contains(&name) || name.starts_with("client");
    counts.iter().filter(|(name, _)| is_clients(name)).map(|(_, calls)| calls).sum()
}

#[test]
fn one_of_sixteen_threads_got_more_than_its_share() {
    let _machine = machine_to_myself();
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| helper(&server)).collect();
    for process in &mut processes {
        process.send(&format!("load a {THREADS}"));
    }
    assert_eventually("all are under way", 20 * SECOND, || counts(&mut processes).iter().all(|count| *count >= 3));

    // A thread whose processor is taken away for a quarter of a second loses its rounds: a window may be spoilt, while
    // what is unfair by itself shows in all of them.
    let mut windows = Vec::new();
    for _ in 0..3 {
        let shares = one_window(&server, &mut processes);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        if ((most - least) as f64) < 0.05 * *most as f64 {
            return;
        }
        windows.push(shares);
    }
    panic!("shares differ by five percent or more: {windows:?}");
}

/// What each thread gets in some hundred rounds, at four commands for each acquisition at most.
fn one_window(server: &Server, processes: &mut [Process]) -> Vec<u64> {
    let (commands, before) = (client_commands(server), counts(processes));
    let mut shares: Vec<u64> = Vec::new();
    assert_eventually("they have had enough rounds", Duration::from_secs(40), || {
        std::thread::sleep(Duration::from_millis(100));
        shares = counts(processes).iter().zip(&before).map(|(now, before)| now - before).collect();
        shares.iter().all(|share| *share >= ROUNDS)
    });
    let commands = client_commands(server) - commands;
    assert_eq!(shares.len(), PROCESSES * THREADS);
    let each = commands as f64 / shares.iter().sum::<u64>() as f64;
    assert!(each <= 4.0, "{each:.2} commands for each acquisition");
    shares
}
