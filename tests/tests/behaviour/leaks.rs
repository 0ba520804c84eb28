//! Clients that come and go in a process that stays.

use std::fs;
use std::thread;
use std::time::Duration;

use redlatch::{Client, Progress};
use redlatch_tests::{Server, any_server, assert_eventually, rss_bytes};

use crate::alone::alone_with;
use crate::store::{SECOND, ttl};

/// Clients in all, and how many threads use them, each one client after another.
const CLIENTS: usize = 1_000;
const THREADS: usize = 40;

/// What the process may have grown by in the end, in bytes: 8 KiB for each client, of which a leaked one has many times more.
const MEMORY: u64 = 8 * 1_024 * (CLIENTS - CLIENTS / 5) as u64;

/// Counts between two clients, when none is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    threads: usize,
    descriptors: usize,
    connections: u64,
}

impl Left {
    fn now(server: &Server) -> Left {
        let count = |folder: &str| fs::read_dir(folder).expect(folder).count();
        Left {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            connections: server.info("clients", "connected_clients").parse().expect("a number"),
        }
    }
}

/// Opens a client, has it start all that a client can have, and ends it.
fn come_and_go(url: &str, number: usize) {
    let client = Client::builder(url).key_prefix(&format!("leaks:{number}:")).build().unwrap();
    let lease = client.lease("a", ttl(150)).unwrap();
    let mut waiting = client.begin_lease("a", ttl(150), Some(5 * SECOND), None).unwrap();
    let asked = waiting.advance(Duration::ZERO).unwrap();
    assert!(matches!(asked, Progress::Waiting(_)) || !lease.is_held(), "{asked:?}");
    if number.is_multiple_of(4) {
        // A connection of a renewing thread. On a machine that is busy the lease may be lost before that.
        let begun = || client.stats().renewed > 0 || client.stats().lost_total() > 0;
        assert_eventually("it is renewed or lost", 10 * SECOND, begun);
    }
    if !number.is_multiple_of(3) {
        let _ = lease.release();
    }
    match number % 2 {
        0 => client.close(),
        // By its last handle, which is the request's or the lease's.
        _ => drop(client),
    }
}

/// Lets all threads use their share of so many clients, and waits until the last of them is gone.
fn round(server: &Server, clients: usize, before: Option<Left>) -> Left {
    let url = server.url();
    thread::scope(|scope| {
        for worker in 0..THREADS {
            let url = &url;
            scope.spawn(move || (0..clients / THREADS).for_each(|n| come_and_go(url, worker * clients + n)));
        }
    });
    let mut left = Left::now(server);
    if let Some(before) = before {
        // r2d2's thread is told to end and not waited for; the server notices the end of a connection in its own time.
        assert_eventually("every thread, descriptor and connection is gone", 20 * SECOND, || {
            left = Left::now(server);
            left == before
        });
    }
    left
}

#[test]
fn a_thousand_clients_left_threads_connections_or_memory_behind() {
    let Some(kind) = any_server() else { return };
    // One arena: what threads free is used again by others, so that only what is not freed adds up.
    let one_arena = [("MALLOC_ARENA_MAX", "1")];
    alone_with("behaviour::leaks::a_thousand_clients_left_threads_connections_or_memory_behind", &one_arena, || {
        let server = Server::start(kind);
        let idle = Left::now(&server);
        let warm_up = CLIENTS / 5;
        round(&server, warm_up, Some(idle));
        let before = rss_bytes();
        let rest = (CLIENTS - warm_up) / 4;
        let after: Vec<u64> = (0..4)
            .map(|_| {
                round(&server, rest, Some(idle));
                rss_bytes()
            })
            .collect();
        // How many there are at once differs from round to round, and so does what is in use at their end.
        let least = after[2].min(after[3]);
        assert!(least.saturating_sub(before) < MEMORY, "{before} bytes, then {after:?}");
    });
}
