//! `on_lost` callbacks.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use redlatch_core::{LockOptions, LostInfo};

use crate::deferred;
use crate::status;
use crate::text::terminated;

/// Told of a lost lease: name and token of name_len and token_len bytes, each with a NUL behind it and valid during
/// the call only; the fence; the reason, one of REDLATCH_LOST_...; and the user_data of its registration.
pub type OnLost = Option<
    unsafe extern "C" fn(
        name: *const c_char,
        name_len: usize,
        token: *const c_char,
        token_len: usize,
        fence: u64,
        reason: i32,
        user_data: *mut c_void,
    ),
>;

/// Frees the user_data of a callback.
pub type Destroy = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// One registration, shared by the handle and the grants that it applies to; its data is destroyed with the last.
pub(crate) struct Registration {
    callback: OnLost,
    user_data: *mut c_void,
    destroy: Destroy,
}

// SAFETY: the header says that the callback and `destroy` run on threads of the library's, so that whoever registers
// them gives data that may be used there.
unsafe impl Send for Registration {}
// SAFETY: as above; only the callback gets at the data, and one after another.
unsafe impl Sync for Registration {}

impl Registration {
    /// # Safety
    /// `callback` and `destroy` may be called with `user_data` on any thread, `destroy` once and last.
    pub(crate) unsafe fn new(callback: OnLost, user_data: *mut c_void, destroy: Destroy) -> Registration {
        Registration { callback, user_data, destroy }
    }

    /// `options` for one grant that tells this callback.
    fn applied(self: Arc<Registration>, options: &LockOptions) -> LockOptions {
        options.clone().on_lost(move |info| self.fire(info))
    }

    fn fire(&self, info: &LostInfo) {
        let Some(callback) = self.callback else { return };
        let (name, token) = (terminated(info.name()), terminated(info.token().as_str()));
        let (name_len, token_len) = (name.len() - 1, token.len() - 1);
        let reason = status::of_reason(Some(info.reason()));
        // SAFETY: `new` was promised that it may be called so; the texts outlive the call.
        unsafe {
            let (name, token) = (name.as_ptr().cast(), token.as_ptr().cast());
            callback(name, name_len, token, token_len, info.fence(), reason, self.user_data);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        deferred::post(self.destroy, self.user_data);
    }
}

/// The registration of a handle, which its next grants take with them.
#[derive(Default)]
pub(crate) struct Slot {
    /// Whether there was ever one, so that handles without callbacks need no lock.
    used: AtomicBool,
    current: Mutex<Option<Arc<Registration>>>,
}

impl Slot {
    /// Replaces the registration; one without a callback is none.
    pub(crate) fn set(&self, registration: Registration) {
        let registration = registration.callback.is_some().then(|| Arc::new(registration));
        self.used.store(true, Ordering::Release);
        let before = std::mem::replace(&mut *self.current.lock(), registration);
        drop(before);
    }

    /// The options of the next grant, where a callback changes them.
    pub(crate) fn applied(&self, options: &LockOptions) -> Option<LockOptions> {
        if !self.used.load(Ordering::Acquire) {
            return None;
        }
        let current = self.current.lock().clone()?;
        Some(current.applied(options))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("used", &self.used).finish_non_exhaustive()
    }
}
