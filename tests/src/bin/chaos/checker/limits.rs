//! Calls, locks and workers end in their time, and only as the faults of the run allow.

use super::{Evidence, Rules, Violation, nanos};

/// What a release may report, and why a lease may be lost, at any time.
const EXPLAINED: [&str; 3] = ["released", "unconfirmed", "expired"];
/// Of the errors of an acquire.
const UNAVAILABLE: &str = "unavailable";

pub(super) fn find(evidence: &Evidence, rules: &Rules, found: &mut Vec<Violation>) {
    let story = &evidence.story;
    // The next renewal or release finds out, while the deadline is at most a ttl away.
    let explained_by_loss =
        |at: u64| evidence.forgiven.iter().any(|(from, until)| (*from..=until + nanos(rules.ttl)).contains(&at));
    for (at, how) in story.losses.iter().chain(&story.releases) {
        let explained = EXPLAINED.contains(&how.as_str()) || (how == "taken" && explained_by_loss(*at));
        if !explained {
            found.push(Violation::Taken { at: *at, how: how.clone() });
        }
    }
    for (at, key) in &story.refusals {
        if !evidence.is_forgiven((*at, *at)) {
            found.push(Violation::RefusedHolder { key: *key, at: *at });
        }
    }
    for (at, error) in &story.failures {
        if error.split(' ').next() != Some(UNAVAILABLE) {
            found.push(Violation::Failure { at: *at, error: error.clone() });
        }
    }
    let longest = nanos(rules.wait + rules.slack);
    let overdue = story.waits.iter().filter(|wait| wait.until - wait.from > longest);
    found.extend(overdue.cloned().map(Violation::Overdue));
    let life = rules.ttl + rules.stepped;
    let outlived = evidence.seen.iter().filter(|seen| {
        let too_long = seen.left.is_none_or(|left| u128::from(left) > life.as_millis());
        too_long || seen.at > evidence.ended + nanos(life + rules.slack)
    });
    found.extend(outlived.copied().map(Violation::Outlived));
    let hung = story.hung.iter().cloned();
    found.extend(hung.map(|(worker, threads)| Violation::Hung { worker, threads }));
}
