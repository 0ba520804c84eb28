//! What Rust threads have to say to Python: one queue, which a Python thread empties.
//!
//! Renewal and the watch over deadlines never take the GIL: however long some C code keeps it, no lease is lost for that.
//! What is said inside a call of a Python thread is kept for the end of that call and said there.
//!
//! The thread that runs callbacks is Python's (`redlatch._dispatch`), and no Rust frame lies below them on it: up to
//! Python 3.13 the end of the interpreter ends such a thread where it stands, which Rust frames do not survive.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex as ShortMutex;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

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
    /// A function of `redlatch._dispatch` with its arguments.
    fn into_call(self, py: Python<'_>) -> PyResult<(&'static str, Py<PyAny>)> {
        Ok(match self {
            Event::Lost(loss) => ("call", loss.into_arguments(py)?),
            Event::Log(record) => ("log", record.into_arguments(py)?),
            Event::Garbage(object) => ("drop", object),
        })
    }

    /// Delivers it here; fails with what Python code raises.
    fn deliver(self, py: Python<'_>) -> PyResult<()> {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let (function, arguments) = self.into_call(py)?;
        let module = MODULE.get_or_try_init(py, || py.import("redlatch._dispatch").map(Bound::unbind))?;
        module.bind(py).call_method1(function, (arguments,)).map(drop)
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
        Process::current().push(event);
    }
}

/// Runs `work` without the GIL, then says what was said meanwhile; fails when Python code that this runs is interrupted.
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
        // The first interruption counts; the other events are delivered all the same. What else a log's handler raises is
        // no outcome of the call.
        match event.deliver(py) {
            Err(error) if error.is_instance_of::<PyException>(py) => error.write_unraisable(py, None),
            delivered => outcome = outcome.and(delivered),
        }
    }
    outcome
}

/// Has the dispatcher's thread started, if this process has none yet. To be called before a lock is asked for: from then on
/// there may be something to say.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    let process = Process::current();
    let mut state = process.state();
    if state.ended || std::mem::replace(&mut state.started, true) {
        return Ok(());
    }
    drop(state);
    let started = py.import("redlatch._dispatch").and_then(|module| module.call_method0("start"));
    if started.is_err() {
        process.state().started = false;
    }
    started.map(drop)
}

/// For the dispatcher's thread of the process ``pid``: waits for an event; ``None`` in a child forked from it.
#[pyfunction]
pub(crate) fn next_event(py: Python<'_>, pid: u32) -> PyResult<Option<(&'static str, Py<PyAny>)>> {
    let process = Process::current();
    if process.pid != pid {
        // A child that was forked in a callback: its own dispatcher starts when it needs one.
        return Ok(None);
    }
    py.detach(|| process.next()).into_call(py).map(Some)
}

/// Passes what nobody catches to ``sys.unraisablehook``.
#[pyfunction]
pub(crate) fn report(error: Bound<'_, PyAny>, place: Bound<'_, PyAny>) {
    let py = error.py();
    PyErr::from_value(error).write_unraisable(py, Some(&place));
}

/// Called when the module is imported, and in a forked child: gives the process a state of its own, before it has a second
/// thread. The parent's may be locked for ever here.
pub(crate) fn prepare() {
    Process::current();
}

/// Waits until nothing is queued and nothing is being delivered, for `limit` at most. Not to be called with the GIL.
pub(crate) fn settle(limit: Duration) {
    Process::current().settle(limit);
}

/// For the end of the interpreter: as [`settle`], then nothing is said any more, and no thread started. Not to be called with
/// the GIL.
pub(crate) fn end() {
    let process = Process::current();
    process.settle(FAREWELL);
    process.state().ended = true;
    process.changed.notify_all();
}

/// What errors call the holders of this process, by their numbers.
pub(crate) fn names() -> &'static ShortMutex<HashMap<u64, String>> {
    &Process::current().names
}

/// The state of one process; a forked child hangs its own behind its parent's, without any lock.
struct Process {
    pid: u32,
    state: Mutex<State>,
    changed: Condvar,
    names: ShortMutex<HashMap<u64, String>>,
    next: OnceLock<Box<Process>>,
}

static FIRST: OnceLock<Process> = OnceLock::new();

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// The dispatcher's thread was started.
    started: bool,
    /// It has come to run. Where the interpreter ends before a thread that was started does, CPython up to 3.11 crashes.
    begun: bool,
    /// The thread that delivers an event.
    busy: Option<ThreadId>,
    ended: bool,
}

impl Process {
    fn new(pid: u32) -> Process {
        Process {
            pid,
            state: Mutex::default(),
            changed: Condvar::new(),
            names: ShortMutex::default(),
            next: OnceLock::new(),
        }
    }

    fn current() -> &'static Process {
        let pid = std::process::id();
        let mut process = FIRST.get_or_init(|| Process::new(pid));
        while process.pid != pid {
            process = process.next.get_or_init(|| Box::new(Process::new(pid)));
        }
        process
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) {
        let mut state = self.state();
        if state.ended {
            // The interpreter ends: nobody listens, and references are its own affair.
            std::mem::forget(event);
            return;
        }
        state.events.push_back(event);
        drop(state);
        self.changed.notify_all();
    }

    /// Blocks until there is an event; from the end of the interpreter on for ever: a thread that came back to it then would
    /// meet it half taken apart.
    fn next(&self) -> Event {
        let mut state = self.state();
        state.begun = true;
        // Whoever asks for the next one has delivered the last one.
        state.busy = None;
        self.changed.notify_all();
        loop {
            let event = if state.ended { None } else { state.events.pop_front() };
            if let Some(event) = event {
                state.busy = Some(std::thread::current().id());
                return event;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, limit: Duration) {
        let me = std::thread::current().id();
        // A callback does not wait for itself.
        let pending = |state: &mut State| {
            let busy = state.busy.is_some() || !state.events.is_empty() || !state.begun;
            state.started && !state.ended && busy && state.busy != Some(me)
        };
        let waited = self.changed.wait_timeout_while(self.state(), limit, pending);
        drop(waited);
    }
}
