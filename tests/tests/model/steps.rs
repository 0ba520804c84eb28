//! What can happen next: the steps of clients, network, inboxes and time.
//!
//! A client may take each of its steps at any moment that the rules allow, or never: a pause of any length, across
//! any deadline, is a state in which others and the time go on.

use super::promises::Violation;
use super::rules::{Fault, Rules};
use super::server::World;
use super::state::{CLIENTS, Owner, Phase, Renewal, Reply, State};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    /// The client sends an acquire; a sleeper before its time, too: sleeps are jittered, and wake-ups may be spurious.
    Ask(usize),
    /// The server executes the request under way.
    Execute(usize),
    /// The client takes in the answer.
    Receive(usize),
    /// The client gives up on the answer: the request is executed late or never, its answer is lost.
    NoAnswer(usize),
    /// The client gives up waiting: cancelled, or its time is over.
    GiveUp(usize),
    Release(usize),
    /// The client gives up an unanswered release; only with that fault.
    EndRelease(usize),
    /// The process of this client is killed.
    Die(usize),
    LateAcquire(usize, usize),
    LostAcquire(usize, usize),
    LateRelease(usize),
    LostRelease(usize),
    LateRenewal(usize),
    LostRenewal(usize),
    Push(usize),
    LostPush(usize),
    Renew(usize),
    ExecuteRenewal(usize),
    ReceiveRenewal(usize),
    NoRenewalAnswer(usize),
    Subscribe(usize),
    NoticeSubscription(usize),
    /// The server notices the end of the inbox's connection.
    Unsubscribe(usize),
    /// The client notices it, before or after the server.
    NoticeLoss(usize),
    PlainSet,
    PlainDelete,
}

/// How the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Everything that can happen may happen.
    Any,
    /// No more trouble: what can be done is done before the time goes on, nobody gives up, holders release at once.
    /// The process with this number is stopped for good.
    Calm(Option<u8>),
}

impl Rules {
    /// Calls `visit` with each step that is possible in `state`, the state after it, and the promise that it broke.
    pub(crate) fn steps(
        &self,
        state: &State,
        schedule: Schedule,
        mut visit: impl FnMut(Step, State, Option<Violation>),
    ) {
        let mut possible = Possible { rules: self, state, schedule, urgent: false, steps: Vec::with_capacity(32) };
        possible.collect();
        for step in possible.steps {
            let mut world = World { state: *state, rules: self, broken: None };
            world.take(step);
            let after = self.forget(world.state).canonical();
            let mut broken = world.broken.into_iter().chain(self.check(&after));
            visit(step, after, broken.find(|broken| self.watched.is_none_or(|watched| watched == *broken)));
        }
    }
}

struct Possible<'a> {
    rules: &'a Rules,
    state: &'a State,
    schedule: Schedule,
    urgent: bool,
    steps: Vec<Step>,
}

impl Possible<'_> {
    /// A step that a calm run takes before the time goes on.
    fn soon(&mut self, possible: bool, step: Step) {
        if possible {
            self.urgent = true;
            self.steps.push(step);
        }
    }

    /// A step that happens in no calm run.
    fn trouble(&mut self, possible: bool, step: Step) {
        if possible && self.schedule == Schedule::Any {
            self.steps.push(step);
        }
    }

    fn collect(&mut self) {
        for client in 0..CLIENTS {
            self.network(client);
            let stopped = self.schedule == Schedule::Calm(Some(self.rules.clients[client].process));
            if !stopped {
                self.client(client);
                self.renewal(client);
            }
            self.inbox(client, stopped);
        }
        let state = self.state;
        self.trouble(state.budget.plain > 0 && state.key == Owner::Nobody, Step::PlainSet);
        self.soon(state.key == Owner::Plain, Step::PlainDelete);
        if self.schedule == Schedule::Any || !self.urgent {
            self.steps.push(Step::Tick);
        }
    }

    fn network(&mut self, index: usize) {
        let client = &self.state.clients[index];
        let sent =
            matches!(client.phase, Phase::Asking | Phase::Releasing | Phase::GivingUp) && client.reply == Reply::None;
        self.soon(sent, Step::Execute(index));
        self.soon(matches!(client.renewal, Renewal::Sent(_)), Step::ExecuteRenewal(index));
        for copy in 0..client.copies.len() {
            // Equal copies are one.
            let new = client.copies[copy].is_some() && (copy == 0 || client.copies[copy] != client.copies[copy - 1]);
            self.soon(new, Step::LateAcquire(index, copy));
            self.trouble(new, Step::LostAcquire(index, copy));
        }
        self.soon(client.release_copies > 0, Step::LateRelease(index));
        self.trouble(client.release_copies > 0, Step::LostRelease(index));
        self.soon(client.renew_copies > 0, Step::LateRenewal(index));
        self.trouble(client.renew_copies > 0, Step::LostRenewal(index));
        self.trouble(client.push, Step::LostPush(index));
    }

    fn client(&mut self, index: usize) {
        let client = &self.state.clients[index];
        let role = &self.rules.clients[index];
        let budget = &self.state.budget;
        self.trouble(role.dies && budget.deaths > 0 && !client.is_over(), Step::Die(index));
        match client.phase {
            Phase::Idle => self.trouble(true, Step::Ask(index)),
            Phase::Asking | Phase::Releasing | Phase::GivingUp => {
                self.soon(client.reply != Reply::None, Step::Receive(index));
                self.trouble(role.unanswered && budget.unanswered > 0, Step::NoAnswer(index));
                let over = client.phase == Phase::Releasing && client.deadline == 0 && client.reply == Reply::None;
                self.trouble(over && self.rules.fault == Some(Fault::ReleaseEndsWithTtl), Step::EndRelease(index));
            }
            Phase::Sleeping => {
                self.soon(client.sleep == 0, Step::Ask(index));
                self.trouble(client.sleep > 0, Step::Ask(index));
                self.trouble(role.cancels, Step::GiveUp(index));
            }
            Phase::Holding => self.soon(true, Step::Release(index)),
            Phase::Over | Phase::Dead => {}
        }
    }

    fn renewal(&mut self, index: usize) {
        let client = &self.state.clients[index];
        let budget = &self.state.budget;
        let role = &self.rules.clients[index];
        let none = client.renewal == Renewal::None;
        self.trouble(none && role.renews && client.believes() && budget.renewals > 0, Step::Renew(index));
        self.soon(matches!(client.renewal, Renewal::Answered { .. }), Step::ReceiveRenewal(index));
        self.trouble(!none && role.unanswered && budget.unanswered > 0, Step::NoRenewalAnswer(index));
    }

    fn inbox(&mut self, index: usize, stopped: bool) {
        let client = &self.state.clients[index];
        let Some(number) = self.rules.clients[index].inbox else { return };
        let inbox = self.state.inboxes[usize::from(number)];
        self.soon(client.push && inbox.up && !stopped, Step::Push(index));
        let first = self.rules.clients.iter().position(|role| role.inbox == Some(number));
        if first != Some(index) {
            return;
        }
        let losses = self.state.budget.inbox_losses;
        self.trouble(inbox.subscribed && losses > 0, Step::Unsubscribe(index));
        self.trouble(inbox.up && inbox.subscribed && losses > 0, Step::NoticeLoss(index));
        if !stopped {
            self.soon(inbox.open && !inbox.subscribed && !inbox.up, Step::Subscribe(index));
            self.soon(inbox.subscribed && !inbox.up, Step::NoticeSubscription(index));
            self.soon(inbox.up && !inbox.subscribed, Step::NoticeLoss(index));
        }
    }
}
