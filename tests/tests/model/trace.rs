//! Counterexamples in words.

use std::fmt::{self, Display, Formatter};

use super::promises::Violation;
use super::rules::Rules;
use super::state::{Owner, Phase, Reply, State};
use super::steps::Step;

/// A way to a broken promise.
#[derive(Debug)]
pub(crate) struct Counterexample {
    pub(crate) rules: Rules,
    pub(crate) violation: Violation,
    pub(crate) steps: Vec<(Step, State)>,
}

impl Display for Counterexample {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:?} after {} steps:", self.violation, self.steps.len())?;
        let mut before = self.rules.start();
        for (number, (step, after)) in self.steps.iter().enumerate() {
            let what = self.words(*step, &before, after);
            writeln!(out, "{:>4}. {what:<64} {}", number + 1, self.server(after))?;
            before = *after;
        }
        Ok(())
    }
}

impl Counterexample {
    fn name(&self, client: usize) -> &'static str {
        self.rules.clients[client].name
    }

    fn words(&self, step: Step, before: &State, after: &State) -> String {
        let name = |client| self.name(client);
        match step {
            Step::Tick => "a tick".to_owned(),
            Step::Ask(client) => format!("{} sends an acquire", name(client)),
            Step::Execute(client) => {
                let answer = match after.clients[client].reply {
                    Reply::Granted { .. } => "acquire: granted",
                    Reply::Busy { .. } => "acquire: busy",
                    Reply::Abandoned => "acquire: abandoned",
                    Reply::Released | Reply::None => "release",
                };
                format!("the server executes {}'s {answer}", name(client))
            }
            Step::Receive(client) => {
                let then = match after.clients[client].phase {
                    Phase::Idle | Phase::Asking | Phase::Dead => "goes on",
                    Phase::Sleeping => "sleeps",
                    Phase::Holding => "has the lock",
                    Phase::Releasing | Phase::GivingUp => "gives up",
                    Phase::Over => "is done",
                };
                format!("{} takes in the answer and {then}", name(client))
            }
            Step::NoAnswer(client) => {
                let late = before.clients[client].reply == Reply::None;
                let what = if late { "it may be executed late" } else { "it was executed" };
                format!("{} gives up on an answer; {what}", name(client))
            }
            Step::GiveUp(client) => format!("{} gives up waiting", name(client)),
            Step::Release(client) => format!("{} releases", name(client)),
            Step::EndRelease(client) => format!("{} gives up its release", name(client)),
            Step::Die(client) => format!("the process of {} is killed", name(client)),
            Step::LateAcquire(client, _) => format!("the server executes a late acquire of {}", name(client)),
            Step::LateRelease(client) => format!("the server executes a late release of {}", name(client)),
            Step::LateRenewal(client) => format!("the server executes a late renewal of {}", name(client)),
            Step::LostAcquire(client, _) | Step::LostRelease(client) | Step::LostRenewal(client) => {
                format!("a late request of {} is lost", name(client))
            }
            Step::Push(client) => format!("{} is woken by a push", name(client)),
            Step::LostPush(client) => format!("a push to {} is lost", name(client)),
            Step::Renew(client) => format!("{} sends a renewal", name(client)),
            Step::ExecuteRenewal(client) => format!("the server executes {}'s renewal", name(client)),
            Step::ReceiveRenewal(client) => format!("{} takes in the answer to its renewal", name(client)),
            Step::NoRenewalAnswer(client) => format!("{} gives up on the answer to its renewal", name(client)),
            Step::Subscribe(client) => format!("the server subscribes {}'s inbox", name(client)),
            Step::NoticeSubscription(client) => format!("{} sees its inbox come", name(client)),
            Step::Unsubscribe(client) => format!("the server loses {}'s inbox", name(client)),
            Step::NoticeLoss(client) => format!("{} sees its inbox go", name(client)),
            Step::PlainSet => "the plain client takes the lock".to_owned(),
            Step::PlainDelete => "the plain client deletes its key".to_owned(),
        }
    }

    fn server(&self, state: &State) -> String {
        let mut text = match state.key {
            Owner::Nobody => "free".to_owned(),
            Owner::Plain => format!("key plain {}", state.key_left),
            Owner::Token(client) => format!("key {} {}", self.name(client.into()), state.key_left),
        };
        if let Some(turn) = state.turn {
            text += &format!(", turn {} {}", self.name(turn.client.into()), turn.left);
        }
        let mut queue: Vec<(u8, usize)> =
            (0..state.queue.len()).filter_map(|client| Some((state.queue[client]?.score, client))).collect();
        queue.sort_unstable();
        if !queue.is_empty() {
            let names: Vec<&str> = queue.into_iter().map(|(_, client)| self.name(client)).collect();
            text += &format!(", queue {}", names.join(" "));
        }
        let believers = (0..state.clients.len()).filter(|client| state.clients[*client].believes());
        for client in believers {
            text += &format!(", {} holds for {}", self.name(client), state.clients[client].deadline);
        }
        text
    }
}
