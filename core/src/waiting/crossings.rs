//! Every crossing of messages that a waiter can meet, one test each, on the memory store and a manual clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, ManualClock, Moment};
use crate::protocol::{Acquire, Acquired, Ask, Key, NO_INBOX, Place, Release};
use crate::token::{Owner, Token};
use crate::transport::{Answered, Listener, MemoryServer, Transport};

use super::{CancelToken, Patience, Step, Timing, Verdict, Waiter, WaiterRegistry, Wake};

const TTL: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_secs(1);

/// Ends a sleep that nothing else has ended, with `None`: a test fails then, instead of hanging.
const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

/// A store, its clock and one lock.
struct Stage {
    manual: ManualClock,
    clock: Clock,
    server: Arc<MemoryServer>,
    key: Key,
}

impl Stage {
    fn new() -> Stage {
        let manual = ManualClock::new();
        let clock = Clock::Manual(manual.clone());
        let server = MemoryServer::open(None, &clock).unwrap();
        Stage { manual, clock, server, key: Key::new("lock:", "a").unwrap() }
    }

    fn token(&self) -> Token {
        Token::new(&Owner::of_this_process(None))
    }

    fn ask(&self, token: &Token, ask: Ask<'_>) -> Acquired {
        let request = Acquire { key: &self.key, token, ttl: TTL, fence_retention: TTL, ask, replication: None };
        self.server.acquire(&request, Moment::FAR).unwrap().reply
    }

    fn poll(&self, token: &Token) -> Acquired {
        self.ask(token, Ask::Join { score: None, inbox: NO_INBOX })
    }

    fn rejoin(&self, token: &Token, place: Place) -> Acquired {
        self.ask(token, Ask::Join { score: Some(place.score), inbox: NO_INBOX })
    }

    fn release(&self, token: &Token, tombstone: bool) -> bool {
        let tombstone = tombstone.then_some(TTL);
        let request = Release { key: &self.key, token, tombstone, turn: TURN };
        self.server.release(&request, Moment::FAR).unwrap().reply.released
    }

    fn waiters(&self) -> u64 {
        self.server.inspect(&self.key, Moment::FAR).unwrap().reply.waiters
    }
}

#[track_caller]
fn granted(reply: Acquired) -> u64 {
    match reply {
        Acquired::Granted { fence } => fence,
        other => panic!("expected a grant, got {other:?}"),
    }
}

#[track_caller]
fn place(reply: Acquired) -> Place {
    match reply {
        Acquired::Busy { place: Some(place), .. } => place,
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

fn timing() -> Timing {
    let second = Duration::from_secs(1);
    Timing { ttl: TTL, turn: TURN, answer: 2 * second, unavailable_after: 10 * second }
}

#[test]
fn a_push_that_comes_before_the_sleep_is_not_missed() {
    let stage = Stage::new();
    let registry = Arc::new(WaiterRegistry::new(&stage.clock));
    let token = stage.token();
    let sleeper = registry.join(&token, "lock:a", None);
    registry.push(token.as_str());
    assert_eq!(sleeper.sleep(Moment::FAR, LIMIT), Some(Wake::Push));
}

#[test]
fn a_push_that_comes_twice_wakes_once_after_the_request_that_answers_it() {
    let stage = Stage::new();
    let registry = Arc::new(WaiterRegistry::new(&stage.clock));
    let token = stage.token();
    let sleeper = registry.join(&token, "lock:a", None);
    registry.push(token.as_str());
    registry.push(token.as_str());
    assert_eq!(sleeper.sleep(Moment::FAR, LIMIT), Some(Wake::Push));
    registry.push(token.as_str());
    sleeper.about_to_ask();
    assert_eq!(sleeper.sleep(stage.clock.now(), None), Some(Wake::Tick));
}

#[test]
fn a_push_for_a_waiter_that_is_gone_wakes_nobody() {
    let stage = Stage::new();
    let registry = Arc::new(WaiterRegistry::new(&stage.clock));
    let (gone, here) = (stage.token(), stage.token());
    drop(registry.join(&gone, "lock:a", None));
    let sleeper = registry.join(&here, "lock:a", None);
    registry.push(gone.as_str());
    assert_eq!(sleeper.sleep(stage.clock.now(), None), Some(Wake::Tick));
}

#[test]
fn a_push_that_never_comes_costs_a_fifth_of_a_turn() {
    let stage = Stage::new();
    let mut waiter = Waiter::new(Patience::Forever, timing(), stage.clock.now());
    assert!(matches!(waiter.next(stage.clock.now()), Step::Ask { .. }));
    let holder = stage.token();
    granted(stage.poll(&holder));
    let reply = stage.poll(&stage.token());
    let sent = stage.clock.now();
    waiter.answered(Ok(Answered { reply, sent }), true, sent);
    match waiter.next(sent) {
        Step::Sleep { until } => assert!(until <= sent.after(TURN / 4), "polls within its turn without any push"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_waiter_that_is_cancelled_on_its_turn_passes_the_turn_on() {
    let stage = Stage::new();
    let (holder, first, second, stranger) = (stage.token(), stage.token(), stage.token(), stage.token());
    granted(stage.poll(&holder));
    stage.poll(&first);
    stage.poll(&second);
    assert!(stage.release(&holder, false));
    // The turn is the first waiter's; its give-up crosses it.
    assert!(!stage.release(&first, false));
    assert!(matches!(stage.ask(&stranger, Ask::Try), Acquired::Busy { .. }), "nobody overtakes the second waiter");
    granted(stage.poll(&second));
    assert_eq!(stage.waiters(), 0);
}

#[test]
fn a_cancel_that_comes_before_the_wait_or_during_the_sleep_ends_it() {
    let stage = Stage::new();
    let registry = Arc::new(WaiterRegistry::new(&stage.clock));
    let cancel = CancelToken::new();
    let early = registry.join(&stage.token(), "lock:a", Some(&cancel));
    cancel.cancel();
    assert_eq!(early.sleep(Moment::FAR, LIMIT), Some(Wake::Cancelled));
    let late = registry.join(&stage.token(), "lock:a", Some(&cancel));
    assert_eq!(late.sleep(Moment::FAR, LIMIT), Some(Wake::Cancelled));
    let mut waiter = Waiter::new(Patience::Forever, timing(), stage.clock.now());
    waiter.woken(Wake::Cancelled, stage.clock.now());
    assert!(matches!(waiter.next(stage.clock.now()), Step::Done(Verdict::Cancelled)));
}

#[test]
fn a_grant_that_crosses_a_close_is_not_lost_between_the_two() {
    let stage = Stage::new();
    let mut waiter = Waiter::new(Patience::Forever, timing(), stage.clock.now());
    assert!(matches!(waiter.next(stage.clock.now()), Step::Ask { .. }));
    let reply = stage.poll(&stage.token());
    let sent = stage.clock.now();
    waiter.answered(Ok(Answered { reply, sent }), false, sent);
    waiter.closed();
    assert!(matches!(waiter.next(sent), Step::Done(Verdict::Granted { .. })), "its caller gives it back");
}

#[test]
fn a_turn_that_is_overdue_before_its_acquire_arrives_is_still_its_own() {
    let stage = Stage::new();
    let (holder, waiter) = (stage.token(), stage.token());
    granted(stage.poll(&holder));
    stage.poll(&waiter);
    stage.release(&holder, false);
    stage.manual.advance(5 * TURN);
    granted(stage.poll(&waiter));
}

#[test]
fn an_inbox_that_lets_its_turn_go_overdue_is_passed_over_once_with_all_its_waiters() {
    let stage = Stage::new();
    let silent = Silent::subscribe(&stage, "redlatch:inbox:silent");
    let holder = stage.token();
    granted(stage.poll(&holder));
    let stopped: Vec<(Token, Place)> = (0..10)
        .map(|_| {
            let token = stage.token();
            let joined = stage.ask(&token, Ask::Join { score: None, inbox: "redlatch:inbox:silent" });
            stage.manual.advance(Duration::from_millis(1));
            (token, place(joined))
        })
        .collect();
    let live = stage.token();
    let behind = place(stage.poll(&live));
    assert_eq!(behind.rank, 10);
    stage.release(&holder, false);
    assert!(matches!(stage.poll(&live), Acquired::Busy { .. }), "the turn is not over yet");
    stage.manual.advance(TURN);
    granted(stage.poll(&live));
    assert_eq!(stage.waiters(), 0, "one overdue turn removes all waiters of the inbox");
    // They were only slow: each comes back before those who joined later.
    let later = place(stage.poll(&stage.token()));
    assert_eq!(later.rank, 0);
    for (rank, (token, before)) in stopped.iter().enumerate() {
        assert_eq!(place(stage.rejoin(token, *before)).rank, rank as u64);
    }
    silent.end(&stage);
}

#[test]
fn a_waiter_whose_client_is_gone_is_skipped_at_once() {
    let stage = Stage::new();
    let (holder, dead, live) = (stage.token(), stage.token(), stage.token());
    granted(stage.poll(&holder));
    stage.ask(&dead, Ask::Join { score: None, inbox: "redlatch:inbox:gone" });
    stage.poll(&live);
    stage.release(&holder, false);
    granted(stage.poll(&live));
}

#[test]
fn a_plain_client_that_was_quicker_than_the_turn_delays_only_this_turn() {
    let stage = Stage::new();
    let (holder, waiter) = (stage.token(), stage.token());
    granted(stage.poll(&holder));
    let first = place(stage.poll(&waiter));
    stage.release(&holder, false);
    stage.server.plain_set(&stage.key, "plain", TTL);
    assert_eq!(place(stage.rejoin(&waiter, first)), first, "its place is kept");
    stage.server.plain_delete(&stage.key);
    granted(stage.poll(&waiter));
}

#[test]
fn a_late_copy_of_an_acquire_after_the_give_up_is_refused_for_good() {
    let stage = Stage::new();
    let token = stage.token();
    // The first copy is still on its way when its caller gives up.
    stage.release(&token, true);
    assert_eq!(stage.poll(&token), Acquired::Abandoned);
    // A repeated release without a tombstone of its own does not undo the first one's.
    stage.release(&token, false);
    assert_eq!(stage.poll(&token), Acquired::Abandoned);
    granted(stage.poll(&stage.token()));
}

#[test]
fn a_repeated_acquire_is_granted_again_with_a_larger_fence() {
    let stage = Stage::new();
    let token = stage.token();
    let first = granted(stage.poll(&token));
    assert!(granted(stage.poll(&token)) > first);
}

#[test]
fn an_inbox_that_comes_back_spreads_its_waiters_over_200_ms() {
    let now = Moment::from_nanos(0);
    let spread = Duration::from_millis(200);
    let mut latest = now;
    for _ in 0..200 {
        let mut waiter = Waiter::new(Patience::Forever, timing(), now);
        waiter.woken(Wake::Recheck(spread), now);
        match waiter.next(now) {
            Step::Sleep { until } => {
                assert!(until <= now.after(spread));
                latest = latest.max(until);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(waiter.next(latest), Step::Ask { join: true, .. }));
    }
    assert!(latest > now.after(spread / 2));
}

/// A client that is subscribed and does nothing, as if it were stopped.
struct Silent {
    wants: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
    channel: &'static str,
}

struct Deaf(Arc<AtomicBool>, mpsc::Sender<()>);

impl Listener for Deaf {
    fn subscribed(&self) {
        let _ = self.1.send(());
    }

    fn message(&self, _: &str) {}

    fn wants_more(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Silent {
    fn subscribe(stage: &Stage, channel: &'static str) -> Silent {
        let wants = Arc::new(AtomicBool::new(true));
        let (ready, is_ready) = mpsc::channel();
        let (server, deaf) = (stage.server.clone(), Deaf(wants.clone(), ready));
        let running = stage.clock.background();
        let thread = thread::spawn(move || {
            let _running = running;
            server.listen(channel, &deaf).unwrap();
        });
        is_ready.recv().unwrap();
        Silent { wants, thread, channel }
    }

    fn end(self, stage: &Stage) {
        self.wants.store(false, Ordering::Release);
        stage.server.nudge(self.channel);
        self.thread.join().unwrap();
    }
}

#[test]
fn the_first_waiter_of_a_client_leads_and_the_next_is_told_when_it_leaves() {
    let stage = Stage::new();
    let registry = Arc::new(WaiterRegistry::new(&stage.clock));
    let first = registry.join(&stage.token(), "lock:a", None);
    let second = registry.join(&stage.token(), "lock:a", None);
    let elsewhere = registry.join(&stage.token(), "lock:b", None);
    assert!(first.leads() && !second.leads() && elsewhere.leads());
    drop(first);
    assert_eq!(second.sleep(Moment::FAR, LIMIT), Some(Wake::Lead));
    assert!(second.leads());
    assert_eq!(second.sleep(stage.clock.now(), None), Some(Wake::Tick));
}

#[test]
fn a_leading_waiter_with_a_long_queue_before_it_asks_within_half_a_turn() {
    let stage = Stage::new();
    let now = stage.clock.now();
    let mut waiter = Waiter::new(Patience::Forever, timing(), now);
    assert!(matches!(waiter.next(now), Step::Ask { .. }));
    let place = Some(Place { rank: 10, score: 1 });
    let reply = Acquired::Busy { left: Some(TTL), place };
    waiter.answered(Ok(Answered { reply, sent: now }), true, now);
    let Step::Sleep { until } = waiter.next(now) else { panic!("expected a sleep") };
    assert!(until > now.after(TURN));
    assert!(waiter.leading(until, now) <= now.after(TURN / 2));
    // Told to lead while asleep, it goes back to the same sleep, which is then cut short.
    waiter.woken(Wake::Lead, now);
    assert!(matches!(waiter.next(now), Step::Sleep { until: again } if again == until));
}
