//! From answers to findings. Pure.

mod access;
mod clustered;
mod keeping;
mod replication;
mod sentinels;
mod serving;
mod timing;

use std::time::Duration;

pub(super) use clustered::{silent, uncovered};
pub(super) use sentinels::{SentinelAccount, sentinels};

use super::account::Account;
use super::finding::{Finding, FindingKind, Severity};

/// How the client uses the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) place: Place,
    pub(super) io_timeout: Duration,
    pub(super) min_replicas: u32,
    /// The most connections that the client opens to it.
    pub(super) connections: u64,
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The URL names it, and nothing replaces it.
    Alone,
    BehindSentinels,
    InCluster,
}

/// What can be said of one server.
pub(super) fn server(account: &Account, terms: &Terms) -> Vec<Finding> {
    if account.is_sentinel() {
        return vec![serving::sentinel_port(account)];
    }
    let mut notes = Notes { server: &account.server, found: Vec::new() };
    serving::judge(account, terms, &mut notes);
    access::judge(account, terms, &mut notes);
    clustered::judge(account, terms, &mut notes);
    keeping::judge(account, &mut notes);
    replication::judge(account, terms, &mut notes);
    timing::judge(account, terms, &mut notes);
    notes.found
}

/// The findings about one server.
pub(super) struct Notes<'a> {
    server: &'a str,
    found: Vec<Finding>,
}

impl Notes<'_> {
    fn add(&mut self, severity: Severity, kind: FindingKind, message: impl Into<String>) {
        self.found.push(Finding::new(severity, kind, self.server, message));
    }

    fn problem(&mut self, kind: FindingKind, message: impl Into<String>) {
        self.add(Severity::Problem, kind, message);
    }

    fn warning(&mut self, kind: FindingKind, message: impl Into<String>) {
        self.add(Severity::Warning, kind, message);
    }

    fn info(&mut self, kind: FindingKind, message: impl Into<String>) {
        self.add(Severity::Info, kind, message);
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::check) const ALONE: Terms =
        Terms { place: Place::Alone, io_timeout: Duration::from_secs(1), min_replicas: 0, connections: 13 };

    /// The severity of the finding of this kind, if there is one; two of a kind are a failure.
    #[track_caller]
    pub(in crate::check) fn severity(found: &[Finding], kind: FindingKind) -> Option<Severity> {
        let of_kind: Vec<&Finding> = found.iter().filter(|finding| finding.kind() == kind).collect();
        assert!(of_kind.len() <= 1, "{of_kind:?}");
        of_kind.first().map(|finding| finding.severity())
    }
}
