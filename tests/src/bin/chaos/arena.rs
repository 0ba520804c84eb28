//! The server, the proxy in front of it, and what is done to both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redlatch_tests::history::{Nanos, now};
use redlatch_tests::{Proxy, ReplyFault, SentinelGroup, Server, ServerKind, eventually};

use crate::checker::{Seen, Span};
use crate::plan::{Fault, Phase, Planned};
use crate::witness::Witness;
use crate::{KEYS, RECOVERY, SLACK, TTL};

/// How often one-shot faults are armed at once: one of them alone may meet a reply that nobody needs.
const SHOTS: usize = 4;
/// How late replies or requests come at most, in ms.
const LATE: std::ops::Range<u64> = 30..450;
const LIMIT: Duration = Duration::from_secs(10);
/// A primary that was replaced is left within this time of the sentinels naming another.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// What the clients talk to.
enum Site {
    /// A server behind a proxy.
    Single { server: Box<Server>, proxy: Proxy },
    /// Servers that sentinels watch, without a proxy: clients learn the addresses of the servers themselves.
    Sentinels { group: SentinelGroup, witness: Witness },
}

/// The file of faults, for whoever reads the journals.
pub(crate) struct Log(File);

impl Log {
    /// Writes a line by one system call.
    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        let line = format!("{} {what}\n", now());
        self.0.write_all(line.as_bytes()).expect("the directory of the journals is writable");
    }
}

/// Where a phase takes place.
pub(crate) struct Arena {
    site: Site,
    log: Log,
    clock: PathBuf,
    /// How far the server's clock is ahead, in ms.
    offset: i64,
    /// One-shot faults that had met a reply when they were last armed.
    met: u64,
    open: BTreeMap<Fault, Nanos>,
    /// From before the end of each primary until another was named.
    failovers: Vec<Span>,
    pub(crate) outages: Vec<Span>,
    pub(crate) forgiven: Vec<Span>,
    /// Locks as the server had them.
    pub(crate) seen: Vec<Seen>,
    /// How often which fault happened indeed.
    pub(crate) happened: BTreeMap<Fault, usize>,
}

impl Arena {
    /// `faketime` is the library that steps the clock of the server, where that is wanted.
    pub(crate) fn start(phase: Phase, kind: ServerKind, faketime: Option<&Path>, dir: &Path) -> Arena {
        let clock = dir.join("clock");
        set_clock(&clock, 0);
        let mut builder = Server::builder(kind);
        if phase == Phase::Faithful {
            builder = builder.config("appendonly", "yes").config("appendfsync", "always");
        }
        if let Some(library) = faketime {
            builder = builder
                .variable("LD_PRELOAD", &library.display().to_string())
                .variable("FAKETIME_TIMESTAMP_FILE", &clock.display().to_string())
                .variable("FAKETIME_NO_CACHE", "1")
                .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let log = File::options().append(true).create(true).open(dir.join("faults.log"));
        let log = log.expect("the directory of the journals is writable");
        let site = if phase == Phase::Failover {
            let group = SentinelGroup::start(kind);
            let witness = Witness::start(group.sentinels(), &log);
            Site::Sentinels { group, witness }
        } else {
            let server = Box::new(builder.start());
            Site::Single { proxy: Proxy::in_front_of(&server), server }
        };
        let log = Log(log);
        let (open, happened) = (BTreeMap::new(), BTreeMap::new());
        let (outages, forgiven, failovers) = (Vec::new(), Vec::new(), Vec::new());
        Arena { site, log, clock, offset: 0, met: 0, open, failovers, outages, forgiven, seen: Vec::new(), happened }
    }

    /// Where workers connect to.
    pub(crate) fn url(&self) -> String {
        match &self.site {
            Site::Single { proxy, .. } => proxy.url(),
            Site::Sentinels { group, .. } => group.url(),
        }
    }

    /// The server that has the locks at present.
    pub(crate) fn server(&self) -> &Server {
        match &self.site {
            Site::Single { server, .. } => server,
            Site::Sentinels { group, .. } => {
                // There is none for a while when the sentinels replace one by themselves.
                eventually(4 * LIMIT, || group.primary().is_some());
                group.primary().expect("there is a primary")
            }
        }
    }

    fn proxy(&self) -> &Proxy {
        match &self.site {
            Site::Single { proxy, .. } => proxy,
            Site::Sentinels { .. } => unreachable!("what is done to sentinels needs no proxy"),
        }
    }

    /// Another handle of the file of faults.
    pub(crate) fn log(&self) -> Log {
        Log(self.log.0.try_clone().expect("a file has more than one handle"))
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.log.note(what);
    }

    fn count(&mut self, fault: Fault) {
        *self.happened.entry(fault).or_default() += 1;
    }

    pub(crate) fn begin(&mut self, planned: &Planned) {
        let (fault, before) = (planned.fault, now());
        self.note(format_args!("{fault:?} {:?} begins", planned.span));
        self.open.insert(fault, before);
        match fault {
            Fault::RestartFromLog => self.server().restart(),
            Fault::RestartFromSnapshot => self.shut_down_with_snapshot(),
            Fault::RestartEmpty => self.restart_empty(before),
            Fault::StopServer => self.server().pause(),
            Fault::PauseClients => self.server().query(&["CLIENT", "PAUSE", &planned.span.as_millis().to_string()]),
            Fault::DelayReplies => self.proxy().delay_replies(late(planned)),
            Fault::DelayRequests => self.proxy().delay_requests(late(planned)),
            Fault::CutReply => self.arm(|shot| ReplyFault::CutAfter((planned.dice as usize + shot) % 9)),
            Fault::SwallowReply => self.arm(|_| ReplyFault::Swallow),
            Fault::SwallowReplies => self.proxy().swallow_replies(),
            Fault::BlackHole => self.proxy().drop_all(),
            Fault::Reset => self.proxy().reset_all(),
            Fault::KillPubSub => {
                let killed: usize = self.server().query(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                if killed == 0 {
                    self.open.remove(&fault);
                }
            }
            Fault::FlushScripts => self.server().query(&["SCRIPT", "FLUSH"]),
            Fault::StepForward => self.step(planned.span.as_millis() as i64, before),
            Fault::StepBack => self.step(-(planned.span.as_millis() as i64), before),
            Fault::KillPrimary => self.kill_primary(before),
            Fault::KillWorker | Fault::StopWorker => unreachable!("the crew does that"),
        }
    }

    pub(crate) fn end(&mut self, planned: &Planned) {
        let fault = planned.fault;
        match fault {
            Fault::StopServer => self.server().resume(),
            Fault::DelayReplies
            | Fault::DelayRequests
            | Fault::CutReply
            | Fault::SwallowReply
            | Fault::SwallowReplies
            | Fault::BlackHole => self.proxy().pass(),
            _ => {}
        }
        let missed = matches!(fault, Fault::CutReply | Fault::SwallowReply) && {
            let met = self.proxy().traffic().faults_met;
            std::mem::replace(&mut self.met, met) == met
        };
        if fault == Fault::KillPrimary {
            self.bring_back();
            self.open.remove(&fault);
        } else if let Some(from) = self.open.remove(&fault).filter(|_| !missed) {
            if fault.is_outage() {
                self.outages.push((from, now() + nanos(RECOVERY)));
            }
            self.count(fault);
        }
        self.note(format_args!("{fault:?} ends"));
    }

    /// Notes which locks are there, and for how long, unless a fault keeps the server from answering.
    pub(crate) fn look(&mut self) {
        if self.open.is_empty() {
            self.look_now();
        }
    }

    /// As [`look`](Arena::look), at the end, when the server has to answer.
    pub(crate) fn look_now(&mut self) {
        let server = self.server();
        let look = |key| {
            let at = now();
            let left = server.pttl(&format!("lock:chaos:{key}"));
            (left != -2).then(|| Seen { key, at, left: u64::try_from(left).ok() })
        };
        let seen: Vec<Seen> = (0..KEYS).filter_map(look).collect();
        self.seen.extend(seen);
    }

    fn arm(&self, fault: impl Fn(usize) -> ReplyFault) {
        // Any script: what matters most is lost answers of acquires, renewals and releases.
        (0..SHOTS).for_each(|shot| self.proxy().fault_next_reply_to(b"EVALSHA", fault(shot)));
    }

    /// What the server has confirmed is in the snapshot: it answers nothing between that and its end.
    fn shut_down_with_snapshot(&self) {
        let _ = self.server().try_query::<()>(&["SHUTDOWN", "SAVE"]);
        let gone = eventually(LIMIT, || !self.server().is_running());
        assert!(gone, "the server did not shut down: {}", self.server().log());
        self.server().restart();
    }

    /// What the replicas had not received is lost. Until another one has taken over nobody gets a lock.
    fn kill_primary(&mut self, before: Nanos) {
        let Site::Sentinels { group, .. } = &self.site else { unreachable!("there are no sentinels") };
        // After the failover before: with one replica less the next one might find none.
        group.wait_settled();
        let before = before.max(now());
        let former = group.primary().expect("there is a primary");
        former.kill();
        let gone = now();
        group.wait_other_than(former.port());
        let other = now();
        self.forgiven.push((before, gone + nanos(TTL)));
        self.outages.push((before, other + nanos(TTL + RECOVERY)));
        self.failovers.push((before, other));
        self.count(Fault::KillPrimary);
    }

    /// At the end: takes in the failovers that sentinels began by themselves, and keeps what the servers logged. How many.
    pub(crate) fn close(&mut self, dir: &Path) -> usize {
        let save = |server: &Server, what: &str| {
            let _ = fs::write(dir.join(format!("{what}-{}.log", server.port())), server.log());
        };
        let Site::Sentinels { group, witness } = &self.site else {
            save(self.server(), "server");
            return 0;
        };
        group.servers().iter().for_each(|server| save(server, "server"));
        group.sentinels().iter().for_each(|sentinel| save(sentinel, "sentinel"));
        let unplanned = witness.unplanned(&self.failovers);
        for (from, until) in &unplanned {
            // The former primary may serve on until its clients have heard of the other.
            self.forgiven.push((*from, until + nanos(LEFT_WITHIN + TTL)));
            self.outages.push((from.saturating_sub(nanos(LIMIT)), until + nanos(LEFT_WITHIN + TTL + RECOVERY)));
        }
        unplanned.len()
    }

    /// It becomes a replica, which the sentinels see to in their time.
    fn bring_back(&mut self) {
        let Site::Sentinels { group, .. } = &self.site else { unreachable!("there are no sentinels") };
        group.servers().iter().filter(|server| !server.is_running()).for_each(Server::restart);
    }

    fn restart_empty(&mut self, before: Nanos) {
        self.server().kill();
        // After this instant nothing renews a lease from before.
        let gone = now();
        let _ = fs::remove_file(self.server().dir().join("dump.rdb"));
        self.server().restart();
        self.forgiven.push((before, gone + nanos(TTL)));
    }

    fn step(&mut self, by: i64, before: Nanos) {
        self.offset += by;
        set_clock(&self.clock, self.offset);
        let seen = eventually(LIMIT, || (self.offset_of_server() - self.offset).abs() < 150);
        assert!(seen, "the server's clock is {} ms ahead, not {}", self.offset_of_server(), self.offset);
        let after = now();
        if by > 0 {
            self.forgiven.push((before, after + nanos(TTL)));
        } else {
            // Keys from before stay for longer by the step.
            self.outages.push((before, after + by.unsigned_abs() * 1_000_000 + nanos(TTL + SLACK)));
        }
    }

    fn offset_of_server(&self) -> i64 {
        let time: Vec<String> = self.server().query(&["TIME"]);
        let millis = |text: &String, per: i64| text.parse::<i64>().expect("a number") * per;
        let server = millis(&time[0], 1_000) + millis(&time[1], 1) / 1_000;
        let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        server - here.expect("the clock is set").as_millis() as i64
    }
}

fn late(planned: &Planned) -> Duration {
    Duration::from_millis(LATE.start + planned.dice % (LATE.end - LATE.start))
}

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

/// Whole at every instant: the server reads the file whenever it reads its clock.
fn set_clock(path: &Path, offset_ms: i64) {
    let (sign, millis) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.unsigned_abs());
    let next = path.with_extension("next");
    let text = format!("{sign}{}.{:03}\n", millis / 1_000, millis % 1_000);
    let written = fs::write(&next, text).and_then(|()| fs::rename(&next, path));
    written.expect("the directory of the journals is writable");
}
