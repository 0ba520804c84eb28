//! The requests of the protocol to one server, one attempt each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;

use crate::clock::Moment;
use crate::protocol::{
    Acquire, Acquired, Ask, Inspection, Key, Release, ReleaseAnswer, Renew, Renewal, decode_acquire, decode_inspection,
    decode_release, decode_renew, decode_unlock, encode_acquire, encode_inspection, encode_release, encode_renew,
    encode_tombstone, encode_unlock,
};

use super::opener::{Opener, Way};
use super::pool::{Slots, Urgency};
use super::replicas::await_replicas;
use super::slot::Slot;
use super::{Answered, Exchange, Fault, FaultKind};

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) opener: Arc<Opener>,
    slots: Slots,
    /// The last script got no answer. Its hash may be unknown to the server, and then repeating the hash through a
    /// connection that loses replies would never get it executed.
    send_source: AtomicBool,
}

/// What goes before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    Nothing,
    /// To a node that is about to get the key's slot: serve what is here already.
    Asking,
}

impl Server {
    /// Opens nothing and starts no thread.
    pub(crate) fn new(opener: Arc<Opener>, slots: Slots) -> Server {
        Server { opener, slots, send_source: AtomicBool::new(false) }
    }

    pub(crate) fn acquire(&self, lead: Lead, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired> {
        let decode = |value: &Value| decode_acquire(value).map_err(Fault::garbled);
        self.with_slot(Urgency::Other, by, |slot| {
            let thorough = !slot.proven().acquire;
            let answer = self.script_on(slot, lead, by, |whole| encode_acquire(request, thorough, whole), decode);
            slot.proven().acquire |= thorough && answer.is_ok();
            // A token from elsewhere need not have the form of one.
            let from = if let Ask::Adopt { from } = request.ask { from.as_str() } else { "" };
            let answer = answer.map_err(|fault| fault.without(from))?;
            match (answer.reply, request.replication) {
                (Acquired::Granted { .. }, Some(replication)) => {
                    await_replicas(slot, &self.opener, answer, replication, request.ttl, by)
                }
                _ => Ok(answer),
            }
        })
    }

    pub(crate) fn release(&self, lead: Lead, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        // A subscriber of a cluster may be at any node, and each counts its own.
        let counts_all = !matches!(self.opener.way, Way::Node(_));
        self.with_slot(Urgency::Release, by, |slot| {
            let thorough = !slot.proven().release;
            let encode = |whole| encode_release(request, counts_all, thorough, whole);
            let answer = self.script_on(slot, lead, by, encode, |value| decode_release(value).map_err(Fault::garbled));
            slot.proven().release |= thorough && answer.is_ok();
            answer
        })
    }

    /// Sets the tombstone alone.
    pub(crate) fn bury(&self, lead: Lead, request: &Release<'_>, life: Duration, by: Moment) -> Exchange<()> {
        let answer = self.exchange(lead, encode_tombstone(request, life), 1, by)?;
        Ok(Answered { reply: (), sent: answer.sent })
    }

    /// Compare-and-delete of the lock key alone. Nobody is woken; waiters poll.
    pub(crate) fn unlock(&self, lead: Lead, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        let decode = |value: &Value| decode_unlock(value).map_err(Fault::garbled);
        let Answered { reply, sent } =
            self.script(Urgency::Release, lead, by, |whole| encode_unlock(request, whole), decode)?;
        let reply = ReleaseAnswer { released: reply, woken: false, publish_denied: false, damaged: None };
        Ok(Answered { reply, sent })
    }

    /// Renews all of `batch` with one script.
    pub(crate) fn renew(&self, lead: Lead, batch: &[Renew<'_>], probe: bool, by: Moment) -> Exchange<Vec<Renewal>> {
        let decode = |value: &Value| decode_renew(value, batch.len()).map_err(Fault::garbled);
        self.script(Urgency::Other, lead, by, |whole| encode_renew(batch, probe, whole), decode)
    }

    /// Renews each of `batch` with a script of its own, all sent at once; a reply may be an error.
    pub(crate) fn renew_each(&self, batch: &[Renew<'_>], whole: bool, by: Moment) -> Exchange<Vec<Value>> {
        let mut request = Vec::new();
        for (at, item) in batch.chunks(1).enumerate() {
            // The first one teaches the server the script.
            request.extend(encode_renew(item, true, whole && at == 0));
        }
        self.with_slot(Urgency::Other, by, |slot| slot.exchange_each(&self.opener, &request, batch.len(), by))
    }

    pub(crate) fn inspect(&self, lead: Lead, key: &Key, by: Moment) -> Exchange<Inspection> {
        let (request, replies) = encode_inspection(key);
        let Answered { reply, sent } = self.exchange(lead, request, replies, by)?;
        Ok(Answered { reply: inspected(&reply)?, sent })
    }

    /// One command on one key.
    pub(crate) fn ask(&self, lead: Lead, command: &[u8], by: Moment) -> Exchange<Value> {
        self.exchange(lead, command.to_vec(), 1, by)
    }

    pub(crate) fn close(&self) {
        self.slots.close();
        self.opener.close();
    }

    fn exchange(&self, lead: Lead, request: Vec<u8>, replies: usize, by: Moment) -> Exchange<Value> {
        self.with_slot(Urgency::Other, by, |slot| self.exchange_on(slot, lead, request, replies, by))
    }

    fn exchange_on(
        &self,
        slot: &mut Slot,
        lead: Lead,
        request: Vec<u8>,
        replies: usize,
        by: Moment,
    ) -> Exchange<Value> {
        match lead {
            Lead::Nothing => slot.exchange(&self.opener, &request, replies, by),
            Lead::Asking => {
                let mut led = redis::cmd("ASKING").get_packed_command();
                led.extend(request);
                slot.exchange(&self.opener, &led, replies + 1, by)
            }
        }
    }

    fn with_slot<T>(&self, urgency: Urgency, by: Moment, work: impl FnOnce(&mut Slot) -> Exchange<T>) -> Exchange<T> {
        self.slots.with(&self.opener, urgency, by, work)
    }

    /// Runs a script by its hash, and with its source when the server does not know it (yet, or any more).
    fn script<T>(
        &self,
        urgency: Urgency,
        lead: Lead,
        by: Moment,
        encode: impl Fn(bool) -> Vec<u8>,
        decode: impl Fn(&Value) -> Result<T, Fault>,
    ) -> Exchange<T> {
        self.with_slot(urgency, by, |slot| self.script_on(slot, lead, by, encode, decode))
    }

    fn script_on<T>(
        &self,
        slot: &mut Slot,
        lead: Lead,
        by: Moment,
        encode: impl Fn(bool) -> Vec<u8>,
        decode: impl Fn(&Value) -> Result<T, Fault>,
    ) -> Exchange<T> {
        let whole = self.send_source.load(Ordering::Relaxed);
        let mut answer = self.exchange_on(slot, lead, encode(whole), 1, by);
        if matches!(&answer, Err(fault) if fault.is_code("NOSCRIPT")) {
            answer = self.exchange_on(slot, lead, encode(true), 1, by);
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

/// The replies of an inspection, in their order.
pub(crate) fn inspected(replies: &Value) -> Result<Inspection, Fault> {
    decode_inspection(replies).map_err(|why| match why {
        Ok(role) => Fault { kind: FaultKind::KeyType(role), ..Fault::unreachable(role.content()) },
        Err(malformed) => Fault::garbled(malformed),
    })
}
