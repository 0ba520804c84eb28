//! The slots of one server: a pool that callers share, or one slot of a thread's own.

use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Moment;

use super::opener::Opener;
use super::slot::Slot;
use super::{Exchange, Fault};

pub(crate) enum Slots {
    /// Shared by callers.
    ///
    /// `spare` is for releases while all of the pool is busy with waiters: a release waits for no acquire.
    Pool { size: u32, pool: Mutex<Pool>, spare: Mutex<Slot> },
    /// One thread's own.
    Own(Mutex<Slot>),
}

/// r2d2 runs a thread for each pool, from its first use until it is dropped.
pub(crate) enum Pool {
    Unused,
    Open(r2d2::Pool<SlotManager>),
    Closed,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Slots::Pool { size, .. } => write!(f, "Pool({size})"),
            Slots::Own(_) => f.write_str("Own"),
        }
    }
}

/// What a request may push aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nobody else goes on before it is done.
    Release,
    Other,
}

/// Gives r2d2 empty slots at once: connecting happens later, on the thread and within the time of a caller
/// who can be told why it failed.
pub(crate) struct SlotManager;

impl r2d2::ManageConnection for SlotManager {
    type Connection = Slot;
    type Error = Infallible;

    fn connect(&self) -> Result<Slot, Infallible> {
        Ok(Slot::empty())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Infallible> {
        Ok(())
    }

    /// A failed connection has left its slot empty, which is as good as new.
    fn has_broken(&self, _: &mut Slot) -> bool {
        false
    }
}

impl Slots {
    /// A pool of `size` slots. Starts no thread before its first use.
    pub(crate) fn pooled(size: u32) -> Slots {
        Slots::Pool { size, pool: Mutex::new(Pool::Unused), spare: Mutex::new(Slot::empty()) }
    }

    /// One slot.
    pub(crate) fn own() -> Slots {
        Slots::Own(Mutex::new(Slot::empty()))
    }

    /// Ends the pool and its thread; calls after that have connections of their own.
    pub(crate) fn close(&self) {
        if let Slots::Pool { pool, .. } = self {
            *pool.lock() = Pool::Closed;
        }
    }

    fn open(size: u32) -> r2d2::Pool<SlotManager> {
        // All slots exist from the start and never expire, so the pool's thread has nothing to do after that.
        let threads = scheduled_thread_pool::ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern("redlatch-pool")
            .build();
        r2d2::Pool::builder()
            .max_size(size)
            .min_idle(None)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_on_check_out(false)
            .thread_pool(Arc::new(threads))
            .build_unchecked(SlotManager)
    }

    /// Runs `work` on a slot, which is free by `by`.
    pub(crate) fn with<T>(
        &self,
        open: &Opener,
        urgency: Urgency,
        by: Moment,
        work: impl FnOnce(&mut Slot) -> Exchange<T>,
    ) -> Exchange<T> {
        let (pool, spare) = match self {
            Slots::Own(slot) => return work(&mut slot.lock()),
            Slots::Pool { size, pool, spare } => {
                let mut pool = pool.lock();
                if let Pool::Unused = *pool {
                    // It panics when the system refuses its thread.
                    let opened = std::panic::catch_unwind(|| Slots::open(*size));
                    let refused = |_| Fault::unreachable("the system refuses to start the pool's thread");
                    *pool = Pool::Open(opened.map_err(refused)?);
                }
                match &*pool {
                    Pool::Open(pool) => (pool.clone(), spare),
                    // A waiter that leaves its place while the client closes.
                    _ => {
                        drop(pool);
                        return work(&mut Slot::empty());
                    }
                }
            }
        };
        if urgency == Urgency::Release {
            if let Some(mut slot) = pool.try_get() {
                return work(&mut slot);
            }
            let left = by.since(open.clock.now());
            let busy = || Fault::unreachable("other releases were slow");
            return work(&mut *spare.try_lock_for(left).ok_or_else(busy)?);
        }
        let limits = &open.limits;
        let left = by.since(open.clock.now());
        let left = limits.pool.map_or(left, |limit| limit.min(left));
        let mut slot = pool.get_timeout(left).map_err(|_| {
            let size = pool.max_size();
            Fault::unreachable(format!("all {size} connections of the pool (pool_size) were busy for {left:?}"))
        })?;
        work(&mut slot)
    }
}
