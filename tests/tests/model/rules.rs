//! The bounds of a run, and the faults that can be planted.

use super::promises::Violation;
use super::state::{Budget, CLIENTS, Entry, INBOXES, Inbox, Owner, Phase, State, Turn};

/// A mistake planted in the protocol or in a client's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A holder counts its deadline from the reply instead of from the instant before the request was sent.
    DeadlineFromReply,
    /// A grant whose reply comes after its own deadline is handed to the caller.
    LateGrantAccepted,
    /// Release deletes the lock key whoever has it.
    ReleaseWithoutTokenCheck,
    /// Giving up leaves the waiter's turn as it is.
    CancelKeepsTurn,
    /// Giving up clears the waiter's turn and wakes nobody.
    CancelDropsTurn,
    /// Release passes the turn on whether or not it freed the lock.
    ReleaseAlwaysPasses,
    /// Release sets no tombstone.
    NoTombstone,
    /// The write of acquire that changes nothing is a `DEL` of the tombstone.
    AcquireDeletesTombstone,
    /// The write of renew that changes nothing is a `DEL` of the tombstone.
    RenewDeletesTombstone,
    /// The release of a lease is given up after a ttl without an answer, even if a copy of its acquire is under way.
    ReleaseEndsWithTtl,
    /// Each poll joins the queue at its end.
    ScoreNotKept,
}

/// A client's part in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) name: &'static str,
    /// Clients of one process die and stop together.
    pub(crate) process: u8,
    /// The inbox of its process, if it has one.
    pub(crate) inbox: Option<u8>,
    /// Waits in the queue; otherwise it takes the first answer.
    pub(crate) joins: bool,
    /// May give up waiting.
    pub(crate) cancels: bool,
    /// May be killed, once the budget allows it.
    pub(crate) dies: bool,
    /// May be stopped for good when the longest waits are measured; in the exploration everyone may pause.
    pub(crate) stops: bool,
    /// Its requests may get no answer.
    pub(crate) unanswered: bool,
    /// Renews its lease, or not.
    pub(crate) renews: bool,
}

/// A waiter with neither inbox nor special rights.
pub(crate) const WAITER: Role = Role {
    name: "",
    process: 0,
    inbox: None,
    joins: true,
    cancels: false,
    dies: false,
    stops: false,
    unanswered: false,
    renews: false,
};

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The first client has the lock; the others have not asked yet.
    FirstHolds,
    /// The lock was just released: the second client has the turn, the third one is queued behind it, both asleep;
    /// the first one has not asked yet.
    SecondHasTurn,
}

/// What a run explores.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) clients: [Role; CLIENTS],
    pub(crate) start: Start,
    pub(crate) ttl: u8,
    pub(crate) turn: u8,
    /// Inboxes are subscribed from the start; otherwise they open at the first contended wait.
    pub(crate) inboxes_up: bool,
    pub(crate) budget: Budget,
    pub(crate) fault: Option<Fault>,
    /// The only promise that counts, if one is given: a fault often breaks several.
    pub(crate) watched: Option<Violation>,
}

impl Rules {
    /// The longest sleep after a busy answer: the poll interval, which grows with the rank where there is an inbox, or
    /// the time left that the server named, with a tick of spread from the third rank on.
    pub(crate) fn sleep(&self, rank: u8, inbox: bool, left: u8) -> u8 {
        let poll = if inbox { 1 + rank } else { 1 };
        poll.min(left + u8::from(rank > 1))
    }

    pub(crate) fn start(&self) -> State {
        let mut state = State { budget: self.budget, ..State::default() };
        match self.start {
            Start::FirstHolds => {
                (state.key, state.key_left) = (Owner::Token(0), self.ttl);
                let holder = &mut state.clients[0];
                (holder.phase, holder.deadline) = (Phase::Holding, self.ttl);
            }
            Start::SecondHasTurn => {
                let inbox = |client: usize| self.clients[client].inbox.filter(|_| self.inboxes_up);
                state.turn = Some(Turn { client: 1, inbox: inbox(1), left: self.turn });
                state.queue[2] = Some(Entry { score: 2, inbox: inbox(2) });
                state.clients[1].push = inbox(1).is_some();
                for (client, place) in [(1, 1), (2, 2)] {
                    let waiter = &mut state.clients[client];
                    (waiter.phase, waiter.place, waiter.sleep) = (Phase::Sleeping, place, place);
                }
            }
        }
        if self.inboxes_up {
            for role in &self.clients {
                if let Some(inbox) = role.inbox {
                    state.inboxes[usize::from(inbox)] = Inbox { open: true, subscribed: true, up: true };
                }
            }
        }
        state.canonical()
    }

    /// Clears what can have no effect any more, because the clients that it concerns are over.
    pub(crate) fn forget(&self, mut state: State) -> State {
        let active = |of: fn(&Role) -> bool| {
            let mut clients = self.clients.iter().zip(&state.clients);
            clients.any(|(role, client)| of(role) && !client.is_over())
        };
        let budget = Budget {
            unanswered: if active(|role| role.unanswered) { state.budget.unanswered } else { 0 },
            renewals: if active(|role| role.renews) { state.budget.renewals } else { 0 },
            deaths: if active(|role| role.dies) { state.budget.deaths } else { 0 },
            ..state.budget
        };
        for number in 0..INBOXES {
            let mut clients = self.clients.iter().zip(&state.clients);
            if !clients.any(|(role, client)| role.inbox == Some(number as u8) && !client.is_over()) {
                state.inboxes[number] = Inbox::default();
            }
        }
        State { budget, ..state }
    }
}
