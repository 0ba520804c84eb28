//! Whether the server keeps what it has granted: eviction, memory, persistence.

use crate::check::account::Account;
use crate::check::finding::FindingKind;
use crate::check::questions::{APPENDFSYNC, SAVE};

use super::Notes;

/// From this share of its memory limit on a server is nearly full, in percent.
const NEARLY_FULL: u128 = 90;

pub(super) fn judge(account: &Account, notes: &mut Notes<'_>) {
    evicts(account, notes);
    is_full(account, notes);
    forgets(account, notes);
}

fn evicts(account: &Account, notes: &mut Notes<'_>) {
    let info = &account.info;
    let Some(policy) = info.get("maxmemory_policy").filter(|policy| *policy != "noeviction") else { return };
    if info.number::<u64>("maxmemory") == Some(0) {
        let message = format!(
            "maxmemory-policy is {policy}, which does nothing as long as maxmemory is 0. With a limit it would evict locks, \
             and an evicted lock can be granted twice: set noeviction before you set a limit"
        );
        return notes.info(FindingKind::Eviction, message);
    }
    let which = if policy.starts_with("volatile") {
        "evicts keys that have a ttl, and all keys of a lock have one"
    } else {
        "evicts any key, locks among them"
    };
    let so_far = match info.number::<u64>("evicted_keys") {
        Some(count) if count > 0 => format!(" It has evicted {count} keys since it was started."),
        _ => String::new(),
    };
    let message = format!(
        "maxmemory-policy {policy} {which}, when the memory limit is reached: an evicted lock can be granted to a second holder \
         while the first one works on.{so_far} Set maxmemory-policy noeviction, or take a server of its own for locks"
    );
    notes.problem(FindingKind::Eviction, message);
}

fn is_full(account: &Account, notes: &mut Notes<'_>) {
    let info = &account.info;
    if !info.is("maxmemory_policy", "noeviction") {
        return;
    }
    let (used, limit) = match (info.number::<u64>("used_memory"), info.number::<u64>("maxmemory")) {
        (Some(used), Some(limit)) if limit > 0 => (used, limit),
        _ => return,
    };
    // The limit does not count what waits for replicas and for the append-only file.
    let used = used.saturating_sub(info.number("mem_not_counted_for_evict").unwrap_or(0));
    let percent = u128::from(used) * 100 / u128::from(limit);
    let what = format!("{used} of {limit} bytes are used, {percent} % of its memory limit");
    let then = "new locks and waiters are refused (OOM, Unavailable for callers), while renewals and releases go on";
    if used >= limit {
        let message = format!("{what}: {then}. Raise maxmemory, or remove data");
        notes.problem(FindingKind::MemoryLimit, message);
    } else if percent >= NEARLY_FULL {
        let message = format!("{what}. When it is reached, {then}. Raise maxmemory, or remove data");
        notes.warning(FindingKind::MemoryLimit, message);
    }
}

fn forgets(account: &Account, notes: &mut Notes<'_>) {
    let info = &account.info;
    let partial = FindingKind::PartialPersistence;
    match info.number::<u8>("aof_enabled") {
        Some(1) => match account.setting(APPENDFSYNC).as_deref() {
            Some("everysec") => notes.info(
                partial,
                "appendfsync is everysec: after a crash the locks of the last second or two are forgotten, and can be granted \
                 twice. Accept that, or set appendfsync always",
            ),
            Some("no") => notes.info(
                partial,
                "appendfsync is no: after a crash of its machine the server has forgotten what the system had not written yet, \
                 often half a minute, and those locks can be granted twice. Set appendfsync everysec or always",
            ),
            _ => {}
        },
        Some(_) => match account.setting(SAVE).as_deref() {
            Some("") => notes.warning(
                FindingKind::NoPersistence,
                "neither appendonly nor save is set: a restart forgets all locks and fences. They can be granted again at once, \
                 and their holders learn of it at their next renewal only. Set appendonly yes, or accept that",
            ),
            Some(points) => notes.info(
                partial,
                format!(
                    "only snapshots are written (save {points:?}): after a crash the locks granted since the last one are \
                     forgotten, which are most of them where leases are short, and can be granted twice. Set appendonly yes, \
                     or accept that"
                ),
            ),
            None => notes.info(
                partial,
                "appendonly is off, and whether snapshots are taken could not be read: a restart forgets at least the locks since \
                 the last one, and they can be granted twice. Set appendonly yes, or accept that",
            ),
        },
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::account;
    use crate::check::finding::Severity::{self, Info, Problem, Warning};

    fn found(kind: FindingKind, info: &str, settings: &[(&'static str, &str)]) -> Option<Severity> {
        severity(&server(&account(info, settings), &ALONE), kind)
    }

    #[test]
    fn eviction_is_a_problem_with_a_memory_limit_and_harmless_without() {
        let of = |policy: &str, limit: &str| {
            let info = format!("maxmemory_policy:{policy}\r\nmaxmemory:{limit}\r\n");
            found(FindingKind::Eviction, &info, &[])
        };
        for policy in ["allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lfu"] {
            assert_eq!((of(policy, "0"), of(policy, "1000000")), (Some(Info), Some(Problem)), "{policy}");
        }
        assert_eq!((of("noeviction", "0"), of("noeviction", "1000000")), (None, None));
        assert_eq!(found(FindingKind::Eviction, "", &[]), None);
    }

    #[test]
    fn evicted_keys_are_counted_in_the_message() {
        let info = "maxmemory_policy:volatile-lru\r\nmaxmemory:9\r\nevicted_keys:12\r\n";
        let found = server(&account(info, &[]), &ALONE);
        assert!(found.iter().any(|finding| finding.message().contains("evicted 12 keys")), "{found:?}");
    }

    #[test]
    fn a_memory_limit_is_told_before_it_is_reached() {
        let of = |used: u64, limit: u64| {
            let info = format!("maxmemory_policy:noeviction\r\nused_memory:{used}\r\nmaxmemory:{limit}\r\n");
            found(FindingKind::MemoryLimit, &info, &[])
        };
        assert_eq!((of(89, 100), of(90, 100), of(99, 100)), (None, Some(Warning), Some(Warning)));
        assert_eq!((of(100, 100), of(u64::MAX, 100)), (Some(Problem), Some(Problem)));
        assert_eq!(of(1_000, 0), None, "no limit");
        let buffers =
            "maxmemory_policy:noeviction\r\nused_memory:150\r\nmaxmemory:100\r\nmem_not_counted_for_evict:70\r\n";
        assert_eq!(found(FindingKind::MemoryLimit, buffers, &[]), None, "buffers of replicas do not count");
    }

    #[test]
    fn what_a_restart_forgets_is_told_by_how_much_it_is() {
        let none = |info, settings: &[_]| found(FindingKind::NoPersistence, info, settings);
        let partial = |info, settings: &[_]| found(FindingKind::PartialPersistence, info, settings);
        let (off, on) = ("aof_enabled:0\r\n", "aof_enabled:1\r\n");
        assert_eq!((none(off, &[("save", "")]), partial(off, &[("save", "")])), (Some(Warning), None));
        assert_eq!((none(off, &[("save", "60 1")]), partial(off, &[("save", "60 1")])), (None, Some(Info)));
        assert_eq!((none(off, &[]), partial(off, &[])), (None, Some(Info)), "whether snapshots are taken is unknown");
        for (fsync, severity) in [("everysec", Some(Info)), ("no", Some(Info)), ("always", None)] {
            let settings = [("save", ""), ("appendfsync", fsync)];
            assert_eq!((none(on, &settings), partial(on, &settings)), (None, severity), "{fsync}");
        }
        assert_eq!((none("", &[]), partial("", &[])), (None, None));
    }
}
