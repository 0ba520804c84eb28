//! The one pub/sub channel of a client, on which its waiters are woken.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::clock::{Clock, Moment, Monitor};
use crate::events::{Count, Counters};
use crate::protocol::{INBOX_PREFIX, NO_INBOX};
use crate::renewal::Threads;
use crate::transport::{FaultKind, Listener, Transport};

use super::WaiterRegistry;

/// Time over which waiters ask again when the inbox has come or gone, or was deaf for too long.
const SPREAD: Duration = Duration::from_millis(200);

/// How long a subscription outlives the denial of PUBLISH: by then its waiters have asked again without an inbox. Were
/// it ended at once, a release would take them for dead and pass them over.
const FAREWELL: Duration = Duration::from_secs(1);

/// Gap between two tries to subscribe, in ms, jittered between these.
const RETRY_GAP: std::ops::Range<u64> = 100..500;

/// The inbox and its thread. Push only speeds waiting up: without it everyone polls.
#[derive(Debug)]
pub(crate) struct Inbox {
    channel: String,
    clock: Clock,
    transport: Arc<dyn Transport>,
    waiters: Arc<WaiterRegistry>,
    counters: Arc<Counters>,
    state: Monitor<State>,
    threads: Threads,
}

/// | state | set by | next |
/// |---|---|---|
/// | Unused | – | Down (first contended wait) |
/// | Down | first use, a lost connection | Up, Denied |
/// | Up | subscribed | Down, Denied |
/// | Denied | SUBSCRIBE or PUBLISH forbidden to this user | – |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Unused,
    Down,
    Up,
    Denied,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    stopped: bool,
    /// When listening ends, after a denial.
    ends: Option<Moment>,
    /// An outage that has been logged.
    warned: bool,
}

impl Inbox {
    pub(crate) fn new(
        clock: &Clock,
        transport: Arc<dyn Transport>,
        waiters: Arc<WaiterRegistry>,
        counters: Arc<Counters>,
    ) -> Arc<Inbox> {
        Arc::new(Inbox {
            channel: format!("{INBOX_PREFIX}{}", Uuid::new_v4().hyphenated()),
            clock: clock.clone(),
            transport,
            waiters,
            counters,
            state: Monitor::new(clock, true, State::default()),
            threads: Threads::default(),
        })
    }

    /// The channel to be woken on, or [`NO_INBOX`] while there is none.
    pub(crate) fn name(&self) -> &str {
        if self.state.lock().phase == Phase::Up { &self.channel } else { NO_INBOX }
    }

    /// Opens the inbox if this is the first wait that needs it. Does not wait for it.
    pub(crate) fn open(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.phase != Phase::Unused || state.stopped {
            return;
        }
        state.phase = Phase::Down;
        // Under the lock: the end of the client comes before this and starts nothing, or joins the thread.
        let inbox = self.clone();
        if !self.threads.start("redlatch-inbox", &self.clock, &self.counters, move || inbox.run()) {
            state.phase = Phase::Unused;
        }
    }

    /// Takes in that this user may not publish: nobody would be woken.
    pub(crate) fn publish_denied(&self) {
        self.counters.one(Count::PublishDenied);
        self.deny("PUBLISH");
    }

    /// Has the thread end.
    pub(crate) fn end(&self) {
        self.state.lock().stopped = true;
        self.state.notify_all();
        self.transport.nudge(&self.channel);
    }

    /// Waits for its end.
    pub(crate) fn join(&self) {
        self.threads.join();
    }

    fn run(&self) {
        while self.wants_more() {
            match self.transport.listen(&self.channel, self) {
                Ok(()) => return,
                Err(fault) if matches!(fault.kind, FaultKind::Permission | FaultKind::Incompatible) => {
                    self.deny("SUBSCRIBE");
                    return;
                }
                Err(fault) => self.down(&fault.detail),
            }
            let again = self.clock.now().after(Duration::from_millis(fastrand::u64(RETRY_GAP)));
            let mut state = self.state.lock();
            while !state.stopped && self.clock.now() < again {
                state = state.wait_until(again);
            }
        }
    }

    fn down(&self, why: &str) {
        let mut state = self.state.lock();
        if state.phase == Phase::Denied {
            return;
        }
        let was_up = std::mem::replace(&mut state.phase, Phase::Down) == Phase::Up;
        let warn = !state.stopped && !std::mem::replace(&mut state.warned, true);
        drop(state);
        self.counters.one(Count::InboxLost);
        if warn {
            let server = self.transport.server();
            tracing::warn!(server, error = why, "the inbox is not connected: waiters poll until it is");
        }
        if was_up {
            self.waiters.recheck(SPREAD);
        }
    }

    fn deny(&self, command: &str) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.phase, Phase::Denied) == Phase::Denied {
            return;
        }
        state.ends = Some(self.clock.now().after(FAREWELL));
        drop(state);
        self.counters.one(Count::PushDenied);
        let server = self.transport.server();
        tracing::warn!(server, command, "the access rules deny push: waiters poll; allow &redlatch:inbox:*");
        self.waiters.recheck(SPREAD);
    }
}

impl Listener for Inbox {
    fn subscribed(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Denied {
            return;
        }
        state.phase = Phase::Up;
        let recovered = std::mem::take(&mut state.warned);
        drop(state);
        if recovered {
            tracing::info!(server = self.transport.server(), "the inbox is connected again");
        }
        self.waiters.recheck(SPREAD);
    }

    fn stalled(&self) {
        self.waiters.recheck(SPREAD);
    }

    fn message(&self, token: &str) {
        self.counters.one(Count::Pushes);
        self.waiters.push(token);
    }

    fn wants_more(&self) -> bool {
        let state = self.state.lock();
        !state.stopped && state.ends.is_none_or(|ends| self.clock.now() < ends)
    }
}
