//! Servers, nodes and sentinels that are asked about themselves.

use std::fmt;
use std::sync::Arc;

use redis::{Cmd, Value};

use crate::clock::Moment;

use super::opener::Opener;
use super::slot::Slot;
use super::{Exchange, Fault};

/// Who serves the locks of a client.
#[derive(Debug)]
pub(crate) enum Deployment {
    /// A store in this process: nobody to ask.
    Memory,
    /// The server of the URL.
    Server(Respondent),
    /// The primary that sentinels name, and each of those of the URL.
    Sentinels { service: String, primary: Respondent, sentinels: Vec<Respondent> },
    /// The primaries of a cluster, and how many slots none of them has.
    Cluster { nodes: Vec<Respondent>, uncovered: usize },
}

/// One that can be asked, over a connection of its own. It is opened by the first question, and ends with this value.
pub(crate) struct Respondent {
    opener: Arc<Opener>,
    slot: Slot,
}

impl Respondent {
    /// Opens nothing.
    pub(super) fn new(opener: Arc<Opener>) -> Respondent {
        Respondent { opener, slot: Slot::empty() }
    }

    /// Sends all questions at once and reads their answers, refusals among them.
    pub(crate) fn ask(&mut self, questions: &[Cmd], by: Moment) -> Exchange<Vec<Value>> {
        let request: Vec<u8> = questions.iter().flat_map(Cmd::get_packed_command).collect();
        self.slot.exchange_each(&self.opener, &request, questions.len(), by)
    }

    /// A refusal in the terms of this client.
    pub(crate) fn refusal(answer: &Value) -> Option<Fault> {
        match answer {
            Value::ServerError(error) => Some(Fault::answered(error)),
            _ => None,
        }
    }

    /// Its URL without credentials: that of the server itself, once it has been asked.
    pub(crate) fn name(&self) -> String {
        self.opener.reached()
    }
}

impl fmt::Debug for Respondent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Respondent").field(&self.opener.server()).finish()
    }
}
