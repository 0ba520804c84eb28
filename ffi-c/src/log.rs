//! The log of the library, handed to a function of the program.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;

use redlatch_core::{LogLevel, LogRecord, log_to};

use crate::boundary::call;
use crate::last_error::Failure;
use crate::status::{REDLATCH_IN_USE, REDLATCH_OK};
use crate::text::{self, terminated};

/// For those who look into redlatch itself.
pub const REDLATCH_LOG_DEBUG: i32 = 1;

/// Worth knowing.
pub const REDLATCH_LOG_INFO: i32 = 2;

/// Something is not as it should be, and redlatch goes on.
pub const REDLATCH_LOG_WARN: i32 = 3;

/// A lease was lost, or a defect was found.
pub const REDLATCH_LOG_ERROR: i32 = 4;

/// Told of one record of the log: its level, one of REDLATCH_LOG_...; where it comes from, such as
/// "redlatch::events", and the message with its fields, each of its length, with a NUL behind it and valid during
/// the call only; and the user_data of redlatch_set_log.
pub type LogCallback = Option<
    unsafe extern "C" fn(
        level: i32,
        target: *const c_char,
        target_len: usize,
        message: *const c_char,
        message_len: usize,
        user_data: *mut c_void,
    ),
>;

/// One function that was set; never freed, so that a thread may look at one that has just been replaced.
struct Sink {
    callback: unsafe extern "C" fn(i32, *const c_char, usize, *const c_char, usize, *mut c_void),
    user_data: *mut c_void,
    min_level: i32,
    /// Threads that are in the callback or about to look whether they may be.
    inside: AtomicUsize,
    /// A forked child has none of the parent's threads, whatever `inside` says.
    process: u32,
    /// The one before, so that none of them is a leak.
    before: AtomicPtr<Sink>,
}

static CURRENT: AtomicPtr<Sink> = AtomicPtr::new(ptr::null_mut());

/// The last one that was made.
static NEWEST: AtomicPtr<Sink> = AtomicPtr::new(ptr::null_mut());

fn pass_on(record: &LogRecord) {
    let level = match record.level {
        LogLevel::Error => REDLATCH_LOG_ERROR,
        LogLevel::Warn => REDLATCH_LOG_WARN,
        LogLevel::Info => REDLATCH_LOG_INFO,
        _ => REDLATCH_LOG_DEBUG,
    };
    // SAFETY: NULL, or a box that is never freed.
    let Some(sink) = (unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }) else { return };
    if level < sink.min_level {
        return;
    }
    let (target, message) = (terminated(record.target), terminated(&record.text));
    sink.inside.fetch_add(1, Ordering::SeqCst);
    // Replaced before it was seen that this thread is inside: its data may be gone.
    if ptr::eq(CURRENT.load(Ordering::SeqCst), sink) {
        let (target_len, message_len) = (target.len() - 1, message.len() - 1);
        // SAFETY: the program gave this function for this data until it replaces it, which waits for this thread.
        unsafe {
            let (target, message) = (target.as_ptr().cast(), message.as_ptr().cast());
            (sink.callback)(level, target, target_len, message, message_len, sink.user_data);
        }
    }
    sink.inside.fetch_sub(1, Ordering::SeqCst);
}

fn replace(sink: *mut Sink) {
    let before = CURRENT.swap(sink, Ordering::SeqCst);
    // SAFETY: NULL, or a box that is never freed.
    let Some(before) = (unsafe { before.as_ref() }) else { return };
    while before.inside.load(Ordering::SeqCst) > 0 && before.process == std::process::id() {
        #[allow(clippy::disallowed_methods, reason = "waits for a function of the program's, which wakes nobody")]
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Has the log of the library passed to callback, from min_level (REDLATCH_LOG_...) up, for the whole process, and on
/// the thread that each record comes from, several at once perhaps. Replaces the callback before; NULL ends it. Before
/// the first, nothing is logged.
///
/// Waits for a call of the callback before that is under way: once this returns, that one is not called any more and
/// its user_data may go. The callback must not block and must not call any function of redlatch. Texts contain
/// neither tokens nor passwords.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT for an unknown level; REDLATCH_IN_USE where a Rust program has linked this
/// library and its `tracing` subscriber gets the log.
/// Thread-safe. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_set_log(callback: LogCallback, user_data: *mut c_void, min_level: i32) -> i32 {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    call(|| {
        let Some(callback) = callback else {
            replace(ptr::null_mut());
            return Ok(REDLATCH_OK);
        };
        if !(REDLATCH_LOG_DEBUG..=REDLATCH_LOG_ERROR).contains(&min_level) {
            return Err(Failure::invalid(format!("min_level is {min_level}: one of REDLATCH_LOG_... is expected")));
        }
        let process = std::process::id();
        let inside = AtomicUsize::new(0);
        let before = AtomicPtr::default();
        let sink = Box::into_raw(Box::new(Sink { callback, user_data, min_level, inside, process, before }));
        // SAFETY: a box that is never freed.
        unsafe { &*sink }.before.store(NEWEST.swap(sink, Ordering::SeqCst), Ordering::SeqCst);
        if !INSTALLED.load(Ordering::SeqCst) && log_to(|record| pass_on(&record)) {
            INSTALLED.store(true, Ordering::SeqCst);
        }
        if !INSTALLED.load(Ordering::SeqCst) {
            return Err(Failure::new(REDLATCH_IN_USE, "the log goes to a tracing subscriber of this process already"));
        }
        replace(sink);
        Ok(REDLATCH_OK)
    })
}

/// Puts a message, message_len bytes, into the log with target "redlatch::program", as if the library had logged it: for
/// bindings that are made with this header and have nobody to tell. It goes where redlatch_set_log says.
///
/// REDLATCH_OK, also where nobody gets the log; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_log(level: i32, message: *const c_char, message_len: usize) -> i32 {
    const TARGET: &str = "redlatch::program";
    call(|| {
        // SAFETY: the caller says that the text can be read.
        let message = unsafe { text::read(message, message_len, "message") }?;
        match level {
            REDLATCH_LOG_DEBUG => tracing::debug!(target: TARGET, "{message}"),
            REDLATCH_LOG_INFO => tracing::info!(target: TARGET, "{message}"),
            REDLATCH_LOG_WARN => tracing::warn!(target: TARGET, "{message}"),
            REDLATCH_LOG_ERROR => tracing::error!(target: TARGET, "{message}"),
            _ => return Err(Failure::invalid(format!("level is {level}: one of REDLATCH_LOG_... is expected"))),
        }
        Ok(REDLATCH_OK)
    })
}
