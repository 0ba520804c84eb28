//! An uncontended acquire and release of one thread.

use std::cell::RefCell;
use std::fs;
use std::time::{Duration, Instant};

use redlatch::{Lock, Released};
use redlatch_tests::bench::{Extent, Limit, Report, Spread, Unit, in_turns, nanos, patient_client};
use redlatch_tests::{Monitor, Server};
use rustix::time::{ClockId, clock_gettime};

use super::bare::{Bare, Manner};
use super::open_inbox;

/// Pairs in a block, of which the median counts.
const CALLS: usize = 50;
/// Pairs whose commands are counted.
const COUNTED: usize = 200;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let client = patient_client(server);
    let lock = client.lock("bench:uncontended").expect("the name is valid");
    // Opens the connection, loads the scripts, starts the threads.
    pair(&lock);

    let monitor = Monitor::start(server);
    pair(&lock);
    monitor.wait_idle();
    let bare = Bare::replaying(server, &monitor.client_commands());
    let commands = commands_of(&monitor, || pair(&lock));

    // Once a client has waited for any lock, it asks for each with its inbox.
    let listening = patient_client(server);
    open_inbox(server, &listening);
    let lock_with_inbox = listening.lock("bench:uncontended").expect("the name is valid");
    pair(&lock_with_inbox);
    let commands_with_inbox = commands_of(&monitor, || pair(&lock_with_inbox));
    let pushed = monitor.client_commands().iter().any(|line| line.mentions("redlatch:inbox:"));
    assert!(pushed, "the requests name the inbox");
    drop(monitor);

    server.reset_stats();
    let (bare, meter) = (RefCell::new(bare), Meter { server: server.pid() });
    let costs = in_turns(
        extent.pick(Duration::from_secs(2), Duration::from_secs(36)),
        &mut [
            &mut || meter.block(|| pair(&lock)),
            &mut || meter.block(|| pair(&lock_with_inbox)),
            &mut || meter.block(|| bare.borrow_mut().scripts()),
            &mut || meter.block(|| bare.borrow_mut().scripts_in(Manner::Plain)),
            &mut || meter.block(|| bare.borrow_mut().naive()),
            &mut || meter.block(|| bare.borrow_mut().two_pings()),
        ],
    );
    // All scripts of the measured rounds, and of the one before them: nothing was repeated unseen.
    let pairs = ((costs[0].len() + 1) * CALLS) as u64;
    let scripts = server.command_counts().get("evalsha").copied();
    assert_eq!(scripts, Some((2 + 2 + 2 + 2 + 1) * pairs), "two scripts of each client, twice two bare, one by hand");

    let names = [
        "acquire + release",
        "acquire + release, inbox open",
        "the two scripts bare",
        "the two scripts bare, written at once",
        "SET NX PX + compare-and-delete",
        "2 × PING",
    ];
    for (name, costs) in names.iter().zip(&costs) {
        report.row((*name).to_owned(), Unit::Micros, of(costs, |it| it.wall));
        report.row(format!("{name}: CPU of the client"), Unit::Micros, of(costs, |it| it.client));
        report.row(format!("{name}: CPU of the server"), Unit::Micros, of(costs, |it| it.server));
    }
    let walls = costs.map(|costs| costs.iter().map(|it| it.wall).collect::<Vec<f64>>());
    let [library, with_inbox, scripts, written, naive, pings] = &walls;
    report.ratio("pair_per_bare_scripts", Spread::of_ratios(library, scripts), Limit::AtMost(1.05));
    report.ratio("pair_with_inbox_per_bare_scripts", Spread::of_ratios(with_inbox, scripts), Limit::AtMost(1.05));
    report.ratio("pair_per_bare_scripts_written_at_once", Spread::of_ratios(library, written), Limit::None);
    report.ratio("pair_per_set_nx_px_and_delete", Spread::of_ratios(library, naive), Limit::AtMost(1.20));
    report.ratio("pair_per_two_pings", Spread::of_ratios(library, pings), Limit::None);
    report.ratio("bare_scripts_per_set_nx_px_and_delete", Spread::of_ratios(scripts, naive), Limit::None);
    report.value("commands_per_pair", commands, Limit::Exactly(2.0));
    report.value("commands_per_pair_with_inbox", commands_with_inbox, Limit::Exactly(2.0));
}

/// Commands of clients for each call of `work`, without the PING by which an open inbox proves every second that its
/// connection lives.
fn commands_of(monitor: &Monitor, mut work: impl FnMut()) -> f64 {
    monitor.wait_idle();
    monitor.clear();
    (0..COUNTED).for_each(|_| work());
    monitor.wait_idle();
    monitor.count(|line| !line.is("PING")) as f64 / COUNTED as f64
}

/// What one call costs, in nanoseconds.
struct Cost {
    /// Time that passes: the median of a block.
    wall: f64,
    /// CPU time of the calling thread: the mean of a block. It stays about the same on a busy machine.
    client: f64,
    /// CPU time of the server's main thread: the mean of a block.
    server: f64,
}

fn of(costs: &[Cost], pick: fn(&Cost) -> f64) -> Spread {
    Spread::of(costs.iter().map(pick).collect())
}

/// Measures blocks of calls.
struct Meter {
    server: u32,
}

impl Meter {
    fn block(&self, mut work: impl FnMut()) -> Cost {
        let mut walls = Vec::with_capacity(CALLS);
        let (client, server) = (thread_cpu(), self.server_cpu());
        for _ in 0..CALLS {
            let begin = Instant::now();
            work();
            walls.push(nanos(begin.elapsed()));
        }
        let (client, server) = (thread_cpu() - client, self.server_cpu() - server);
        Cost { wall: Spread::of(walls).median, client: client / CALLS as f64, server: server / CALLS as f64 }
    }

    /// In nanoseconds; 0 where the kernel does not tell.
    fn server_cpu(&self) -> f64 {
        let path = format!("/proc/{pid}/task/{pid}/schedstat", pid = self.server);
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
    }
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// One acquire and release.
pub(crate) fn pair(lock: &Lock) {
    let guard = lock.acquire().expect("the lock is granted");
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
}

/// The median time of so many pairs, in nanoseconds.
pub(crate) fn median_of_pairs(lock: &Lock, pairs: usize) -> f64 {
    let times = (0..pairs).map(|_| {
        let begin = Instant::now();
        pair(lock);
        nanos(begin.elapsed())
    });
    Spread::of(times.collect()).median
}
