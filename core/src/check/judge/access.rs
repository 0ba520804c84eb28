//! What the access rules deny: what locks need, what push needs, and what this check would like to see.

use crate::check::account::{Account, is_unknown};
use crate::check::finding::FindingKind;
use crate::check::questions::{BARE, Question, SETTINGS};
use crate::transport::{Fault, FaultKind, Respondent};

use super::{Notes, Place, Terms};

pub(super) fn judge(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    needed(account, notes);
    scripts(account, notes);
    push(account, notes);
    not_checked(account, terms, notes);
}

fn needed(account: &Account, notes: &mut Notes<'_>) {
    // Without the first two there are no scripts, which is told by itself.
    let scripts = [Question::ScriptByHash, Question::ScriptWithSource];
    let others = [Question::Time, Question::LockKey, Question::SiblingKey, Question::Wait];
    let others = || others.into_iter().chain(BARE.map(Question::Bare));
    let denied = scripts.into_iter().chain(others()).filter(|question| account.is_denied(*question));
    let denied: Vec<&str> = denied.map(Question::right).collect();
    if !denied.is_empty() {
        let message = format!(
            "the access rules deny {}: calls fail with a permission error. Compare the rules of this user with those in \
             docs/operations.md",
            denied.join(", ")
        );
        notes.problem(FindingKind::AccessDenied, message);
    }
    let lacking = others().filter(|question| account.lacks(*question));
    let mut lacking: Vec<&str> = lacking.map(Question::command_name).collect();
    lacking.dedup();
    if !lacking.is_empty() {
        let message = format!(
            "it knows no command {}, which locks need: no lock can be had here. Commands that locks use must not be renamed; where it \
             never had them, take another server",
            lacking.join(", ")
        );
        notes.problem(FindingKind::MissingCommand, message);
    }
}

fn scripts(account: &Account, notes: &mut Notes<'_>) {
    let no_such = |question| {
        let fault = account.refusal(question).filter(|fault| fault.kind == FaultKind::Incompatible)?;
        // Each of the two is asked in a way that a server with scripts refuses, in these words.
        let expected = fault.is_code("NOSCRIPT") || fault.detail.contains("not an integer");
        (!expected).then_some(fault.detail)
    };
    if let Some(words) = no_such(Question::ScriptByHash).or_else(|| no_such(Question::ScriptWithSource)) {
        let message = format!(
            "it runs no Lua scripts ({words}): no lock can be had here. Allow EVAL and EVALSHA, whose names must not be changed, \
             or take another server"
        );
        notes.problem(FindingKind::Scripting, message);
    }
}

fn push(account: &Account, notes: &mut Notes<'_>) {
    let prevents = |fault: &Fault| fault.kind == FaultKind::Permission || is_unknown(fault);
    let mut rights = Vec::new();
    if account.subscribed.as_ref().and_then(Respondent::refusal).is_some_and(|fault| prevents(&fault)) {
        rights.push("SUBSCRIBE");
    }
    let others = [Question::Publish, Question::Subscribers, Question::Ping].into_iter();
    let others = others.filter(|question| account.refusal(*question).is_some_and(|fault| prevents(&fault)));
    rights.extend(others.map(Question::right));
    if rights.is_empty() {
        return;
    }
    let polls = rights.iter().any(|right| matches!(*right, "SUBSCRIBE" | "PUBLISH"));
    let then = if polls {
        "waiters are not woken but poll: each hand-over takes some hundredths of a second more, and the server has more to do"
    } else {
        "waiters are woken, but a waiter whose process has ended costs the others a turn, or a quiet inbox is opened anew \
         every second"
    };
    let message = format!(
        "the access rules deny, or the server does not know, {} on redlatch:inbox:*: {then}. Allow &redlatch:inbox:* +subscribe \
         +publish +ping +pubsub|numsub, and do not rename these commands",
        rights.join(", ")
    );
    notes.warning(FindingKind::PushDenied, message);
}

/// What could not be looked at.
fn not_checked(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    let mut parts = Vec::new();
    let mut note = |question: Question, what: &str| {
        if let Some(fault) = account.refusal(question) {
            parts.push(format!("{} ({}), so not {what}", question.right(), fault.detail));
        } else if question == Question::Info && account.info.get("role").is_none() {
            parts.push(format!("{} (it tells no role), so not {what}", question.right()));
        }
    };
    note(Question::Info, "its role, version, memory limit, replicas and connections");
    let refused = SETTINGS.map(Question::Setting).into_iter().find(|setting| account.refusal(*setting).is_some());
    if let Some(setting) = refused {
        note(setting, "how it persists data, its idle timeout and min-replicas-to-write");
    }
    if terms.place == Place::InCluster {
        note(Question::ClusterInfo, "the state of its cluster");
    }
    if account.times.is_empty() {
        parts.push("TIME (refused), so not its clock and the round trip".to_owned());
    }
    let subscribed = account.subscribed.as_ref().and_then(Respondent::refusal);
    if let Some(fault) = subscribed.filter(|fault| fault.kind != FaultKind::Permission && !is_unknown(fault)) {
        parts.push(format!("SUBSCRIBE ({}), so not whether waiters are woken", fault.detail));
    }
    if !parts.is_empty() {
        let message = format!(
            "could not be read: {}. Look there by hand, or allow the check what docs/operations.md lists for it",
            parts.join("; ")
        );
        notes.info(FindingKind::NotChecked, message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::{account, answering};
    use crate::check::finding::Severity::{self, Info, Problem, Warning};

    const DENIED: &str = "-NOPERM this user has no permissions to run this command";

    fn of(kind: FindingKind, account: &Account) -> Option<Severity> {
        severity(&server(account, &ALONE), kind)
    }

    fn answers(question: Question, words: &str) -> Account {
        answering(account("role:master", &[]), question, words)
    }

    #[test]
    fn what_locks_need_and_the_rules_deny_is_a_problem() {
        use Question::{Bare, LockKey, ScriptByHash, ScriptWithSource, SiblingKey, Time, Wait};
        for question in [ScriptByHash, ScriptWithSource, LockKey, SiblingKey, Wait, Time, Bare("SET")] {
            let denied = answers(question, DENIED);
            assert_eq!(of(FindingKind::AccessDenied, &denied), Some(Problem), "{question:?}");
            assert_eq!(of(FindingKind::Scripting, &denied), None, "{question:?}");
        }
        assert_eq!(of(FindingKind::AccessDenied, &answers(LockKey, "-MOVED 1 h:1")), None);
        assert_eq!(of(FindingKind::AccessDenied, &answers(Question::Publish, DENIED)), None);
    }

    const UNKNOWN: &str = "-ERR unknown command 'X', with args beginning with: ";

    #[test]
    fn a_command_that_locks_need_and_the_server_lacks_went_unnoticed() {
        use Question::{LockKey, Time, Wait};
        for question in [LockKey, Time, Wait].into_iter().chain(BARE.map(Question::Bare)) {
            let lacking = answers(question, UNKNOWN);
            assert_eq!(of(FindingKind::MissingCommand, &lacking), Some(Problem), "{question:?}");
            let there = answers(question, "-ERR wrong number of arguments for 'x' command");
            assert_eq!(of(FindingKind::MissingCommand, &there), None, "{question:?}");
        }
        let both = answering(answers(LockKey, UNKNOWN), Question::SiblingKey, UNKNOWN);
        let found = server(&both, &ALONE);
        let finding = found.iter().find(|finding| finding.kind() == FindingKind::MissingCommand).unwrap();
        assert!(finding.message().contains("no command EXISTS, which"), "{finding}");
    }

    #[test]
    fn a_server_without_scripts_is_told_by_its_words() {
        let of = |question, words| of(FindingKind::Scripting, &answers(question, words));
        let unknown = "-ERR unknown command 'EVALSHA', with args beginning with: '0'";
        assert_eq!(of(Question::ScriptByHash, unknown), Some(Problem));
        assert_eq!(of(Question::ScriptWithSource, unknown), Some(Problem));
        assert_eq!(of(Question::ScriptByHash, "-NOSCRIPT No matching script. Please use EVAL."), None);
        assert_eq!(of(Question::ScriptWithSource, "-ERR value is not an integer or out of range"), None);
        assert_eq!(of(Question::ScriptByHash, "-LOADING it loads"), None);
    }

    #[test]
    fn what_push_needs_and_the_rules_deny_is_a_warning() {
        for question in [Question::Publish, Question::Subscribers, Question::Ping] {
            assert_eq!(of(FindingKind::PushDenied, &answers(question, DENIED)), Some(Warning), "{question:?}");
            assert_eq!(of(FindingKind::PushDenied, &answers(question, UNKNOWN)), Some(Warning), "{question:?}");
        }
        assert_eq!(of(FindingKind::PushDenied, &answers(Question::Publish, "OK")), None);
        let subscribing = |words: &str| {
            let mut account = account("role:master", &[]);
            account.subscribed = Some(redis::parse_redis_value(format!("{words}\r\n").as_bytes()).unwrap());
            of(FindingKind::PushDenied, &account)
        };
        assert_eq!((subscribing(DENIED), subscribing("*0")), (Some(Warning), None));
        assert_eq!(subscribing(UNKNOWN), Some(Warning));
    }

    #[test]
    fn what_was_not_looked_at_is_told_once_for_all() {
        let whole = |account: &Account| {
            let found = server(account, &ALONE);
            let finding = found.iter().find(|finding| finding.kind() == FindingKind::NotChecked);
            finding.map(|finding| (finding.severity(), finding.message().to_owned()))
        };
        let mut all = account("role:master", &[]);
        assert!(whole(&all).unwrap().1.contains("TIME"), "nothing was measured");
        let span = std::time::Duration::ZERO;
        all.times = vec![crate::check::account::TimeSample { trip: span, server: span, here: span }];
        assert_eq!(whole(&all), None);

        let mut denied = answering(account("", &[]), Question::Setting("save"), DENIED);
        denied = answering(denied, Question::Setting("timeout"), DENIED);
        let (severity, text) = whole(&denied).unwrap();
        assert_eq!((severity, text.matches("CONFIG GET").count()), (Info, 1), "{text}");
        assert!(text.contains("NOPERM") && text.contains("INFO"), "{text}");
    }
}
