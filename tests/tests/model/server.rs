//! The scripts, line by line: `acquire.lua`, `release.lua`, `renew.lua`. A script is one step.

use super::promises::Violation;
use super::rules::{Fault, Rules};
use super::state::{CLIENTS, Channel, Client, Entry, Owner, Reply, Request, State, Turn};

/// A state that a step works on, and the first promise that the step broke.
#[derive(Clone, Debug)]
pub(crate) struct World<'a> {
    pub(crate) state: State,
    pub(crate) rules: &'a Rules,
    pub(crate) broken: Option<Violation>,
}

impl World<'_> {
    pub(crate) fn broke(&mut self, violation: Violation) {
        self.broken.get_or_insert(violation);
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.rules.fault == Some(fault)
    }

    /// `acquire.lua` for the token of `client`.
    pub(crate) fn acquire(&mut self, client: usize, request: Request) -> Reply {
        let token = Owner::Token(client as u8);
        let joins = self.rules.clients[client].joins;
        let new_score = self.state.next_score();
        if self.state.clients[client].gone {
            if self.has(Fault::AcquireDeletesTombstone) {
                self.state.clients[client].gone = false;
            }
            return Reply::Abandoned;
        }
        let mine = |turn: Turn| usize::from(turn.client) == client;
        let left = match (self.state.key, self.state.turn) {
            (owner, _) if owner == token => return self.grant(client),
            (Owner::Nobody, None) => return self.grant(client),
            (Owner::Nobody, Some(turn)) if mine(turn) => return self.grant(client),
            (Owner::Nobody, Some(turn)) if turn.left > 0 => turn.left,
            (Owner::Nobody, Some(turn)) => {
                self.prune(turn);
                return self.grant(client);
            }
            (_, turn) => {
                if turn.is_some_and(mine) {
                    self.state.turn = None;
                }
                self.state.key_left
            }
        };
        if !joins {
            return Reply::Busy { score: 0, sleep: 0 };
        }
        let known = self.state.queue[client].map(|entry| entry.score).filter(|_| !self.has(Fault::ScoreNotKept));
        let given = Some(request.score).filter(|score| *score > 0 && !self.has(Fault::ScoreNotKept));
        let score = known.or(given).unwrap_or(new_score);
        self.state.queue[client] = Some(Entry { score, inbox: request.inbox });
        let rank = self.state.queue.iter().flatten().filter(|entry| entry.score < score).count() as u8;
        Reply::Busy { score, sleep: self.rules.sleep(rank, request.inbox.is_some(), left) }
    }

    /// The inbox whose turn fell due did not answer: its waiters leave the queue.
    fn prune(&mut self, turn: Turn) {
        self.state.turn = None;
        self.state.queue[usize::from(turn.client)] = None;
        if turn.inbox.is_some() {
            for entry in &mut self.state.queue {
                entry.take_if(|entry| entry.inbox == turn.inbox);
            }
        }
    }

    fn grant(&mut self, client: usize) -> Reply {
        if self.state.clients[client].released {
            self.broke(Violation::GrantedAfterRelease);
        }
        self.state.key = Owner::Token(client as u8);
        self.state.key_left = self.rules.ttl;
        self.state.turn.take_if(|turn| usize::from(turn.client) == client);
        self.state.queue[client] = None;
        Reply::Granted { fence: self.state.next_fence() }
    }

    /// `release.lua` for the token of `client`.
    pub(crate) fn release(&mut self, client: usize) {
        let token = Owner::Token(client as u8);
        let holder = self.state.key;
        let mine = self.state.turn.is_some_and(|turn| usize::from(turn.client) == client);
        if self.state.clients[client].unanswered && !self.has(Fault::NoTombstone) {
            self.state.clients[client].gone = true;
        }
        self.state.queue[client] = None;
        self.state.clients[client].released = true;
        let mut pass = false;
        if holder == token || (self.has(Fault::ReleaseWithoutTokenCheck) && holder != Owner::Nobody) {
            if holder != token {
                self.broke(Violation::ForeignKeyDeleted);
            }
            (self.state.key, self.state.key_left) = (Owner::Nobody, 0);
            pass = true;
        }
        if mine && !self.has(Fault::CancelKeepsTurn) {
            self.state.turn = None;
            pass |= holder == Owner::Nobody && !self.has(Fault::CancelDropsTurn);
        }
        pass |= self.has(Fault::ReleaseAlwaysPasses);
        let free = self.state.key == Owner::Nobody && (pass || mine);
        if pass {
            self.pass_turn(client);
        }
        let served = self.state.turn.is_some_and(|turn| usize::from(turn.client) != client);
        if free && !served && self.has_live_waiter() {
            self.broke(Violation::TurnNotPassed);
        }
    }

    fn pass_turn(&mut self, from: usize) {
        while let Some(first) = self.first() {
            let entry = self.state.queue[first].take();
            let inbox = entry.and_then(|entry| entry.inbox);
            if !self.listens(inbox) {
                continue;
            }
            if entry.is_some_and(|entry| self.is_overtaken(first, entry)) {
                self.broke(Violation::Overtaken);
            }
            self.state.turn = Some(Turn { client: first as u8, inbox, left: self.rules.turn });
            if inbox.is_some() {
                self.state.clients[first].push = true;
                if std::mem::replace(&mut self.state.clients[from].woke, true) {
                    self.broke(Violation::TwoPushes);
                }
            }
            return;
        }
    }

    /// First in the queue.
    fn first(&self) -> Option<usize> {
        let queued = (0..CLIENTS).filter_map(|client| Some((self.state.queue[client]?.score, client)));
        queued.min().map(|(_, client)| client)
    }

    /// Whether a release finds somebody to give the turn to.
    fn has_live_waiter(&self) -> bool {
        self.state.queue.iter().flatten().any(|entry| self.listens(entry.inbox))
    }

    fn listens(&self, inbox: Channel) -> bool {
        inbox.is_none_or(|inbox| self.state.inboxes[usize::from(inbox)].subscribed)
    }

    /// Whether another live waiter in the queue was told an earlier score than that of `client`. One that missed an
    /// answer does not count: a late copy of its first request, which carries no score, may have re-joined for it.
    fn is_overtaken(&self, client: usize, entry: Entry) -> bool {
        (0..CLIENTS).any(|other| {
            let Client { place, unanswered, .. } = self.state.clients[other];
            let queued = self.state.queue[other].is_some_and(|entry| self.listens(entry.inbox));
            other != client && queued && !unanswered && place > 0 && place < entry.score
        })
    }

    /// `renew.lua` for one lease: whether it was renewed.
    pub(crate) fn renew(&mut self, client: usize) -> bool {
        let renewed = self.state.key == Owner::Token(client as u8);
        if renewed {
            self.state.key_left = self.rules.ttl;
        } else if self.has(Fault::RenewDeletesTombstone) {
            self.state.clients[client].gone = false;
        }
        renewed
    }
}
