//! The primary that sentinels name.
//!
//! A connection goes to the primary as it is known. Once one has failed, or the primary has said that it is none, the
//! sentinels are asked again, one after another, and what they name has to call itself primary. Each of them gets an
//! equal share of the time, so that one that does not answer leaves the others theirs.
//!
//! Besides, one of them is asked about once a second while requests are made: after a failover by command the former
//! primary goes on as one for 10 s and more, and whoever stays with it has locks that the new one does not know of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Connection, Value};

use crate::clock::{Clock, Moment};

use super::login::{Expected, connect};
use super::opener::{Opened, Opener, Way};
use super::slot::Slot;
use super::words::is_host;
use super::{Endpoint, Fault, FaultKind, Limits, Respondent, Ring};

/// How long an answer is relied on, while nothing fails.
const RELIED_ON: Duration = Duration::from_secs(1);

/// The most time of a request that goes into asking whether its connection still leads to the primary; a quarter of it
/// where it has less.
const CONFIRMING: Duration = Duration::from_millis(100);

/// Sentinels, and what they said last.
#[derive(Debug)]
pub(crate) struct Sentinels {
    ring: Ring,
    known: Mutex<Known>,
    /// Counts the primaries so far.
    term: AtomicU64,
    /// When a sentinel was last asked.
    asked: AtomicU64,
    /// One thread asks at a time: when a primary fails, all connections do at once, and the sentinels have to deal with
    /// that primary.
    round: Mutex<Round>,
}

#[derive(Debug, Default)]
struct Known {
    primary: Option<Endpoint>,
    /// A connection has failed since a sentinel named it.
    doubted: bool,
}

/// The asking of sentinels, and how it went last.
struct Round {
    sentinels: Vec<(Opener, Slot)>,
    /// The one that was right last is asked first.
    first: usize,
    ended: Moment,
    failure: Option<(FaultKind, String)>,
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Round { sentinels: _, first, ended, failure: _ } = self;
        f.debug_struct("Round").field("first", first).field("ended", ended).finish_non_exhaustive()
    }
}

impl Sentinels {
    /// Asks nobody yet.
    pub(crate) fn new(ring: &Ring, limits: Limits, clock: &Clock) -> Sentinels {
        let opener = |endpoint: &Endpoint| Opener { way: Way::Direct(endpoint.clone()), limits, clock: clock.clone() };
        let sentinels = ring.sentinels.iter().map(|endpoint| (opener(endpoint), Slot::empty())).collect();
        let round = Round { sentinels, first: 0, ended: Moment::from_nanos(0), failure: None };
        Sentinels {
            ring: ring.clone(),
            known: Mutex::default(),
            term: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            round: Mutex::new(round),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.ring.as_str()
    }

    /// Whether writes to the primary can raise SIGPIPE.
    pub(crate) fn writes_raise_sigpipe(&self) -> bool {
        self.ring.primary.writes_raise_sigpipe()
    }

    /// The primary as it is known.
    pub(crate) fn primary(&self) -> Option<String> {
        self.known.lock().primary.as_ref().map(|primary| primary.as_str().to_owned())
    }

    /// The service, and every sentinel of the URL.
    pub(super) fn respondents(&self, limits: Limits, clock: &Clock) -> (String, Vec<Respondent>) {
        let opener = |endpoint: &Endpoint| Opener { way: Way::Direct(endpoint.clone()), limits, clock: clock.clone() };
        let respondents = self.ring.sentinels.iter().map(|endpoint| Respondent::new(Arc::new(opener(endpoint))));
        (self.ring.service.clone(), respondents.collect())
    }

    /// Whether connections of this term still lead to the primary. One caller a second asks a sentinel for that; where it
    /// gets no answer, the connection is used on.
    pub(crate) fn is_current(&self, term: u64, clock: &Clock, by: Moment) -> bool {
        if !self.is_of_now(term) {
            return false;
        }
        let now = clock.now();
        if now.since(Moment::from_nanos(self.asked.load(Ordering::Acquire))) < RELIED_ON {
            return true;
        }
        let Some(mut round) = self.round.try_lock() else { return true };
        self.asked.store(now.nanos(), Ordering::Release);
        let by = now.after((by.since(now) / 4).min(CONFIRMING));
        let Some((host, port)) = round.ask_one(&self.ring.service, by) else { return true };
        let named = self.ring.primary.at(&host, port);
        let mut known = self.known.lock();
        let same = known.primary.as_ref().is_none_or(|primary| primary.as_str() == named.as_str());
        // Whether it is right will show when a connection is opened.
        known.doubted |= !same;
        same
    }

    /// Ends the connections to the sentinels; a later question opens new ones.
    pub(crate) fn close(&self) {
        if let Some(mut round) = self.round.try_lock() {
            round.sentinels.iter_mut().for_each(|(_, slot)| slot.taint());
        }
    }

    fn is_of_now(&self, term: u64) -> bool {
        self.term.load(Ordering::Acquire) == term
    }

    /// Takes in a failure over a connection to the primary of this term.
    pub(crate) fn failed(&self, term: u64, fault: Fault) -> Fault {
        let mut known = self.known.lock();
        let current = self.is_of_now(term);
        if current && fault.is_retryable() && !fault.interrupted {
            known.doubted = true;
        }
        match &known.primary {
            Some(primary) if current => fault.at(primary.as_str()),
            _ => fault.at("the former primary"),
        }
    }

    /// A connection to the primary by `by`, its own word for being one included.
    pub(crate) fn connect(&self, clock: &Clock, by: Moment) -> Result<Opened, Fault> {
        let began = clock.now();
        if let Some((primary, term)) = self.trusted() {
            // Half of the time is for the sentinels, if it is gone.
            let half = began.after(by.since(began) / 2);
            match connect(&primary, Expected::Primary, clock, half) {
                Ok(connection) => return Ok(Opened { connection, term }),
                Err(fault) => {
                    let fault = self.failed(term, fault);
                    if !fault.is_retryable() {
                        return Err(fault);
                    }
                }
            }
        }
        let Some(mut round) = self.round.try_lock_for(by.since(clock.now())) else {
            return Err(Fault::unreachable("another thread was still asking the sentinels"));
        };
        // What another thread has found out meanwhile is as good.
        if round.ended > began {
            if let Some((kind, detail)) = &round.failure {
                return Err(Fault { kind: *kind, ..Fault::unreachable(detail.clone()) });
            }
            if let Some((primary, term)) = self.trusted() {
                drop(round);
                let opened = connect(&primary, Expected::Primary, clock, by);
                return opened.map(|connection| Opened { connection, term }).map_err(|fault| self.failed(term, fault));
            }
        }
        let outcome = round.go(&self.ring, clock, by);
        round.ended = clock.now();
        self.asked.store(round.ended.nanos(), Ordering::Release);
        round.failure = outcome.as_ref().err().map(|fault| (fault.kind, fault.detail.clone()));
        outcome.map(|(connection, primary)| Opened { connection, term: self.found(primary) })
    }

    /// The primary as it is known, unless there is reason to ask.
    fn trusted(&self) -> Option<(Endpoint, u64)> {
        let known = self.known.lock();
        let primary = known.primary.as_ref().filter(|_| !known.doubted)?;
        Some((primary.clone(), self.term.load(Ordering::Acquire)))
    }

    /// Takes in a primary. Connections to another one are given up when they are used next.
    fn found(&self, primary: Endpoint) -> u64 {
        let mut known = self.known.lock();
        let same = known.primary.as_ref().is_some_and(|known| known.as_str() == primary.as_str());
        if !same {
            if let Some(former) = known.primary.replace(primary.clone()) {
                let (service, from, to) = (self.ring.service.as_str(), former.as_str(), primary.as_str());
                tracing::info!(service, from, to, "the sentinels name another primary");
            }
            self.term.fetch_add(1, Ordering::AcqRel);
        }
        known.doubted = false;
        self.term.load(Ordering::Acquire)
    }
}

impl Round {
    /// What the sentinel that was right last names; another one is next, if it gives no answer.
    fn ask_one(&mut self, service: &str, by: Moment) -> Option<(String, u16)> {
        let count = self.sentinels.len();
        let (opener, slot) = self.sentinels.get_mut(self.first)?;
        let named = ask(opener, slot, service, by).ok().flatten();
        if named.is_none() {
            self.first = (self.first + 1) % count;
        }
        named
    }

    /// Asks one sentinel after another until one names a server that calls itself primary.
    fn go(&mut self, ring: &Ring, clock: &Clock, by: Moment) -> Result<(Connection, Endpoint), Fault> {
        let count = self.sentinels.len();
        let mut tried: Vec<Endpoint> = Vec::new();
        let mut said: Vec<String> = Vec::new();
        let mut kinds: Vec<FaultKind> = Vec::new();
        for turn in 0..count {
            let index = (self.first + turn) % count;
            let now = clock.now();
            let share = by.since(now) / u32::try_from(count - turn).unwrap_or(u32::MAX);
            let end = now.after(share);
            let Some((opener, slot)) = self.sentinels.get_mut(index) else { continue };
            let mut note = |kind: FaultKind, what: &str| {
                said.push(format!("sentinel {} {what}", opener.server()));
                kinds.push(kind);
            };
            let address = match ask(opener, slot, &ring.service, end) {
                Ok(Some(address)) => address,
                Ok(None) => {
                    note(FaultKind::Incompatible, &format!("knows no service {:?}", ring.service));
                    continue;
                }
                Err(fault) => {
                    note(fault.kind, &format!("failed: {}", fault.detail));
                    continue;
                }
            };
            let primary = ring.primary.at(&address.0, address.1);
            if tried.iter().any(|known| known.as_str() == primary.as_str()) {
                note(FaultKind::Unreachable, &format!("names {} too", primary.as_str()));
                continue;
            }
            match connect(&primary, Expected::Primary, clock, end) {
                Ok(connection) => {
                    self.first = index;
                    return Ok((connection, primary));
                }
                Err(fault) if !fault.is_retryable() => return Err(fault.at(primary.as_str())),
                Err(fault) => note(fault.kind, &format!("names {}: {}", primary.as_str(), fault.detail)),
            }
            tried.push(primary);
        }
        // Only what all of them refuse does not pass.
        let kind = match kinds.first() {
            Some(first) if kinds.iter().all(|kind| kind == first) => *first,
            _ => FaultKind::Unreachable,
        };
        Err(Fault { kind, ..Fault::unreachable(format!("no sentinel led to a primary: {}", said.join("; "))) })
    }
}

/// The address that a sentinel names, if it knows the service.
fn ask(opener: &Opener, slot: &mut Slot, service: &str, by: Moment) -> Result<Option<(String, u16)>, Fault> {
    let request = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service).get_packed_command();
    let mut answer = slot.exchange(opener, &request, 1, by);
    // It may have closed a connection that was idle for long.
    if matches!(&answer, Err(fault) if fault.is_worth_repeating()) {
        answer = slot.exchange(opener, &request, 1, by);
    }
    read_address(&answer?.reply).inspect_err(|_| slot.taint())
}

/// The reply to `SENTINEL GET-MASTER-ADDR-BY-NAME`: nothing for a service that the sentinel does not know.
pub(crate) fn read_address(reply: &Value) -> Result<Option<(String, u16)>, Fault> {
    let fields = match reply {
        Value::Nil => return Ok(None),
        Value::Array(fields) => fields.as_slice(),
        _ => &[],
    };
    let address = match fields {
        [Value::BulkString(host), Value::BulkString(port)] => {
            let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
            let host = std::str::from_utf8(host).ok().filter(|host| is_host(host));
            host.zip(port)
        }
        _ => None,
    };
    let address = address.map(|(host, port)| Some((host.to_owned(), port)));
    address.ok_or_else(|| Fault::unreachable("its answer is no address"))
}
