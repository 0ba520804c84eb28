//! One server, over a pool of slots or over one slot of its own.

use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::Value;

use crate::clock::Moment;
use crate::protocol::{
    Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, decode_acquire, decode_inspection,
    decode_release, decode_renew, encode_acquire, encode_inspection, encode_release, encode_renew,
};

use super::slot::{Opener, Slot};
use super::{Answered, Exchange, Fault, FaultKind, Transport};

/// One server.
#[derive(Debug)]
pub(crate) struct Single {
    opener: Arc<Opener>,
    slots: Slots,
}

enum Slots {
    /// Shared by callers.
    Pool { size: u32, pool: Mutex<Pool> },
    /// One thread's own.
    Own(Mutex<Slot>),
}

/// r2d2 runs a thread for each pool, from its first use until it is dropped.
enum Pool {
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

/// Gives r2d2 empty slots at once: connecting happens later, on the thread and within the time of a caller
/// who can be told why it failed.
struct SlotManager;

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

impl Single {
    /// A server behind a pool of `size` slots. Opens nothing and starts no thread.
    pub(crate) fn pooled(opener: Opener, size: u32) -> Single {
        Single { opener: Arc::new(opener), slots: Slots::Pool { size, pool: Mutex::new(Pool::Unused) } }
    }

    fn pool(size: u32) -> r2d2::Pool<SlotManager> {
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

    fn exchange(&self, request: &[u8], replies: usize, by: Moment) -> Exchange<Value> {
        self.with_slot(by, |slot| slot.exchange(&self.opener, request, replies, by))
    }

    fn with_slot<T>(&self, by: Moment, work: impl FnOnce(&mut Slot) -> Exchange<T>) -> Exchange<T> {
        let pool = match &self.slots {
            Slots::Own(slot) => return work(&mut slot.lock()),
            Slots::Pool { size, pool } => {
                let mut pool = pool.lock();
                if let Pool::Unused = *pool {
                    *pool = Pool::Open(Single::pool(*size));
                }
                match &*pool {
                    Pool::Open(pool) => pool.clone(),
                    // A waiter that leaves its place while the client closes.
                    _ => {
                        drop(pool);
                        return work(&mut Slot::empty());
                    }
                }
            }
        };
        let limits = &self.opener.limits;
        let left = by.since(self.opener.clock.now());
        let left = limits.pool.map_or(left, |limit| limit.min(left));
        let mut slot = pool.get_timeout(left).map_err(|_| {
            let size = pool.max_size();
            Fault::unreachable(format!("all {size} connections of the pool (pool_size) were busy for {left:?}"))
        })?;
        work(&mut slot)
    }

    /// Runs a script by its hash, and with its source when the server does not know it (yet, or any more).
    fn script<T>(
        &self,
        by: Moment,
        encode: impl Fn(bool) -> Vec<u8>,
        decode: impl Fn(&Value) -> Result<T, Fault>,
    ) -> Exchange<T> {
        self.with_slot(by, |slot| {
            let mut answer = slot.exchange(&self.opener, &encode(false), 1, by);
            if matches!(&answer, Err(fault) if is_noscript(fault)) {
                answer = slot.exchange(&self.opener, &encode(true), 1, by);
            }
            let Answered { reply, sent } = answer?;
            let decoded = decode(&reply);
            if decoded.is_err() {
                slot.taint();
            }
            decoded.map(|reply| Answered { reply, sent })
        })
    }
}

fn is_noscript(fault: &Fault) -> bool {
    !fault.unanswered && fault.detail.starts_with("NOSCRIPT")
}

impl Transport for Single {
    fn acquire(&self, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired> {
        self.script(by, |whole| encode_acquire(request, whole), |value| decode_acquire(value).map_err(Fault::garbled))
    }

    fn release(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        self.script(
            by,
            |whole| encode_release(request, true, whole),
            |value| decode_release(value).map_err(Fault::garbled),
        )
    }

    fn renew(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<bool>> {
        let decode = |value: &Value| decode_renew(value, batch.len()).map_err(Fault::garbled);
        self.script(by, |whole| encode_renew(batch, whole), decode)
    }

    fn inspect(&self, key: &Key, by: Moment) -> Exchange<Inspection> {
        let (request, replies) = encode_inspection(key);
        let Answered { reply, sent } = self.exchange(&request, replies, by)?;
        match decode_inspection(&reply) {
            Ok(reply) => Ok(Answered { reply, sent }),
            Err(Ok(role)) => {
                let kind = FaultKind::KeyType(role);
                Err(Fault { kind, ..Fault::unreachable(role.content()) })
            }
            Err(Err(malformed)) => Err(Fault::garbled(malformed)),
        }
    }

    fn dedicated(&self) -> Box<dyn Transport> {
        Box::new(Single { opener: self.opener.clone(), slots: Slots::Own(Mutex::new(Slot::empty())) })
    }

    fn close(&self) {
        if let Slots::Pool { pool, .. } = &self.slots {
            *pool.lock() = Pool::Closed;
        }
    }

    fn server(&self) -> &str {
        self.opener.endpoint.as_str()
    }
}
