//! Many leases of one client, over several ttls.

use std::thread;
use std::time::{Duration, Instant};

use redlatch::options::RENEWAL_THREADS;
use redlatch::{Client, Guard, LockOptions};
use redlatch_tests::bench::{Extent, Limit, Report};
use redlatch_tests::{Server, assert_eventually};

use super::{cpu_time, open_inbox, threads};

const LEASES: usize = 10_000;
const TTL: Duration = Duration::from_secs(3);

pub(crate) fn run(server: &Server, extent: Extent, report: &mut Report) {
    assert_eventually("threads of earlier clients have ended", Duration::from_secs(5), || threads() == 0);
    server.flush();
    let client = Client::open(&server.url()).expect("the URL is valid");
    start_all_threads(server, &client);
    let names: Vec<String> = (0..LEASES).map(|number| format!("order:item:{number:09}")).collect();
    let begin = Instant::now();
    let guards: Vec<Guard> = names
        .iter()
        .map(|name| {
            let lock = client.lock_with(name, LockOptions::new().ttl(TTL)).expect("the name is valid");
            lock.acquire().expect("the lock is granted")
        })
        .collect();
    let acquiring = begin.elapsed();

    server.reset_stats();
    let renewed = client.stats().renewed;
    let cpu = cpu_time();
    let begin = Instant::now();
    let (mut most_threads, mut lost) = (0, 0);
    while begin.elapsed() < extent.pick(1, 5) * TTL {
        thread::sleep(TTL / 6);
        most_threads = most_threads.max(threads());
        lost = lost.max(guards.iter().filter(|guard| !guard.is_held()).count());
    }
    let scripts = server.command_counts().get("evalsha").copied().unwrap_or(0);
    let stats = client.stats();
    let renewed = stats.renewed - renewed;
    let cpu = (cpu_time() - cpu) / begin.elapsed().as_secs_f64();
    lost = lost.max(usize::try_from(stats.lost_total()).unwrap_or(usize::MAX));

    let keys: Vec<String> = names.iter().map(|name| format!("lock:{name}")).collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(keys.iter().map(String::as_str));
    let on_server: usize = server.query(&exists);
    lost = lost.max(LEASES - on_server);

    client.close();
    drop(guards);
    report.value("threads_of_10000_leases", most_threads as f64, Limit::AtMost(f64::from(RENEWAL_THREADS.default + 4)));
    report.value("lost_of_10000_leases", lost as f64, Limit::Exactly(0.0));
    report.value("scripts_per_renewed_lease", scripts as f64 / renewed.max(1) as f64, Limit::AtMost(0.01));
    report.value("renewals_of_each_lease", renewed as f64 / LEASES as f64, Limit::None);
    report.value("renewals_late", stats.renewal_late as f64, Limit::None);
    report.value("cores_used_by_10000_leases", cpu, Limit::None);
    report.value("seconds_to_acquire_10000_leases", acquiring.as_secs_f64(), Limit::None);
}

/// Makes the client need each of its threads once: those of an open inbox and of background releases as well.
fn start_all_threads(server: &Server, client: &Client) {
    open_inbox(server, client);
    let lock = client.lock("bench:abandoned").expect("the name is valid");
    let thread = thread::spawn(move || lock.acquire().expect("the lock is granted").forget());
    thread.join().expect("the thread only acquires");
    let released = || client.stats().background_released == 1;
    assert_eventually("the lock of the thread that ended is released", Duration::from_secs(10), released);
}
