//! What one server has answered.

use std::time::Duration;

use redis::Value;

use crate::transport::{Fault, FaultKind, Respondent, presentable};

use super::info::Info;
use super::questions::Question;

/// The answers of one server.
#[derive(Debug)]
pub(super) struct Account {
    /// Its URL without credentials.
    pub(super) server: String,
    /// Empty where it was refused.
    pub(super) info: Info,
    answers: Vec<(Question, Value)>,
    pub(super) times: Vec<TimeSample>,
    /// The answer to a subscription to an inbox, if it got that far.
    pub(super) subscribed: Option<Value>,
}

/// One answer to `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeSample {
    /// From the request's send instant to its answer.
    pub(super) trip: Duration,
    /// The server's time since 1970.
    pub(super) server: Duration,
    /// This machine's, when the answer had come.
    pub(super) here: Duration,
}

impl Account {
    pub(super) fn new(server: String, answers: Vec<(Question, Value)>) -> Account {
        let mut account = Account { server, info: Info::default(), answers, times: Vec::new(), subscribed: None };
        if let Some(text) = account.answer(Question::Info).and_then(text) {
            account.info = Info::parse(&text);
        }
        account
    }

    pub(super) fn answer(&self, to: Question) -> Option<&Value> {
        self.answers.iter().find(|(question, _)| *question == to).map(|(_, answer)| answer)
    }

    /// Why a question was not answered.
    pub(super) fn refusal(&self, to: Question) -> Option<Fault> {
        self.answer(to).and_then(Respondent::refusal)
    }

    /// Whether the access rules deny what the question needs.
    pub(super) fn is_denied(&self, question: Question) -> bool {
        self.refusal(question).is_some_and(|fault| fault.kind == FaultKind::Permission)
    }

    /// Whether the server has no such command, or has it under another name.
    pub(super) fn lacks(&self, question: Question) -> bool {
        self.refusal(question).is_some_and(|fault| is_unknown(&fault))
    }

    /// The value of a setting; `None` where the server does not know it, or does not tell.
    pub(super) fn setting(&self, name: &'static str) -> Option<String> {
        let value = match self.answer(Question::Setting(name))? {
            Value::Array(pair) => pair.get(1).and_then(text),
            Value::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
            _ => None,
        };
        value.map(|value| presentable(&value))
    }

    /// Whether it answers that a setting is on.
    pub(super) fn is_on(&self, name: &'static str) -> bool {
        self.setting(name).as_deref() == Some("yes")
    }

    /// What a node of a cluster says of the cluster.
    pub(super) fn cluster(&self) -> Option<Info> {
        self.answer(Question::ClusterInfo).and_then(text).map(|text| Info::parse(&text))
    }

    /// Whether it is a sentinel, which knows hardly any command.
    pub(super) fn is_sentinel(&self) -> bool {
        self.info.is("redis_mode", "sentinel")
    }
}

impl TimeSample {
    /// From the reply to `TIME`.
    pub(super) fn read(answer: &Value, trip: Duration, here: Duration) -> Option<TimeSample> {
        let Value::Array(fields) = answer else { return None };
        let [seconds, micros] = fields.as_slice() else { return None };
        let number = |value: &Value| text(value)?.parse::<u64>().ok();
        let server = Duration::from_secs(number(seconds)?).saturating_add(Duration::from_micros(number(micros)?));
        Some(TimeSample { trip, server, here })
    }
}

/// Whether a server says in this way that it does not know the command.
pub(super) fn is_unknown(fault: &Fault) -> bool {
    fault.kind == FaultKind::Incompatible && fault.detail.to_ascii_lowercase().contains("unknown command")
}

/// A reply of text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    /// An account with this `INFO`, and the settings.
    pub(in crate::check) fn account(info: &str, settings: &[(&'static str, &str)]) -> Account {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut answers = vec![(Question::Info, bulk(info))];
        for (name, value) in settings {
            answers.push((Question::Setting(name), Value::Array(vec![bulk(name), bulk(value)])));
        }
        Account::new("redis://h:1/0".to_owned(), answers)
    }

    /// The same, with these words as the answer to a question; an error where they begin with `-`.
    pub(in crate::check) fn answering(mut account: Account, question: Question, words: &str) -> Account {
        let reply = format!("{}{words}\r\n", if words.starts_with('-') { "" } else { "+" });
        account.answers.push((question, redis::parse_redis_value(reply.as_bytes()).unwrap()));
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_from_unknown_and_refused_ones() {
        let account = samples::account("", &[("save", ""), ("timeout", "30")]);
        assert_eq!(account.setting("save").as_deref(), Some(""));
        assert_eq!(account.setting("timeout").as_deref(), Some("30"));
        assert_eq!(account.setting("appendfsync"), None);
        let unknown = vec![(Question::Setting("active-replica"), Value::Array(Vec::new()))];
        assert_eq!(Account::new(String::new(), unknown).setting("active-replica"), None);
        let question = Question::Setting("appendfsync");
        let denied = samples::answering(account, question, "-NOPERM this user has no permissions");
        assert_eq!(denied.setting("appendfsync"), None);
        assert!(denied.is_denied(question) && !denied.is_denied(Question::Setting("save")));
    }

    #[test]
    fn a_time_of_another_shape_is_none() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let trip = Duration::from_millis(1);
        let read = |value: &Value| TimeSample::read(value, trip, Duration::ZERO).map(|sample| sample.server);
        assert_eq!(read(&Value::Array(vec![bulk("7"), bulk("5")])), Some(Duration::new(7, 5_000)));
        for wrong in [Value::Nil, Value::Array(vec![bulk("7")]), Value::Array(vec![bulk("7"), bulk("x")])] {
            assert_eq!(read(&wrong), None);
        }
    }
}
