//! Held leases of one client: what their renewal costs client and server, and how late it is.
//!
//! A window begins when every lease has been renewed once and lasts for whole rounds of renewals, by the server's own
//! count, so that it does not matter how the renewals are spread over a round.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use redlatch::{Client, Lease, LockOptions};
use redlatch_tests::bench::{Extent, Limit, Line, Plot, Report};
use redlatch_tests::{Server, assert_eventually, cpu_time_of, rss_bytes, thread_names};

use super::threads;

const SIZES: [usize; 4] = [1, 1_000, 10_000, 100_000];
/// That of the limits.
const LARGEST: usize = 100_000;
/// Threads that acquire the leases: as many as a client has connections for them.
const ACQUIRERS: usize = 8;
/// A script renews so many leases at most, and two threads may be in one.
const ON_THEIR_WAY: u64 = 2 * 256;
/// Keys whose time left is looked at, spread over all.
const SAMPLED: usize = 8;

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    let sizes = extent.pick(&SIZES[..3], &SIZES[..]);
    let trial = Trial {
        server,
        ttl: extent.pick(Duration::from_millis(1500), Duration::from_secs(30)),
        rounds: extent.pick(1, 2),
        pause: extent.pick(Duration::from_millis(20), Duration::from_millis(250)),
    };
    let idle = trial.idle_share(extent.pick(Duration::from_millis(500), Duration::from_secs(10)));
    report.value("server_share_without_leases", idle, Limit::None);
    let measured: Vec<Held> = sizes.iter().map(|leases| trial.measure(*leases)).collect();
    for held in &measured {
        held.report(idle, report);
    }
    report.note(format!(
        "ttl {:?}, whole rounds of renewals: {}; shares are of one core, the server's less its share without leases; \
         lateness counts from a third of the ttl after the last renewal until the next one is sent",
        trial.ttl, trial.rounds
    ));
    plots(trial.ttl, idle, &measured, report);
}

struct Trial<'a> {
    server: &'a Server,
    ttl: Duration,
    rounds: u64,
    /// Between two looks at the server.
    pause: Duration,
}

/// What so many leases cost.
struct Held {
    leases: usize,
    acquiring: Duration,
    heap: f64,
    resident: f64,
    requests_per_second: f64,
    renewed_per_second: f64,
    server_share: f64,
    client_share: f64,
    threads: usize,
    renewal_threads: usize,
    /// In seconds: the median, the 99th percentile, the largest; by the client's own histogram.
    lateness: [f64; 3],
    /// In seconds, by the time left of some keys.
    lateness_seen: f64,
    /// How long one call of `stats` takes.
    stats_call: Duration,
}

impl Trial<'_> {
    /// What the server does anyway, the looks at it included.
    fn idle_share(&self, span: Duration) -> f64 {
        self.server.flush();
        let (begin, cpu) = (Instant::now(), self.server_cpu());
        while begin.elapsed() < span {
            self.counts();
            thread::sleep(self.pause);
        }
        (self.server_cpu() - cpu).as_secs_f64() / begin.elapsed().as_secs_f64()
    }

    fn measure(&self, leases: usize) -> Held {
        let Trial { server, ttl, rounds, .. } = *self;
        assert_eventually("threads of earlier clients have ended", Duration::from_secs(5), || threads() == 0);
        server.flush();
        server.reset_stats();
        let resident = rss_bytes();
        let client = Client::open(&server.url()).expect("the URL is valid");
        let begin = Instant::now();
        let (held, heap) = acquire(&client, leases, ttl);
        let acquiring = begin.elapsed();
        let resident = rss_bytes().saturating_sub(resident) as f64;

        let mut looks = Looks { keys: sample(leases), ttl, least_left: ttl };
        self.await_renewals(leases as u64, &mut looks);
        let (begin, counts) = (Instant::now(), self.counts());
        let (server_cpu, client_cpu) = (self.server_cpu(), super::cpu_time());
        self.await_renewals(counts.renewed + rounds * leases as u64, &mut looks);
        let span = begin.elapsed().as_secs_f64();
        let server_share = (self.server_cpu() - server_cpu).as_secs_f64() / span;
        let client_share = (super::cpu_time() - client_cpu) / span;
        let counts = self.counts().since(&counts);

        let renewal_threads = thread_names().iter().filter(|name| name.starts_with("redlatch-renew")).count();
        let threads = threads();
        let before = client.stats().renewed;
        let on_server = self.counts().renewed;
        let begin = Instant::now();
        let stats = client.stats();
        let stats_call = begin.elapsed();
        let plausible = before..=stats.renewed + ON_THEIR_WAY;
        assert!(
            plausible.contains(&on_server),
            "the server has renewed {on_server} times, the client says {plausible:?}"
        );
        assert_eq!((stats.lost_total(), stats.held_now), (0, leases as u64), "no lease is lost");

        // Nothing is released one by one: the keys are deleted before the next measurement.
        client.close();
        drop(held);
        let late = |quantile: f64| stats.renewal_delay_micros.quantile(quantile) as f64 / 1e6;
        Held {
            leases,
            acquiring,
            heap,
            resident,
            requests_per_second: counts.requests as f64 / span,
            renewed_per_second: counts.renewed as f64 / span,
            server_share,
            client_share,
            threads,
            renewal_threads,
            lateness: [late(0.5), late(0.99), stats.renewal_delay_micros.max() as f64 / 1e6],
            lateness_seen: (ttl - ttl / 3).saturating_sub(looks.least_left).as_secs_f64(),
            stats_call,
        }
    }

    /// Waits until the server has renewed so many leases since its counters were reset.
    fn await_renewals(&self, count: u64, looks: &mut Looks) {
        let begin = Instant::now();
        while self.counts().renewed < count {
            assert!(begin.elapsed() < self.ttl * 4, "{count} renewals within {:?}", self.ttl * 4);
            looks.look(self.server);
            thread::sleep(self.pause);
        }
    }

    fn server_cpu(&self) -> Duration {
        cpu_time_of(self.server.pid())
    }

    fn counts(&self) -> Counts {
        let counts: BTreeMap<String, u64> = self.server.command_counts();
        let of = |name: &str| counts.get(name).copied().unwrap_or(0);
        // Nobody waits, so that only renewals set a ttl anew.
        Counts { requests: of("evalsha"), renewed: of("pexpire") }
    }
}

/// What the server has counted: scripts, and leases renewed in them.
struct Counts {
    requests: u64,
    renewed: u64,
}

impl Counts {
    fn since(self, before: &Counts) -> Counts {
        Counts { requests: self.requests - before.requests, renewed: self.renewed - before.renewed }
    }
}

/// The time left of some keys, as others see it.
struct Looks {
    keys: Vec<String>,
    ttl: Duration,
    least_left: Duration,
}

impl Looks {
    fn look(&mut self, server: &Server) {
        for key in &self.keys {
            let left = u64::try_from(server.pttl(key)).unwrap_or_else(|_| panic!("{key} has lapsed"));
            let left = Duration::from_millis(left);
            assert!(left <= self.ttl, "{key} has {left:?} left");
            self.least_left = self.least_left.min(left);
        }
    }
}

fn sample(leases: usize) -> Vec<String> {
    (0..leases).step_by(leases.div_ceil(SAMPLED)).map(|number| format!("lock:{}", name(number))).collect()
}

fn name(number: usize) -> String {
    format!("order:item:{number:09}")
}

/// The leases, and the heap bytes that the acquiring threads have left allocated.
fn acquire(client: &Client, leases: usize, ttl: Duration) -> (Vec<Lease>, f64) {
    let acquirers = ACQUIRERS.min(leases);
    let part = |number: usize| leases * number / acquirers..leases * (number + 1) / acquirers;
    let parts: Vec<(Vec<Lease>, i64)> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..acquirers).map(|number| scope.spawn(move || acquire_part(client, part(number), ttl))).collect();
        threads.into_iter().map(|thread| thread.join().expect("every lease is granted")).collect()
    });
    let heap: i64 = parts.iter().map(|(_, bytes)| bytes).sum();
    (parts.into_iter().flat_map(|(held, _)| held).collect(), heap as f64)
}

fn acquire_part(client: &Client, numbers: Range<usize>, ttl: Duration) -> (Vec<Lease>, i64) {
    let mut held = Vec::new();
    let counted = measure(|| {
        held.reserve_exact(numbers.len());
        for number in numbers.clone() {
            let lease = client.lease(&name(number), LockOptions::new().ttl(ttl));
            held.push(lease.expect("the lock is granted"));
        }
    });
    (held, counted.bytes_current)
}

impl Held {
    fn report(&self, idle: f64, report: &mut Report) {
        let limit = |limit: f64| if self.leases == LARGEST { Limit::AtMost(limit) } else { Limit::None };
        let mut value = |name: &str, value: f64, limit: Limit| {
            report.value(format!("{name}_of_{}_leases", self.leases), value, limit);
        };
        value("renewal_server_share", self.server_share - idle, limit(0.03));
        value("renewal_threads", self.renewal_threads as f64, limit(2.0));
        let [median, p99, largest] = self.lateness;
        value("renewal_lateness_p50_s", median, Limit::None);
        value("renewal_lateness_p99_s", p99, limit(1.0));
        value("renewal_lateness_max_s", largest, Limit::None);
        value("renewal_lateness_seen_s", self.lateness_seen, Limit::None);
        value("renewal_requests_per_s", self.requests_per_second, Limit::None);
        value("renewed_per_s", self.renewed_per_second, Limit::None);
        let each = (self.server_share - idle) / self.renewed_per_second * 1e6;
        value("renewal_server_micros_each", each, Limit::None);
        value("renewal_client_share", self.client_share, Limit::None);
        value("client_threads", self.threads as f64, Limit::None);
        value("heap_bytes", self.heap, Limit::None);
        value("resident_bytes", self.resident, Limit::None);
        value("acquire_by_8_threads_s", self.acquiring.as_secs_f64(), Limit::None);
        value("stats_call_ms", self.stats_call.as_secs_f64() * 1e3, Limit::None);
    }
}

fn plots(ttl: Duration, idle: f64, measured: &[Held], report: &mut Report) {
    let line = |name: &str, pick: &dyn Fn(&Held) -> f64| Line {
        name: name.to_owned(),
        points: measured.iter().map(|held| (held.leases as f64, pick(held))).collect(),
    };
    let plot = |file: &str, title: String, y: &str, lines: Vec<Line>| Plot {
        file: file.to_owned(),
        title,
        x: "held leases".to_owned(),
        y: y.to_owned(),
        lines,
    };
    let cpu = vec![
        line("server", &|held| (held.server_share - idle) * 100.0),
        line("client", &|held| held.client_share * 100.0),
    ];
    let title = format!("CPU time of renewal, ttl {ttl:?}");
    report.plot(plot("held-cpu", title, "percent of one core", cpu));
    let memory = vec![line("heap", &|held| held.heap), line("resident", &|held| held.resident)];
    report.plot(plot("held-memory", "Memory of the client".to_owned(), "bytes", memory));
}
