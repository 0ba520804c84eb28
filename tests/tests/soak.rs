//! A short run of the soak test, and what such runs have found.

use std::path::Path;
use std::time::Duration;

use redlatch::Client;
use redlatch_tests::{Monitor, Process, Server, any_server, assert_eventually};

const SOAK: &str = env!("CARGO_BIN_EXE_soak");

// Processes that share a lock die and stall at random moments.
#[test]
fn processes_that_are_killed_and_stopped_leave_no_overlap_orphan_or_hung_waiter() {
    if any_server().is_none() {
        return;
    }
    let mut soak = Process::start(SOAK, ["--seconds", "10"]);
    let status = soak.wait_exit(Duration::from_secs(60)).expect("the run is bounded");
    assert!(status.success(), "{}\n{}", soak.lines().join("\n"), soak.error_lines().join("\n"));
}

/// A process of the soak test, whose threads take turns on one lock.
fn worker(server: &Server, journal: &Path, threads: &str) -> Process {
    Process::start(SOAK, ["worker", &server.url(), &journal.display().to_string(), "1", threads])
}

/// Acquires that tell the server where to wake the waiter, and those that name no inbox.
fn joins(monitor: &Monitor) -> Vec<bool> {
    // EVALSHA, hash, 7, seven keys, token, ttl, fence retention, mode, score, inbox.
    let commands = monitor.client_commands();
    let joins = commands.iter().filter(|line| line.args.get(13).is_some_and(|mode| mode == "join"));
    joins.map(|line| line.args[15] != "-").collect()
}

// The kernel ends a socket read that has a time limit with EINTR when the process goes on.
#[test]
fn a_process_that_was_stopped_keeps_its_inbox() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let monitor = Monitor::start(&server);
    let journals = ["one", "other"].map(|name| server.dir().join(name));
    let workers = journals.each_ref().map(|journal| worker(&server, journal, "2"));
    let ready = || monitor.count(|line| line.is("SUBSCRIBE")) == 2 && joins(&monitor).ends_with(&[true; 30]);
    assert_eventually("both have an inbox", Duration::from_secs(10), ready);
    monitor.clear();
    for round in 1..=3 {
        workers[0].pause();
        workers[0].resume();
        assert_eventually("they go on", Duration::from_secs(10), || joins(&monitor).len() > round * 50);
    }
    monitor.wait_idle();
    assert_eq!(monitor.count(|line| line.is("SUBSCRIBE")), 0);
    assert!(joins(&monitor).iter().all(|has_inbox| *has_inbox), "every waiter can be woken");
}

// A turn that falls due costs all waiters of its inbox their places; until they ask again nobody wakes them.
#[test]
fn the_waiters_of_a_process_that_was_stopped_do_not_sleep_on_out_of_the_queue() {
    const THREADS: usize = 128;
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let journal = server.dir().join("journal");
    let lines = || -> Vec<String> {
        std::fs::read_to_string(&journal).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let stopped = worker(&server, &journal, &THREADS.to_string());
    assert_eventually("all take turns", Duration::from_secs(30), || lines().len() > THREADS * 12);
    stopped.pause();
    let client = Client::open(&server.url()).expect("the URL is valid");
    let lock = client.lock("soak").expect("the name is valid");
    let dropped = || {
        drop(lock.try_acquire().expect("the server answers"));
        server.query::<usize>(&["ZCARD", "{lock:soak}:redlatch:queue"]) == 0
    };
    assert_eventually("its waiters are out of the queue", Duration::from_secs(10), dropped);
    let before = lines().len();
    stopped.resume();
    let everyone_again = || {
        let lines = lines();
        let granted =
            |thread: usize| lines[before..].iter().any(|line| line.starts_with(&format!("{thread} granted ")));
        (0..THREADS).all(granted)
    };
    assert_eventually("every thread has the lock again", Duration::from_secs(3), everyone_again);
}
