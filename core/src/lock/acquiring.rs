//! From a request for a lock to a lease in care.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::events::{Count, Waiting};
use crate::lease::{Grant, LockSpec};
use crate::protocol::{Acquire, Ask, NO_INBOX, Release, tombstone_life};
use crate::renewal::Job;
use crate::signals::Quiet;
use crate::token::Token;
use crate::waiting::{CancelToken, Patience, Sleeper, Step, Timing, Verdict, Waiter, Wake};

/// How much of the caller's time a wait may spend on giving up its place while the server is there.
const GIVE_UP: Duration = Duration::from_millis(25);

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The lock.
    Lock,
    /// The lease of this token, handed over by its holder.
    HandedOver(Token),
}

/// Where an acquire is.
#[derive(Debug)]
pub(crate) enum Stage {
    Granted(Arc<Grant>),
    /// Someone else has it, and the time to wait is over.
    Busy,
    /// It waits for the lock, and this long if nothing happens.
    Asleep(Duration),
}

/// Asks for the lock until the verdict. `None`: someone else has it.
///
/// Blocks as `patience` says; a try for the limit of one answer at most.
pub(crate) fn acquire(
    engine: &Arc<Engine>,
    spec: &Arc<LockSpec>,
    patience: Patience,
    wanted: Wanted,
    cancel: Option<&CancelToken>,
) -> Result<Option<Arc<Grant>>> {
    let mut acquiring = Acquiring::new(engine, spec, patience, wanted, cancel);
    loop {
        match acquiring.advance(None)? {
            Stage::Granted(grant) => return Ok(Some(grant)),
            Stage::Busy => return Ok(None),
            Stage::Asleep(_) => {}
        }
    }
}

/// One acquire from its first request to its verdict; dropped before that, it gives up.
#[derive(Debug)]
pub(crate) struct Acquiring {
    engine: Arc<Engine>,
    spec: Arc<LockSpec>,
    patience: Patience,
    wanted: Wanted,
    cancel: Option<CancelToken>,
    started: Moment,
    request: Request,
    /// Until when the step that is under way sleeps.
    asleep_until: Option<Moment>,
    /// A signal interrupted the last request: the next one is left in peace.
    interrupted: bool,
    waiting: Option<Waiting>,
    over: bool,
}

impl Acquiring {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        spec: &Arc<LockSpec>,
        patience: Patience,
        wanted: Wanted,
        cancel: Option<&CancelToken>,
    ) -> Acquiring {
        Acquiring {
            engine: engine.clone(),
            spec: spec.clone(),
            patience,
            wanted,
            cancel: cancel.cloned(),
            started: engine.config.clock.now(),
            request: Request::new(engine, spec, patience),
            asleep_until: None,
            interrupted: false,
            waiting: None,
            over: false,
        }
    }

    /// The lock's name.
    pub(crate) fn name(&self) -> &str {
        self.spec.name()
    }

    /// Goes on until the verdict; with `block` until it has slept that long (by the system's clock), or until a signal
    /// interrupted a request.
    ///
    /// After the verdict it stays busy. In a forked child an acquire of the parent is called off.
    pub(crate) fn advance(&mut self, block: Option<Duration>) -> Result<Stage> {
        while !self.over {
            if self.engine.is_inherited() {
                self.leak();
                return Err(Error::Cancelled { name: self.spec.name().to_string() });
            }
            match self.step(block) {
                Some(Verdict::Abandoned) => {
                    self.request.give_up(&self.engine, &self.spec);
                    self.request = Request::new(&self.engine, &self.spec, self.patience);
                }
                Some(verdict) => return self.conclude(verdict),
                None => {
                    let now = self.engine.config.clock.now();
                    return Ok(Stage::Asleep(self.asleep_until.map_or(Duration::ZERO, |until| until.since(now))));
                }
            }
        }
        Ok(Stage::Busy)
    }

    /// Asks and sleeps until the verdict; `None` when `block` is over, or a signal interrupted a request.
    fn step(&mut self, block: Option<Duration>) -> Option<Verdict> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            self.request.waiter.woken(Wake::Cancelled, self.engine.config.clock.now());
            self.asleep_until = None;
        }
        loop {
            if let Some(until) = self.asleep_until {
                self.sleep(until, block)?;
            }
            let Acquiring { engine, spec, wanted, cancel, request, interrupted, .. } = &mut *self;
            let clock = &engine.config.clock;
            if engine.is_closed() {
                request.waiter.closed();
            }
            match request.waiter.next(clock.now()) {
                Step::Ask { join, by } => {
                    let inbox = if join { request.inbox(engine, spec, cancel.as_ref()) } else { NO_INBOX };
                    let ask = match wanted {
                        Wanted::HandedOver(from) => Ask::Adopt { from },
                        Wanted::Lock if join => Ask::Join { score: request.score(), inbox },
                        Wanted::Lock => Ask::Try,
                    };
                    let acquire = Acquire {
                        key: &spec.key,
                        token: &request.token,
                        ttl: spec.options.ttl,
                        fence_retention: engine.config.fence_retention,
                        ask,
                        replication: engine.config.replication,
                    };
                    request.last_sent = Some(clock.now());
                    let quiet = interrupted.then(Quiet::begin);
                    let outcome = engine.transport.acquire(&acquire, by);
                    drop(quiet);
                    *interrupted = matches!(&outcome, Err(fault) if fault.interrupted);
                    request.waiter.answered(outcome, inbox != NO_INBOX, clock.now());
                    if *interrupted && block.is_some() {
                        return None;
                    }
                }
                Step::Sleep { until } => self.asleep_until = Some(until),
                Step::Done(verdict) => return Some(verdict),
            }
        }
    }

    /// Sleeps until `until` or until woken; `None` when `block` is over first.
    fn sleep(&mut self, until: Moment, block: Option<Duration>) -> Option<()> {
        let Acquiring { engine, spec, cancel, request, waiting, .. } = self;
        let clock = &engine.config.clock;
        waiting.get_or_insert_with(|| engine.counters.waiting());
        let sleeper = request
            .sleeper
            .get_or_insert_with(|| engine.waiters.join(&request.token, spec.key.as_str(), cancel.as_ref()));
        let until = if sleeper.leads() { request.waiter.leading(until, clock.now()) } else { until };
        self.asleep_until = Some(until);
        if request.waiter.was_busy() {
            engine.inbox.open();
        }
        let wake = sleeper.sleep(until, block)?;
        match wake {
            Wake::Push => engine.counters.one(Count::PushWakeups),
            Wake::Tick | Wake::Recheck(_) => engine.counters.one(Count::PollWakeups),
            Wake::Lead | Wake::Cancelled | Wake::Closed => {}
        }
        request.waiter.woken(wake, clock.now());
        self.asleep_until = None;
        Some(())
    }

    /// Leaves alone what other threads of the parent may have locked for ever, in a forked child that goes on with an
    /// acquire of its parent.
    fn leak(&mut self) {
        self.over = true;
        std::mem::forget(self.request.sleeper.take());
    }

    fn conclude(&mut self, verdict: Verdict) -> Result<Stage> {
        self.over = true;
        self.waiting = None;
        let Acquiring { engine, spec, request, started, .. } = &mut *self;
        let wait = engine.config.clock.now().since(*started);
        let (counters, name) = (&engine.counters, spec.name());
        let Verdict::Granted { fence, sent } = verdict else {
            request.give_up(engine, spec);
            return match verdict {
                Verdict::NotReplicated { acknowledged, waited } => {
                    counters.one(Count::NotReplicated);
                    Err(engine.not_replicated(name, acknowledged, waited))
                }
                Verdict::Granted { .. } | Verdict::Abandoned | Verdict::Busy => {
                    counters.one(Count::Busy);
                    Ok(Stage::Busy)
                }
                Verdict::TimedOut => {
                    counters.waited_in_vain(name, wait);
                    counters.one(Count::TimedOut);
                    Ok(Stage::Busy)
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
                    counters.waited_in_vain(name, wait);
                    counters.one(Count::Cancelled);
                    Err(Error::Cancelled { name: name.to_owned() })
                }
                Verdict::Closed => {
                    counters.one(Count::AcquireFailed);
                    Err(engine.closed_error("acquire", name))
                }
            };
        };
        request.sleeper = None;
        let unanswered = request.waiter.is_unanswered();
        let grant = Arc::new(Grant::new(spec.clone(), request.token.clone(), fence, sent, unanswered));
        counters.granted(name, wait, request.waiter.was_busy());
        engine.keeper.keep(&grant);
        if engine.is_closed() {
            // Closed while this was granted: nobody would renew it, and nobody has seen it.
            if grant.state.release().is_ok() {
                engine.keeper.forget(&grant);
            }
            release_unseen(engine, &grant);
            return Err(engine.closed_error("acquire", name));
        }
        Ok(Stage::Granted(grant))
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if self.engine.is_inherited() {
            self.leak();
        } else if !self.over && self.request.last_sent.is_some() {
            let _ = self.conclude(Verdict::Cancelled);
        }
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
#[derive(Debug)]
struct Request {
    token: Token,
    waiter: Waiter,
    sleeper: Option<Sleeper>,
    last_sent: Option<Moment>,
}

impl Request {
    fn new(engine: &Engine, spec: &LockSpec, patience: Patience) -> Request {
        let timing = Timing {
            ttl: spec.options.ttl,
            turn: engine.config.turn,
            answer: engine.config.answer_limit(),
            unavailable_after: engine.config.unavailable_after,
        };
        let waiter = Waiter::new(patience, timing, engine.config.clock.now());
        Request { token: Token::new(&engine.owner), waiter, sleeper: None, last_sent: None }
    }

    /// The place in the queue that the server knows.
    fn score(&self) -> Option<u64> {
        self.waiter.place().map(|place| place.score)
    }

    /// The inbox to be woken on; while there is one, this waiter can be found before the server knows of it.
    fn inbox<'e>(&mut self, engine: &'e Engine, spec: &LockSpec, cancel: Option<&CancelToken>) -> &'e str {
        if engine.inbox.name() == NO_INBOX {
            return NO_INBOX;
        }
        let sleeper = self.sleeper.get_or_insert_with(|| engine.waiters.join(&self.token, spec.key.as_str(), cancel));
        sleeper.about_to_ask();
        // Only now: an inbox that goes before this line is seen here, one that goes later wakes the sleeper.
        engine.inbox.name()
    }

    /// Leaves nothing behind: no place in the queue, no key, and no copy of an unanswered acquire that could be granted.
    fn give_up(&mut self, engine: &Engine, spec: &Arc<LockSpec>) {
        if self.waiter.must_release() {
            let unanswered = self.waiter.is_unanswered();
            let now = engine.config.clock.now();
            let ttl = spec.options.ttl;
            let request = Release {
                key: &spec.key,
                token: &self.token,
                tombstone: unanswered.then(|| tombstone_life(ttl)),
                turn: engine.config.turn,
            };
            let done =
                self.waiter.is_reachable(GIVE_UP) && engine.transport.release(&request, now.after(GIVE_UP)).is_ok();
            if !done {
                // A copy on the wire sets the key whenever the server reads it, so this outlasts the ttl.
                let until = self.last_sent.unwrap_or(now).after(tombstone_life(ttl)).after(ttl);
                engine.janitor.release(Job::new(spec, &self.token, unanswered, now, until));
            }
        }
        self.sleeper = None;
    }
}
