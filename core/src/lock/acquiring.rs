//! From a request for a lock to a lease in care.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::Count;
use crate::lease::{Grant, LockSpec};
use crate::protocol::{Acquire, Acquired, Ask, NO_INBOX, Release, tombstone_life};
use crate::renewal::Job;
use crate::token::Token;
use crate::transport::Exchange;
use crate::waiting::{CancelToken, Patience, Sleeper, Step, Timing, Verdict, Waiter, Wake};

/// How much of the caller's time a wait may spend on giving up its place while the server is there.
const GIVE_UP: Duration = Duration::from_millis(25);

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Wanted<'a> {
    /// The lock.
    Lock,
    /// The lease of this token, handed over by its holder.
    HandedOver(&'a Token),
}

/// Asks for the lock until the verdict. `None`: someone else has it.
///
/// Blocks as `patience` says; a try for the limit of one answer at most.
pub(crate) fn acquire(
    engine: &Engine,
    spec: &Arc<LockSpec>,
    patience: Patience,
    wanted: &Wanted<'_>,
    cancel: Option<&CancelToken>,
) -> Result<Option<Arc<Grant>>> {
    let clock = &engine.config.clock;
    let started = clock.now();
    loop {
        let mut request = Request { engine, spec, wanted, cancel, token: Token::new(&engine.owner), last_sent: None };
        let timing = Timing {
            ttl: spec.options.ttl,
            turn: engine.config.turn,
            answer: engine.config.answer_limit(),
            unavailable_after: engine.config.unavailable_after,
        };
        let mut waiter = Waiter::new(patience, timing, clock.now());
        let mut sleeper = None;
        let verdict = request.run(&mut waiter, &mut sleeper);
        let now = clock.now();
        let wait = now.since(started);
        let counters = &engine.counters;
        let granted = match verdict {
            Verdict::Granted { fence, sent } => Some((fence, sent)),
            _ => None,
        };
        if granted.is_none() {
            request.give_up(&waiter);
        }
        drop(sleeper);
        let name = &*spec.name;
        return match verdict {
            Verdict::Abandoned => continue,
            Verdict::Granted { fence, sent } => {
                let grant = Grant::new(spec.clone(), request.token, fence, sent, waiter.is_unanswered());
                let grant = Arc::new(grant);
                counters.granted(name, wait, waiter.was_busy());
                engine.keeper.keep(&grant);
                if engine.is_closed() {
                    // Closed while this was granted: nobody would renew it, and nobody has seen it.
                    if grant.state.release().is_ok() {
                        engine.keeper.forget(&grant);
                    }
                    release_unseen(engine, &grant);
                    return Err(engine.closed_error("acquire", name));
                }
                Ok(Some(grant))
            }
            Verdict::NotReplicated { acknowledged, waited } => {
                counters.one(Count::NotReplicated);
                Err(engine.not_replicated(name, acknowledged, waited))
            }
            Verdict::Busy => {
                counters.one(Count::Busy);
                Ok(None)
            }
            Verdict::TimedOut => {
                counters.one(Count::TimedOut);
                counters.waited_in_vain(name, wait);
                Ok(None)
            }
            Verdict::Unavailable(fault) => {
                counters.one(Count::Unavailable);
                Err(engine.error("acquire", spec, fault, wait))
            }
            Verdict::Failed(fault) => {
                counters.one(Count::AcquireFailed);
                Err(engine.error("acquire", spec, fault, wait))
            }
            Verdict::Cancelled => {
                counters.one(Count::Cancelled);
                counters.waited_in_vain(name, wait);
                Err(Error::Cancelled { name: name.to_owned() })
            }
            Verdict::Closed => {
                counters.one(Count::AcquireFailed);
                Err(engine.closed_error("acquire", name))
            }
        };
    }
}

/// One try to release a lease that no caller was given; otherwise it lapses by its ttl.
fn release_unseen(engine: &Engine, grant: &Grant) {
    let turn = engine.config.turn;
    let tombstone = grant.acquire_unanswered.then(|| tombstone_life(grant.ttl()));
    let request = Release { key: &grant.spec.key, token: &grant.token, tombstone, turn };
    let _ = engine.transport.release(&request, engine.config.clock.now().after(GIVE_UP));
}

/// One token on its way to a lease.
struct Request<'a> {
    engine: &'a Engine,
    spec: &'a Arc<LockSpec>,
    wanted: &'a Wanted<'a>,
    cancel: Option<&'a CancelToken>,
    token: Token,
    last_sent: Option<Moment>,
}

impl<'a> Request<'a> {
    fn run(&mut self, waiter: &mut Waiter, sleeper: &mut Option<Sleeper<'a>>) -> Verdict {
        let engine = self.engine;
        let clock = &engine.config.clock;
        let mut counted = None;
        if self.cancel.is_some_and(CancelToken::is_cancelled) {
            waiter.woken(Wake::Cancelled, clock.now());
        }
        loop {
            if engine.is_closed() {
                waiter.closed();
            }
            match waiter.next(clock.now()) {
                Step::Ask { join, by } => {
                    let inbox = if join { self.inbox(sleeper) } else { NO_INBOX };
                    let outcome = self.ask(waiter, join, inbox, by);
                    waiter.answered(outcome, inbox != NO_INBOX, clock.now());
                }
                Step::Sleep { until } => {
                    counted.get_or_insert_with(|| engine.counters.waiting());
                    let sleeper = sleeper
                        .get_or_insert_with(|| engine.waiters.join(&self.token, self.spec.key.as_str(), self.cancel));
                    let until = if sleeper.leads() { waiter.leading(until, clock.now()) } else { until };
                    if waiter.was_busy() {
                        engine.inbox.open();
                    }
                    let wake = sleeper.sleep(until);
                    match wake {
                        Wake::Push => engine.counters.one(Count::PushWakeups),
                        Wake::Tick | Wake::Recheck(_) => engine.counters.one(Count::PollWakeups),
                        Wake::Lead | Wake::Cancelled | Wake::Closed => {}
                    }
                    waiter.woken(wake, clock.now());
                }
                Step::Done(verdict) => return verdict,
            }
        }
    }

    /// The inbox to be woken on; while there is one, this waiter can be found before the server knows of it.
    fn inbox(&self, sleeper: &mut Option<Sleeper<'a>>) -> &'a str {
        let inbox = &self.engine.inbox;
        if inbox.name() == NO_INBOX {
            return NO_INBOX;
        }
        let sleeper =
            sleeper.get_or_insert_with(|| self.engine.waiters.join(&self.token, self.spec.key.as_str(), self.cancel));
        sleeper.about_to_ask();
        // Only now: an inbox that goes before this line is seen here, one that goes later wakes the sleeper.
        inbox.name()
    }

    fn ask(&mut self, waiter: &Waiter, join: bool, inbox: &str, by: Moment) -> Exchange<Acquired> {
        let ask = match self.wanted {
            Wanted::HandedOver(from) => Ask::Adopt { from },
            Wanted::Lock if join => Ask::Join { score: waiter.place().map(|place| place.score), inbox },
            Wanted::Lock => Ask::Try,
        };
        let request = Acquire {
            key: &self.spec.key,
            token: &self.token,
            ttl: self.spec.options.ttl,
            fence_retention: self.engine.config.fence_retention,
            ask,
            replication: self.engine.config.replication,
        };
        self.last_sent = Some(self.engine.config.clock.now());
        self.engine.transport.acquire(&request, by)
    }

    /// Leaves nothing behind: no place in the queue, no key, and no copy of an unanswered acquire that could be granted.
    fn give_up(&self, waiter: &Waiter) {
        if !waiter.must_release() {
            return;
        }
        let unanswered = waiter.is_unanswered();
        let engine = self.engine;
        let now = engine.config.clock.now();
        let ttl = self.spec.options.ttl;
        let request = Release {
            key: &self.spec.key,
            token: &self.token,
            tombstone: unanswered.then(|| tombstone_life(ttl)),
            turn: engine.config.turn,
        };
        if waiter.is_reachable(GIVE_UP) && engine.transport.release(&request, now.after(GIVE_UP)).is_ok() {
            return;
        }
        // A copy on the wire sets the key whenever the server reads it, so this outlasts the ttl.
        let until = self.last_sent.unwrap_or(now).after(tombstone_life(ttl)).after(ttl);
        engine.janitor.release(Job::new(self.spec, &self.token, unanswered, now, until));
    }
}
