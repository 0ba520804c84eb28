//! The waiters of a client by their tokens, so that others can wake them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Background, Clock, Moment, Monitor};
use crate::token::Token;

use super::cancel::CancelToken;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The time was up.
    Tick,
    /// The server gave this waiter its turn.
    Push,
    /// The inbox came or went: ask again, spread over this time.
    Recheck(Duration),
    /// The caller's [`CancelToken`] fired.
    Cancelled,
    /// The client was closed.
    Closed,
}

/// Where one waiter sleeps.
pub(crate) type Bed = Monitor<BedState>;

#[derive(Debug, Default)]
pub(crate) struct BedState {
    pushed: bool,
    recheck: Option<Duration>,
    cancelled: bool,
    closed: bool,
}

/// Everyone who waits through one client.
#[derive(Debug)]
pub(crate) struct WaiterRegistry {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    beds: HashMap<Token, Arc<Bed>>,
}

impl WaiterRegistry {
    pub(crate) fn new(clock: &Clock) -> WaiterRegistry {
        WaiterRegistry { clock: clock.clone(), state: Mutex::default() }
    }

    /// A place to sleep for the waiter of `token`, until it is dropped.
    pub(crate) fn join(&self, token: &Token, cancel: Option<&CancelToken>) -> Sleeper<'_> {
        // A manual clock waits for a waiter that is awake: it asks, and sleeps again, at the instant it woke.
        let awake = self.clock.background();
        let bed = Arc::new(Monitor::new(&self.clock, true, BedState::default()));
        let mut state = self.state.lock();
        bed.lock().closed = state.closed;
        state.beds.insert(token.clone(), bed.clone());
        drop(state);
        if let Some(cancel) = cancel {
            cancel.watch(&bed);
        }
        Sleeper { registry: self, bed, token: token.clone(), _awake: awake }
    }

    /// Wakes the waiter of `token`; one that is not here any more was granted by
    /// a poll, or gave up and passes its turn on.
    pub(crate) fn push(&self, token: &str) {
        let bed = self.state.lock().beds.get(&Token::foreign(token)).cloned();
        if let Some(bed) = bed {
            bed.lock().pushed = true;
            bed.notify_all();
        }
    }

    /// Has everyone ask again within `spread`.
    pub(crate) fn recheck(&self, spread: Duration) {
        let beds: Vec<Arc<Bed>> = self.state.lock().beds.values().cloned().collect();
        // One or two waiters are no herd.
        let spread = if beds.len() > 2 { spread } else { Duration::ZERO };
        for bed in beds {
            bed.lock().recheck = Some(spread);
            bed.notify_all();
        }
    }

    /// Wakes everyone, for good.
    pub(crate) fn close(&self) {
        let beds = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.beds)
        };
        for bed in beds.values() {
            bed.lock().closed = true;
            bed.notify_all();
        }
    }
}

/// Wakes a waiter because its caller wants it back.
pub(super) fn cancel_bed(bed: &Bed) {
    bed.lock().cancelled = true;
    bed.notify_all();
}

/// One waiter's place to sleep.
#[derive(Debug)]
pub(crate) struct Sleeper<'a> {
    registry: &'a WaiterRegistry,
    bed: Arc<Bed>,
    token: Token,
    _awake: Background,
}

impl Sleeper<'_> {
    /// Sleeps until `until` or until woken; also for what came since the last [`Sleeper::about_to_ask`].
    pub(crate) fn sleep(&self, until: Moment) -> Wake {
        let mut state = self.bed.lock();
        loop {
            if state.closed {
                return Wake::Closed;
            }
            if state.cancelled {
                return Wake::Cancelled;
            }
            if std::mem::take(&mut state.pushed) {
                return Wake::Push;
            }
            if let Some(spread) = state.recheck.take() {
                return Wake::Recheck(spread);
            }
            if self.registry.clock.now() >= until {
                return Wake::Tick;
            }
            state = state.wait_until(until);
        }
    }

    /// Forgets a push that came before: the request that is sent now answers it.
    pub(crate) fn about_to_ask(&self) {
        let mut state = self.bed.lock();
        state.pushed = false;
        state.recheck = None;
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.registry.state.lock().beds.remove(&self.token);
    }
}
