//! One waiter's decisions, from its first request to its verdict. Pure: time and replies come from outside.
//!
//! | in | out |
//! |---|---|
//! | granted in time | done: granted |
//! | granted after the lease's own deadline | ask again with the same token |
//! | granted, but too few replicas acknowledged it | done: not replicated |
//! | busy, not waiting | done: busy |
//! | busy, time left | sleep until the poll, the end of what keeps it busy (first two ranks), or the limit |
//! | a failure that can pass, time left | a short sleep, or none for a stale connection or a signal |
//! | no answer to a request that the limit cut short, after busy | sleep until the limit, done: timed out |
//! | any other failure | done: failed |
//! | limit reached | done: timed out, or unavailable when the last word was a failure |
//! | pushed | ask at once |
//! | the inbox came or went | a sleep somewhere in the given time, then ask |
//! | cancelled, closed | done |

use std::time::Duration;

use crate::clock::Moment;
use crate::lease::deadline;
use crate::protocol::{Acquired, Place};
use crate::transport::{Exchange, Fault, FaultKind};

use super::Wake;

/// How long a caller wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One answer.
    Try,
    /// Until then.
    Until(Moment),
    /// Until granted, or until the server has been away for too long.
    Forever,
}

/// The times that a waiter goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    pub(crate) turn: Duration,
    /// How long one answer may take at most, connecting included.
    pub(crate) answer: Duration,
    pub(crate) unavailable_after: Duration,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send an acquire, joining the queue or not, to be answered by then.
    Ask { join: bool, by: Moment },
    /// Sleep, unless woken.
    Sleep { until: Moment },
    /// Nothing more.
    Done(Verdict),
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    Granted {
        fence: u64,
        sent: Moment,
    },
    /// The key has the token, and too few replicas acknowledged it in the time that the server waited for them.
    NotReplicated {
        acknowledged: u32,
        waited: Duration,
    },
    Busy,
    TimedOut,
    /// The limit was reached, and the last word was this failure.
    Unavailable(Fault),
    /// A failure that does not pass.
    Failed(Fault),
    /// The token was given up before; only a new one can be granted.
    Abandoned,
    Cancelled,
    Closed,
}

/// Gap between two requests while the server is away, in ms, jittered between these.
const RETRY_GAP: std::ops::Range<u64> = 50..250;

/// Poll interval without a working inbox at rank 0; grows by a sixteenth a rank, up to two fifths of a turn.
const POLL: Duration = Duration::from_millis(50);

/// Poll interval with an inbox at rank 0; grows by as much a rank.
const POLL_WITH_INBOX: Duration = Duration::from_millis(200);

/// The longest poll interval.
const LONGEST_POLL: Duration = Duration::from_secs(30);

/// The least time that the first request of a wait gets for its answer, however short the wait; with less than this
/// left, no other is sent.
const FIRST_ANSWER: Duration = Duration::from_millis(10);

/// A waiter between its first request and its verdict.
#[derive(Debug)]
pub(crate) struct Waiter {
    patience: Patience,
    timing: Timing,
    started: Moment,
    /// An acquire got no answer, so that one may still be executed.
    unanswered: bool,
    /// The server granted an acquire that came to nothing here: the key may have the token.
    granted_in_vain: bool,
    place: Option<Place>,
    asked: u64,
    busy_seen: bool,
    /// Its longest polls have been spread among those of others.
    spread: bool,
    /// How long the last answer took.
    took: Duration,
    /// Since when no request has been answered.
    outage: Option<(Moment, Fault)>,
    next: Option<Step>,
    /// Until when it sleeps.
    sleeps_until: Moment,
}

impl Waiter {
    pub(crate) fn new(patience: Patience, timing: Timing, now: Moment) -> Waiter {
        Waiter {
            patience,
            timing,
            started: now,
            unanswered: false,
            granted_in_vain: false,
            place: None,
            asked: 0,
            busy_seen: false,
            spread: false,
            took: Duration::ZERO,
            outage: None,
            next: None,
            sleeps_until: now,
        }
    }

    /// The place in the queue that the last answer gave.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    /// An acquire of the token went unanswered: whoever gives up must leave a tombstone.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// The server may know the token: whoever gives up must release it.
    pub(crate) fn must_release(&self) -> bool {
        self.place.is_some() || self.unanswered || self.granted_in_vain
    }

    /// Whether someone else had the lock at some point.
    pub(crate) fn was_busy(&self) -> bool {
        self.busy_seen
    }

    /// The server answered the last request within half of `limit`.
    pub(crate) fn is_reachable(&self, limit: Duration) -> bool {
        self.outage.is_none() && self.took <= limit / 2
    }

    /// What to do at `now`; after a sleep, or at the start, that is to ask.
    pub(crate) fn next(&mut self, now: Moment) -> Step {
        if let Some(step) = self.next.take() {
            if let Step::Sleep { until } = step {
                self.sleeps_until = until;
            }
            return step;
        }
        let limit = self.limit();
        // A wait that is over asks no more, except that everyone is owed one answer.
        if now >= limit && self.asked > 0 {
            return Step::Done(self.over());
        }
        // Woken so late that an answer could hardly come: its absence would say nothing, and the last word is busy.
        if self.busy_seen && self.outage.is_none() && now.after(FIRST_ANSWER) > limit {
            return Step::Sleep { until: limit };
        }
        self.asked += 1;
        let owed = if self.asked == 1 { now.after(FIRST_ANSWER) } else { now };
        let by = now.after(self.timing.answer).min(limit).max(owed);
        Step::Ask { join: self.patience != Patience::Try, by }
    }

    /// Takes in the outcome of a request; `inbox`: the server was told where to wake this waiter.
    pub(crate) fn answered(&mut self, outcome: Exchange<Acquired>, inbox: bool, now: Moment) {
        self.next = match outcome {
            Ok(answer) => {
                self.took = now.since(answer.sent);
                let outage = self.outage.take().map(|(since, _)| since);
                match answer.reply {
                    Acquired::Granted { fence } => self.granted(fence, answer.sent, now, outage),
                    Acquired::NotReplicated { acknowledged, waited } => {
                        self.granted_in_vain = true;
                        // The server waited for others; it was not away.
                        self.took = self.took.saturating_sub(waited);
                        Some(Step::Done(Verdict::NotReplicated { acknowledged, waited }))
                    }
                    Acquired::Busy { left, place } => Some(self.busy(left, place, inbox, now)),
                    Acquired::Abandoned => Some(Step::Done(Verdict::Abandoned)),
                }
            }
            Err(fault) => self.failed(fault, now),
        };
    }

    /// Takes in why a sleep ended; at its end by time alone the next step is to ask, as it is after a push.
    pub(crate) fn woken(&mut self, wake: Wake, now: Moment) {
        self.next = match wake {
            Wake::Tick | Wake::Push => None,
            Wake::Lead => Some(Step::Sleep { until: self.sleeps_until }),
            Wake::Recheck(spread) if spread.is_zero() => None,
            Wake::Recheck(spread) => {
                let until = now.after(spread.mul_f64(fastrand::f64()));
                Some(Step::Sleep { until: until.min(self.limit()) })
            }
            Wake::Cancelled => Some(Step::Done(Verdict::Cancelled)),
            Wake::Closed => Some(Step::Done(Verdict::Closed)),
        };
    }

    /// Until when it sleeps instead as the first of its client's waiters: a fraction of a turn, so that a turn that nobody
    /// takes is noticed soon, however long the queue of others is.
    pub(crate) fn leading(&self, until: Moment, now: Moment) -> Moment {
        until.min(now.after(jittered(self.timing.turn / 3)))
    }

    /// The client was closed.
    pub(crate) fn closed(&mut self) {
        // A grant that is already here is the caller's to give back.
        if !matches!(self.next, Some(Step::Done(_))) {
            self.next = Some(Step::Done(Verdict::Closed));
        }
    }

    fn granted(&mut self, fence: u64, sent: Moment, now: Moment, outage: Option<Moment>) -> Option<Step> {
        if now < deadline(sent, self.timing.ttl) {
            return Some(Step::Done(Verdict::Granted { fence, sent }));
        }
        // The reply took longer than the lease: whether the key is still ours only the server knows. Nobody else
        // is known to have it, so a wait that ends with this ends as unavailable.
        self.unanswered = true;
        let fault = Fault::unreachable("the reply that granted it took longer than the ttl");
        self.outage = Some((outage.unwrap_or(now), fault));
        None
    }

    fn busy(&mut self, left: Option<Duration>, place: Option<Place>, inbox: bool, now: Moment) -> Step {
        self.busy_seen = true;
        self.place = place;
        if self.patience == Patience::Try {
            return Step::Done(Verdict::Busy);
        }
        let rank = place.map_or(0, |place| place.rank);
        let interval = self.poll_interval(rank, inbox);
        // Thousands that join at once would also come back at once, a longest interval later, and go on like that.
        let first_long = interval == LONGEST_POLL && !std::mem::replace(&mut self.spread, true);
        let mut until = now.after(if first_long { interval.mul_f64(fastrand::f64()) } else { jittered(interval) });
        if let (Some(left), 0..=1) = (left, rank) {
            // A millisecond more, because the server rounds down.
            until = until.min(now.after(left + Duration::from_millis(1)));
        }
        // A poll without time for its answer would make a server that answers look away.
        if until.after(FIRST_ANSWER.max(self.took * 2)) > self.limit() {
            until = self.limit();
        }
        Step::Sleep { until }
    }

    fn poll_interval(&self, rank: u64, inbox: bool) -> Duration {
        let rank = u32::try_from(rank).unwrap_or(u32::MAX);
        if inbox {
            return POLL_WITH_INBOX.saturating_mul(rank.saturating_add(1)).min(LONGEST_POLL);
        }
        let interval = POLL.saturating_add((POLL / 16).saturating_mul(rank));
        interval.min(self.timing.turn * 2 / 5)
    }

    fn failed(&mut self, fault: Fault, now: Moment) -> Option<Step> {
        self.unanswered |= fault.unanswered;
        self.granted_in_vain |= fault.granted;
        if !fault.is_retryable() {
            return Some(Step::Done(Verdict::Failed(fault)));
        }
        // The caller's limit cut the wait for a slot, a connection or this answer short, which says nothing of the
        // server. The last word is busy, unless it was a grant.
        let cut_short = fault.kind == FaultKind::Unreachable && !fault.granted;
        if cut_short && self.busy_seen && self.outage.is_none() && now.after(FIRST_ANSWER) >= self.limit() {
            return Some(Step::Sleep { until: self.limit() });
        }
        let at_once = fault.is_worth_repeating();
        let limit = self.limit();
        let at_the_limit = cut_short && now.after(FIRST_ANSWER) >= limit;
        self.outage = Some(match self.outage.take() {
            // A request that the caller's limit has cut short says less than the failure before it. It may have failed
            // before the limit: of a name's addresses, each gets a share of the time. A closed connection or a signal
            // says nothing at all.
            Some((since, said)) if at_the_limit && !said.is_worth_repeating() => (since, said),
            Some((since, _)) => (since, fault),
            None => (now, fault),
        });
        if at_once {
            return None;
        }
        // With little time left one more request counts for more than a calm server.
        let limit = self.limit();
        let longest = (limit.since(now) / 4).max(Duration::from_millis(RETRY_GAP.start));
        let gap = Duration::from_millis(fastrand::u64(RETRY_GAP)).min(longest);
        Some(Step::Sleep { until: now.after(gap).min(limit) })
    }

    fn limit(&self) -> Moment {
        match (self.patience, &self.outage) {
            (Patience::Try, _) => self.started.after(self.timing.answer),
            (Patience::Until(limit), _) => limit,
            (Patience::Forever, Some((since, _))) => since.after(self.timing.unavailable_after),
            (Patience::Forever, None) => Moment::FAR,
        }
    }

    fn over(&mut self) -> Verdict {
        match self.outage.take() {
            Some((_, fault)) => Verdict::Unavailable(fault),
            None => Verdict::TimedOut,
        }
    }
}

/// `span` ± 20 %, so that waiters spread.
fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.8 + 0.4 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Role;
    use crate::transport::Answered;

    const TIMING: Timing = Timing {
        ttl: Duration::from_secs(3),
        turn: Duration::from_secs(1),
        answer: Duration::from_secs(2),
        unavailable_after: Duration::from_secs(10),
    };

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn busy(left: u64, rank: u64) -> Exchange<Acquired> {
        let left = Some(Duration::from_millis(left));
        Ok(Answered { reply: Acquired::Busy { left, place: Some(Place { rank, score: 1 }) }, sent: at(0) })
    }

    fn granted(sent: u64) -> Exchange<Acquired> {
        Ok(Answered { reply: Acquired::Granted { fence: 7 }, sent: at(sent) })
    }

    fn silence() -> Fault {
        Fault { unanswered: true, ..Fault::unreachable("no reply in time") }
    }

    #[track_caller]
    fn sleeps(waiter: &mut Waiter, now: Moment) -> Moment {
        match waiter.next(now) {
            Step::Sleep { until } => until,
            other => panic!("expected a sleep, got {other:?}"),
        }
    }

    #[track_caller]
    fn asks(waiter: &mut Waiter, now: Moment) -> Moment {
        match waiter.next(now) {
            Step::Ask { by, .. } => by,
            other => panic!("expected a request, got {other:?}"),
        }
    }

    #[test]
    fn a_grant_that_arrives_after_its_own_deadline_is_no_grant() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(granted(0), false, at(2_968));
        asks(&mut waiter, at(2_968));
        assert!(waiter.is_unanswered());
        waiter.answered(granted(2_968), false, at(2_970));
        assert!(matches!(waiter.next(at(2_970)), Step::Done(Verdict::Granted { fence: 7, .. })));
    }

    #[test]
    fn grants_that_always_arrive_too_late_are_unavailable_not_busy() {
        let mut waiter = Waiter::new(Patience::Until(at(3_500)), TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(granted(0), false, at(3_000));
        asks(&mut waiter, at(3_000));
        waiter.answered(granted(0), false, at(3_500));
        assert!(matches!(waiter.next(at(3_500)), Step::Done(Verdict::Unavailable(_))));
    }

    #[test]
    fn a_try_is_busy_at_once_and_joins_no_queue() {
        let mut waiter = Waiter::new(Patience::Try, TIMING, at(0));
        assert!(matches!(waiter.next(at(0)), Step::Ask { join: false, .. }));
        waiter.answered(busy(500, 0), false, at(1));
        assert!(matches!(waiter.next(at(1)), Step::Done(Verdict::Busy)));
    }

    #[test]
    fn a_wait_shorter_than_the_ttl_ends_at_its_own_limit() {
        let mut waiter = Waiter::new(Patience::Until(at(30)), TIMING, at(0));
        assert_eq!(asks(&mut waiter, at(0)), at(30));
        waiter.answered(busy(60_000, 0), false, at(1));
        assert_eq!(sleeps(&mut waiter, at(1)), at(30));
        assert!(matches!(waiter.next(at(30)), Step::Done(Verdict::TimedOut)));
    }

    #[test]
    fn the_shortest_wait_still_gets_an_answer() {
        let mut waiter = Waiter::new(Patience::Until(at(0)), TIMING, at(0));
        assert_eq!(asks(&mut waiter, at(0)), at(10));
        waiter.answered(busy(60_000, 0), false, at(1));
        assert_eq!(sleeps(&mut waiter, at(1)), at(0));
        assert!(matches!(waiter.next(at(1)), Step::Done(Verdict::TimedOut)));
    }

    #[test]
    fn the_first_in_the_queue_asks_when_the_ttl_ends() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(busy(9, 0), false, at(1));
        assert_eq!(sleeps(&mut waiter, at(1)), at(11));
        asks(&mut waiter, at(11));
        waiter.answered(busy(9, 5), false, at(12));
        assert!(sleeps(&mut waiter, at(12)) >= at(12 + 52));
    }

    #[test]
    fn polls_never_come_less_often_than_two_fifths_of_a_turn() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        for rank in [0, 16, 1_000, u64::MAX] {
            asks(&mut waiter, at(0));
            waiter.answered(busy(60_000, rank), false, at(0));
            assert!(sleeps(&mut waiter, at(0)) <= at(480));
        }
    }

    #[test]
    fn thousands_that_joined_at_once_do_not_come_back_at_once() {
        let polls = |_| {
            let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(busy(60_000, 1_000), true, at(0));
            let first = sleeps(&mut waiter, at(0));
            asks(&mut waiter, first);
            waiter.answered(busy(60_000, 1_000), true, first);
            (first, sleeps(&mut waiter, first).since(first))
        };
        let polls: Vec<(Moment, Duration)> = (0..2_000).map(polls).collect();
        for second in 0..30 {
            let within = at(1_000 * second)..at(1_000 * (second + 1));
            let count = polls.iter().filter(|(first, _)| within.contains(first)).count();
            assert!(count <= 120, "{count} polls in second {second}, where 67 are expected");
        }
        assert!(polls.iter().all(|(_, again)| *again >= LONGEST_POLL * 4 / 5));
    }

    #[test]
    fn an_outage_that_outlasts_the_limit_is_unavailable_not_busy() {
        let mut waiter = Waiter::new(Patience::Until(at(3_000)), TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(busy(60_000, 0), false, at(1));
        let woken = sleeps(&mut waiter, at(1));
        asks(&mut waiter, woken);
        waiter.answered(Err(silence()), false, at(2_050));
        let woken = sleeps(&mut waiter, at(2_050));
        assert_eq!(asks(&mut waiter, woken), at(3_000));
        waiter.answered(Err(silence()), false, at(3_000));
        assert_eq!(sleeps(&mut waiter, at(3_000)), at(3_000));
        assert!(matches!(waiter.next(at(3_000)), Step::Done(Verdict::Unavailable(_))));
    }

    #[test]
    fn a_connect_with_a_share_of_the_last_moment_hid_why_all_others_failed() {
        let said_after = |last: Fault| {
            let mut waiter = Waiter::new(Patience::Until(at(1_000)), TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(Err(Fault::unreachable("a bad certificate")), false, at(5));
            sleeps(&mut waiter, at(5));
            assert_eq!(asks(&mut waiter, at(994)), at(1_000));
            waiter.answered(Err(last), false, at(997));
            assert_eq!(sleeps(&mut waiter, at(997)), at(1_000));
            match waiter.next(at(1_000)) {
                Step::Done(Verdict::Unavailable(fault)) => fault.detail,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(said_after(Fault::unreachable("no answer while connecting")), "a bad certificate");
        assert_eq!(said_after(Fault::refusing("LOADING")), "LOADING", "a server that answers has the last word");
    }

    #[test]
    fn a_failure_that_says_nothing_of_the_server_hid_that_it_did_not_answer() {
        let said_after = |first: Fault, last: Fault, at_last: u64| {
            let mut waiter = Waiter::new(Patience::Until(at(1_000)), TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(Err(first), false, at(5));
            asks(&mut waiter, at(5));
            waiter.answered(Err(last), false, at(at_last));
            let slept = matches!(&waiter.next, Some(Step::Sleep { .. })).then(|| waiter.next(at(at_last)));
            match waiter.next(at(1_001)) {
                Step::Done(Verdict::Unavailable(fault)) => fault.detail,
                other => panic!("{other:?} after {slept:?}"),
            }
        };
        let passing = |stale| Fault { stale, interrupted: !stale, detail: "Broken pipe".to_owned(), ..silence() };
        for stale in [true, false] {
            assert_eq!(said_after(passing(stale), silence(), 1_000), "no reply in time");
            assert_eq!(said_after(passing(stale), Fault::refusing("LOADING"), 1_001), "LOADING");
        }
    }

    #[test]
    fn a_busy_lock_is_not_unavailable_because_the_limit_cut_the_last_answer_short() {
        let mut waiter = Waiter::new(Patience::Until(at(100)), TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(busy(60_000, 0), false, at(1));
        let woken = sleeps(&mut waiter, at(1));
        assert_eq!(asks(&mut waiter, woken), at(100));
        // A socket's time limit may end a little early.
        waiter.answered(Err(silence()), false, at(97));
        assert_eq!(sleeps(&mut waiter, at(97)), at(100));
        assert!(matches!(waiter.next(at(100)), Step::Done(Verdict::TimedOut)) && waiter.is_unanswered());
    }

    #[test]
    fn a_wait_on_a_busy_lock_is_not_unavailable_because_its_last_poll_has_no_time_for_an_answer() {
        for answer in [1, 30] {
            let mut waiter = Waiter::new(Patience::Until(at(1_000)), TIMING, at(0));
            let mut now = at(0);
            let verdict = loop {
                let by = match waiter.next(now) {
                    Step::Ask { by, .. } => by,
                    Step::Sleep { until } => {
                        now = until;
                        continue;
                    }
                    Step::Done(verdict) => break verdict,
                };
                let sent = now;
                now = now.after(Duration::from_millis(answer));
                assert!(now <= by, "asked at {sent:?}");
                let reply = Acquired::Busy { left: None, place: Some(Place { rank: 0, score: 1 }) };
                waiter.answered(Ok(Answered { reply, sent }), false, now);
            };
            assert!(matches!(verdict, Verdict::TimedOut) && now == at(1_000), "{verdict:?} at {now:?}");
        }
    }

    #[test]
    fn a_wait_without_limit_gives_up_after_a_continuous_outage_only() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(Err(silence()), false, at(1_000));
        sleeps(&mut waiter, at(1_000));
        asks(&mut waiter, at(9_000));
        waiter.answered(busy(60_000, 0), false, at(9_001));
        sleeps(&mut waiter, at(9_001));
        asks(&mut waiter, at(12_000));
        waiter.answered(Err(silence()), false, at(13_000));
        sleeps(&mut waiter, at(13_000));
        asks(&mut waiter, at(22_999));
        waiter.answered(Err(silence()), false, at(23_000));
        assert_eq!(sleeps(&mut waiter, at(23_000)), at(23_000));
        assert!(matches!(waiter.next(at(23_000)), Step::Done(Verdict::Unavailable(_))));
    }

    #[test]
    fn failures_that_do_not_pass_end_the_wait_at_once() {
        for kind in [FaultKind::Authentication, FaultKind::Permission, FaultKind::KeyType(Role::Lock)] {
            let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(Err(Fault { kind, ..Fault::unreachable("") }), false, at(1));
            assert!(matches!(waiter.next(at(1)), Step::Done(Verdict::Failed(_))));
        }
    }

    fn not_replicated(sent: u64) -> Exchange<Acquired> {
        let reply = Acquired::NotReplicated { acknowledged: 1, waited: Duration::from_millis(100) };
        Ok(Answered { reply, sent: at(sent) })
    }

    #[test]
    fn a_grant_that_too_few_replicas_acknowledged_ends_every_wait_at_once_and_is_released_without_a_tombstone() {
        for patience in [Patience::Try, Patience::Until(at(60_000)), Patience::Forever] {
            let mut waiter = Waiter::new(patience, TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(not_replicated(0), false, at(101));
            let Step::Done(Verdict::NotReplicated { acknowledged: 1, waited }) = waiter.next(at(101)) else {
                panic!("{patience:?} goes on")
            };
            assert_eq!(waited, Duration::from_millis(100));
            assert!(waiter.must_release() && !waiter.is_unanswered());
            // The server was busy with waiting, and answers: it is asked to release while the caller looks on.
            assert!(waiter.is_reachable(Duration::from_millis(2)));
        }
    }

    #[test]
    fn a_grant_that_too_few_replicas_acknowledged_after_an_unanswered_acquire_owes_a_tombstone() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(Err(silence()), false, at(1_000));
        let woken = sleeps(&mut waiter, at(1_000));
        asks(&mut waiter, woken);
        waiter.answered(not_replicated(1_200), false, at(1_301));
        assert!(matches!(waiter.next(at(1_301)), Step::Done(Verdict::NotReplicated { .. })));
        assert!(waiter.must_release() && waiter.is_unanswered());
    }

    #[test]
    fn a_grant_whose_replicas_took_it_past_its_deadline_is_no_grant() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        // Counted from before the acquire, however long the server then waited.
        waiter.answered(granted(0), false, at(2_999));
        asks(&mut waiter, at(2_999));
        assert!(waiter.must_release());
    }

    #[test]
    fn a_lost_answer_of_the_wait_for_replicas_is_asked_again_with_the_same_token() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(Err(silence().after_grant()), false, at(1_100));
        let woken = sleeps(&mut waiter, at(1_100));
        asks(&mut waiter, woken);
        assert!(waiter.must_release() && waiter.is_unanswered());
        waiter.answered(granted(1_300), false, at(1_301));
        assert!(matches!(waiter.next(at(1_301)), Step::Done(Verdict::Granted { .. })));
    }

    #[test]
    fn a_grant_without_word_of_its_replicas_at_the_limit_is_unavailable_not_busy() {
        let mut waiter = Waiter::new(Patience::Until(at(500)), TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(busy(60_000, 0), false, at(1));
        let woken = sleeps(&mut waiter, at(1));
        asks(&mut waiter, woken);
        waiter.answered(Err(silence().after_grant()), false, at(498));
        assert_eq!(sleeps(&mut waiter, at(498)), at(500));
        assert!(matches!(waiter.next(at(500)), Step::Done(Verdict::Unavailable(_))));
    }

    #[test]
    fn a_user_that_may_not_wait_for_replicas_releases_what_it_was_granted() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        let denied = Fault { kind: FaultKind::Permission, ..Fault::unreachable("NOPERM") };
        waiter.answered(Err(denied.after_grant()), false, at(1));
        assert!(matches!(waiter.next(at(1)), Step::Done(Verdict::Failed(_))));
        assert!(waiter.must_release() && !waiter.is_unanswered());
    }

    #[test]
    fn a_close_during_the_wait_for_replicas_leaves_its_verdict() {
        let mut waiter = Waiter::new(Patience::Forever, TIMING, at(0));
        asks(&mut waiter, at(0));
        waiter.answered(not_replicated(0), false, at(101));
        waiter.closed();
        assert!(matches!(waiter.next(at(101)), Step::Done(Verdict::NotReplicated { .. })));
    }

    #[test]
    fn a_stale_connection_or_a_signal_costs_no_pause() {
        for fault in [Fault { stale: true, ..silence() }, Fault { interrupted: true, ..silence() }] {
            let mut waiter = Waiter::new(Patience::Try, TIMING, at(0));
            asks(&mut waiter, at(0));
            waiter.answered(Err(fault), false, at(1));
            asks(&mut waiter, at(1));
        }
    }
}
