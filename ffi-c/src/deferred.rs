//! `destroy` functions that are due, run where they may call redlatch themselves.
//!
//! The last owner of a callback's data can go on any thread, under locks of the core. So what is due is put on a list,
//! and run by the next call that ends, or by a thread of its own where no call is under way. The list has no lock, which
//! a forked child could find taken for ever.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use crate::boundary;
use crate::callback::Destroy;

struct Node {
    destroy: unsafe extern "C" fn(*mut c_void),
    user_data: *mut c_void,
    next: *mut Node,
}

static DUE: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// How many calls of the program's are under way on this thread, one in another.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Runs a call of the program's, and at its end what is due. `work` contains its panics.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    // One look at the thread's count for begin and end: in a shared library it is a function call.
    CALLS.with(|calls| {
        calls.set(calls.get() + 1);
        let outcome = work();
        let left = calls.get() - 1;
        calls.set(left);
        if left == 0 && !DUE.load(Ordering::Relaxed).is_null() {
            run_due();
        }
        outcome
    })
}

/// Has `destroy` called with `user_data`, once and soon. Does not block.
pub(crate) fn post(destroy: Destroy, user_data: *mut c_void) {
    let Some(destroy) = destroy else { return };
    let node = Box::into_raw(Box::new(Node { destroy, user_data, next: ptr::null_mut() }));
    let mut head = DUE.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else knows of the node yet.
        unsafe { (*node).next = head };
        match DUE.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => head = now,
        }
    }
    if CALLS.with(Cell::get) == 0 {
        // A thread of the library's, perhaps under a lock. Where no thread can be started the next call runs it.
        let _ = thread::Builder::new().name("redlatch-free".to_owned()).spawn(run_due);
    }
}

fn run_due() {
    let mut next = DUE.swap(ptr::null_mut(), Ordering::Acquire);
    while !next.is_null() {
        // SAFETY: `post` made the box, and taking the list made it this thread's alone.
        let node = unsafe { Box::from_raw(next) };
        next = node.next;
        // SAFETY: the program gave this function for this data, and asked for one call, which this is.
        boundary::quietly(|| unsafe { (node.destroy)(node.user_data) });
    }
}
