//! The first acquire after the server was away.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, Lock, Result};
use redlatch_tests::Server;
use redlatch_tests::bench::{Extent, Limit, Placement, Report};

/// Pause of a caller that asks again and again.
const PAUSE: Duration = Duration::from_millis(50);
/// Beyond any limit: an acquire that takes longer is reported as this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a caller behaves while the server is away.
#[derive(Clone, Copy, Debug)]
enum Caller {
    /// Blocked in one call all the time.
    Waits,
    /// `acquire()`, which gives up after `unavailable_after`, again and again.
    Acquires,
    /// `try_acquire()` again and again.
    Tries,
}

pub(crate) fn run(server: &Server, placement: Placement, extent: Extent, report: &mut Report) {
    const CALLERS: [Caller; 3] = [Caller::Waits, Caller::Acquires, Caller::Tries];
    let outage = Duration::from_secs(extent.pick(2, 15));
    let client = Client::open(&server.url()).expect("the URL is valid");
    // As many callers as the pool has slots: each has a connection before, and every one of them dies.
    open_connections(&client, 8);

    server.kill();
    let (returned, acquired) = thread::scope(|scope| {
        let callers = CALLERS.map(|caller| {
            let lock = client.lock(&format!("bench:outage:{caller:?}")).expect("the name is valid");
            scope.spawn(move || first_acquire(&lock, caller, outage + PATIENCE))
        });
        thread::sleep(outage);
        let started = Instant::now();
        // Returns when a PING is answered, which was asked every 3 ms: the server is back.
        server.restart();
        let returned = Instant::now();
        placement.pin_server(server.pid());
        report.value("seconds_from_start_of_server_to_pong", (returned - started).as_secs_f64(), Limit::None);
        (returned, callers.map(|caller| caller.join().expect("a caller sees nothing but Unavailable")))
    });
    let late = acquired.map(|at| at.map_or(PATIENCE, |at| at.saturating_duration_since(returned)).as_secs_f64());
    report.value("seconds_to_acquire_after_outage", late.into_iter().fold(0.0, f64::max), Limit::AtMost(1.0));
    report.value("seconds_of_a_caller_blocked_in_one_wait", late[0], Limit::None);
    report.value("seconds_of_one_that_repeats_acquire", late[1], Limit::None);
    report.value("seconds_of_one_that_repeats_try_acquire", late[2], Limit::None);
}

/// When `caller` first gets the lock, asking for `patience` at most.
fn first_acquire(lock: &Lock, caller: Caller, patience: Duration) -> Option<Instant> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        let outcome: Result<_> = match caller {
            Caller::Waits => lock.try_acquire_for(patience),
            Caller::Acquires => lock.acquire().map(Some),
            Caller::Tries => lock.try_acquire(),
        };
        match outcome {
            Ok(Some(guard)) => {
                let at = Instant::now();
                drop(guard);
                return Some(at);
            }
            Ok(None) => panic!("{caller:?}: the lock is free, and an outage is no busy lock"),
            Err(Error::Unavailable { .. }) => thread::sleep(PAUSE),
            Err(error) => panic!("{caller:?}: {error}"),
        }
    }
    None
}

fn open_connections(client: &Client, count: usize) {
    let together = Barrier::new(count);
    thread::scope(|scope| {
        for number in 0..count {
            let (client, together) = (client, &together);
            scope.spawn(move || {
                let lock = client.lock(&format!("bench:warm:{number}")).expect("the name is valid");
                together.wait();
                for _ in 0..50 {
                    drop(lock.acquire().expect("the lock is granted"));
                }
            });
        }
    });
}
