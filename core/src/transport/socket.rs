//! Connecting to a Unix socket with a limit: the system's own has none.
//!
//! Where the server takes no connections and its queue of them is full, as when it is stopped, connecting waits until the
//! queue has room. Connections that their clients have given up stay in the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisError};

use super::Fault;

/// How many attempts of this process may hang after their callers have given them up, each with a thread.
const MOST: u32 = 32;

/// How many do, and in its upper half in which process: a forked child has none of them.
static HANGING: AtomicU64 = AtomicU64::new(0);

/// Counts one more or one less of this process's.
fn count(change: impl Fn(u32) -> u32) {
    let _ = HANGING.fetch_update(Ordering::AcqRel, Ordering::Acquire, |all| {
        Some(u64::from(std::process::id()) << 32 | u64::from(change(of_this_process(all))))
    });
}

fn of_this_process(all: u64) -> u32 {
    let (process, count) = ((all >> 32) as u32, all as u32);
    if process == std::process::id() { count } else { 0 }
}

/// What `open` gives within `limit`. It runs on a thread of its own, which ends with it; a connection that comes too late is
/// closed.
pub(super) fn within(
    limit: Duration,
    open: impl FnOnce() -> Result<Connection, RedisError> + Send + 'static,
) -> Result<Connection, Fault> {
    if of_this_process(HANGING.load(Ordering::Acquire)) >= MOST {
        return Err(Fault::unreachable(format!("the socket takes no connections: {MOST} attempts hang")));
    }
    let (answer, answered) = mpsc::sync_channel(1);
    // Whoever comes second of the end of the attempt and the end of the caller's time.
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let connecting = move || {
        let opened = open();
        if over.swap(true, Ordering::AcqRel) {
            count(|hanging| hanging.saturating_sub(1));
        }
        // Whoever has given up does not listen any more.
        let _ = answer.send(opened);
    };
    let started = thread::Builder::new().name("redlatch-connect".to_owned()).spawn(connecting);
    if let Err(error) = started {
        return Err(Fault::unreachable(format!("cannot connect: {error}")));
    }
    match answered.recv_timeout(limit) {
        Ok(opened) => opened.map_err(Fault::connecting),
        Err(_) => {
            // Before it is known whether it hangs: whoever takes it back must find it.
            count(|hanging| hanging + 1);
            if is_over.swap(true, Ordering::AcqRel) {
                count(|hanging| hanging.saturating_sub(1));
            }
            Err(Fault::unreachable(format!("the socket took no connection for {limit:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_of_another_process_are_not_counted() {
        let own = u64::from(std::process::id()) << 32;
        assert_eq!((of_this_process(own | 7), of_this_process(7), of_this_process((own + (1 << 32)) | 7)), (7, 0, 0));
    }
}
