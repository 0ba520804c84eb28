//! Who is asking: the running thread, and the greenlet and asyncio task that run on it.
//!
//! A greenlet or task gets its number from a mark that is put on it. The mark goes with it, so that its end is noticed,
//! and no other object that gets its address later is taken for it.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::client::Shared;
use crate::dispatch::names;

/// The attribute that carries the mark.
const MARK: &str = "_redlatch_holder";

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    static NAMED: Named = const { Named(Cell::new(0)) };
}

/// Who is running.
pub(crate) struct Running {
    /// An asyncio event loop runs on this thread: nothing may block it.
    pub(crate) in_event_loop: bool,
    /// The greenlet or task with its mark; `None` for a plain thread.
    marked: Option<(Py<PyAny>, Py<Mark>)>,
}

impl Running {
    /// Has the client told when this greenlet or task ends; a thread's end it notices by itself.
    pub(crate) fn holds(&self, py: Python<'_>, client: &Arc<Shared>) -> PyResult<()> {
        let Some((runner, mark)) = &self.marked else { return Ok(()) };
        let mut clients = mark.get().clients.lock();
        let first = clients.is_empty();
        if !clients.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(client))) {
            clients.retain(|known| known.strong_count() > 0);
            clients.push(Arc::downgrade(client));
        }
        drop(clients);
        if !first {
            return Ok(());
        }
        // A plain greenlet tells nobody of its end; its mark goes when it is collected.
        for watch in [intern!(py, "add_done_callback"), intern!(py, "rawlink")] {
            if let Some(watch) = runner.bind(py).getattr_opt(watch)? {
                watch.call1((mark.bind(py).getattr(intern!(py, "ended"))?,))?;
                break;
            }
        }
        Ok(())
    }
}

/// Finds out who is running; what the core asks from here on, on this thread, is asked by them.
pub(crate) fn enter(py: Python<'_>) -> PyResult<Running> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok::<_, PyErr>(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    let greenlet = running_greenlet(modules)?;
    let (task, in_event_loop) = running_task(modules)?;
    let marked = match (greenlet, task) {
        (None, None) => None,
        (Some(greenlet), None) => Some((mark(&greenlet, MARK, "greenlet")?, greenlet)),
        (None, Some(task)) => Some((mark(&task, MARK, "task")?, task)),
        (Some(greenlet), Some(task)) => {
            // On the greenlet, which ends first: a long task may have many.
            let number = mark(&task, MARK, "task")?.get().number;
            Some((mark(&greenlet, &format!("{MARK}_{number}"), "greenlet")?, greenlet))
        }
    };
    CURRENT.set(match &marked {
        Some((mark, _)) => mark.get().number,
        None => thread(py)?,
    });
    let marked = marked.map(|(mark, runner)| (runner.unbind(), mark));
    Ok(Running { in_event_loop, marked })
}

/// For the core: the holder that entered last on this thread.
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

/// For the core: what errors call a holder.
pub(crate) fn name(holder: u64) -> String {
    let name = names().lock().get(&holder).cloned();
    name.unwrap_or_else(|| format!("holder {holder} of this process"))
}

fn note(holder: u64, name: String) {
    names().lock().insert(holder, name);
}

fn forget(holder: u64) {
    names().lock().remove(&holder);
}

/// The number of this thread, under its Python name. Fails only when the look at that is interrupted.
fn thread(py: Python<'_>) -> PyResult<u64> {
    let number = redlatch::thread_holder();
    let named = NAMED.try_with(|named| named.0.get() == number).unwrap_or(true);
    if !named {
        let thread = py.import("threading")?.call_method0("current_thread")?;
        note(number, format!("thread {:?}", thread.getattr("name")?.to_string()));
        let _ = NAMED.try_with(|named| named.0.set(number));
    }
    Ok(number)
}

/// The number under which this thread's name is known.
struct Named(Cell<u64>);

impl Drop for Named {
    fn drop(&mut self) {
        forget(self.0.get());
    }
}

/// The greenlet that runs, unless it is its thread's main one, or greenlets are not used.
fn running_greenlet<'py>(modules: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = modules.py();
    let current = match CURRENT.get(py) {
        Some(current) => current,
        None => {
            let Some(module) = modules.get_item(intern!(py, "greenlet"))? else { return Ok(None) };
            // A module that is still being imported has none.
            let Some(current) = module.getattr_opt(intern!(py, "getcurrent"))? else { return Ok(None) };
            CURRENT.get_or_init(py, || current.unbind())
        }
    };
    let greenlet = current.bind(py).call0()?;
    let is_main = greenlet.getattr(intern!(py, "parent"))?.is_none();
    Ok((!is_main).then_some(greenlet))
}

/// The asyncio task that runs, and whether an event loop does.
fn running_task<'py>(modules: &Bound<'py, PyDict>) -> PyResult<(Option<Bound<'py, PyAny>>, bool)> {
    static FUNCTIONS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let py = modules.py();
    let (running_loop, current_task) = match FUNCTIONS.get(py) {
        Some(functions) => functions,
        None => {
            let Some(module) = modules.get_item(intern!(py, "asyncio"))? else { return Ok((None, false)) };
            let running_loop = module.getattr_opt(intern!(py, "_get_running_loop"))?;
            let current_task = module.getattr_opt(intern!(py, "current_task"))?;
            // A module that is still being imported has none, and then no loop runs.
            let (Some(running_loop), Some(current_task)) = (running_loop, current_task) else {
                return Ok((None, false));
            };
            FUNCTIONS.get_or_init(py, || (running_loop.unbind(), current_task.unbind()))
        }
    };
    let running_loop = running_loop.bind(py).call0()?;
    if running_loop.is_none() {
        return Ok((None, false));
    }
    let task = current_task.bind(py).call1((running_loop,))?;
    Ok(((!task.is_none()).then_some(task), true))
}

/// What makes a greenlet or task a holder. It ends with it.
#[pyclass(frozen, module = "redlatch._native", name = "_Holder")]
struct Mark {
    number: u64,
    /// Those through which it has held locks.
    clients: Mutex<Vec<Weak<Shared>>>,
}

#[pymethods]
impl Mark {
    /// Called when the task or greenlet has ended, which may be long before it is collected.
    #[pyo3(signature = (ended, /))]
    fn ended(&self, ended: &Bound<'_, PyAny>) {
        let _ = ended;
        self.end();
    }
}

impl Mark {
    fn end(&self) {
        let clients = std::mem::take(&mut *self.clients.lock());
        for client in clients.iter().filter_map(Weak::upgrade) {
            client.client().holder_ended(self.number);
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.end();
        forget(self.number);
    }
}

/// The mark of `object` under `attribute`, put there if need be.
fn mark(object: &Bound<'_, PyAny>, attribute: &str, kind: &str) -> PyResult<Py<Mark>> {
    let py = object.py();
    let attribute = PyString::intern(py, attribute);
    if let Some(found) = object.getattr_opt(&attribute)? {
        return Ok(found.cast_into::<Mark>()?.unbind());
    }
    let number = redlatch::new_holder();
    let mark = Py::new(py, Mark { number, clients: Mutex::default() })?;
    object.setattr(&attribute, &mark)?;
    note(number, format!("{kind} {:?}", title(object)));
    Ok(mark)
}

/// What a greenlet or task is called.
fn title(object: &Bound<'_, PyAny>) -> String {
    let named = object.call_method0("get_name").or_else(|_| object.getattr("name"));
    let named = named.and_then(|name| name.extract::<String>());
    named.unwrap_or_else(|_| format!("at {:#x}", object.as_ptr().addr()))
}
