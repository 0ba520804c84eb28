//! Calling off a wait from another thread.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::sync::{AtomicBool, Mutex, Ordering};

use super::registry::{Bed, cancel_bed};

/// Calls off waits from another thread. Clones are the same token; one token can call off many waits.
///
/// Once cancelled it stays so: a wait that begins with it fails at once.
///
/// ```
/// use redlatch::{CancelToken, Client, Error};
///
/// let client = Client::open("memory://")?;
/// let _held = client.lease("report", Default::default())?;
/// let cancel = CancelToken::new();
/// let other = cancel.clone();
/// std::thread::spawn(move || other.cancel());
/// let outcome = client.lock("report")?.acquire_cancellable(None, &cancel);
/// assert!(matches!(outcome, Err(Error::Cancelled { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    beds: Mutex<Vec<Weak<Bed>>>,
}

impl CancelToken {
    /// A token that has not been cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Wakes every wait that uses this token; each returns [`Cancelled`](crate::Error::Cancelled) and gives up its
    /// place in the queue. A request that is on its way is not interrupted: that takes `io_timeout` at most. A lock
    /// that is granted before the wait notices stays granted. Does not block.
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Release);
        let beds = std::mem::take(&mut *self.inner.beds.lock());
        for bed in beds.iter().filter_map(Weak::upgrade) {
            cancel_bed(&bed);
        }
    }

    /// Whether [`cancel`](CancelToken::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn watch(&self, bed: &Arc<Bed>) {
        let mut beds = self.inner.beds.lock();
        beds.retain(|known| known.strong_count() > 0);
        beds.push(Arc::downgrade(bed));
        drop(beds);
        // Cancelled in between, when nobody knew of this bed.
        if self.is_cancelled() {
            cancel_bed(bed);
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelToken(cancelled: {})", self.is_cancelled())
    }
}
