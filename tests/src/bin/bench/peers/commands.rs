//! How many commands clients have sent, by the server's counts, in which those that scripts call count as well.

use std::collections::BTreeMap;

use super::subjects::Subject;
use crate::handover;

/// What only the scripts of the peers call, and what the harness itself sends.
const NOT_OF_CLIENTS: [&str; 6] = ["del", "lpush", "pexpire", "info", "config", "config|resetstat"];

/// What the clients of this subject have sent.
pub(crate) fn sent_by_clients(subject: &Subject, counts: &BTreeMap<String, u64>) -> u64 {
    if subject.is_ours() { handover::client_commands(counts) } else { sent_by_peers(counts) }
}

/// Every script of a peer begins with one `GET`; what remains of these is the clients'.
fn sent_by_peers(counts: &BTreeMap<String, u64>) -> u64 {
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    let all: u64 = counts.iter().filter(|(name, _)| !NOT_OF_CLIENTS.contains(&name.as_str())).map(|it| it.1).sum();
    all - of("get").min(of("evalsha") + of("eval"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect()
    }

    #[test]
    fn what_scripts_call_does_not_count() {
        // A SET and a compare-and-delete.
        let plain = counts(&[("set", 10), ("evalsha", 10), ("get", 10), ("del", 10), ("config|resetstat", 1)]);
        assert_eq!(sent_by_peers(&plain), 20);
        // A GET and a SET, and a script that wakes the next one.
        let waking = counts(&[("get", 20), ("set", 10), ("evalsha", 10), ("del", 20), ("lpush", 10), ("pexpire", 10)]);
        assert_eq!(sent_by_peers(&waking), 30);
    }

    #[test]
    fn without_scripts_all_counts() {
        assert_eq!(sent_by_peers(&counts(&[("publish", 3), ("subscribe", 2), ("get", 1), ("info", 1)])), 6);
    }
}
