//! Texts in both directions.

use std::ffi::{CStr, CString, c_char};

use redlatch_core::Token;

use crate::boundary::{Outcome, Place, null, run};
use crate::last_error::Failure;
use crate::status::{REDLATCH_OK, REDLATCH_TRUNCATED};

/// A buffer of this size takes every token, its NUL included.
pub const REDLATCH_TOKEN_SIZE: usize = 513;

const _: () = assert!(REDLATCH_TOKEN_SIZE == Token::MAX_BYTES + 1);

/// What stands for "as far as its NUL" where a length is asked for: `REDLATCH_NUL_TERMINATED` of the header.
pub(crate) const NUL_TERMINATED: usize = usize::MAX;

/// A text that the caller gives.
///
/// # Safety
/// `text` is NULL, or `length` bytes can be read there for `'a`, or up to a NUL where `length` says so; nobody changes
/// them meanwhile.
pub(crate) unsafe fn read<'a>(text: *const c_char, length: usize, argument: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(argument));
    }
    let bytes = if length == NUL_TERMINATED {
        // SAFETY: the caller says that there is a NUL.
        unsafe { CStr::from_ptr(text) }.to_bytes()
    } else if isize::try_from(length).is_err() {
        return Err(Failure::invalid(format!("the length of {argument} is {length}, which no text has")));
    } else {
        // SAFETY: the caller says that so many bytes can be read; the length is one that a slice may have.
        unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) }
    };
    std::str::from_utf8(bytes)
        .map_err(|error| Failure::invalid(format!("{argument} is not UTF-8 after {} bytes", error.valid_up_to())))
}

/// What becomes of a text that is too long for its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlong {
    /// Its beginning is written.
    Cut,
    /// Nothing is written.
    Refuse,
}

/// Writes `text` and a NUL into a buffer, and the size that this takes to `needed`.
///
/// # Safety
/// `buffer` is NULL or `capacity` bytes can be written there; `needed` is NULL or a size can be written there.
pub(crate) unsafe fn write(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
    overlong: Overlong,
) -> Outcome {
    if buffer.is_null() && capacity > 0 {
        return Err(null("buffer"));
    }
    // Texts may have a NUL of their own, and end there for those who look for one.
    let fits = text.len() < capacity;
    if !needed.is_null() {
        // SAFETY: the caller says that a size can be written there.
        unsafe { needed.write(text.len() + 1) };
    }
    if fits || (overlong == Overlong::Cut && capacity > 0) {
        let end = if fits { text.len() } else { floor_char_boundary(text, capacity - 1) };
        // SAFETY: `end` < `capacity`, and the caller says that so many bytes can be written at `buffer`, which is not
        // part of `text`.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end);
            buffer.add(end).write(0);
        }
    }
    Ok(if fits { REDLATCH_OK } else { REDLATCH_TRUNCATED })
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl Place<'_, *mut c_char> {
    /// Makes a text that the caller frees: NULL when it cannot be made, or when there is none.
    pub(crate) fn make_text(&self, make: impl FnOnce() -> Result<Option<String>, Failure>) -> Result<bool, Failure> {
        self.set(std::ptr::null_mut());
        let Some(text) = make()? else { return Ok(false) };
        let text = CString::new(text).map_err(|_| Failure::internal("a text has a NUL inside"))?;
        self.set(text.into_raw());
        Ok(true)
    }
}

/// `text` with a NUL behind it, for callbacks, which get its length too.
pub(crate) fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    bytes
}

/// Frees a text from redlatch_inspect or redlatch_client_stats_json. NULL is fine.
///
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller says that it comes from `make_text` and is not used from here on.
        run(|| drop(unsafe { CString::from_raw(text) }));
    }
}
