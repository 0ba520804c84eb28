//! Waiters whose process is killed or stopped while they are first in the queue.

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use redlatch::Client;
use redlatch_tests::{Process, Server, any_server, assert_eventually, each_server};

use crate::support::{
    AT_ONCE, Grant, SECOND, acquire, await_inboxes, await_nothing_left, client, give_back, helper, hold, key, ms,
    sibling, start_waiter, subscribers,
};

/// The turn that a silent waiter is given, and what the others may add to it.
const TURN_AND_HALF: std::time::Duration = ms(1_500);

/// A helper process with that many waiters in the queue, and an inbox.
fn victims(server: &Server, count: usize) -> Process {
    let mut process = helper(server);
    process.send(&format!("wait a {count} 0"));
    process.expect("waiting", 10 * SECOND);
    await_inboxes(server, "a", count);
    process
}

/// Stops a process, and waits until it is stopped and everything that it has sent is executed: a waiter that is granted
/// the lock and stopped then would keep it for its ttl.
fn stop(server: &Server, process: &Process) {
    process.pause();
    let stat = format!("/proc/{}/stat", process.pid());
    // The state is the word after the command name, which stands in parentheses.
    let stopped = || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") T"));
    assert_eventually("the process is stopped", SECOND, stopped);
    (0..2).for_each(|_| drop(server.query::<String>(&["PING"])));
}

/// Starts live waiters behind `before` others, runs `fault`, releases, and returns the grants with the time of release.
fn release_to(server: &Server, before: usize, live: usize, fault: impl FnOnce()) -> (Instant, Vec<Grant>) {
    let (holder, waiters) = (client(server), client(server));
    let lease = holder.try_lease("a", Default::default()).unwrap();
    assert!(lease.is_none(), "somebody has it for the victims to wait for");
    let (sender, grants) = mpsc::channel();
    thread::scope(|scope| {
        for n in 0..live {
            start_waiter(scope, &waiters, "a", n, &sender);
            await_inboxes(server, "a", before + n + 1);
        }
        fault();
        let begin = Instant::now();
        assert!(holder.force_release("a").unwrap());
        (begin, grants.iter().take(live).collect())
    })
}

fn a_waiter_is_killed(server: &Server) {
    let holder = client(server);
    let lease = hold(&holder, "a");
    let mut victim = victims(server, 1);
    let (begin, grants) = release_to(server, 1, 2, || victim.kill9());
    let waited = grants[0].at - begin;
    assert!(waited < AT_ONCE, "the next live waiter had the lock after {waited:?}");
    assert_eq!(grants.iter().map(|grant| grant.number).collect::<Vec<_>>(), [0, 1]);
    drop(lease);
    await_nothing_left(server, "a");
}

#[test]
fn a_waiter_killed_while_first_in_the_queue_cost_the_next_one_a_turn() {
    each_server(a_waiter_is_killed);
}

#[test]
fn a_subscriber_to_everything_passed_for_a_killed_waiter() {
    each_server(|server| {
        let mut connection = server.connection();
        let mut listener = connection.as_pubsub();
        listener.psubscribe("*").unwrap();
        a_waiter_is_killed(server);
    });
}

#[test]
fn a_waiter_killed_on_its_turn_kept_the_lock_for_a_ttl() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let lease = hold(&client(&server), "a");
    let mut victim = victims(&server, 1);
    stop(&server, &victim);
    let (begin, grants) = release_to(&server, 1, 1, || {});
    let waited = grants[0].at - begin;
    assert!(waited >= ms(900) && waited < TURN_AND_HALF, "the next live waiter had the lock after {waited:?}");
    victim.kill9();
    drop(lease);
    await_nothing_left(&server, "a");
}

#[test]
fn a_crashed_holder_and_ten_stopped_waiters_left_the_others_asleep() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let waiters = client(&server);
    server.query::<()>(&["SET", &key("a"), "crashed", "PX", "3000"]);
    let lapses = Instant::now() + 3 * SECOND;
    let mut stopped = victims(&server, 10);
    let (sender, grants) = mpsc::channel();
    let first: Grant = thread::scope(|scope| {
        for n in 0..3 {
            start_waiter(scope, &waiters, "a", n, &sender);
            await_inboxes(&server, "a", n + 11);
        }
        stop(&server, &stopped);
        grants.recv().unwrap()
    });
    // Polls alone would come every 2 s.
    let late = first.at.saturating_duration_since(lapses);
    assert!(late < ms(1_200), "a live waiter had the lock {late:?} after it lapsed");
    stopped.resume();
    (0..10).for_each(|_| drop(stopped.expect("released", 10 * SECOND)));
    await_nothing_left(&server, "a");
}

/// A process is stopped with ten waiters first in the queue; `live` others wait behind them.
fn a_process_is_stopped(server: &Server, live: usize) {
    let lease = hold(&client(server), "a");
    let mut stopped = victims(server, 10);
    let (begin, grants) = release_to(server, 10, live, || stop(server, &stopped));
    let first = grants[0].at - begin;
    assert!(first < TURN_AND_HALF, "the first live waiter had the lock after {first:?}");
    let pairs = grants.iter().zip(grants.iter().skip(1));
    for (one, next) in pairs {
        assert!(next.at - one.at < AT_ONCE, "only one turn falls due: {:?} between two grants", next.at - one.at);
    }
    stopped.resume();
    for _ in 0..10 {
        stopped.expect("released", 10 * SECOND);
    }
    drop(lease);
    await_nothing_left(server, "a");
}

#[test]
fn a_stopped_client_with_ten_waiters_first_cost_one_waiter_more_than_a_turn() {
    let Some(kind) = any_server() else { return };
    a_process_is_stopped(&Server::start(kind), 1);
}

#[test]
fn a_stopped_client_with_ten_waiters_first_cost_ten_turns() {
    each_server(|server| a_process_is_stopped(server, 10));
}

#[test]
fn a_subscriber_to_everything_changed_what_a_stopped_client_costs() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let mut connection = server.connection();
    let mut listener = connection.as_pubsub();
    listener.psubscribe("*").unwrap();
    a_process_is_stopped(&server, 10);
}

#[test]
fn every_waiter_of_a_killed_process_is_passed_over_by_one_release() {
    each_server(|server| {
        let lease = hold(&client(server), "a");
        let mut victims: Vec<Process> = (0..3)
            .map(|n| {
                let mut process = helper(server);
                process.send("wait a 20 0");
                process.expect("waiting", 10 * SECOND);
                await_inboxes(server, "a", 20 * (n + 1));
                process
            })
            .collect();
        let (begin, grants) = release_to(server, 60, 1, || victims.iter_mut().for_each(Process::kill9));
        let waited = grants[0].at - begin;
        assert!(waited < AT_ONCE, "the only live waiter had the lock after {waited:?}");
        drop(lease);
        await_nothing_left(server, "a");
    });
}

// A push that goes to nobody: the waiter was granted by a poll, or gave up.
#[test]
fn a_push_for_nobody_disturbed_the_inbox() {
    each_server(|server| {
        let (holder, waiter) = (client(server), client(server));
        let lease = hold(&holder, "a");
        thread::scope(|scope| {
            let granted = scope.spawn(|| acquire(&waiter, "a").release().unwrap());
            await_inboxes(server, "a", 1);
            assert_eq!(subscribers(server), 1);
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling("a", "waiters")]);
            for message in ["", "no-token", "a b\r\n", "00000000-0000-0000-0000-000000000000@host:1"] {
                server.query::<i64>(&["PUBLISH", &inboxes[0], message]);
            }
            redis::cmd("PUBLISH").arg(&inboxes[0]).arg(&[0xff_u8, 0xfe][..]).exec(&mut server.connection()).unwrap();
            assert!(redlatch_tests::eventually(SECOND, || waiter.stats().pushes >= 4));
            let begin = Instant::now();
            give_back(lease);
            let _ = granted.join().unwrap();
            assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
        });
        assert_eq!(Client::stats(&waiter).inbox_lost, 0);
    });
}
