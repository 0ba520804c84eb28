//! The waiters of a client, so that others can wake them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::{Background, Clock, Moment, Monitor};

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The time was up.
    Tick,
    /// The client was closed.
    Closed,
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
    next: u64,
    sleepers: HashMap<u64, Arc<Monitor<bool>>>,
}

impl WaiterRegistry {
    pub(crate) fn new(clock: &Clock) -> WaiterRegistry {
        WaiterRegistry { clock: clock.clone(), state: Mutex::default() }
    }

    /// A place to sleep for one waiter, until it is dropped.
    pub(crate) fn join(&self) -> Sleeper<'_> {
        // A manual clock waits for a waiter that is awake: it asks, and sleeps again, at the instant it woke.
        let awake = self.clock.background();
        let mut state = self.state.lock();
        let bed = Arc::new(Monitor::new(&self.clock, true, state.closed));
        let id = state.next;
        state.next += 1;
        state.sleepers.insert(id, bed.clone());
        Sleeper { registry: self, bed, id, _awake: awake }
    }

    /// Wakes everyone, for good.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        for bed in sleepers.values() {
            *bed.lock() = true;
            bed.notify_all();
        }
    }
}

/// One waiter's place to sleep.
#[derive(Debug)]
pub(crate) struct Sleeper<'a> {
    registry: &'a WaiterRegistry,
    bed: Arc<Monitor<bool>>,
    id: u64,
    _awake: Background,
}

impl Sleeper<'_> {
    /// Sleeps until `until` or until woken.
    pub(crate) fn sleep(&self, until: Moment) -> Wake {
        let mut closed = self.bed.lock();
        loop {
            if *closed {
                return Wake::Closed;
            }
            if self.registry.clock.now() >= until {
                return Wake::Tick;
            }
            closed = closed.wait_until(until);
        }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.registry.state.lock().sleepers.remove(&self.id);
    }
}
