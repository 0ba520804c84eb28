//! A panic on demand, for the tests of what becomes of one.

use crate::boundary::call;

/// Panics inside the library.
#[unsafe(no_mangle)]
pub extern "C" fn redlatch_test_panic() -> i32 {
    #[allow(clippy::panic, reason = "it is what this is for")]
    call(|| panic!("a panic on demand"))
}
