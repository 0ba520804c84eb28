//! Servers behind one trait of typed requests, one attempt each.
//!
//! Retrying is not done here: who asks knows how long it may take.

mod cluster;
mod fault;
mod hosts;
mod inquiry;
mod listening;
mod login;
mod memory;
mod opener;
mod pool;
mod replicas;
mod resolve;
mod sentinel;
mod server;
mod shown;
mod single;
mod slot;
mod socket;
mod tls;
mod url;
mod words;

use std::fmt;
use std::time::Duration;

pub(crate) use cluster::Cluster;
#[cfg(any(test, fuzzing))]
pub(crate) use cluster::{Map, Redirect, SLOTS, read_slots, slot_of};
pub(crate) use fault::{Fault, FaultKind};
pub(crate) use hosts::{Ring, Seeds};
pub(crate) use inquiry::{Deployment, Respondent};
#[cfg(any(test, fuzzing))]
pub(crate) use listening::confirmed;
#[cfg(any(test, fuzzing))]
pub(crate) use login::Step as LoginStep;
pub(crate) use memory::MemoryServer;
pub(crate) use opener::{Opener, Way};
pub(crate) use sentinel::Sentinels;
#[cfg(any(test, fuzzing))]
pub(crate) use sentinel::read_address;
#[cfg(any(test, fuzzing))]
pub(crate) use server::inspected;
pub(crate) use single::Single;
pub(crate) use tls::TlsFiles;
pub(crate) use url::{Endpoint, Target};
pub(crate) use words::presentable;

use crate::clock::Moment;
use crate::protocol::{Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, Renewal};

/// A reply, with the instant just before its request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<T> {
    pub(crate) reply: T,
    pub(crate) sent: Moment,
}

/// The outcome of one attempt.
pub(crate) type Exchange<T> = Result<Answered<T>, Fault>;

/// A server, or several that act as one. Every call makes one attempt, blocks until `by` at most and
/// leaves no half-used connection behind.
pub(crate) trait Transport: Send + Sync + fmt::Debug {
    fn acquire(&self, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired>;
    fn release(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer>;
    /// For each lease of the batch, what became of it.
    fn renew(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<Renewal>>;
    fn inspect(&self, key: &Key, by: Moment) -> Exchange<Inspection>;
    /// Subscribes to `channel` over a connection of its own and tells `listener` of its messages, until that wants no
    /// more (`Ok`) or the connection fails. Blocks all the while.
    fn listen(&self, channel: &str, listener: &dyn Listener) -> Result<(), Fault>;
    /// Has a blocked [`listen`](Transport::listen) ask its listener soon whether it wants more.
    fn nudge(&self, channel: &str);
    /// Whether it is several servers, of which one may fail alone.
    fn is_several(&self) -> bool {
        false
    }
    /// Which of them has `key`, as far as is known. Asks nobody.
    fn node(&self, _key: &Key) -> u32 {
        0
    }
    /// The same server over a connection of the caller's own, which shares nothing with the pool.
    fn dedicated(&self) -> Box<dyn Transport>;
    /// Who can be asked about themselves, each over a connection of its own that ends with the [`Respondent`]. Finds the
    /// nodes of a cluster by `by`; asks nobody else.
    fn deployment(&self, by: Moment) -> Result<Deployment, Fault>;
    /// Gives back what the transport keeps for its callers; calls after that are slower, not refused.
    fn close(&self) {}
    /// The server for error texts, without credentials.
    fn server(&self) -> &str;
}

/// What hears the messages of a channel.
pub(crate) trait Listener {
    /// From now on no message is missed.
    fn subscribed(&self);
    /// For as long as a turn nobody has listened: the process was stopped, or starved. Whoever did not take a turn in
    /// that time has lost the places of all its waiters.
    fn stalled(&self) {}
    fn message(&self, payload: &str);
    fn wants_more(&self) -> bool;
}

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) io: Duration,
    pub(crate) pool: Option<Duration>,
}
