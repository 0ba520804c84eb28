//! From a request for a lock to a lease in care.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LostReason, Result};
use crate::events::Count;
use crate::lease::{Grant, LockSpec};
use crate::protocol::{Acquire, Ask, NO_INBOX, Release, tombstone_life};
use crate::renewal::Job;
use crate::token::Token;
use crate::waiting::{Patience, Step, Timing, Verdict, Waiter, Wake};

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
/// Blocks as `patience` says; a try for `connect_timeout` + `io_timeout` at most.
pub(crate) fn acquire(
    engine: &Engine,
    spec: &Arc<LockSpec>,
    patience: Patience,
    wanted: &Wanted<'_>,
) -> Result<Option<Arc<Grant>>> {
    let clock = &engine.config.clock;
    let started = clock.now();
    loop {
        let mut request = Request { engine, spec, wanted, token: Token::new(&engine.owner), last_sent: None };
        let timing = Timing {
            ttl: spec.options.ttl,
            turn: engine.config.turn,
            answer: engine.config.connect_timeout + engine.config.io_timeout,
            unavailable_after: engine.config.unavailable_after,
        };
        let mut waiter = Waiter::new(patience, timing, clock.now());
        let verdict = request.run(&mut waiter);
        let now = clock.now();
        let wait = now.since(started);
        let counters = &engine.counters;
        counters.add(Count::Polls, waiter.asked().saturating_sub(1));
        let granted = match verdict {
            Verdict::Granted { fence, sent } => Some((fence, sent)),
            _ => None,
        };
        if granted.is_none() {
            request.give_up(&waiter);
        }
        let name = &*spec.name;
        return match verdict {
            Verdict::Abandoned => continue,
            Verdict::Granted { fence, sent } => {
                let grant = Grant::new(spec.clone(), request.token, fence, sent, waiter.is_unanswered());
                let grant = Arc::new(grant);
                counters.granted(name, wait, waiter.was_busy());
                engine.keeper.keep(&grant);
                if engine.is_closed() {
                    // Closed while this was granted: nobody renews it, so nobody may believe in it.
                    engine.keeper.lose(&grant, LostReason::Closed);
                }
                Ok(Some(grant))
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
            Verdict::Closed => {
                counters.one(Count::AcquireFailed);
                Err(engine.closed_error("acquire", name))
            }
        };
    }
}

/// One token on its way to a lease.
struct Request<'a> {
    engine: &'a Engine,
    spec: &'a Arc<LockSpec>,
    wanted: &'a Wanted<'a>,
    token: Token,
    last_sent: Option<Moment>,
}

impl Request<'_> {
    fn run(&mut self, waiter: &mut Waiter) -> Verdict {
        let clock = &self.engine.config.clock;
        let mut sleeper = None;
        let mut counted = None;
        loop {
            if self.engine.is_closed() {
                waiter.closed();
            }
            match waiter.next(clock.now()) {
                Step::Ask { join, by } => {
                    let outcome = self.ask(waiter, join, by);
                    waiter.answered(outcome, clock.now());
                }
                Step::Sleep { until } => {
                    counted.get_or_insert_with(|| self.engine.counters.waiting());
                    let sleeper = sleeper.get_or_insert_with(|| self.engine.waiters.join());
                    if sleeper.sleep(until) == Wake::Closed {
                        waiter.closed();
                    }
                }
                Step::Done(verdict) => return verdict,
            }
        }
    }

    fn ask(
        &mut self,
        waiter: &Waiter,
        join: bool,
        by: Moment,
    ) -> crate::transport::Exchange<crate::protocol::Acquired> {
        let ask = match self.wanted {
            Wanted::HandedOver(from) => Ask::Adopt { from },
            Wanted::Lock if join => Ask::Join { score: waiter.place().map(|place| place.score), inbox: NO_INBOX },
            Wanted::Lock => Ask::Try,
        };
        let request = Acquire {
            key: &self.spec.key,
            token: &self.token,
            ttl: self.spec.options.ttl,
            fence_retention: self.engine.config.fence_retention,
            ask,
        };
        self.last_sent = Some(self.engine.config.clock.now());
        self.engine.transport.acquire(&request, by)
    }

    /// Leaves nothing behind: no place in the queue, and no copy of an unanswered acquire that could be granted.
    fn give_up(&self, waiter: &Waiter) {
        let (queued, unanswered) = (waiter.place().is_some(), waiter.is_unanswered());
        if !queued && !unanswered {
            return;
        }
        let engine = self.engine;
        let now = engine.config.clock.now();
        let ttl = self.spec.options.ttl;
        let request = Release {
            key: &self.spec.key,
            token: &self.token,
            tombstone: unanswered.then(|| tombstone_life(ttl)),
            turn: engine.config.turn,
        };
        if waiter.is_reachable() && engine.transport.release(&request, now.after(GIVE_UP)).is_ok() {
            return;
        }
        // A copy on the wire sets the key whenever the server reads it, so this outlasts the ttl.
        let until = self.last_sent.unwrap_or(now).after(tombstone_life(ttl)).after(ttl);
        engine.janitor.release(Job::new(self.spec, &self.token, unanswered, now, until));
    }
}
