//! Threads of one process that wait for one lock: what they send while nothing happens, what they take in memory, and how
//! soon the first is woken.

pub(crate) mod player;

use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Released};
use redlatch_tests::bench::{Limit, Line, Plot, Report, Spread, Unit, quantile};
use redlatch_tests::{Server, assert_eventually, rss_bytes_of};

use crate::Stage;
use crate::handover::fair::client_commands;
use crate::handover::player::now;
use player::{Kind, LOCK, Player};

/// How many wait, and for how long their load is looked at.
struct Size {
    waiters: usize,
    /// After they have joined, before their load counts.
    settling: Duration,
    /// So many seconds of load.
    seconds: u32,
}

const fn size(waiters: usize, settling_ms: u64, seconds: u32) -> Size {
    Size { waiters, settling: Duration::from_millis(settling_ms), seconds }
}

/// Those far behind in the queue ask every 24 to 36 s. All have joined at about the same time, so that they ask for the
/// first time within a part of that span: 30 s from 18 s on count each of them about once, which is the rate in the long run.
const FULL: [Size; 5] =
    [size(1, 500, 4), size(10, 1_000, 5), size(100, 2_000, 14), size(1_000, 18_000, 30), size(10_000, 18_000, 30)];
const QUICK: [Size; 3] = [size(1, 100, 1), size(100, 200, 1), size(1_000, 700, 1)];

pub(crate) fn run(stage: &Stage, report: &mut Report) {
    let sizes = stage.extent.pick(&QUICK[..], &FULL[..]);
    let measured: Vec<Waiting> = sizes.iter().map(|size| measure(&stage.server, size, report)).collect();
    for waiting in &measured {
        waiting.report(report);
    }
    let largest = measured.last().expect("there are sizes");
    report.value("bytes_per_waiter", largest.heap, Limit::AtMost(4096.0));
    report.value("resident_bytes_per_waiter", largest.resident, Limit::None);
    report.value("server_bytes_per_waiter", largest.server, Limit::None);
    report.note(format!(
        "bytes_per_waiter: heap that each of {} waiting threads has allocated, and the size of its lock and request; \
         resident: their process less one of as many threads that only sleep, stacks that were used deeper included",
        largest.waiters
    ));
    let points = |pick: fn(&Waiting) -> f64| measured.iter().map(|it| (it.waiters as f64, pick(it))).collect();
    report.plot(Plot {
        file: "waiters-load".to_owned(),
        title: "Load of waiters while nothing happens".to_owned(),
        x: "waiters for one lock".to_owned(),
        y: "commands per second".to_owned(),
        lines: vec![
            Line { name: "mean".to_owned(), points: points(|it| it.load) },
            Line { name: "busiest second".to_owned(), points: points(|it| it.peak) },
        ],
    });
}

/// What so many waiters cost.
struct Waiting {
    waiters: usize,
    joining: Duration,
    /// Commands per second.
    load: f64,
    peak: f64,
    /// Bytes for each waiter.
    heap: f64,
    resident: f64,
    server: f64,
    /// From just before a release to the grant, in nanoseconds: the first, and those after it.
    first_wake: f64,
    wakes: Vec<f64>,
}

fn measure(server: &Server, size: &Size, report: &mut Report) -> Waiting {
    server.flush();
    let asleep = Player::start(server, Kind::Asleep, size.waiters);
    let resident_asleep = rss_bytes_of(asleep.pid());
    let asleep_threads = asleep.threads();
    drop(asleep);

    let client = Client::open(&server.url()).expect("the URL is valid");
    let guard = client.lock(LOCK).and_then(|lock| lock.acquire()).expect("the lock is free");
    let begin = Instant::now();
    let mut player = Player::start(server, Kind::Waiting, size.waiters);
    let waiters = player.threads();
    if waiters < size.waiters {
        report.note(format!("the system allows {waiters} threads of {}", size.waiters));
    }
    let queue = format!("{{lock:{LOCK}}}:redlatch:queue");
    let joined = || server.query::<usize>(&["ZCARD", &queue]) == waiters;
    assert_eventually("all have joined the queue", Duration::from_secs(60), joined);
    let joining = begin.elapsed();
    let inboxes = || server.query::<Vec<String>>(&["PUBSUB", "CHANNELS"]).len();
    assert_eventually("the inbox is open", Duration::from_secs(10), || inboxes() == 1);
    thread::sleep(size.settling);

    let seconds: Vec<f64> = (0..size.seconds).map(|_| commands_of_a_second(server)).collect();
    let resident = rss_bytes_of(player.pid()) as f64 / waiters as f64 - resident_asleep as f64 / asleep_threads as f64;
    let sibling = |role: &str| format!("{{lock:{LOCK}}}:redlatch:{role}");
    let usage = |key: &str| server.query::<Option<usize>>(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).unwrap_or(0);
    let on_server = usage(&sibling("queue")) + usage(&sibling("waiters"));

    let released = now();
    assert_eq!(guard.release().expect("the lock is released"), Released::Released);
    let holds = player.holds();
    let mut wakes = vec![holds[0].granted.saturating_sub(released) as f64];
    wakes.extend(holds.windows(2).map(|pair| pair[1].granted.saturating_sub(pair[0].released) as f64));
    Waiting {
        waiters,
        joining,
        load: seconds.iter().sum::<f64>() / seconds.len() as f64,
        peak: quantile(&seconds, 1.0),
        heap: player.heap_bytes() as f64 / waiters as f64,
        resident,
        server: on_server as f64 / waiters as f64,
        first_wake: wakes[0],
        wakes,
    }
}

fn commands_of_a_second(server: &Server) -> f64 {
    server.reset_stats();
    let begin = Instant::now();
    thread::sleep(Duration::from_secs(1));
    client_commands(&server.command_counts()) as f64 / begin.elapsed().as_secs_f64()
}

impl Waiting {
    fn report(&self, report: &mut Report) {
        let waiters = self.waiters;
        report.row(format!("release to grant, {waiters} waiters"), Unit::Micros, Spread::of(self.wakes.clone()));
        let mut value =
            |name: &str, value: f64| report.value(format!("{name}_of_{waiters}_waiters"), value, Limit::None);
        value("commands_per_s", self.load);
        value("commands_in_busiest_s", self.peak);
        value("first_woken_after_micros", self.first_wake / 1e3);
        value("seconds_to_join", self.joining.as_secs_f64());
    }
}
