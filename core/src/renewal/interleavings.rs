//! Orders in which threads meet at the renewal queue, the deadline watch and the background releases.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread::spawn;

use crate::clock::Monitor;
use crate::clock::{Clock, Moment};
use crate::error::LostReason;
use crate::events::{Counters, Gauges, Stats};
use crate::lease::{Grant, LockSpec};
use crate::options::LockOptions;
use crate::protocol::{Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, Renewal};
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Mutex, time};
use crate::token::Token;
use crate::transport::{Answered, Deployment, Exchange, Fault, Listener, Transport};

use super::{Janitor, Job, Keeper, KeeperOptions};

const TTL: Duration = Duration::from_secs(3);
const THIRD: Duration = Duration::from_secs(1);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server that notes when it is asked, and takes its time.
#[derive(Clone, Debug)]
struct Noted(Arc<Notes>);

#[derive(Debug)]
struct Notes {
    /// For each token, when its renewals were sent.
    renewals: Mutex<HashMap<String, Vec<Moment>>>,
    released: Mutex<usize>,
    /// Where a request waits for its answer.
    busy: Monitor<()>,
    takes: Duration,
    not_ours: bool,
}

impl Noted {
    fn new(takes: Duration, not_ours: bool) -> Noted {
        let busy = Monitor::new(&Clock::System, true, ());
        Noted(Arc::new(Notes { renewals: Mutex::default(), released: Mutex::default(), busy, takes, not_ours }))
    }

    fn sent(&self, grant: &Grant) -> Vec<Moment> {
        self.0.renewals.lock().get(grant.token.as_str()).cloned().unwrap_or_default()
    }

    fn work(&self) {
        let end = Clock::System.now().after(self.0.takes);
        let mut state = self.0.busy.lock();
        while Clock::System.now() < end {
            state = state.wait_until(end);
        }
    }
}

impl Transport for Noted {
    fn acquire(&self, _: &Acquire<'_>, _: Moment) -> Exchange<Acquired> {
        Err(Fault::unreachable("not asked for"))
    }

    fn release(&self, _: &Release<'_>, _: Moment) -> Exchange<ReleaseAnswer> {
        let sent = Clock::System.now();
        *self.0.released.lock() += 1;
        self.work();
        Ok(Answered {
            reply: ReleaseAnswer { released: true, woken: false, publish_denied: false, damaged: None },
            sent,
        })
    }

    fn renew(&self, batch: &[Renew<'_>], _: Moment) -> Exchange<Vec<Renewal>> {
        let sent = Clock::System.now();
        for item in batch {
            self.0.renewals.lock().entry(item.token.as_str().to_owned()).or_default().push(sent);
        }
        self.work();
        let renewal = if self.0.not_ours { Renewal::NotOurs } else { Renewal::Renewed };
        Ok(Answered { reply: vec![renewal; batch.len()], sent })
    }

    fn inspect(&self, _: &Key, _: Moment) -> Exchange<Inspection> {
        Err(Fault::unreachable("not asked for"))
    }

    fn listen(&self, _: &str, _: &dyn Listener) -> Result<(), Fault> {
        Ok(())
    }

    fn nudge(&self, _: &str) {}

    fn deployment(&self, _: Moment) -> Result<Deployment, Fault> {
        Err(Fault::unreachable("not asked for"))
    }

    fn dedicated(&self) -> Box<dyn Transport> {
        Box::new(self.clone())
    }

    fn server(&self) -> &str {
        "noted"
    }
}

/// A keeper, and what is under it.
struct Stage {
    server: Noted,
    counters: Arc<Counters>,
    janitor: Arc<Janitor>,
    keeper: Arc<Keeper>,
    called: Arc<Mutex<Vec<LostReason>>>,
}

impl Stage {
    fn new(takes: Duration) -> Stage {
        Stage::on(Noted::new(takes, false))
    }

    fn on(server: Noted) -> Stage {
        // The pauses between tries belong to what a seed repeats.
        fastrand::seed(1);
        let counters = Arc::new(Counters::new());
        let transport: Arc<dyn Transport> = Arc::new(server.clone());
        let janitor = Janitor::new(&Clock::System, THIRD, THIRD, transport.clone(), counters.clone());
        let options = KeeperOptions { threads: 2, io_timeout: THIRD };
        let keeper = Keeper::new(&Clock::System, options, transport, counters.clone(), janitor.clone());
        Stage { server, counters, janitor, keeper, called: Arc::default() }
    }

    fn spec(&self, ttl: Duration) -> Arc<LockSpec> {
        let called = self.called.clone();
        let options = LockOptions::new().ttl(ttl).on_lost(move |info| called.lock().push(info.reason()));
        Arc::new(LockSpec { key: Key::new("lock:", "a").unwrap(), options })
    }

    /// A lease that was granted now.
    fn grant(&self, token: &str, ttl: Duration) -> Arc<Grant> {
        Arc::new(Grant::new(self.spec(ttl), Token::foreign(token), 1, Clock::System.now(), false))
    }

    fn stats(&self) -> Stats {
        Stats::read(&self.counters, Gauges { held_now: 0, background_now: 0, longest_hold_now: None })
    }

    /// Leases that the queue and the watch still know.
    fn left(&self) -> (usize, usize) {
        (self.keeper.due.len(), self.keeper.watch.all().len())
    }

    fn end(&self) {
        self.keeper.end();
        self.janitor.end(Clock::System.now());
        // A request that is on its way has its time.
        time::advance(THIRD);
        self.keeper.join();
        self.janitor.join();
        time::until_none_is_left();
    }
}

/// Does `work` on a thread, that many milliseconds after the start.
fn spawn_at<T: Send + 'static>(millis: u64, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (bed, end) = (Monitor::new(&Clock::System, false, ()), Moment::from_nanos(millis * 1_000_000));
    // Of the library's kind, so that time waits until it sleeps.
    let sleeping = move || {
        let mut state = bed.lock();
        while Clock::System.now() < end {
            state = state.wait_until(end);
        }
        drop(state);
        work()
    };
    Builder::new().spawn(sleeping).unwrap()
}

/// The same orders in every run.
fn explore(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random_with_seed(test, 1, iterations);
}

#[test]
fn a_lease_that_was_given_up_was_renewed_again() {
    explore(1_000, || {
        let stage = Arc::new(Stage::new(Duration::ZERO));
        let grant = stage.grant("t", TTL);
        stage.keeper.keep(&grant);
        let (keeper, server, given_up) = (stage.keeper.clone(), stage.server.clone(), grant.clone());
        // When it is being renewed.
        let holder = spawn_at(1_000, move || {
            given_up.state.release().unwrap();
            keeper.forget(&given_up);
            server.sent(&given_up).len()
        });
        time::advance(THIRD);
        let before = holder.join().unwrap();
        time::settle();
        assert_eq!(stage.left(), (0, 0), "it is still in care");
        time::advance(2 * TTL);
        let after = stage.server.sent(&grant).len();
        assert!(after <= before + 1, "{} renewals after the one that was on its way", after - before);
        assert_eq!(stage.stats().lost_total(), 0);
        stage.end();
    });
}

#[test]
fn a_lease_that_ended_before_it_was_taken_into_care_stayed_there() {
    explore(1_000, || {
        let stage = Arc::new(Stage::new(Duration::ZERO));
        let grant = stage.grant("t", TTL);
        let (keeper, ended) = (stage.keeper.clone(), grant.clone());
        let ending = spawn(move || {
            ended.state.release().unwrap();
            keeper.forget(&ended);
        });
        stage.keeper.keep(&grant);
        ending.join().unwrap();
        time::settle();
        assert_eq!(stage.left(), (0, 0));
        stage.end();
    });
}

#[test]
fn a_lease_that_came_during_the_only_request_was_not_renewed_in_time() {
    explore(400, || {
        let stage = Arc::new(Stage::new(ms(600)));
        let first = stage.grant("first", TTL);
        stage.keeper.keep(&first);
        let keeping = stage.clone();
        // The leading thread is in the request that began at 1 s, and the other one sleeps for good.
        let keeping = spawn_at(1_100, move || {
            let second = keeping.grant("second", ms(900));
            keeping.keeper.keep(&second);
            second
        });
        time::advance(ms(1_100));
        let second = keeping.join().unwrap();
        time::advance(ms(500));
        assert_eq!(stage.server.sent(&second).first(), Some(&second.granted.after(ms(300))));
        stage.end();
    });
}

#[test]
fn a_lease_was_renewed_late_though_a_thread_was_idle() {
    explore(400, || {
        // One request takes longer than it is to the next lease that is due.
        let stage = Arc::new(Stage::new(ms(400)));
        let keeping: Vec<_> = [("slow", 9_000), ("quick", 3_000)]
            .into_iter()
            .map(|(token, ttl)| {
                let grant = stage.grant(token, ms(ttl));
                let (keeper, kept) = (stage.keeper.clone(), grant.clone());
                (grant, spawn(move || keeper.keep(&kept)))
            })
            .collect();
        let grants: Vec<Arc<Grant>> = keeping
            .into_iter()
            .map(|(grant, kept)| {
                kept.join().unwrap();
                grant
            })
            .collect();
        time::advance(ms(10_000));
        for grant in &grants {
            let sent = stage.server.sent(grant);
            let mut due = grant.granted;
            for sent in &sent {
                due = due.after(grant.ttl() / 3);
                assert!(*sent <= due, "due at {due:?}, renewed at {sent:?}");
                due = *sent;
            }
            assert!(due.after(grant.ttl() / 3) > Clock::System.now(), "{sent:?} is all of {:?}", grant.token);
        }
        assert_eq!(stage.stats().lost_total(), 0);
        stage.end();
    });
}

#[test]
fn a_lease_that_came_while_all_slept_was_not_renewed_in_time() {
    explore(400, || {
        let stage = Arc::new(Stage::new(Duration::ZERO));
        let long = stage.grant("long", ms(60_000));
        stage.keeper.keep(&long);
        let (keeper, short) = (stage.keeper.clone(), stage.grant("short", ms(300)));
        let kept = short.clone();
        spawn(move || keeper.keep(&kept)).join().unwrap();
        time::advance(ms(1_000));
        assert!(stage.server.sent(&short).len() >= 10, "{:?}", stage.server.sent(&short));
        assert_eq!((stage.stats().lost_total(), stage.left()), (0, (2, 2)));
        stage.end();
    });
}

#[test]
fn a_loss_was_told_twice_or_never() {
    explore(400, || {
        // The server denies it, the client is closed, it expires and its holder gives it up, all at once.
        let stage = Arc::new(Stage::on(Noted::new(Duration::ZERO, true)));
        let grant = stage.grant("t", TTL);
        stage.keeper.keep(&grant);
        let (keeper, given_up) = (stage.keeper.clone(), grant.clone());
        let holder = spawn(move || {
            let released = given_up.state.release().is_ok();
            keeper.forget(&given_up);
            released
        });
        let keeper = stage.keeper.clone();
        let closing = spawn(move || keeper.lose_all(LostReason::Closed));
        let (keeper, looked_at) = (stage.keeper.clone(), grant.clone());
        let looking = spawn(move || keeper.expire(&looked_at).is_some());
        time::advance(TTL);
        let released = holder.join().unwrap();
        closing.join().unwrap();
        looking.join().unwrap();
        time::settle();
        let lost = stage.stats().lost_total();
        assert_eq!(lost + u64::from(released), 1, "lost {lost} times, released: {released}");
        assert_eq!(stage.called.lock().len() as u64, lost, "told to its callback");
        assert_eq!(stage.left(), (0, 0));
        stage.end();
    });
}

#[test]
fn a_lease_that_nobody_renews_was_not_told_of_its_end() {
    explore(400, || {
        let stage = Arc::new(Stage::new(Duration::ZERO));
        let keeping: Vec<_> = [("one", 60_000), ("other", 3_000), ("third", 500)]
            .into_iter()
            .map(|(token, ttl)| {
                let grant = stage.grant(token, ms(ttl));
                let keeper = stage.keeper.clone();
                spawn(move || {
                    keeper.keep(&grant);
                    keeper.renew_no_more(&grant);
                })
            })
            .collect();
        keeping.into_iter().for_each(|kept| kept.join().unwrap());
        for (until, lost) in [(490, 0), (500, 1), (2_960, 1), (3_000, 2)] {
            time::advance(Moment::from_nanos(until * 1_000_000).since(Clock::System.now()));
            time::settle();
            assert_eq!(stage.called.lock().len(), lost, "callbacks by {until} ms");
        }
        stage.end();
    });
}

#[test]
fn the_end_of_a_client_left_a_thread_running() {
    explore(400, || {
        let stage = Arc::new(Stage::new(ms(10)));
        let keeper = stage.keeper.clone();
        let (one, other) = (stage.grant("one", TTL), stage.grant("other", TTL));
        stage.keeper.keep(&one);
        let keeping = spawn(move || keeper.keep(&other));
        let ending = stage.clone();
        let ended = spawn(move || {
            ending.keeper.end();
            ending.keeper.join();
        });
        let keeper = stage.keeper.clone();
        let again = spawn(move || keeper.end());
        keeping.join().unwrap();
        ended.join().unwrap();
        again.join().unwrap();
        // Those that a late lease has started end by themselves, however the time goes.
        time::until_none_is_left();
    });
}

#[test]
fn a_release_left_to_the_background_was_forgotten() {
    explore(400, || {
        let stage = Arc::new(Stage::new(ms(10)));
        // The first starts the thread, the second wakes it, and the third comes when it ends for want of work.
        let releasing: Vec<_> = [0, 1_000, 6_010]
            .into_iter()
            .map(|at| {
                let (janitor, spec) = (stage.janitor.clone(), stage.spec(TTL));
                spawn_at(at, move || {
                    let now = Clock::System.now();
                    janitor.release(Job::new(&spec, &Token::foreign("t"), false, now, now.after(TTL)));
                })
            })
            .collect();
        let mut releasing = releasing.into_iter();
        let released = || *stage.server.0.released.lock() as u64;
        releasing.next().unwrap().join().unwrap();
        time::advance(ms(1_000));
        releasing.next().unwrap().join().unwrap();
        time::advance(ms(20));
        assert_eq!(released(), 2, "the second one waits");
        time::advance(ms(5_000));
        stage.janitor.end(Clock::System.now().after(ms(50)));
        releasing.next().unwrap().join().unwrap();
        time::advance(ms(200));
        stage.janitor.join();
        time::until_none_is_left();
        let stats = stage.stats();
        assert_eq!(stats.background_released + stats.background_gave_up, 3, "{stats:?}");
        assert_eq!((released(), stage.janitor.pending()), (stats.background_released, 0));
    });
}
