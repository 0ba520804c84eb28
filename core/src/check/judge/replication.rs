//! What becomes of locks when a replica takes over.

use std::time::Duration;

use crate::check::account::Account;
use crate::check::finding::FindingKind;
use crate::check::info::Replica;
use crate::check::questions::MIN_REPLICAS_TO_WRITE;
use crate::protocol::OLDEST_THAT_COUNTS_REPLICAS;

use super::{Notes, Place, Terms};

/// A replica reports once a second; one that has not for this long is not there.
const SILENT: Duration = Duration::from_secs(5);

pub(super) fn judge(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    let info = &account.info;
    if !info.is("role", "master") {
        return;
    }
    let replicas = info.replicas();
    let online = replicas.iter().filter(|replica| replica.online).count() as u64;
    let wanted = terms.min_replicas;
    if online < u64::from(wanted) {
        let message = format!(
            "min_replicas is {wanted}, and it has {online} replicas that follow: every acquire fails with NotReplicated. Bring \
             replicas back, or lower min_replicas"
        );
        notes.problem(FindingKind::FewReplicas, message);
    }
    if wanted == 0 && !replicas.is_empty() {
        let message = format!(
            "a grant does not wait for its {} replicas (min_replicas is 0): a failover loses the newest locks, and they can be \
             granted twice. Set min_replicas to 1, or more where there are more replicas than that; see docs/guarantees.md for what \
             is left",
            replicas.len()
        );
        notes.info(FindingKind::Unacknowledged, message);
    }
    if replicas.is_empty() && wanted == 0 && terms.place != Place::Alone {
        let message = "it has no replica: when it fails nobody takes over, and its locks are Unavailable until it is back. Add a \
                       replica";
        notes.warning(FindingKind::NoReplicas, message);
    }
    let behind: Vec<String> = replicas.iter().filter_map(lag).collect();
    if !behind.is_empty() {
        let message = format!(
            "{}. If it takes over, locks that it lacks can be granted twice. Look at its log, its link and its load",
            behind.join("; ")
        );
        notes.warning(FindingKind::ReplicaLag, message);
    }
    if terms.place == Place::BehindSentinels && !replicas.is_empty() {
        former_primary(account, wanted, notes);
    }
}

fn former_primary(account: &Account, wanted: u32, notes: &mut Notes<'_>) {
    // Grants that wait for replicas find none at a primary that was replaced; renewals wait for nobody.
    let (what, besides) = match wanted {
        0 => ("granting and renewing", "Set min_replicas of the client to 1"),
        _ => ("renewing", "Choose a ttl of which a third outlasts a planned failover"),
    };
    let then = format!(
        "when it is replaced while it runs, by SENTINEL FAILOVER or a network that is split, it goes on {what} locks \
         without its successor's knowledge, and these can be granted twice"
    );
    if account.info.version().is_some_and(|version| version < OLDEST_THAT_COUNTS_REPLICAS) {
        let (major, minor) = OLDEST_THAT_COUNTS_REPLICAS;
        let message = format!(
            "before {major}.{minor} a server does not apply min-replicas-to-write to scripts: {then}. {besides}, or take \
             {major}.{minor} or later, with min-replicas-to-write 1"
        );
        notes.warning(FindingKind::FormerPrimary, message);
    } else if account.setting(MIN_REPLICAS_TO_WRITE).as_deref() == Some("0") {
        let message = format!("min-replicas-to-write is 0: {then}. Set min-replicas-to-write 1 on all servers");
        notes.warning(FindingKind::FormerPrimary, message);
    }
}

/// In which way a replica is behind. Its offset says nothing of that: a replica reports it once a second, so under load it
/// always looks behind by what was written meanwhile.
fn lag(replica: &Replica) -> Option<String> {
    let Replica { address, online, lag } = replica;
    if !online {
        return Some(format!("replica {address} has not synchronized yet"));
    }
    let lag = lag.filter(|lag| *lag >= SILENT)?;
    Some(format!("replica {address} was last heard of {} s ago", lag.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::account;
    use crate::check::finding::Severity::{self, Info, Problem, Warning};

    const GOOD: &str =
        "role:master\r\nmaster_repl_offset:5000000\r\nslave0:ip=h,port=2,state=online,offset=5000000,lag=0\r\n";
    const NONE: &str = "role:master\r\nmaster_repl_offset:0\r\n";

    #[track_caller]
    fn found(kind: FindingKind, info: &str, terms: &Terms) -> Option<Severity> {
        severity(&server(&account(info, &[]), terms), kind)
    }

    fn at(place: Place, min_replicas: u32) -> Terms {
        Terms { place, min_replicas, ..ALONE }
    }

    #[test]
    fn fewer_replicas_than_grants_need_are_a_problem() {
        let of = |info, min_replicas| found(FindingKind::FewReplicas, info, &at(Place::Alone, min_replicas));
        assert_eq!((of(GOOD, 0), of(GOOD, 1), of(GOOD, 2)), (None, None, Some(Problem)));
        assert_eq!((of(NONE, 0), of(NONE, 1)), (None, Some(Problem)));
        assert_eq!(of(&GOOD.replace("online", "send_bulk"), 1), Some(Problem));
    }

    #[test]
    fn replicas_that_no_grant_waits_for_are_told_of() {
        let of = |info, min_replicas| found(FindingKind::Unacknowledged, info, &at(Place::Alone, min_replicas));
        assert_eq!((of(GOOD, 0), of(GOOD, 1), of(NONE, 0)), (Some(Info), None, None));
    }

    #[test]
    fn a_primary_that_nobody_can_replace_is_told_of_where_one_should() {
        let of = |info, place| found(FindingKind::NoReplicas, info, &at(place, 0));
        assert_eq!((of(NONE, Place::Alone), of(GOOD, Place::BehindSentinels)), (None, None));
        assert_eq!((of(NONE, Place::BehindSentinels), of(NONE, Place::InCluster)), (Some(Warning), Some(Warning)));
    }

    #[test]
    fn a_replica_that_is_behind_is_named() {
        let row = |state: &str, offset: u64, lag: u64| {
            format!(
                "role:master\r\nmaster_repl_offset:5000000\r\nslave0:ip=h,port=2,state={state},offset={offset},lag={lag}\r\n"
            )
        };
        let of = |info: &str| found(FindingKind::ReplicaLag, info, &ALONE);
        assert_eq!((of(GOOD), of(&row("online", 4_900_000, 4))), (None, None));
        for late in [row("online", 5_000_000, 5), row("wait_bgsave", 0, 0)] {
            assert_eq!(of(&late), Some(Warning), "{late}");
        }
        assert_eq!(of(&row("online", 3_000_000, 1)), None, "what was written since its last report");
        let all = server(&account(&row("online", 5_000_000, 7), &[]), &ALONE);
        assert!(all.iter().any(|finding| finding.message().contains("h:2 was last heard of 7 s ago")), "{all:?}");
    }

    #[test]
    fn a_primary_that_goes_on_after_a_failover_is_told_of_behind_sentinels() {
        let of = |place, value| {
            let account = account(GOOD, &[("min-replicas-to-write", value)]);
            let severities =
                [0, 1].map(|wanted| severity(&server(&account, &at(place, wanted)), FindingKind::FormerPrimary));
            assert_eq!(severities[0], severities[1], "grants may wait for replicas, renewals do not");
            severities[0]
        };
        assert_eq!((of(Place::BehindSentinels, "0"), of(Place::BehindSentinels, "1")), (Some(Warning), None));
        assert_eq!((of(Place::Alone, "0"), of(Place::InCluster, "0")), (None, None));
        let versioned = |version: &str, min_replicas| {
            let account = account(&format!("{GOOD}redis_version:{version}\r\n"), &[("min-replicas-to-write", "1")]);
            severity(&server(&account, &at(Place::BehindSentinels, min_replicas)), FindingKind::FormerPrimary)
        };
        assert_eq!(
            (versioned("6.2.5", 0), versioned("7.0.0", 0)),
            (Some(Warning), None),
            "scripts escape it before 7.0"
        );
        assert_eq!(versioned("6.2.5", 1), Some(Warning), "renewals wait for no replica");
    }
}
