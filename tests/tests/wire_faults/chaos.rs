//! Many threads on few connections while the network misbehaves at random.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redlatch::{Client, Error, Released};
use redlatch_tests::{Proxy, ReplyFault, Server, assert_eventually};

use super::support::{fixed, key, ms, pooled_client, sibling, with_server};

const THREADS: usize = 12;
const LIMIT: Duration = ms(60);
const LONG: Duration = Duration::from_secs(30);
const SPAN: Duration = Duration::from_secs(5);

/// A generator of its own, so that a run can be repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

/// One fault at random, or none.
fn misbehave(proxy: &Proxy, random: &mut Random) {
    match random.below(9) {
        0 => proxy.delay_replies(ms(random.below(90))),
        1 => proxy.delay_requests(ms(random.below(90))),
        2 => proxy.swallow_next_reply_to(b"EVAL"),
        3 => proxy.fault_next_reply_to(b"EVAL", ReplyFault::CutAfter(random.below(40) as usize)),
        4 => proxy.garbage_next_reply(b"*1\r\n:1\r\n"),
        5 => proxy.cut_all(),
        6 => proxy.reset_all(),
        7 => proxy.swallow_replies(),
        _ => proxy.pass(),
    }
}

/// Acquires and releases until `stop`: each grant must be what the server has for this very caller.
fn work(server: &Server, client: &Client, thread: usize, stop: &AtomicBool, grants: &AtomicU64) {
    for round in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let name = format!("t{thread}-{}", round % 3);
        let lock = client.lock_with(&name, fixed(LONG)).unwrap();
        match lock.try_acquire_for(ms(150)) {
            Ok(Some(guard)) => {
                assert_eq!(server.get(&key(&name)).as_deref(), Some(guard.token().as_str()), "{name}");
                // A reply that belongs to another caller has another fence.
                let fence: u64 = server.get(&sibling(&name, "fence")).expect("a grant has a fence").parse().unwrap();
                assert_eq!(fence, guard.fence(), "{name}");
                grants.fetch_add(1, Ordering::AcqRel);
                match guard.release() {
                    Ok(Released::Released | Released::Unconfirmed) => {}
                    other => panic!("{name}: nobody else touches this lock, but: {other:?}"),
                }
            }
            // An earlier token of this thread that the background has not given up yet.
            Ok(None) | Err(Error::Unavailable { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn no_caller_ever_reads_the_reply_of_another() {
    with_server(|server| {
        let proxy = Proxy::in_front_of(server);
        let client = pooled_client(&proxy.url(), LIMIT, 2);
        let (stop, grants) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut random = Random(u64::from(std::process::id()) << 16 | 1);
        let seed = random.0;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (client, stop, grants) = (&client, &stop, &grants);
                scope.spawn(move || work(server, client, thread, stop, grants));
            }
            let end = Instant::now() + SPAN;
            while Instant::now() < end {
                (0..3).for_each(|_| misbehave(&proxy, &mut random));
                std::thread::sleep(ms(5 + random.below(60)));
                if random.below(3) == 0 {
                    proxy.pass();
                    std::thread::sleep(ms(random.below(20)));
                }
            }
            proxy.pass();
            stop.store(true, Ordering::Release);
        });
        let (grants, stats) = (grants.into_inner(), client.stats());
        assert!(grants > 100, "seed {seed}: only {grants} grants: {stats:?}");
        let felt = stats.unavailable > 0 && stats.poll_wakeups > 20 && stats.release_unconfirmed > 20;
        assert!(felt, "seed {seed}: too few faults were felt: {stats:?}");
        assert_eq!(stats.lost_total(), 0, "seed {seed}");
        assert_eventually("the background is done", ms(5_000), || client.stats().background_now == 0);
        let held = || server.keys("lock:*");
        assert!(held().is_empty(), "seed {seed}: left behind: {:?}", held());
        assert!(server.keys("*:redlatch:queue").is_empty(), "seed {seed}");
        assert!(server.keys("*:redlatch:waiters").is_empty(), "seed {seed}");
        assert_eq!(client.stats().background_gave_up, 0, "seed {seed}");
    });
}
