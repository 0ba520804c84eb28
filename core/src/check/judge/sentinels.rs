//! Sentinels, and whether they can agree on a failover.

use std::collections::HashMap;

use redis::Value;

use crate::check::account::text;
use crate::check::finding::{Finding, FindingKind, Severity};
use crate::transport::{Fault, FaultKind, Respondent, presentable};

/// With fewer of them the loss of one leaves no majority.
const ENOUGH: u64 = 3;

/// What one sentinel has answered.
#[derive(Debug)]
pub(in crate::check) struct SentinelAccount {
    /// Its URL without credentials.
    pub(in crate::check) server: String,
    /// Its words on the service, and on whether a failover could be agreed on; why not, where it gave no answer at all.
    pub(in crate::check) answers: Result<(Value, Value), Fault>,
}

/// What can be said of the sentinels of one URL.
pub(in crate::check) fn sentinels(accounts: &[SentinelAccount], service: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    // All of them tell the same, and one is enough to say so.
    let (mut counted, mut agreed, mut differ) = (false, false, false);
    let mut first: Option<(Primary, &String)> = None;
    for SentinelAccount { server, answers } in accounts {
        let mut add = |severity, kind, message: String| found.push(Finding::new(severity, kind, server, message));
        let (about, quorum) = match answers {
            Ok(answers) => answers,
            Err(fault) => {
                let message = format!(
                    "this sentinel gives no usable answer ({}): clients need another one to find the primary, and it takes no part in \
                     a failover. Bring it back, or take it out of the URL",
                    fault.detail
                );
                add(Severity::Warning, FindingKind::Unreachable, message);
                continue;
            }
        };
        if Respondent::refusal(about).is_some_and(|fault| fault.detail.contains("No such master")) {
            let message = format!(
                "this sentinel does not know {service}: clients need another one to find the primary, and it takes no part in a \
                 failover. Have it watch the same primary as the others (SENTINEL MONITOR), or take it out of the URL"
            );
            add(Severity::Warning, FindingKind::Unreachable, message);
            continue;
        }
        let said = fields(about);
        if let Some(now) = Primary::read(&said) {
            let (first, by) = first.get_or_insert_with(|| (now.clone(), server));
            if !first.is_same(&now) && !std::mem::replace(&mut differ, true) {
                let message = format!(
                    "this sentinel names {} as the primary of {service}, and {by} names {}: clients that ask the one and clients that \
                     ask the other are both granted the same lock. Have all sentinels watch one primary; if a failover is under \
                     way, check again when it is over",
                    now.address, first.address
                );
                add(Severity::Problem, FindingKind::DifferentPrimaries, message);
            }
        }
        let refusals = [("MASTER", about), ("CKQUORUM", quorum)];
        let refusals = refusals.map(|(what, answer)| Respondent::refusal(answer).map(|fault| (what, fault)));
        let is_verdict = |fault: &Fault| fault.is_code("NOQUORUM");
        for (what, fault) in refusals.iter().flatten().filter(|(_, fault)| !is_verdict(fault)) {
            let message = format!(
                "SENTINEL {what} {service} was refused ({}), so how many sentinels there are, and whether they can agree on a \
                 failover, was not checked here",
                fault.detail
            );
            add(Severity::Info, FindingKind::NotChecked, message);
            // One line is enough for a sentinel whose rules deny both.
            if fault.kind == FaultKind::Permission {
                break;
            }
        }
        if let Some((_, fault)) = refusals[1].as_ref().filter(|(_, fault)| is_verdict(fault))
            && !std::mem::replace(&mut agreed, true)
        {
            let message = format!(
                "no failover of {service} can be agreed on now ({}): if the primary fails, its locks are Unavailable until it is \
                 back. Bring sentinels back",
                fault.detail
            );
            add(Severity::Warning, FindingKind::Quorum, message);
        }
        if let Some((total, quorum)) = counts(&said)
            && !std::mem::replace(&mut counted, true)
        {
            if total < ENOUGH {
                let message = format!(
                    "there are {total} sentinels for {service}: a failover takes a majority of all of them, so the loss of one leaves \
                     nobody to replace the primary. Run 3 or more, on machines of their own"
                );
                add(Severity::Warning, FindingKind::Quorum, message);
            } else if quorum > total {
                let message = format!(
                    "the quorum of {service} is {quorum}, and there are {total} sentinels: they never agree that the primary is down. \
                     Lower the quorum (SENTINEL SET {service} quorum)"
                );
                add(Severity::Warning, FindingKind::Quorum, message);
            }
        }
    }
    found
}

/// The primary that a sentinel names.
#[derive(Clone, Debug)]
struct Primary {
    /// Host and port.
    address: String,
    /// What the server calls itself since its start; empty where the sentinel has not learned it yet.
    run_id: String,
}

impl Primary {
    fn read(said: &HashMap<String, String>) -> Option<Primary> {
        let (host, port) = (said.get("ip")?, said.get("port")?);
        Some(Primary {
            address: presentable(&format!("{host}:{port}")),
            run_id: said.get("runid").cloned().unwrap_or_default(),
        })
    }

    /// One sentinel may name a server by its address, another one by its host name.
    fn is_same(&self, other: &Primary) -> bool {
        self.address == other.address || !self.run_id.is_empty() && self.run_id == other.run_id
    }
}

/// The words of a sentinel on a service; none where it gave none.
fn fields(about: &Value) -> HashMap<String, String> {
    match about {
        Value::Array(words) => {
            words.chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect()
        }
        Value::Map(pairs) => pairs.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect(),
        _ => HashMap::new(),
    }
}

/// How many sentinels there are, as this one knows, and how many must agree that a primary is down.
fn counts(said: &HashMap<String, String>) -> Option<(u64, u64)> {
    let number = |name: &str| said.get(name)?.parse::<u64>().ok();
    Some((number("num-other-sentinels")?.saturating_add(1), number("quorum")?))
}

#[cfg(test)]
mod tests {
    use super::super::samples::severity;
    use super::*;

    fn reply(words: &str) -> Value {
        redis::parse_redis_value(format!("{words}\r\n").as_bytes()).unwrap()
    }

    fn about(others: u64, quorum: u64) -> Value {
        let words = ["num-other-sentinels", &others.to_string(), "quorum", &quorum.to_string()];
        Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
    }

    fn answers(about: Value, quorum: &str) -> SentinelAccount {
        SentinelAccount { server: "redis://s:1/0".to_owned(), answers: Ok((about, reply(quorum))) }
    }

    const FINE: &str = "+OK 3 usable Sentinels. Quorum and failover authorization can be reached";

    #[test]
    fn sentinels_that_can_agree_are_not_told_of() {
        assert_eq!(sentinels(&[answers(about(2, 2), FINE), answers(about(2, 2), FINE)], "s"), []);
    }

    #[test]
    fn too_few_sentinels_are_told_of_once() {
        for (others, quorum) in [(0, 1), (1, 2), (2, 4)] {
            let account = || answers(about(others, quorum), FINE);
            let found = sentinels(&[account(), account()], "s");
            assert_eq!(severity(&found, FindingKind::Quorum), Some(Severity::Warning), "{others} {quorum}");
        }
        let lost = || answers(about(2, 2), "-NOQUORUM 1 usable Sentinels.");
        let found = sentinels(&[lost(), lost()], "s");
        assert_eq!((severity(&found, FindingKind::Quorum), found.len()), (Some(Severity::Warning), 1));
    }

    fn naming(host: &str, port: &str, run_id: &str) -> SentinelAccount {
        let Value::Array(mut words) = about(2, 2) else { unreachable!("it is one") };
        let named = ["ip", host, "port", port, "runid", run_id];
        words.extend(named.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())));
        answers(Value::Array(words), FINE)
    }

    #[test]
    fn sentinels_that_name_different_primaries_went_unnoticed() {
        let found = |accounts: &[SentinelAccount]| {
            let found = sentinels(accounts, "s");
            (severity(&found, FindingKind::DifferentPrimaries), found.len())
        };
        let here = || naming("10.0.0.1", "6379", "a");
        assert_eq!(found(&[here(), here(), naming("10.0.0.1", "6379", "")]), (None, 0));
        assert_eq!(found(&[here(), naming("one.example", "6379", "a")]), (None, 0), "the same by its host name");
        for other in [("10.0.0.2", "6379", "b"), ("10.0.0.1", "6380", ""), ("10.0.0.2", "6379", "")] {
            let other = || naming(other.0, other.1, other.2);
            assert_eq!(found(&[here(), other(), other()]), (Some(Severity::Problem), 1));
            assert_eq!(found(&[here(), here(), other()]), (Some(Severity::Problem), 1));
        }
        let all = sentinels(&[here(), naming("10.0.0.2", "7", "b")], "s");
        assert!(all[0].message().contains("10.0.0.1:6379") && all[0].message().contains("10.0.0.2:7"), "{all:?}");
    }

    #[test]
    fn a_sentinel_that_does_not_know_the_service_is_as_one_that_is_gone() {
        let unknown = "-ERR No such master with that name";
        let found = sentinels(&[answers(reply(unknown), unknown), answers(about(2, 2), FINE)], "s");
        assert_eq!((severity(&found, FindingKind::Unreachable), found.len()), (Some(Severity::Warning), 1));
    }

    #[test]
    fn what_a_sentinel_refuses_was_not_checked() {
        let denied = "-NOPERM this user has no permissions to run the 'sentinel|master' command";
        let found = sentinels(&[answers(reply(denied), denied)], "s");
        assert_eq!((severity(&found, FindingKind::NotChecked), found.len()), (Some(Severity::Info), 1));
        assert_eq!(severity(&found, FindingKind::Quorum), None);
    }

    #[test]
    fn a_sentinel_that_gives_no_answer_is_told_of() {
        let gone = SentinelAccount { server: "redis://s:1/0".to_owned(), answers: Err(Fault::unreachable("refused")) };
        let found = sentinels(&[answers(about(2, 2), FINE), gone], "s");
        assert_eq!(severity(&found, FindingKind::Unreachable), Some(Severity::Warning));
    }
}
