//! What a check says.

use std::fmt;

/// How bad a [`Finding`] is. Ordered: a [`Problem`](Severity::Problem) is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know; also what could not be checked.
    Info,
    /// Locks work now. One failure that has to be expected, a restart, a failover or a clock that is set, can give a lock to
    /// two holders or leave everyone without.
    Warning,
    /// Locks are unsafe as the server is run, or cannot be had at all.
    Problem,
}

impl Severity {
    /// All of them, the worst first.
    pub const ALL: [Severity; 3] = [Severity::Problem, Severity::Warning, Severity::Info];

    /// A stable word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kinds, each with its word, from one list.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $word:literal,)*) => {
        /// What a [`Finding`] is about. [`as_str`](FindingKind::as_str) is stable; later versions may add kinds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// All of them, in the order of `docs/operations.md`.
            pub const ALL: &'static [FindingKind] = &[$(FindingKind::$kind,)*];

            /// A stable word for programs, logs and metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(FindingKind::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// Two servers that both take writes: each grants the same lock.
    ActiveReplica "active_replica",
    /// The server is a replica.
    Replica "replica",
    /// The URL leads to a sentinel, not to a server.
    SentinelPort "sentinel_port",
    /// A URL of one server leads to a node of a cluster.
    ClusterNode "cluster_node",
    /// The cluster, or a node of it, says that it does not serve all slots.
    ClusterState "cluster_state",
    /// A primary of the cluster, or a sentinel, gives no usable answer, or the sentinel does not know the service.
    Unreachable "unreachable",
    /// The server still loads its data.
    Loading "loading",
    /// The server refuses writes, or everything, at this moment.
    Refusing "refusing",
    /// The server runs no scripts.
    Scripting "scripting",
    /// A command that locks need is not there under its name.
    MissingCommand "missing_command",
    /// The access rules deny a command or key that locks need.
    AccessDenied "access_denied",
    /// The access rules deny push, or its commands are not there: waiters poll.
    PushDenied "push_denied",
    /// The server is older than what redlatch is tested on.
    Version "version",
    /// The server may evict locks.
    Eviction "eviction",
    /// The server's memory limit is near or reached.
    MemoryLimit "memory_limit",
    /// A restart forgets all locks.
    NoPersistence "no_persistence",
    /// A restart may forget the newest locks.
    PartialPersistence "partial_persistence",
    /// The server stood still for long when it last forked.
    ForkPause "fork_pause",
    /// Fewer replicas than `min_replicas`.
    FewReplicas "few_replicas",
    /// A primary without a replica that could replace it.
    NoReplicas "no_replicas",
    /// A replica is behind.
    ReplicaLag "replica_lag",
    /// Grants do not wait for the replicas that there are.
    Unacknowledged "unacknowledged",
    /// After a failover the former primary may go on granting locks.
    FormerPrimary "former_primary",
    /// Sentinels name different primaries: each grants the same lock.
    DifferentPrimaries "different_primaries",
    /// The sentinels are too few to agree on a failover.
    Quorum "quorum",
    /// The server has too few connections left for this client.
    Connections "connections",
    /// The server closes connections that are idle for a short time.
    IdleTimeout "idle_timeout",
    /// The clocks of server and client differ.
    Clock "clock",
    /// How long a request takes, and which ttl that supports.
    RoundTrip "round_trip",
    /// A part of the check was refused, or no time was left for it.
    NotChecked "not_checked",
    /// `memory://`: locks of this process only.
    Memory "memory",
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that [`Client::check_server`](crate::Client::check_server) has found.
///
/// Its `Display` is one line for a log: severity, kind, server, message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    severity: Severity,
    kind: FindingKind,
    server: String,
    message: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, kind: FindingKind, server: &str, message: impl Into<String>) -> Finding {
        Finding { severity, kind, server: server.to_owned(), message: message.into() }
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// What it is about.
    pub fn kind(&self) -> FindingKind {
        self.kind
    }

    /// The server, node or sentinel that it is about, as a URL without credentials.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What was found, what follows from it, and what to do, in English. Its wording may change in any release.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}: {}", self.severity, self.kind, self.server, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_ordered_and_kinds_have_words_of_their_own() {
        assert!(Severity::Problem > Severity::Warning && Severity::Warning > Severity::Info);
        let mut words: Vec<_> = FindingKind::ALL.iter().map(|kind| kind.as_str()).collect();
        let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(words.iter().all(plain), "{words:?}");
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), FindingKind::ALL.len());
    }

    #[test]
    fn a_finding_shows_as_one_line() {
        let finding = Finding::new(Severity::Warning, FindingKind::Clock, "redis://h:1/0", "its clock is wrong");
        assert_eq!(finding.to_string(), "warning clock at redis://h:1/0: its clock is wrong");
    }
}
