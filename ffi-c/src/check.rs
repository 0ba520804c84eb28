//! Whether a server is fit for locks.

use std::ffi::{c_char, c_void};

use redlatch_core::Severity;

use crate::boundary::{borrow, call};
use crate::client::Client;
use crate::status::REDLATCH_OK;
use crate::text::terminated;

/// Good to know; also what could not be checked.
pub const REDLATCH_SEVERITY_INFO: i32 = 1;

/// Locks work now. One failure that has to be expected, a restart, a failover or a clock that is set, can give a lock to two
/// holders or leave everyone without.
pub const REDLATCH_SEVERITY_WARNING: i32 = 2;

/// Locks are unsafe as the server is run, or cannot be had at all.
pub const REDLATCH_SEVERITY_PROBLEM: i32 = 3;

/// Told of one finding: its severity, one of REDLATCH_SEVERITY_...; its kind, in a word of docs/operations.md such as
/// "eviction"; the server, node or sentinel that it is about, as a URL without credentials; what was found, what follows
/// and what to do, in English; each text of its length, with a NUL behind it and valid during the call only; and the
/// user_data of redlatch_check_server.
pub type OnFinding = Option<
    unsafe extern "C" fn(
        severity: i32,
        kind: *const c_char,
        kind_len: usize,
        server: *const c_char,
        server_len: usize,
        message: *const c_char,
        message_len: usize,
        user_data: *mut c_void,
    ),
>;

/// Looks whether the server is fit for locks, for the start of a program or by hand: its settings, state and version, the
/// access rules, replicas, sentinels or nodes of a cluster, clocks, and how long a request takes from here. Calls
/// callback for each finding, the worst first, on this thread and before this returns; NULL for none. *worst gets the
/// greatest severity, 0 where nothing was found; NULL for none. Below REDLATCH_SEVERITY_PROBLEM, and
/// without a finding of the kind "not_checked", locks can be had, and are kept as long as the server runs as it does now, if
/// the user has all access rules of docs/operations.md: only a part of them is tried.
///
/// Writes nothing, and leaves no connection behind. What the access rules do not let it ask is a finding of the kind
/// "not_checked", no failure. Later versions may add kinds.
///
/// REDLATCH_OK, whatever was found; REDLATCH_CLOSED; REDLATCH_INVALID_ARGUMENT; where no server could be asked
/// REDLATCH_UNAVAILABLE, REDLATCH_AUTHENTICATION, REDLATCH_PERMISSION, REDLATCH_INCOMPATIBLE.
/// Thread-safe. Blocks for connect_timeout + 4 x io_timeout at most for one server, and in all for 5 x (connect_timeout +
/// io_timeout). Since 0.1.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_check_server(
    client: *const Client,
    callback: OnFinding,
    user_data: *mut c_void,
    worst: *mut i32,
) -> i32 {
    call(|| {
        // SAFETY: the caller says that it is NULL or a handle that lives.
        let findings = unsafe { borrow(client, "client") }?.client.check_server()?;
        if !worst.is_null() {
            let greatest = findings.iter().map(|finding| number(finding.severity())).max();
            // SAFETY: the caller says that it is NULL or takes a number.
            unsafe { worst.write(greatest.unwrap_or(0)) };
        }
        let Some(callback) = callback else { return Ok(REDLATCH_OK) };
        for finding in &findings {
            let [kind, server, message] =
                [finding.kind().as_str(), finding.server(), finding.message()].map(terminated);
            let [kind_len, server_len, message_len] = [&kind, &server, &message].map(|text| text.len() - 1);
            let [kind, server, message] = [&kind, &server, &message].map(|text| text.as_ptr().cast::<c_char>());
            // SAFETY: the caller gave this function for this data; the texts outlive the call.
            unsafe {
                let severity = number(finding.severity());
                callback(severity, kind, kind_len, server, server_len, message, message_len, user_data);
            }
        }
        Ok(REDLATCH_OK)
    })
}

fn number(severity: Severity) -> i32 {
    match severity {
        Severity::Info => REDLATCH_SEVERITY_INFO,
        Severity::Warning => REDLATCH_SEVERITY_WARNING,
        _ => REDLATCH_SEVERITY_PROBLEM,
    }
}
