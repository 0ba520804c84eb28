//! Acquires that their caller drives step by step, to do something else in between.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::Result;

use super::acquiring::{Acquiring, Stage};
use super::thread_lock::Entry;
use super::{Guard, Lease};

/// Where an acquire is that is driven step by step.
#[derive(Debug)]
pub enum Progress<T> {
    /// It is done.
    Granted(T),
    /// Someone else has the lock, and the time to wait is over.
    Busy,
    /// It waits for the lock: the next step is due after this time, or earlier when the lock becomes free.
    Waiting(Duration),
}

/// An acquire of a [`Lock`](crate::Lock) that its caller drives, from [`Lock::begin`](crate::Lock::begin).
///
/// For callers that have to look at something else while they wait, such as an interpreter's signals, and that a
/// [`CancelToken`](crate::CancelToken) does not serve because nobody else would fire it.
///
/// It keeps its place in the queue between steps, and gives it up when it is dropped, which can take 25 ms. Whoever waits for
/// long between steps holds up the queue: its turn falls due.
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Client, Progress};
///
/// let client = Client::open("memory://")?;
/// let _held = client.lease("report", Default::default())?;
/// let lock = client.lock("report")?;
/// let mut request = lock.begin(Some(Duration::from_millis(100)), None);
/// let guard = loop {
///     match request.advance(Duration::from_millis(20))? {
///         Progress::Granted(guard) => break Some(guard),
///         Progress::Busy => break None,
///         Progress::Waiting(_) => println!("still there"),
///     }
/// };
/// assert!(guard.is_none());
/// # Ok::<(), redlatch::Error>(())
/// ```
#[must_use = "nothing is asked before advance()"]
pub struct LockRequest {
    acquiring: Acquiring,
    entry: Entry,
}

/// An acquire of a [`Lease`] that its caller drives, from [`Client::begin_lease`](crate::Client::begin_lease); as
/// [`LockRequest`].
#[must_use = "nothing is asked before advance()"]
pub struct LeaseRequest {
    acquiring: Acquiring,
    engine: Arc<Engine>,
}

impl LockRequest {
    pub(super) fn new(acquiring: Acquiring, entry: Entry) -> LockRequest {
        LockRequest { acquiring, entry }
    }

    /// Goes on until the end, or until it has slept for `block`.
    ///
    /// Returns early when a signal interrupts a request. A request to the server is not cut short: it takes
    /// `connect_timeout` + `io_timeout` at most. After the end it stays [`Busy`](Progress::Busy). The guard belongs to the
    /// holder that began; to be called on that thread.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub fn advance(&mut self, block: Duration) -> Result<Progress<Guard>> {
        if let Some(guard) = self.entry.nested()? {
            return Ok(Progress::Granted(guard));
        }
        Ok(match self.acquiring.advance(Some(block))? {
            Stage::Granted(grant) => Progress::Granted(self.entry.enter(grant)),
            Stage::Busy => Progress::Busy,
            Stage::Asleep(left) => Progress::Waiting(left),
        })
    }
}

impl LockRequest {
    /// Releases what was granted, for a caller who is called off at the last moment and whose guard is
    /// [forgotten](Guard::forget). Of the holder that began, whoever runs now.
    pub fn give_back(self) {
        self.entry.leave();
    }
}

impl LeaseRequest {
    pub(crate) fn new(acquiring: Acquiring, engine: &Arc<Engine>) -> LeaseRequest {
        LeaseRequest { acquiring, engine: engine.clone() }
    }

    /// As [`LockRequest::advance`], on any thread.
    ///
    /// # Errors
    /// As [`Client::lease`](crate::Client::lease).
    pub fn advance(&mut self, block: Duration) -> Result<Progress<Lease>> {
        Ok(match self.acquiring.advance(Some(block))? {
            Stage::Granted(grant) => Progress::Granted(Lease::new(self.engine.clone(), grant)),
            Stage::Busy => Progress::Busy,
            Stage::Asleep(left) => Progress::Waiting(left),
        })
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockRequest").field(&self.acquiring.name()).finish()
    }
}

impl fmt::Debug for LeaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseRequest").field(&self.acquiring.name()).finish()
    }
}
