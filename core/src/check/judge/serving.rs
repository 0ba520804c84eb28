//! Whether the server takes what locks need: its role, state, version and connections.

use crate::check::account::Account;
use crate::check::finding::{Finding, FindingKind, Severity};
use crate::check::questions::{ACTIVE_REPLICA, MIN_REPLICAS_TO_WRITE, Question, SAVE, STOP_WRITES, TIMEOUT};
use crate::options::TTL;
use crate::protocol::{OLDEST_SERVER, OLDEST_THAT_COUNTS_REPLICAS, OLDEST_THAT_RUNS_SCRIPTS};
use crate::transport::{Fault, FaultKind};

use super::{Notes, Terms};

pub(super) fn sentinel_port(account: &Account) -> Finding {
    let message =
        "this is a sentinel, which stores nothing: no lock can be had here. Use redis+sentinel://host:port/service";
    Finding::new(Severity::Problem, FindingKind::SentinelPort, &account.server, message)
}

pub(super) fn judge(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    role(account, notes);
    state(account, notes);
    version(account, notes);
    connections(account, terms, notes);
}

fn role(account: &Account, notes: &mut Notes<'_>) {
    let info = &account.info;
    if info.is("role", "active-replica") || account.is_on(ACTIVE_REPLICA) {
        let message = "active-replica is on: this server and its peers all take writes, and each of them grants the same lock to \
                       someone else. Set active-replica and multi-master to no, or take a server of its own for locks";
        notes.problem(FindingKind::ActiveReplica, message);
    } else if info.is("role", "slave") {
        let primary = match (info.get("master_host"), info.get("master_port")) {
            (Some(host), Some(port)) => format!(" of {host}:{port}"),
            _ => String::new(),
        };
        let link = if info.is("master_link_status", "down") { ", and its link to it is down" } else { "" };
        let then = if info.is("slave_read_only", "0") {
            "It takes writes (replica-read-only no), and loses them when it synchronizes: locks granted here exclude nobody"
        } else {
            "It refuses writes (READONLY): no lock can be had here"
        };
        let message = format!("it is a replica{primary}{link}. {then}. Point the URL to the primary");
        notes.problem(FindingKind::Replica, message);
    }
}

fn state(account: &Account, notes: &mut Notes<'_>) {
    let info = &account.info;
    let refusal = |question| account.refusal(question).filter(|fault: &Fault| fault.kind == FaultKind::Refusing);
    let said = [Question::ScriptByHash, Question::LockKey, Question::SiblingKey, Question::Info].into_iter();
    let said: Vec<Fault> = said.filter_map(refusal).collect();
    if info.is("loading", "1") || info.is("async_loading", "1") || said.iter().any(|fault| fault.is_code("LOADING")) {
        let left = info.get("loading_eta_seconds").map(|left| format!(", about {left} s more by its own word"));
        let message = format!(
            "it is loading its data{}, and refuses requests until it has them: calls are Unavailable. Wait; locks that it has \
             forgotten can be granted twice",
            left.unwrap_or_default()
        );
        notes.problem(FindingKind::Loading, message);
    }
    let stops = account.setting(STOP_WRITES).map(|value| value == "yes");
    let saves = account.setting(SAVE).map(|points| !points.is_empty());
    // Of a failed snapshot alone nothing follows: its settings say whether writes are refused.
    let refuses =
        info.is("rdb_last_bgsave_status", "err").then_some([stops, saves]).filter(|both| !both.contains(&Some(false)));
    let why_no_writes = || {
        // The error stays there when the file is no longer written.
        if info.is("aof_last_write_status", "err") && !info.is("aof_enabled", "0") {
            return Some(
                "it could not write its append-only file (MISCONF): free its disk, look at its log".to_owned(),
            );
        }
        if refuses == Some([Some(true); 2]) {
            return Some("its last snapshot failed (MISCONF): free its disk and memory, look at its log".to_owned());
        }
        if info.version().is_some_and(|version| version < OLDEST_THAT_COUNTS_REPLICAS) {
            return None;
        }
        let wanted = account.setting(MIN_REPLICAS_TO_WRITE).and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
        let good = info.number::<u64>("min_slaves_good_slaves").filter(|good| *good < wanted)?;
        Some(format!(
            "min-replicas-to-write is {wanted}, and it has {good} replicas that follow closely (NOREPLICAS): bring them back"
        ))
    };
    if let Some(why) = why_no_writes() {
        let message = format!("it refuses writes: {why}. Until then no lock can be had, renewed or released here");
        notes.problem(FindingKind::Refusing, message);
    } else if refuses.is_some() {
        let message = "its last snapshot failed, so it may refuse writes (MISCONF): it does where stop-writes-on-bgsave-error is yes and \
                       save is set, which it did not tell. Then no lock can be had, renewed or released here. Free its disk and \
                       memory, look at its log";
        notes.warning(FindingKind::Refusing, message);
    }
    // A key may be at another node, and that one is asked too. That a cluster is down is told by its state.
    let elsewhere = ["LOADING", "MOVED", "ASK", "TRYAGAIN"];
    let is_told = account.cluster().is_some();
    let is_known =
        |fault: &Fault| elsewhere.iter().any(|code| fault.is_code(code)) || is_told && fault.is_code("CLUSTERDOWN");
    if let Some(fault) = said.iter().find(|fault| !is_known(fault)) {
        let message = format!(
            "it refused a request of this check ({}), and so it does with locks: calls are Unavailable while that lasts",
            fault.detail
        );
        notes.problem(FindingKind::Refusing, message);
    }
}

fn version(account: &Account, notes: &mut Notes<'_>) {
    let Some(version) = account.info.version() else { return };
    let show = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    if version < OLDEST_THAT_RUNS_SCRIPTS {
        let message = format!(
            "it is Redis {}, or like it, and does not run scripts that read its clock and then write: no lock can be had here. \
             Take {} or later",
            show(version),
            show(OLDEST_SERVER)
        );
        notes.problem(FindingKind::Version, message);
    } else if version < OLDEST_SERVER {
        let message = format!(
            "it is Redis {}, or like it. Redlatch is tested from {} on; what an older server does is not known",
            show(version),
            show(OLDEST_SERVER)
        );
        notes.warning(FindingKind::Version, message);
    }
}

fn connections(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    let info = &account.info;
    if let (Some(limit), Some(used)) = (info.number::<u64>("maxclients"), info.number::<u64>("connected_clients")) {
        let free = limit.saturating_sub(used);
        if free < terms.connections {
            let message = format!(
                "{used} of {limit} connections (maxclients) are in use, and this client may open up to {}, less those that it has open \
                 already: what finds none is Unavailable, renewals among it. Raise maxclients, or lower pool_size",
                terms.connections
            );
            notes.warning(FindingKind::Connections, message);
        }
    }
    let third = TTL.default_value() / 3;
    let idle = account.setting(TIMEOUT).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    if idle > 0 && idle <= third.as_secs() {
        let message = format!(
            "timeout is {idle}: it closes connections that are idle for {idle} s. With the default ttl one is used to renew every \
             {} s, so many a request has to connect first. Set timeout 0, or above a third of the longest ttl",
            third.as_secs()
        );
        notes.info(FindingKind::IdleTimeout, message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::{account, answering};
    use crate::check::finding::Severity::{self, Info, Problem, Warning};

    fn of(kind: FindingKind, account: &Account) -> Option<Severity> {
        severity(&server(account, &ALONE), kind)
    }

    fn found(kind: FindingKind, info: &str) -> Option<Severity> {
        of(kind, &account(info, &[]))
    }

    #[test]
    fn two_primaries_of_one_another_are_a_problem_by_their_word_or_their_setting() {
        let active = FindingKind::ActiveReplica;
        assert_eq!(found(active, "role:active-replica\r\nmaster_host:h\r\nmaster_port:1"), Some(Problem));
        let set = |value| of(active, &account("role:master", &[("active-replica", value)]));
        assert_eq!((set("yes"), set("no"), found(active, "role:master")), (Some(Problem), None, None));
        assert_eq!(found(FindingKind::Replica, "role:active-replica"), None);
    }

    #[test]
    fn a_replica_is_a_problem_and_one_that_takes_writes_is_told_as_such() {
        let text = "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:down\r\n";
        assert_eq!(
            (found(FindingKind::Replica, text), found(FindingKind::Replica, "role:master")),
            (Some(Problem), None)
        );
        let message = |text: &str| {
            let found = server(&account(text, &[]), &ALONE);
            found.into_iter().find(|finding| finding.kind() == FindingKind::Replica).unwrap().message().to_owned()
        };
        let refusing = message(text);
        assert!(
            refusing.contains("10.0.0.1:6379") && refusing.contains("down") && refusing.contains("READONLY"),
            "{refusing}"
        );
        let writable = message(&format!("{text}slave_read_only:0\r\n"));
        assert!(writable.contains("replica-read-only no") && !writable.contains("READONLY"), "{writable}");
    }

    #[test]
    fn a_sentinel_is_told_as_such_and_nothing_else() {
        let found = server(&account("redis_mode:sentinel", &[]), &ALONE);
        assert_eq!((severity(&found, FindingKind::SentinelPort), found.len()), (Some(Problem), 1));
        assert_eq!(severity(&server(&account("redis_mode:standalone", &[]), &ALONE), FindingKind::SentinelPort), None);
    }

    #[test]
    fn a_server_that_loads_its_data_is_told_as_such() {
        let loading = FindingKind::Loading;
        assert_eq!((found(loading, "loading:1"), found(loading, "loading:0")), (Some(Problem), None));
        let answers =
            answering(account("", &[]), Question::ScriptByHash, "-LOADING Redis is loading the dataset in memory");
        assert_eq!((of(loading, &answers), of(FindingKind::Refusing, &answers)), (Some(Problem), None));
    }

    #[test]
    fn a_server_that_refuses_writes_is_a_problem() {
        let refusing = |info: &str, settings: &[_]| of(FindingKind::Refusing, &account(info, settings));
        assert_eq!(refusing("aof_last_write_status:ok\r\nrdb_last_bgsave_status:ok", &[]), None);
        assert_eq!(refusing("aof_last_write_status:err", &[]), Some(Problem));
        assert_eq!(refusing("aof_enabled:1\r\naof_last_write_status:err", &[]), Some(Problem));
        assert_eq!(refusing("aof_enabled:0\r\naof_last_write_status:err", &[]), None, "it is no longer written");
        let failed = "rdb_last_bgsave_status:err";
        assert_eq!(refusing(failed, &[("save", "60 1"), ("stop-writes-on-bgsave-error", "yes")]), Some(Problem));
        assert_eq!(refusing(failed, &[("save", ""), ("stop-writes-on-bgsave-error", "yes")]), None);
        assert_eq!(refusing(failed, &[("save", "")]), None);
        assert_eq!(refusing(failed, &[("stop-writes-on-bgsave-error", "no")]), None);
        assert_eq!(refusing(failed, &[("save", "60 1"), ("stop-writes-on-bgsave-error", "no")]), None);
        let good = |count: u8| format!("min_slaves_good_slaves:{count}");
        let wanted = [("min-replicas-to-write", "2")];
        let old = format!("redis_version:6.2.5\r\n{}", good(1));
        assert_eq!(refusing(&old, &wanted), None, "it does not apply this to scripts");
        assert_eq!((refusing(&good(1), &wanted), refusing(&good(2), &wanted)), (Some(Problem), None));
        assert_eq!(
            (refusing(&good(0), &[]), refusing(&good(1), &[])),
            (Some(Problem), None),
            "the setting was not told"
        );
    }

    #[test]
    fn a_failed_snapshot_was_a_refusal_where_the_settings_were_not_told() {
        let refusing = |settings: &[_]| of(FindingKind::Refusing, &account("rdb_last_bgsave_status:err", settings));
        assert_eq!(refusing(&[]), Some(Warning));
        assert_eq!(refusing(&[("save", "60 1")]), Some(Warning));
        assert_eq!(refusing(&[("stop-writes-on-bgsave-error", "yes")]), Some(Warning));
        let both = "rdb_last_bgsave_status:err\r\naof_last_write_status:err";
        assert_eq!(of(FindingKind::Refusing, &account(both, &[])), Some(Problem), "one line, of what is certain");
    }

    #[test]
    fn a_refusal_that_passes_is_told_unless_the_key_is_elsewhere() {
        let answers = |words| of(FindingKind::Refusing, &answering(account("", &[]), Question::LockKey, words));
        assert_eq!(answers("-BUSY Redis is busy running a script."), Some(Problem));
        assert_eq!(answers("-MASTERDOWN Link with MASTER is down"), Some(Problem));
        assert_eq!((answers("-MOVED 1 h:1"), answers("-ASK 1 h:1"), answers("OK")), (None, None, None));
        let down = || answering(account("", &[]), Question::LockKey, "-CLUSTERDOWN The cluster is down");
        assert_eq!(of(FindingKind::Refusing, &down()), Some(Problem));
        let told = answering(down(), Question::ClusterInfo, "cluster_state:fail");
        assert_eq!(of(FindingKind::Refusing, &told), None, "its state tells");
    }

    #[test]
    fn a_version_that_cannot_serve_is_told_from_one_that_is_not_tested() {
        let of = |version| found(FindingKind::Version, &format!("redis_version:{version}"));
        assert_eq!((of("4.0.14"), of("5.0.9"), of("6.0.20")), (Some(Problem), Some(Warning), Some(Warning)));
        assert_eq!((of("6.2.0"), of("7.2.4"), of("255.255.255")), (None, None, None));
        assert_eq!(found(FindingKind::Version, "valkey_version:9.1.2"), None);
    }

    #[test]
    fn too_few_connections_are_told_before_a_client_finds_none() {
        let of = |used: u64, limit: u64| {
            found(FindingKind::Connections, &format!("connected_clients:{used}\r\nmaxclients:{limit}"))
        };
        assert_eq!((of(1, 10_000), of(87, 100), of(88, 100), of(200, 100)), (None, None, Some(Warning), Some(Warning)));
        let all = server(&account("connected_clients:88\r\nmaxclients:100", &[]), &ALONE);
        let text = all.iter().find(|finding| finding.kind() == FindingKind::Connections).unwrap().message();
        assert!(text.contains("up to 13, less those that it has open already"), "{text}");
    }

    #[test]
    fn a_short_idle_timeout_is_told_of() {
        let with = |seconds| of(FindingKind::IdleTimeout, &account("", &[("timeout", seconds)]));
        assert_eq!((with("0"), with("1"), with("10"), with("11")), (None, Some(Info), Some(Info), None));
    }
}
