//! Where every call comes in: no panic goes out, and NULL is an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::deferred;
use crate::last_error::{self, Failure};
use crate::status::{REDLATCH_INTERNAL, REDLATCH_OK};

/// A status that is no error, or what went wrong.
pub(crate) type Outcome = Result<i32, Failure>;

/// Runs the work of one call; its status. A failure is kept as the thread's last error.
pub(crate) fn call(work: impl FnOnce() -> Outcome) -> i32 {
    contain(work).unwrap_or_else(last_error::set)
}

/// As [`call`], for the functions that report the last error: a failure of theirs does not become it.
pub(crate) fn silent_call(work: impl FnOnce() -> Outcome) -> i32 {
    contain(work).unwrap_or_else(Failure::status)
}

/// As [`call`], for functions that cannot fail.
pub(crate) fn run(work: impl FnOnce()) {
    call(|| {
        work();
        Ok(REDLATCH_OK)
    });
}

/// Runs code of the program, or of the library for it, where nobody could be told of a panic.
pub(crate) fn quietly(work: impl FnOnce()) {
    let _ = contain(|| {
        work();
        Ok(REDLATCH_OK)
    });
}

fn contain(work: impl FnOnce() -> Outcome) -> Outcome {
    // What a panic leaves half done is the core's, which keeps its own state whole.
    let work = || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(panicked(&*payload)));
    deferred::inside(work)
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown panic");
    Failure::internal(format!("a defect inside redlatch ended this call: {text}"))
}

/// What a handle or another pointer refers to.
///
/// # Safety
/// `pointer` is NULL, or it points to a `T` that lives for `'a` and that nobody changes meanwhile.
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T, argument: &str) -> Result<&'a T, Failure> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(argument))
}

/// Where a result goes.
///
/// # Safety
/// `pointer` is NULL, or a `T` may be written there for `'a`.
pub(crate) unsafe fn place<'a, T>(pointer: *mut T, argument: &str) -> Result<Place<'a, T>, Failure> {
    if pointer.is_null() { Err(null(argument)) } else { Ok(Place(pointer, std::marker::PhantomData)) }
}

/// A place of the caller's, which may be uninitialised.
pub(crate) struct Place<'a, T>(*mut T, std::marker::PhantomData<&'a mut T>);

impl<T> Place<'_, T> {
    /// Writes the result; what was there before is not read.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: `place` was promised that a `T` may be written here.
        unsafe { self.0.write(value) }
    }
}

impl<T> Place<'_, *mut T> {
    /// Makes a handle and writes it: NULL when it cannot be made.
    pub(crate) fn make(&self, make: impl FnOnce() -> Result<T, Failure>) -> Outcome {
        self.set(std::ptr::null_mut());
        let made = make()?;
        self.set(Box::into_raw(Box::new(made)));
        Ok(REDLATCH_OK)
    }
}

/// Ends a handle; NULL is fine.
///
/// # Safety
/// `handle` is NULL or comes from [`Place::make`], and nobody uses it from here on.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: as promised by the caller, this box is whole and nobody else's.
        run(|| drop(unsafe { Box::from_raw(handle) }));
    }
}

pub(crate) fn null(argument: &str) -> Failure {
    Failure::invalid(format!("{argument} is NULL"))
}

const _: () = assert!(REDLATCH_INTERNAL < 0, "callers take any negative status for an error");
