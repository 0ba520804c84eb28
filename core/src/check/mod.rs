//! Whether a server is fit for locks: asked once, at start-up or by hand.
//!
//! Each server is asked over a connection of its own, which ends with the check. What it answers is judged without I/O.

mod account;
mod finding;
mod info;
mod judge;
mod questions;

use std::time::Duration;

use redis::{Cmd, Value};
use uuid::Uuid;

pub use finding::{Finding, FindingKind, Severity};
#[cfg(any(test, fuzzing))]
pub(crate) use info::Info;

use crate::clock::{self, Moment};
use crate::engine::EngineConfig;
use crate::protocol::{INBOX_PREFIX, Key};
use crate::signals::Quiet;
use crate::transport::{Deployment, Exchange, Fault, FaultKind, Respondent};

use account::{Account, TimeSample};
use judge::{Place, SentinelAccount, Terms};
use questions::{Subject, command, questions};

/// How often the round trip is measured; less often where all that would take longer than `io_timeout`.
const TRIPS: usize = 9;

/// The same for each of several nodes, so that the time is enough for more of them.
const TRIPS_OF_A_NODE: usize = 3;

/// What is cut off so shortly before the end of the check had no time left.
const NO_TIME: Duration = Duration::from_millis(10);

/// Connections of a client besides its pool and its renewal: for releases, for those in the background, and its inbox.
const CONNECTIONS_BESIDES: u64 = 3;

/// How many times `connect_timeout` and `io_timeout` together a whole check may take.
const LIMIT: u32 = 5;

/// A check that runs.
struct Check<'a> {
    config: &'a EngineConfig,
    subject: Subject<'a>,
    end: Moment,
}

/// Asks the servers of a client, and judges what they say. `key` is some key of that client. Fails where nobody answers
/// that could be judged.
pub(crate) fn check_server(config: &EngineConfig, key: Option<&Key>) -> Result<Vec<Finding>, Fault> {
    let inbox = format!("{INBOX_PREFIX}{}", Uuid::new_v4());
    let began = config.clock.now();
    let end = began.after((config.connect_timeout + config.io_timeout) * LIMIT);
    // A way of its own: what it opens ends with it.
    let transport = (config.connect.0)();
    let found_by = began.after(config.connect_timeout).after(config.io_timeout);
    let check = Check { config, subject: Subject { key, inbox: &inbox, waits: config.replication.is_some() }, end };
    let mut found = match transport.deployment(found_by)? {
        Deployment::Memory => check.memory(transport.server()),
        Deployment::Server(server) => judge::server(&check.account(server, TRIPS)?, &check.terms(Place::Alone)),
        Deployment::Sentinels { service, primary, sentinels } => {
            let mut found = judge::server(&check.account(primary, TRIPS)?, &check.terms(Place::BehindSentinels));
            let accounts: Vec<_> = sentinels.into_iter().map(|it| check.sentinel(it, &service)).collect();
            found.extend(judge::sentinels(&accounts, &service));
            found
        }
        Deployment::Cluster { nodes, uncovered } => check.nodes(nodes, uncovered, transport.server())?,
    };
    // Stable: what is equally bad stays in the order of the servers.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    Ok(found)
}

impl Check<'_> {
    fn memory(&self, server: &str) -> Vec<Finding> {
        let message = "locks are kept in this process, for tests: they exclude no other process and end with this one. In production \
                       use redis://, redis+sentinel:// or redis+cluster://";
        let mut found = vec![Finding::new(Severity::Info, FindingKind::Memory, server, message)];
        if let Some(replication) = self.config.replication {
            let message = format!(
                "min_replicas is {}, and a store in this process has no replicas: every acquire fails with NotReplicated. Leave \
                 min_replicas at 0 for memory://",
                replication.wanted
            );
            found.push(Finding::new(Severity::Problem, FindingKind::FewReplicas, server, message));
        }
        found
    }

    fn terms(&self, place: Place) -> Terms {
        let config = self.config;
        Terms {
            place,
            io_timeout: config.io_timeout,
            min_replicas: config.replication.map_or(0, |replication| replication.wanted),
            connections: u64::from(config.pool_size) + u64::from(config.renewal_threads) + CONNECTIONS_BESIDES,
        }
    }

    /// Every node that answers is judged; one that does not is a finding.
    fn nodes(&self, nodes: Vec<Respondent>, uncovered: usize, url: &str) -> Result<Vec<Finding>, Fault> {
        let terms = self.terms(Place::InCluster);
        let mut found = Vec::from_iter(judge::uncovered(uncovered, url));
        let trips = if nodes.len() > 1 { TRIPS_OF_A_NODE } else { TRIPS };
        let (mut answered, mut failed) = (false, None);
        for node in nodes {
            let name = node.name();
            match self.account(node, trips) {
                Ok(account) => {
                    answered = true;
                    found.extend(judge::server(&account, &terms));
                }
                Err(fault) => {
                    let is_over = self.end.since(self.config.clock.now()) < NO_TIME;
                    found.push(judge::silent(&name, &fault, is_over));
                    failed.get_or_insert(fault);
                }
            }
        }
        match failed {
            Some(fault) if !answered => Err(fault),
            _ => Ok(found),
        }
    }

    /// Asks one server everything, and measures this many round trips.
    fn account(&self, mut server: Respondent, trips: usize) -> Result<Account, Fault> {
        let asked = questions(&self.subject);
        let commands: Vec<Cmd> = asked.iter().map(|question| question.command(&self.subject)).collect();
        let answers = self.ask(&mut server, &commands, true)?;
        let refusals = answers.iter().filter_map(Respondent::refusal);
        // A server that wants a login for this tells nothing that counts.
        if let Some(fault) = refusals.into_iter().find(|fault| fault.kind == FaultKind::Authentication) {
            return Err(fault);
        }
        let mut account = Account::new(server.name(), asked.into_iter().zip(answers).collect());
        if !account.is_sentinel() {
            account.times = self.measure(&mut server, trips)?;
            let subscribe = [command(&["SUBSCRIBE", self.subject.inbox])];
            account.subscribed = self.ask(&mut server, &subscribe, false)?.pop();
        }
        Ok(account)
    }

    /// Asks for the time again and again, for `io_timeout` in all.
    fn measure(&self, server: &mut Respondent, trips: usize) -> Result<Vec<TimeSample>, Fault> {
        let clock = &self.config.clock;
        let by = clock.now().after(self.config.io_timeout);
        let mut samples = Vec::new();
        while samples.len() < trips && (samples.is_empty() || clock.now() < by) {
            let answers = self.exchange(server, &[command(&["TIME"])], false)?;
            // Between sending and the end of the trip, so that a pause of this thread here counts as trip.
            let here = clock::wall();
            let trip = clock.now().since(answers.sent);
            match answers.reply.first().and_then(|answer| TimeSample::read(answer, trip, here)) {
                Some(sample) => samples.push(sample),
                None => break,
            }
        }
        Ok(samples)
    }

    /// Asks one sentinel about the service.
    fn sentinel(&self, mut sentinel: Respondent, service: &str) -> SentinelAccount {
        let questions = [command(&["SENTINEL", "MASTER", service]), command(&["SENTINEL", "CKQUORUM", service])];
        let answers = self.ask(&mut sentinel, &questions, true).map(|mut answers| {
            let quorum = answers.pop().unwrap_or(Value::Nil);
            (answers.pop().unwrap_or(Value::Nil), quorum)
        });
        SentinelAccount { server: sentinel.name(), answers }
    }

    fn ask(&self, server: &mut Respondent, questions: &[Cmd], connects: bool) -> Result<Vec<Value>, Fault> {
        self.exchange(server, questions, connects).map(|answered| answered.reply)
    }

    /// One request with all its answers: within `io_timeout`, with `connect_timeout` besides where it `connects`. A signal that
    /// interrupts it has it repeated.
    fn exchange(&self, server: &mut Respondent, questions: &[Cmd], connects: bool) -> Exchange<Vec<Value>> {
        let EngineConfig { clock, connect_timeout, io_timeout, .. } = self.config;
        let now = clock.now();
        let by = if connects { now.after(*connect_timeout) } else { now }.after(*io_timeout).min(self.end);
        let mut outcome = server.ask(questions, by);
        while let Err(fault) = &outcome
            && fault.is_worth_repeating()
            && clock.now() < by
        {
            let _quiet = fault.interrupted.then(Quiet::begin);
            outcome = server.ask(questions, by);
        }
        outcome
    }
}
