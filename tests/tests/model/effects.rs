//! What each step does: the rules of `waiting`, `lock` and `lease` on the clients' side.

use super::promises::Violation;
use super::rules::Fault;
use super::server::World;
use super::state::{CLIENTS, Inbox, Owner, Phase, Renewal, Reply, Request};
use super::steps::Step;

impl World<'_> {
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Tick => self.tick(),
            Step::Ask(client) => self.ask(client),
            Step::Execute(client) => self.execute(client),
            Step::Receive(client) => self.receive(client),
            Step::NoAnswer(client) => self.no_answer(client),
            Step::GiveUp(client) => self.give_up(client),
            Step::Release(client) => self.start_release(client),
            Step::EndRelease(client) => {
                self.leave_request(client);
                self.state.clients[client].phase = Phase::Over;
            }
            Step::Die(client) => self.die(client),
            Step::LateAcquire(client, copy) => {
                if let Some(request) = self.state.clients[client].take_copy(copy) {
                    let _ = self.acquire(client, request);
                }
            }
            Step::LostAcquire(client, copy) => drop(self.state.clients[client].take_copy(copy)),
            Step::LateRelease(client) => {
                self.state.clients[client].release_copies -= 1;
                self.release(client);
            }
            Step::LostRelease(client) => self.state.clients[client].release_copies -= 1,
            Step::LateRenewal(client) => {
                self.state.clients[client].renew_copies -= 1;
                let _ = self.renew(client);
            }
            Step::LostRenewal(client) => self.state.clients[client].renew_copies -= 1,
            Step::Push(client) => {
                self.state.clients[client].push = false;
                self.wake(client);
            }
            Step::LostPush(client) => self.state.clients[client].push = false,
            Step::Renew(client) => {
                self.state.budget.renewals -= 1;
                self.state.clients[client].renewal = Renewal::Sent(self.rules.ttl);
            }
            Step::ExecuteRenewal(client) => {
                if let Renewal::Sent(deadline) = self.state.clients[client].renewal {
                    let renewed = self.renew(client);
                    self.state.clients[client].renewal = Renewal::Answered { renewed, deadline };
                }
            }
            Step::ReceiveRenewal(client) => self.receive_renewal(client),
            Step::NoRenewalAnswer(client) => {
                self.state.budget.unanswered -= 1;
                self.forget_renewal(client);
            }
            Step::Subscribe(client) => self.inbox_of(client).subscribed = true,
            Step::NoticeSubscription(client) => {
                self.inbox_of(client).up = true;
                self.recheck(client);
            }
            Step::Unsubscribe(client) => {
                self.state.budget.inbox_losses -= 1;
                self.inbox_of(client).subscribed = false;
            }
            Step::NoticeLoss(client) => {
                if self.inbox_of(client).subscribed {
                    self.state.budget.inbox_losses -= 1;
                }
                self.inbox_of(client).up = false;
                self.recheck(client);
            }
            Step::PlainSet => {
                self.state.budget.plain -= 1;
                (self.state.key, self.state.key_left) = (Owner::Plain, self.rules.ttl);
            }
            Step::PlainDelete => (self.state.key, self.state.key_left) = (Owner::Nobody, 0),
        }
    }

    pub(crate) fn tick(&mut self) {
        let state = &mut self.state;
        state.key_left = state.key_left.saturating_sub(1);
        if state.key_left == 0 {
            state.key = Owner::Nobody;
        }
        if let Some(turn) = &mut state.turn {
            turn.left = turn.left.saturating_sub(1);
        }
        for client in &mut state.clients {
            client.deadline = client.deadline.saturating_sub(1);
            client.sleep = client.sleep.saturating_sub(1);
            if let Renewal::Sent(deadline) | Renewal::Answered { deadline, .. } = &mut client.renewal {
                *deadline = deadline.saturating_sub(1);
            }
        }
    }

    fn ask(&mut self, index: usize) {
        let up = self.rules.clients[index].inbox.filter(|inbox| self.state.inboxes[usize::from(*inbox)].up);
        let client = &mut self.state.clients[index];
        // A push that came before is answered by this request.
        client.pushed &= up.is_none();
        client.phase = Phase::Asking;
        client.request = Request { score: client.place, inbox: up };
        client.deadline = self.rules.ttl;
        client.sleep = 0;
    }

    fn execute(&mut self, index: usize) {
        let client = self.state.clients[index];
        let reply = if client.phase == Phase::Asking {
            self.acquire(index, client.request)
        } else {
            self.release(index);
            Reply::Released
        };
        self.state.clients[index].reply = reply;
        self.state.clients[index].request = Request::default();
    }

    fn receive(&mut self, index: usize) {
        let reply = std::mem::take(&mut self.state.clients[index].reply);
        match reply {
            Reply::Granted { fence } => self.granted(index, fence),
            Reply::Busy { .. } if !self.rules.clients[index].joins => self.give_up(index),
            Reply::Busy { score, sleep } => {
                if let Some(inbox) = self.rules.clients[index].inbox {
                    self.state.inboxes[usize::from(inbox)].open = true;
                }
                self.state.clients[index].place = score;
                self.sleep(index, sleep);
            }
            Reply::Abandoned => {
                self.broke(Violation::AbandonedAlive);
                self.give_up(index);
            }
            Reply::Released => self.state.clients[index].phase = Phase::Over,
            Reply::None => {}
        }
    }

    fn granted(&mut self, index: usize, fence: u8) {
        let late = self.state.clients[index].deadline == 0;
        let from_reply = self.has(Fault::DeadlineFromReply);
        if late && !from_reply && !self.has(Fault::LateGrantAccepted) {
            // Whether the key is still this token's only the server knows: ask again at once.
            self.state.clients[index].unanswered = true;
            self.sleep(index, 0);
            return;
        }
        if fence <= self.state.last_fence {
            self.broke(Violation::FenceNotHigher);
        }
        self.state.last_fence = fence;
        let client = &mut self.state.clients[index];
        (client.phase, client.pushed, client.place) = (Phase::Holding, false, 0);
        if from_reply {
            client.deadline = self.rules.ttl;
        }
    }

    fn sleep(&mut self, index: usize, span: u8) {
        let client = &mut self.state.clients[index];
        let pushed = std::mem::take(&mut client.pushed);
        client.phase = Phase::Sleeping;
        client.deadline = 0;
        client.sleep = if pushed { 0 } else { span };
    }

    fn no_answer(&mut self, index: usize) {
        self.state.budget.unanswered -= 1;
        self.leave_request(index);
        if self.state.clients[index].phase == Phase::Asking {
            self.state.clients[index].unanswered = true;
            self.sleep(index, 1);
        }
        // A release is sent again, until it is confirmed.
    }

    /// Leaves the request under way to itself, if the server has not executed it.
    fn leave_request(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        let request = std::mem::take(&mut client.request);
        if std::mem::take(&mut client.reply) == Reply::None {
            match client.phase {
                Phase::Asking => client.leave_copy(request),
                Phase::Releasing | Phase::GivingUp => client.release_copies += 1,
                _ => {}
            }
        }
    }

    fn give_up(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        let owed = client.place > 0 || client.unanswered;
        client.phase = if owed { Phase::GivingUp } else { Phase::Over };
        (client.place, client.sleep, client.deadline, client.pushed) = (0, 0, 0, false);
    }

    fn start_release(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        (client.phase, client.deadline) = (Phase::Releasing, 0);
        if self.rules.fault == Some(Fault::ReleaseEndsWithTtl) {
            client.deadline = self.rules.ttl;
        }
        self.forget_renewal(index);
    }

    fn receive_renewal(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        if let Renewal::Answered { renewed, deadline } = std::mem::take(&mut client.renewal) {
            if !renewed {
                client.deadline = 0;
            } else if client.deadline > 0 {
                client.deadline = client.deadline.max(deadline);
            }
        }
    }

    fn forget_renewal(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        if matches!(std::mem::take(&mut client.renewal), Renewal::Sent(_)) {
            client.renew_copies += 1;
        }
    }

    fn die(&mut self, index: usize) {
        self.state.budget.deaths -= 1;
        let process = self.rules.clients[index].process;
        for index in 0..CLIENTS {
            let role = self.rules.clients[index];
            if role.process != process {
                continue;
            }
            self.leave_request(index);
            self.forget_renewal(index);
            self.state.clients[index].phase = Phase::Dead;
            if let Some(inbox) = role.inbox {
                self.state.inboxes[usize::from(inbox)] = Inbox::default();
            }
        }
    }

    fn inbox_of(&mut self, index: usize) -> &mut Inbox {
        let inbox = self.rules.clients[index].inbox.unwrap_or_default();
        &mut self.state.inboxes[usize::from(inbox)]
    }

    fn wake(&mut self, index: usize) {
        let client = &mut self.state.clients[index];
        match client.phase {
            Phase::Sleeping => client.sleep = 0,
            Phase::Asking => client.pushed = true,
            _ => {}
        }
    }

    /// Has the waiters of an inbox ask again.
    fn recheck(&mut self, index: usize) {
        let inbox = self.rules.clients[index].inbox;
        for other in (0..CLIENTS).filter(|other| self.rules.clients[*other].inbox == inbox) {
            self.wake(other);
        }
    }
}
