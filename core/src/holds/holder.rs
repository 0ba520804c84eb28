//! Who is asking: a number of our own for every thread, never used again.
//!
//! The operating system reuses thread ids, and so does Python: a new thread with an old id would inherit the
//! locks that the old one leaked.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Thread;

/// How holders are told apart. Bindings whose tasks share threads replace both functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holders {
    /// The number of the holder that is running now; numbers never repeat.
    pub(crate) current: fn() -> u64,
    /// What errors call the holder of a number; by default its thread's name.
    pub(crate) name: Option<fn(u64) -> String>,
}

impl Holders {
    /// Threads.
    pub(crate) const THREADS: Holders = Holders { current: current_thread, name: None };

    /// What errors call the holder `number`, on `thread`.
    pub(crate) fn name(&self, number: u64, thread: &Thread) -> String {
        match (self.name, thread.name()) {
            (Some(name), _) => name(number),
            (None, Some(name)) => format!("thread {name:?}"),
            (None, None) => format!("thread {:?}", thread.id()),
        }
    }
}

/// Is told that a thread has ended.
pub(crate) trait ThreadEnd: Send + Sync {
    /// Everything held on the thread of this number is abandoned.
    fn thread_ended(&self, thread: u64);
}

static NEXT: AtomicU64 = AtomicU64::new(1);

#[cfg(shuttle)]
shuttle::thread_local! {
    static NUMBER: Cell<u64> = Cell::new(0);
}

#[cfg(not(shuttle))]
thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

thread_local! {
    static ENDS: Ends = const { Ends(RefCell::new(Vec::new())) };
}

/// A number for a holder that no thread or other holder of this process has or has had.
///
/// For bindings whose tasks share threads, see [`ClientBuilder::holder_function`](crate::ClientBuilder::holder_function).
pub fn new_holder() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number of the running thread as a holder.
pub fn thread_holder() -> u64 {
    current_thread()
}

/// The number of the running thread.
pub(crate) fn current_thread() -> u64 {
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(new_holder());
        }
        number.get()
    })
}

/// Has `listener` told, once, when the running thread ends. False while it is ending: then nobody is told any more.
pub(crate) fn on_thread_end(listener: &Arc<dyn ThreadEnd>) -> bool {
    let noted = ENDS.try_with(|ends| {
        let mut ends = ends.0.borrow_mut();
        if !ends.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(listener))) {
            ends.retain(|known| known.strong_count() > 0);
            ends.push(Arc::downgrade(listener));
        }
    });
    noted.is_ok()
}

struct Ends(RefCell<Vec<Weak<dyn ThreadEnd>>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let thread = current_thread();
        for listener in self.0.borrow_mut().drain(..).filter_map(|listener| listener.upgrade()) {
            listener.thread_ended(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    // What the system gives such a thread is the same again and again: its id, its stack, its thread-local storage.
    #[test]
    fn a_number_is_never_used_again() {
        let numbers: HashSet<u64> = (0..100).map(|_| std::thread::spawn(current_thread).join().unwrap()).collect();
        assert_eq!(numbers.len(), 100);
        assert!(!numbers.contains(&current_thread()));
        assert_eq!(current_thread(), current_thread());
    }
}
