//! What Rust threads have to say to Python: one queue, and one thread that may take the GIL.
//!
//! Renewal and the watch over deadlines never take it: however long some C code keeps the GIL, no lease is lost for
//! that. What is said inside a call of a Python thread is kept for the end of that call and said there.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::callback::Loss;
use crate::logs::Record;

/// How long the end of the interpreter waits for what is queued.
const FAREWELL: Duration = Duration::from_secs(2);

/// Something for Python.
pub(crate) enum Event {
    /// An `on_lost` callback to be called, always on the dispatcher's thread.
    Lost(Loss),
    /// A record for the log.
    Log(Record),
    /// A reference that was dropped where nothing may run that its end might run.
    Garbage(Py<PyAny>),
}

impl Event {
    fn deliver(self, py: Python<'_>) -> PyResult<()> {
        match self {
            Event::Lost(loss) => loss.deliver(py),
            Event::Log(record) => return record.deliver(py),
            Event::Garbage(object) => drop(object),
        }
        Ok(())
    }
}

thread_local! {
    /// How deep this thread is in calls that say at their end what was said meanwhile.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static SAID: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
}

/// Says `event` to Python: at the end of the running call, or else on the dispatcher's thread. Never takes the GIL.
pub(crate) fn post(event: Event) {
    let in_call = CALLS.try_with(|calls| calls.get() > 0).unwrap_or(false);
    if in_call && !matches!(event, Event::Lost(_)) {
        SAID.with(|said| said.borrow_mut().push(event));
    } else {
        Link::of_this_process().queue.push(event);
    }
}

/// Runs `work` without the GIL, then says what was said meanwhile; fails when Python code that this runs is
/// interrupted.
pub(crate) fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> (T, PyResult<()>) {
    let outcome = py.detach(|| {
        CALLS.set(CALLS.get() + 1);
        let ended = Ended;
        let outcome = work();
        drop(ended);
        outcome
    });
    (outcome, flush(py))
}

/// Ends a call also when it panics.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        CALLS.set(CALLS.get() - 1);
    }
}

fn flush(py: Python<'_>) -> PyResult<()> {
    if SAID.with(|said| said.borrow().is_empty()) {
        return Ok(());
    }
    let said = SAID.with(RefCell::take);
    let mut outcome = Ok(());
    for event in said {
        // The first interruption counts; the other events are delivered all the same. What else a log's handler raises
        // is no outcome of the call.
        match event.deliver(py) {
            Err(error) if error.is_instance_of::<PyException>(py) => error.write_unraisable(py, None),
            delivered => outcome = outcome.and(delivered),
        }
    }
    outcome
}

/// Called when the module is imported, and in a forked child: gives the process a queue of its own, before it has a
/// second thread. The parent's queue may be locked for ever here.
pub(crate) fn prepare() {
    Link::of_this_process();
}

/// Waits until nothing is queued and nothing is being delivered, for `limit` at most. Not to be called with the GIL.
pub(crate) fn settle(limit: Duration) {
    Link::of_this_process().queue.settle(limit);
}

/// For the end of the interpreter: as [`settle`], then nothing is said any more. Not to be called with the GIL.
pub(crate) fn end() {
    let queue = &Link::of_this_process().queue;
    queue.settle(FAREWELL);
    queue.state().ended = true;
    queue.changed.notify_all();
}

/// The queue of one process; a forked child hangs its own behind its parent's, without any lock.
struct Link {
    pid: u32,
    queue: Queue,
    next: OnceLock<Box<Link>>,
}

static FIRST: OnceLock<Link> = OnceLock::new();

impl Link {
    fn new(pid: u32) -> Link {
        Link { pid, queue: Queue::default(), next: OnceLock::new() }
    }

    fn of_this_process() -> &'static Link {
        let pid = std::process::id();
        let mut link = FIRST.get_or_init(|| Link::new(pid));
        while link.pid != pid {
            link = link.next.get_or_init(|| Box::new(Link::new(pid)));
        }
        link
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// A thread delivers, or waits for events.
    running: bool,
    /// An event is being delivered.
    busy: bool,
    ended: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&'static self, event: Event) {
        let mut state = self.state();
        if state.ended {
            // The interpreter ends: nobody listens, and references are its own affair.
            std::mem::forget(event);
            return;
        }
        state.events.push_back(event);
        if !state.running {
            let named = std::thread::Builder::new().name("redlatch-python".to_owned());
            // Without a thread the next event tries again.
            state.running = named.spawn(|| self.run()).is_ok();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self) {
        while let Some(event) = self.next() {
            // None when the interpreter ends.
            let delivered = Python::try_attach(|py| {
                if let Err(error) = event.deliver(py) {
                    error.write_unraisable(py, None);
                }
            });
            let mut state = self.state();
            state.busy = false;
            state.ended |= delivered.is_none();
            drop(state);
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Event> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if let Some(event) = state.events.pop_front() {
                state.busy = true;
                return Some(event);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, limit: Duration) {
        let pending = |state: &mut State| state.running && !state.ended && (state.busy || !state.events.is_empty());
        let waited = self.changed.wait_timeout_while(self.state(), limit, pending);
        drop(waited);
    }
}
