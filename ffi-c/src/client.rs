//! Clients, and what an operator asks them.

use std::ffi::c_char;

use crate::boundary::{borrow, call, free, place};
use crate::options::{self, ClientOptions};
use crate::status::{REDLATCH_NOT_FOUND, REDLATCH_OK};
use crate::{fork, json, text};

/// A way to one Redis or Valkey server, shared by all threads.
#[derive(Debug)]
pub struct Client {
    pub(crate) client: redlatch_core::Client,
}

/// Makes a client of the server at url, url_len bytes: redis://, unix://, redis+sentinel:// or redis+cluster://, with
/// rediss in place of redis for TLS, or memory:// for a store inside this process. options may be NULL for the defaults.
///
/// Opens no connection and starts no thread: both begin when first needed, and end with the client.
///
/// REDLATCH_OK; REDLATCH_CONFIG for a URL or option that is refused, or a TLS file that cannot be used;
/// REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_client_open(
    url: *const c_char,
    url_len: usize,
    options: *const ClientOptions,
    client: *mut *mut Client,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(client, "client") }?;
        out.make(|| {
            // SAFETY: the caller says that the text can be read.
            let url = unsafe { text::read(url, url_len, "url") }?;
            // SAFETY: the caller says that they are NULL or as large as they say, and their texts can be read.
            let client = unsafe { options::client(url, options) }?;
            fork::watch();
            Ok(Client { client })
        })
    })
}

/// Ends the client, whoever still has handles of it: waits return REDLATCH_CLOSED, held leases are lost as
/// REDLATCH_LOST_CLOSED, and their keys lapse by their ttl, which gives the holders that time to notice. Joins the
/// client's threads, except when called from an on_lost callback. Calling it again does nothing.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Blocks for 2 x io_timeout at most, and for a callback that runs. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_client_close(client: *const Client) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        unsafe { borrow(client, "client") }?.client.close();
        Ok(REDLATCH_OK)
    })
}

/// Frees the handle. Locks and leases made with it stay usable, and keep the client going: it ends when the last of
/// its handles is freed. What threads still hold then is released, and no callback is told. NULL is fine.
///
/// Thread-safe. Blocks as redlatch_client_close where it frees the last handle. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_client_free(client: *mut Client) {
    // SAFETY: the caller says that it is NULL or a handle that nobody uses from here on.
    unsafe { free(client) }
}

/// Asks the server who has the lock name. *json gets a text to be freed with redlatch_string_free, NULL unless
/// REDLATCH_OK is returned:
///
///     {"name": "order:17", "token": "...", "owner": "host:4711:label", "ttl_left_ms": 29312, "fence": 1765, "waiters": 2}
///
/// owner is null for a client that is not redlatch, ttl_left_ms for a key without ttl, fence where none is kept.
/// waiters counts some that may be gone. Who knows the token can release the lock: keep it out of logs. Later versions
/// may add fields.
///
/// REDLATCH_OK; REDLATCH_NOT_FOUND when nobody has it; REDLATCH_CONFIG; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT;
/// from the server REDLATCH_UNAVAILABLE, REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_KEY_TYPE,
/// REDLATCH_INCOMPATIBLE.
/// Thread-safe. Blocks for io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_inspect(
    client: *const Client,
    name: *const c_char,
    name_len: usize,
    json: *mut *mut c_char,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(json, "json") }?;
        let found = out.make_text(|| {
            // SAFETY: the caller says that it is NULL or a handle that lives.
            let client = unsafe { borrow(client, "client") }?;
            // SAFETY: the caller says that the text can be read.
            let name = unsafe { text::read(name, name_len, "name") }?;
            Ok(client.client.inspect(name)?.map(|info| json::lock_info(&info)))
        })?;
        Ok(if found { REDLATCH_OK } else { REDLATCH_NOT_FOUND })
    })
}

/// Takes the lock name away from whoever has it, for operators. Its holder finds the lease lost as
/// REDLATCH_LOST_TAKEN at its next renewal, and may work on until then.
///
/// REDLATCH_OK; REDLATCH_NOT_FOUND when nobody had it; otherwise as redlatch_inspect.
/// Thread-safe. Blocks for 2 x io_timeout at most. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_force_release(client: *const Client, name: *const c_char, name_len: usize) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let client = unsafe { borrow(client, "client") }?;
        // SAFETY: the caller says that the text can be read.
        let name = unsafe { text::read(name, name_len, "name") }?;
        Ok(if client.client.force_release(name)? { REDLATCH_OK } else { REDLATCH_NOT_FOUND })
    })
}

/// What the client has done since it was opened (in a forked child: since the fork). *json gets a text to be freed
/// with redlatch_string_free, NULL after a failure: one object of
///
/// - counters, which only grow: acquired, busy, timed_out, unavailable, not_replicated, acquire_failed, cancelled,
///   push_wakeups, poll_wakeups, pushes, inbox_lost, push_denied, renewed, renewal_retried, renewal_failed,
///   renewal_late, released, release_failed, release_unconfirmed, background_released, background_gave_up, abandoned,
///   publish_denied, callback_panicked, thread_panicked;
/// - what is so now: held_now, waiting_now, background_now, and longest_hold_now, which is null or
///   {"name": ..., "held_ms": ...};
/// - lost: an object that counts the lost leases under the words of redlatch_lost_reason_name;
/// - wait_micros, hold_micros, hold_percent_of_ttl, renewal_delay_micros: objects of count, mean, p50, p99, p999, max;
/// - hottest: an array of {"name": ..., "waits": ...}, the names that were waited for most.
///
/// docs/operations.md says what each means. Later versions may add fields.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Asks no server. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_client_stats_json(client: *const Client, json: *mut *mut c_char) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or takes a pointer.
        let out = unsafe { place(json, "json") }?;
        out.make_text(|| {
            // SAFETY: the caller says that it is NULL or a handle that lives.
            let client = unsafe { borrow(client, "client") }?;
            Ok(Some(json::stats(&client.client.stats())))
        })?;
        Ok(REDLATCH_OK)
    })
}
