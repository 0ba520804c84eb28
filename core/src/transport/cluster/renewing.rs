//! Renewal of leases that live on several nodes.
//!
//! One key a command, because a script may touch one slot only; all commands for a node are sent at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Value;

use crate::clock::Moment;
use crate::protocol::{Renew, Renewal, decode_renew};
use crate::transport::server::Lead;
use crate::transport::{Answered, Exchange, Fault};

use super::hash::slot_of;
use super::map::Node;
use super::redirect::Redirect;
use super::{Cluster, REDIRECTIONS, is_migrating, note};

/// What a node has answered for one lease.
enum Answer {
    Done(Renewal),
    /// The slot is at another node: ask that one with the others.
    Elsewhere,
    /// The slot is in migration.
    Between,
    /// The node does not know the script yet.
    Untaught,
    Failed(Fault),
}

/// The renewal of one batch.
struct Course<'a> {
    batch: &'a [Renew<'a>],
    outcome: Vec<Renewal>,
    /// Failures of leases and of whole nodes.
    failure: Option<Fault>,
    unanswered: bool,
}

impl Cluster {
    /// Renews each lease of the batch. One without an answer does not take the others with it.
    pub(super) fn renew_all(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<Renewal>> {
        let began = self.topology.clock.now();
        let outcome = vec![Renewal::Unknown { unanswered: false }; batch.len()];
        let mut course = Course { batch, outcome, failure: None, unanswered: false };
        let mut open: Vec<usize> = (0..batch.len()).collect();
        for _ in 0..=REDIRECTIONS {
            let mut again = Vec::new();
            for (node, indexes) in self.by_node(&mut course, &open, by) {
                again.extend(self.renew_at(&node, &mut course, indexes, by));
            }
            open = again;
            if open.is_empty() {
                break;
            }
        }
        for index in open {
            course.failed(index, Fault::refusing(format!("sent from node to node more than {REDIRECTIONS} times")));
        }
        let Course { outcome, failure, unanswered, .. } = course;
        let none = outcome.iter().all(|renewal| matches!(renewal, Renewal::Unknown { .. }));
        match failure {
            Some(fault) if none => Err(Fault { unanswered, ..fault }),
            _ => Ok(Answered { reply: outcome, sent: began }),
        }
    }

    fn by_node(&self, course: &mut Course<'_>, open: &[usize], by: Moment) -> Vec<(Arc<Node>, Vec<usize>)> {
        let mut groups: BTreeMap<u32, (Arc<Node>, Vec<usize>)> = BTreeMap::new();
        for index in open {
            match self.topology.owner(slot_of(course.batch[*index].key.as_str()), by) {
                Ok(node) => groups.entry(node.id).or_insert_with(|| (node, Vec::new())).1.push(*index),
                Err(fault) => course.failed(*index, fault),
            }
        }
        groups.into_values().collect()
    }

    /// Renews those leases at a node; gives back those that are elsewhere.
    fn renew_at(&self, node: &Arc<Node>, course: &mut Course<'_>, indexes: Vec<usize>, by: Moment) -> Vec<usize> {
        let mut elsewhere = Vec::new();
        let mut open = indexes;
        // The second time with the source, for those that met a node without it.
        for whole in [false, true] {
            let items: Vec<Renew<'_>> = open.iter().map(|index| course.batch[*index].clone()).collect();
            let replies = match self.server_of(node).renew_each(&items, whole, by) {
                Ok(answer) => answer.reply,
                Err(fault) => {
                    note(node, Some(&fault));
                    course.all_failed(&open, fault);
                    return elsewhere;
                }
            };
            note(node, None);
            let mut untaught = Vec::new();
            for (index, reply) in open.into_iter().zip(&replies) {
                match self.understand(node, reply) {
                    Answer::Done(renewal) => course.outcome[index] = renewal,
                    Answer::Elsewhere => elsewhere.push(index),
                    Answer::Between => self.renew_alone(course, index, by),
                    Answer::Untaught => untaught.push(index),
                    Answer::Failed(fault) => {
                        note(node, Some(&fault));
                        course.failed(index, fault);
                    }
                }
            }
            open = untaught;
            if open.is_empty() {
                break;
            }
        }
        for index in open {
            course.failed(
                index,
                Fault::refusing("NOSCRIPT the server forgets its scripts at once").at(node.endpoint.as_str()),
            );
        }
        elsewhere
    }

    fn understand(&self, node: &Arc<Node>, reply: &Value) -> Answer {
        let Value::ServerError(error) = reply else {
            return match decode_renew(reply, 1).map(|renewed| renewed.first().copied()) {
                Ok(Some(renewal)) => Answer::Done(renewal),
                Ok(None) => Answer::Failed(Fault::unreachable("the reply to renew is empty")),
                Err(malformed) => Answer::Failed(Fault::garbled(malformed)),
            };
        };
        let fault = Fault::answered(error).at(node.endpoint.as_str());
        match Redirect::of(&fault) {
            Some(Redirect::Moved { slot, host, port }) => {
                let owner = self.topology.at(&host, port, node);
                self.topology.moved(slot, &owner);
                Answer::Elsewhere
            }
            Some(Redirect::Ask { .. }) => Answer::Between,
            None if is_migrating(&fault) => Answer::Between,
            None if fault.is_code("NOSCRIPT") => Answer::Untaught,
            None => Answer::Failed(fault),
        }
    }

    /// Renews one lease of a slot in migration, by its key alone.
    fn renew_alone(&self, course: &mut Course<'_>, index: usize, by: Moment) {
        let item = &course.batch[index..=index];
        match self.routed(item[0].key, by, |server, lead: Lead| server.renew(lead, item, false, by)) {
            Ok(answer) => course.outcome[index] = answer.reply[0],
            Err(fault) => course.failed(index, fault),
        }
    }
}

impl Course<'_> {
    fn failed(&mut self, index: usize, fault: Fault) {
        self.all_failed(&[index], fault);
    }

    fn all_failed(&mut self, indexes: &[usize], fault: Fault) {
        for index in indexes {
            self.outcome[*index] = Renewal::Unknown { unanswered: fault.unanswered };
        }
        self.unanswered |= fault.unanswered;
        self.failure = Some(fault);
    }
}
