//! The waiters of a client by their tokens, so that others can wake them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Background, Clock, Moment, Monitor};
use crate::holds::current_thread;
use crate::sync::Mutex;
use crate::token::Token;

use super::cancel::CancelToken;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The time was up.
    Tick,
    /// The server gave this waiter its turn.
    Push,
    /// This waiter is now the first of its client for its lock.
    Lead,
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
    leads: bool,
    /// It has not been told yet that it leads.
    told_to_lead: bool,
    cancelled: bool,
    closed: bool,
    /// Its waiter has given up its place and returns.
    left: bool,
    /// The thread that waits, or drives the wait.
    thread: u64,
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
    /// Who waits for each key, in the order of joining.
    lines: HashMap<Box<str>, VecDeque<Token>>,
}

impl WaiterRegistry {
    pub(crate) fn new(clock: &Clock) -> WaiterRegistry {
        WaiterRegistry { clock: clock.clone(), state: Mutex::default() }
    }

    /// A place to sleep for the waiter of `token` for the lock at `key`, until it is dropped.
    ///
    /// The first of a lock's waiters leads: whatever their ranks at the server, one of a client asks often enough to
    /// notice within half a turn that someone else let a turn pass.
    pub(crate) fn join(self: &Arc<Self>, token: &Token, key: &str, cancel: Option<&CancelToken>) -> Sleeper {
        // A manual clock waits for a waiter that is awake: it asks, and sleeps again, at the instant it woke.
        let awake = self.clock.background();
        let bed = Arc::new(Monitor::new(&self.clock, true, BedState::default()));
        let mut state = self.state.lock();
        {
            let mut bed = bed.lock();
            (bed.closed, bed.thread) = (state.closed, current_thread());
        }
        state.beds.insert(token.clone(), bed.clone());
        let line = state.lines.entry(key.into()).or_default();
        line.push_back(token.clone());
        bed.lock().leads = line.len() == 1;
        drop(state);
        if let Some(cancel) = cancel {
            cancel.watch(&bed);
        }
        Sleeper { registry: self.clone(), bed, token: token.clone(), key: key.into(), _awake: awake }
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

    /// A place to sleep for a thread that waits for no lock, and that the end of the client wakes.
    pub(crate) fn nap(self: &Arc<Self>, token: &Token) -> Sleeper {
        self.join(token, "", None)
    }

    fn leave(&self, token: &Token, key: &str) {
        let mut state = self.state.lock();
        state.beds.remove(token);
        let Some(line) = state.lines.get_mut(key) else { return };
        let led = line.front() == Some(token);
        if led {
            // The usual case, in a line that may be long.
            line.pop_front();
        } else {
            line.retain(|waiting| waiting != token);
        }
        let next = line.front().cloned();
        if next.is_none() {
            state.lines.remove(key);
        }
        let bed = next.filter(|_| led).and_then(|next| state.beds.get(&next).cloned());
        drop(state);
        if let Some(bed) = bed {
            let mut state = bed.lock();
            (state.leads, state.told_to_lead) = (true, true);
            drop(state);
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

    /// Wakes everyone, for good. Returns where they sleep, see [`WaiterRegistry::await_leaving`].
    pub(crate) fn close(&self) -> Vec<Arc<Bed>> {
        let beds = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.beds)
        };
        for bed in beds.values() {
            bed.lock().closed = true;
            bed.notify_all();
        }
        beds.into_values().collect()
    }

    /// Waits until everyone has left, until `by` at the latest.
    pub(crate) fn await_leaving(&self, beds: &[Arc<Bed>], by: Moment) {
        // Those on this thread leave when it goes on.
        let me = current_thread();
        for bed in beds {
            let mut state = bed.lock();
            while state.thread != me && !state.left && self.clock.now() < by {
                state = state.wait_until(by);
            }
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
pub(crate) struct Sleeper {
    registry: Arc<WaiterRegistry>,
    bed: Arc<Bed>,
    token: Token,
    key: Box<str>,
    _awake: Background,
}

impl Sleeper {
    /// Sleeps until `until` or until woken; also for what came since the last [`Sleeper::about_to_ask`]. With `block`, for
    /// that long at most by the system's clock: `None` when nothing has happened by then, or a little earlier.
    pub(crate) fn sleep(&self, until: Moment, block: Option<Duration>) -> Option<Wake> {
        let mut state = self.bed.lock();
        let mut slept = block == Some(Duration::ZERO);
        loop {
            if state.closed {
                return Some(Wake::Closed);
            }
            if state.cancelled {
                return Some(Wake::Cancelled);
            }
            if std::mem::take(&mut state.pushed) {
                return Some(Wake::Push);
            }
            if std::mem::take(&mut state.told_to_lead) {
                return Some(Wake::Lead);
            }
            if let Some(spread) = state.recheck.take() {
                return Some(Wake::Recheck(spread));
            }
            if self.registry.clock.now() >= until {
                return Some(Wake::Tick);
            }
            if slept {
                return None;
            }
            state = state.wait_within(until, block);
            slept = block.is_some();
        }
    }

    /// Whether this waiter is the first of its client for its lock.
    pub(crate) fn leads(&self) -> bool {
        self.bed.lock().leads
    }

    /// Forgets a push that came before: the request that is sent now answers it.
    pub(crate) fn about_to_ask(&self) {
        let mut state = self.bed.lock();
        state.pushed = false;
        state.recheck = None;
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.registry.leave(&self.token, &self.key);
        let mut state = self.bed.lock();
        state.left = true;
        // Only whoever closes the client waits for that.
        let awaited = state.closed;
        drop(state);
        if awaited {
            self.bed.notify_all();
        }
    }
}
