//! Threads of one process, each on a lock of its own.

use std::cell::{Cell, RefCell};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, Lock, options::POOL_SIZE};
use redlatch_tests::bench::{Extent, Limit, Line, Plot, Report, Spread, rounds_in_turns};
use redlatch_tests::{Monitor, Server};

use super::{MOST, steps};
use crate::core::bare::Bare;
use crate::core::pair::pair;

/// A stall of the machine is no part of what is measured, and a request that is sent twice would count as two.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let mut bare = bare_connections(server);
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for &threads in steps(extent) {
        let fits = locks(&client(server, threads as u32), threads);
        let default_pool = locks(&client(server, POOL_SIZE.default), threads);
        let bare = RefCell::new(&mut bare[..threads]);
        let span = Duration::from_millis(extent.pick(if threads == MOST { 80 } else { 40 }, 100));
        open_connections(server, span, &fits);
        open_connections(server, span, &default_pool);
        server.reset_stats();
        let rounds = extent.pick(if threads == MOST { 4 } else { 3 }, 30);
        let pairs = Cell::new(0);
        let count = |block: Block| {
            pairs.set(pairs.get() + block.pairs);
            block.per_second
        };
        let rates = rounds_in_turns(
            rounds,
            &mut [
                &mut || count(Block::of_pairs(span, &fits)),
                &mut || count(Block::of_pairs(span, &default_pool)),
                &mut || count(Block::measure(span, bare.borrow_mut().iter_mut().map(|it| || it.scripts()).collect())),
            ],
        );
        // Nothing was repeated unseen, or left out.
        let scripts = server.command_counts().get("evalsha").copied();
        assert_eq!(scripts, Some(2 * pairs.get()), "two scripts for each pair of {threads} threads");
        tell(threads, &rates, report);
        for (line, rates) in lines.iter_mut().zip(rates) {
            line.push((threads as f64, Spread::of(rates).median));
        }
    }
    let names =
        ["redlatch, as many connections as threads", "redlatch, default pool", "bare scripts, a connection each"];
    let line = |(name, points): (&str, Vec<(f64, f64)>)| Line { name: name.to_owned(), points };
    report.plot(Plot {
        file: "separate-locks".to_owned(),
        title: "Threads of one process on separate locks".to_owned(),
        x: "threads".to_owned(),
        y: "acquire + release/s".to_owned(),
        lines: names.into_iter().zip(lines).map(line).collect(),
    });
}

fn tell(threads: usize, [fits, default_pool, bare]: &[Vec<f64>; 3], report: &mut Report) {
    let limit = if threads == MOST { Limit::AtLeast(0.9) } else { Limit::None };
    let name = |what: &str| format!("separate_locks_{threads}_threads_{what}");
    report.ratio(name("pairs_per_second"), Spread::of(fits.clone()), Limit::None);
    report.ratio(name("per_bare_connections"), Spread::of_ratios(fits, bare), limit);
    if threads == MOST {
        let per_bare = Spread::of_ratios(default_pool, bare);
        report.ratio(name("default_pool_per_bare_connections"), per_bare, Limit::None);
        let median = Spread::of(default_pool.clone()).median;
        report.note(format!(
            "one pool of {} connections, the default, gives {threads} threads {median:.0} pairs/s: {:.2} of what as many \
             bare connections give",
            POOL_SIZE.default, per_bare.median
        ));
    }
}

fn client(server: &Server, pool_size: u32) -> Client {
    let builder = Client::builder(&server.url()).connect_timeout(PATIENCE).io_timeout(PATIENCE).pool_size(pool_size);
    builder.build().expect("the options are valid")
}

fn locks(client: &Client, count: usize) -> Vec<Lock> {
    (0..count).map(|number| client.lock(&format!("bench:separate:{number:02}")).expect("the name is valid")).collect()
}

/// Runs blocks that do not count until the client needs no more connections.
fn open_connections(server: &Server, span: Duration, locks: &[Lock]) {
    let mut open = String::new();
    loop {
        Block::of_pairs(span, locks);
        let before = std::mem::replace(&mut open, server.info("clients", "connected_clients"));
        if open == before {
            return;
        }
    }
}

/// A connection for each of the locks, on which its two scripts are replayed.
fn bare_connections(server: &Server) -> Vec<Bare> {
    let locks = locks(&client(server, 1), MOST);
    pair(&locks[0]);
    let monitor = Monitor::start(server);
    locks.iter().for_each(pair);
    monitor.wait_idle();
    monitor.client_commands().chunks(2).map(|commands| Bare::replaying(server, commands)).collect()
}

/// What threads did within a span.
struct Block {
    pairs: u64,
    per_second: f64,
}

impl Block {
    /// A pair of each lock, again and again.
    fn of_pairs(span: Duration, locks: &[Lock]) -> Block {
        Block::measure(span, locks.iter().map(|lock| || pair(lock)).collect())
    }

    /// Each of `works` on a thread of its own, all at once and again and again until the span has passed.
    fn measure(span: Duration, works: Vec<impl FnMut() + Send>) -> Block {
        let together = Barrier::new(works.len());
        let done: Vec<Done> = thread::scope(|scope| {
            let start = |work| scope.spawn(|| Done::repeating(span, &together, work));
            let threads: Vec<_> = works.into_iter().map(start).collect();
            threads.into_iter().map(|it| it.join().expect("no thread panics")).collect()
        });
        let begin = done.iter().map(|it| it.begin).min().expect("there are threads");
        let end = done.iter().map(|it| it.end).max().expect("there are threads");
        let pairs = done.iter().map(|it| it.pairs).sum::<u64>();
        Block { pairs, per_second: pairs as f64 / (end - begin).as_secs_f64() }
    }
}

/// What one thread did.
struct Done {
    begin: Instant,
    end: Instant,
    pairs: u64,
}

impl Done {
    fn repeating(span: Duration, together: &Barrier, mut work: impl FnMut()) -> Done {
        together.wait();
        let (begin, mut pairs) = (Instant::now(), 0);
        loop {
            work();
            pairs += 1;
            if begin.elapsed() >= span {
                return Done { begin, end: Instant::now(), pairs };
            }
        }
    }
}
