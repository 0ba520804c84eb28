//! One server, over a pool of slots or over one slot of its own.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use redis::Value;

use crate::clock::Moment;
use crate::protocol::{
    Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, decode_acquire, decode_inspection,
    decode_release, decode_renew, decode_unlock, encode_acquire, encode_inspection, encode_release, encode_renew,
    encode_tombstone, encode_unlock,
};

use super::listening::listen;
use super::replicas::await_replicas;
use super::slot::{Opener, Slot};
use super::{Answered, Exchange, Fault, FaultKind, Listener, Transport};

/// One server.
#[derive(Debug)]
pub(crate) struct Single {
    opener: Arc<Opener>,
    slots: Slots,
    /// The last script got no answer. Its hash may be unknown to the server, and then repeating the hash through a
    /// connection that loses replies would never get it executed.
    send_source: AtomicBool,
}

enum Slots {
    /// Shared by callers.
    ///
    /// `spare` is for releases while all of the pool is busy with waiters: a release waits for no acquire.
    Pool { size: u32, pool: Mutex<Pool>, spare: Mutex<Slot> },
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

/// What a request may push aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// Nobody else goes on before it is done.
    Release,
    Other,
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
        let slots = Slots::Pool { size, pool: Mutex::new(Pool::Unused), spare: Mutex::new(Slot::empty()) };
        Single { opener: Arc::new(opener), slots, send_source: AtomicBool::new(false) }
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
        self.with_slot(Urgency::Other, by, |slot| slot.exchange(&self.opener, request, replies, by))
    }

    fn with_slot<T>(&self, urgency: Urgency, by: Moment, work: impl FnOnce(&mut Slot) -> Exchange<T>) -> Exchange<T> {
        let (pool, spare) = match &self.slots {
            Slots::Own(slot) => return work(&mut slot.lock()),
            Slots::Pool { size, pool, spare } => {
                let mut pool = pool.lock();
                if let Pool::Unused = *pool {
                    // It panics when the system refuses its thread.
                    let opened = std::panic::catch_unwind(|| Single::pool(*size));
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
            let left = by.since(self.opener.clock.now());
            let busy = || Fault::unreachable("other releases were slow");
            return work(&mut *spare.try_lock_for(left).ok_or_else(busy)?);
        }
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
        urgency: Urgency,
        by: Moment,
        encode: impl Fn(bool) -> Vec<u8>,
        decode: impl Fn(&Value) -> Result<T, Fault>,
    ) -> Exchange<T> {
        self.with_slot(urgency, by, |slot| self.script_on(slot, by, encode, decode))
    }

    fn script_on<T>(
        &self,
        slot: &mut Slot,
        by: Moment,
        encode: impl Fn(bool) -> Vec<u8>,
        decode: impl Fn(&Value) -> Result<T, Fault>,
    ) -> Exchange<T> {
        let whole = self.send_source.load(Ordering::Relaxed);
        let mut answer = slot.exchange(&self.opener, &encode(whole), 1, by);
        if matches!(&answer, Err(fault) if fault.is_code("NOSCRIPT")) {
            answer = slot.exchange(&self.opener, &encode(true), 1, by);
        }
        let unanswered = matches!(&answer, Err(fault) if fault.unanswered);
        if unanswered != whole {
            self.send_source.store(unanswered, Ordering::Relaxed);
        }
        let Answered { reply, sent } = answer?;
        let decoded = decode(&reply);
        if decoded.is_err() {
            slot.taint();
        }
        decoded.map(|reply| Answered { reply, sent })
    }
}

/// Whether a cluster node refused a script because its keys are not all there while their slot is being migrated.
/// Before 7.0 it sends such a script to the node that gets the slot, although keys of it are still here.
fn is_migrating(fault: &Fault) -> bool {
    fault.is_code("TRYAGAIN") || fault.is_code("ASK")
}

impl Single {
    /// Release by commands on one key each: the tombstone first, so that no late copy of the acquire can be granted
    /// after the delete. Nobody is woken; waiters poll.
    fn release_by_single_keys(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        if let Some(life) = request.tombstone {
            self.exchange(&encode_tombstone(request, life), 1, by)?;
        }
        let decode = |value: &Value| decode_unlock(value).map_err(Fault::garbled);
        let Answered { reply, sent } =
            self.script(Urgency::Release, by, |whole| encode_unlock(request, whole), decode)?;
        let reply = ReleaseAnswer { released: reply, woken: false, publish_denied: false, damaged: None };
        Ok(Answered { reply, sent })
    }

    fn renew_one_by_one(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<bool>> {
        let began = self.opener.clock.now();
        let mut renewed = Vec::with_capacity(batch.len());
        for item in batch.chunks(1) {
            let decode = |value: &Value| decode_renew(value, 1).map_err(Fault::garbled);
            renewed.extend(self.script(Urgency::Other, by, |whole| encode_renew(item, false, whole), decode)?.reply);
        }
        Ok(Answered { reply: renewed, sent: began })
    }
}

impl Transport for Single {
    fn acquire(&self, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired> {
        let decode = |value: &Value| decode_acquire(value).map_err(Fault::garbled);
        self.with_slot(Urgency::Other, by, |slot| {
            let answer = self.script_on(slot, by, |whole| encode_acquire(request, whole), decode)?;
            match (answer.reply, request.replication) {
                (Acquired::Granted { .. }, Some(replication)) => {
                    await_replicas(slot, &self.opener, answer, replication, request.ttl, by)
                }
                _ => Ok(answer),
            }
        })
    }

    fn release(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        let encode = |whole| encode_release(request, true, whole);
        let answer = self.script(Urgency::Release, by, encode, |value| decode_release(value).map_err(Fault::garbled));
        match answer {
            Err(fault) if is_migrating(&fault) => self.release_by_single_keys(request, by),
            answer => answer,
        }
    }

    fn renew(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<bool>> {
        let decode = |value: &Value| decode_renew(value, batch.len()).map_err(Fault::garbled);
        let answer = self.script(Urgency::Other, by, |whole| encode_renew(batch, true, whole), decode);
        match answer {
            Err(fault) if is_migrating(&fault) => self.renew_one_by_one(batch, by),
            answer => answer,
        }
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

    fn listen(&self, channel: &str, listener: &dyn Listener) -> Result<(), Fault> {
        listen(&self.opener, channel, listener)
    }

    /// Nothing to do: a listener looks by itself several times a second.
    fn nudge(&self, _channel: &str) {}

    fn dedicated(&self) -> Box<dyn Transport> {
        let slots = Slots::Own(Mutex::new(Slot::empty()));
        Box::new(Single { opener: self.opener.clone(), slots, send_source: AtomicBool::new(false) })
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
