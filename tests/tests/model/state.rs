//! One state of the model: the server's keys, the clients, and every message under way.
//!
//! All times are relative (ticks left), all scores and fences are ranks among those that still matter, and what can
//! have no effect any more is cleared. So states that behave alike are equal, and there are finitely many of them.

/// Number of clients, each with one token.
pub(crate) const CLIENTS: usize = 3;

/// Number of inboxes.
pub(crate) const INBOXES: usize = 2;

/// Most copies of acquires that one client can have left on the wire.
const COPIES: usize = 3;

/// Whose value stands in the lock key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Owner {
    #[default]
    Nobody,
    /// The token of this client.
    Token(u8),
    /// A client of the plain pattern, `SET NX PX` and compare-and-delete.
    Plain,
}

/// A channel to be woken on; `None` stands for `-`.
pub(crate) type Channel = Option<u8>;

/// The `…:turn` key. It is due when nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) client: u8,
    pub(crate) inbox: Channel,
    pub(crate) left: u8,
}

/// A token in `…:queue` and `…:waiters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) score: u8,
    pub(crate) inbox: Channel,
}

/// What an acquire request carries besides its token; a score of 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) score: u8,
    pub(crate) inbox: Channel,
}

/// The answer to the request under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The server has not executed it.
    #[default]
    None,
    Granted {
        fence: u8,
    },
    /// With the sleep that follows from rank and time left. Nothing was joined when the score is 0.
    Busy {
        score: u8,
        sleep: u8,
    },
    Abandoned,
    /// To a release, whatever it found.
    Released,
}

/// What a client does.
///
/// | phase | by | next |
/// |---|---|---|
/// | Idle | – | Asking |
/// | Asking | an acquire was sent | Sleeping, Holding, GivingUp or Over (a try) |
/// | Sleeping | busy, or no answer | Asking, GivingUp, Over (nothing to give up) |
/// | Holding | granted | Releasing |
/// | Releasing | a release was sent | Over (confirmed), Releasing (no answer) |
/// | GivingUp | the same of a waiter | Over (confirmed), GivingUp (no answer) |
/// | Over | – | – |
/// | Dead | the process was killed | – |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking,
    Sleeping,
    Holding,
    Releasing,
    GivingUp,
    Over,
    Dead,
}

/// A renewal of a client's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Renewal {
    #[default]
    None,
    /// Sent, with the time left until the deadline that it would give.
    Sent(u8),
    Answered {
        renewed: bool,
        deadline: u8,
    },
}

/// A client: one token from its first request to its release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// An acquire got no answer.
    pub(crate) unanswered: bool,
    /// The score that the last busy answer gave; 0 before.
    pub(crate) place: u8,
    pub(crate) request: Request,
    pub(crate) reply: Reply,
    /// Asking: time left until the deadline that a grant would give. Holding: time left of the lease.
    pub(crate) deadline: u8,
    /// Sleeping: time left.
    pub(crate) sleep: u8,
    /// A wake-up that came while asking, for the sleep after it.
    pub(crate) pushed: bool,
    /// A push to this token is under way.
    pub(crate) push: bool,
    pub(crate) renewal: Renewal,

    /// Acquires that the client gave up on and that may still be executed, in order; `None`s first.
    pub(crate) copies: [Option<Request>; COPIES],
    /// Releases of that kind.
    pub(crate) release_copies: u8,
    /// Renewals of that kind.
    pub(crate) renew_copies: u8,

    /// On the server: the tombstone of the token.
    pub(crate) gone: bool,
    /// For the properties: a release of the token has been executed.
    pub(crate) released: bool,
    /// For the properties: a release of the token has woken somebody.
    pub(crate) woke: bool,
}

impl Client {
    /// Waits for the lock, so that it is owed one.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Sleeping)
    }

    /// Does nothing any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Dead)
    }

    /// Believes that it has the lock.
    pub(crate) fn believes(&self) -> bool {
        self.phase == Phase::Holding && self.deadline > 0
    }

    /// Leaves `request` on the wire.
    pub(crate) fn leave_copy(&mut self, request: Request) {
        let free = self.copies.iter_mut().find(|copy| copy.is_none());
        *free.expect("more copies than the bounds allow") = Some(request);
        self.copies.sort_unstable();
    }

    pub(crate) fn take_copy(&mut self, index: usize) -> Option<Request> {
        let copy = self.copies[index].take();
        self.copies.sort_unstable();
        copy
    }

    fn has_copies(&self) -> bool {
        self.copies.iter().any(Option::is_some)
    }
}

/// An inbox: the server's side and its client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inbox {
    /// The client has asked for it.
    pub(crate) open: bool,
    /// The server has its subscription.
    pub(crate) subscribed: bool,
    /// The client believes so.
    pub(crate) up: bool,
}

/// What the environment may still do, each so many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Requests that get no answer.
    pub(crate) unanswered: u8,
    pub(crate) deaths: u8,
    pub(crate) renewals: u8,
    pub(crate) inbox_losses: u8,
    pub(crate) plain: u8,
}

/// Everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) key: Owner,
    pub(crate) key_left: u8,
    pub(crate) turn: Option<Turn>,
    pub(crate) queue: [Option<Entry>; CLIENTS],
    pub(crate) inboxes: [Inbox; INBOXES],
    pub(crate) clients: [Client; CLIENTS],
    /// The fence of the last grant that a client took for one.
    pub(crate) last_fence: u8,
    pub(crate) budget: Budget,
}

impl State {
    /// A score later than all, as the server's clock gives it.
    pub(crate) fn next_score(&self) -> u8 {
        highest(self.scores()) + 1
    }

    /// A fence higher than all.
    pub(crate) fn next_fence(&self) -> u8 {
        highest(self.fences()) + 1
    }

    /// Clears what has no effect any more and renumbers scores and fences.
    pub(crate) fn canonical(mut self) -> State {
        for (index, client) in self.clients.iter_mut().enumerate() {
            if !client.is_over() {
                continue;
            }
            let Client { phase, unanswered, copies, release_copies, renew_copies, gone, released, woke, .. } = *client;
            let kept = Client { copies, release_copies, renew_copies, gone, released, woke, ..Client::default() };
            *client = Client { phase, unanswered: unanswered && release_copies > 0, ..kept };
            if client.has_copies() {
                continue;
            }
            // The token can be granted no more.
            (client.unanswered, client.gone, client.released) = (false, false, false);
            if self.key != Owner::Token(index as u8) {
                client.renew_copies = 0;
                client.woke &= client.release_copies > 0;
            }
        }
        for client in &mut self.clients {
            match &mut client.reply {
                Reply::Busy { sleep, .. } => {
                    client.deadline = 0;
                    if std::mem::take(&mut client.pushed) {
                        *sleep = 0;
                    }
                }
                Reply::Granted { .. } => client.pushed = false,
                Reply::None | Reply::Abandoned | Reply::Released => {}
            }
            if matches!(client.phase, Phase::Holding | Phase::Releasing | Phase::GivingUp) {
                client.push = false;
                // Without a late copy a tombstone changes nothing.
                client.unanswered &= client.has_copies();
                client.gone &= client.has_copies();
            }
        }
        let (scores, mut fences) = (self.scores(), self.fences());
        if fences & ((1 << self.last_fence) - 1) <= 1 {
            // Lower than every fence that can still be handed out.
            self.last_fence = 0;
            fences = self.fences();
        }
        for entry in self.queue.iter_mut().flatten() {
            entry.score = rank(scores, entry.score);
        }
        for client in &mut self.clients {
            client.place = rank(scores, client.place);
            client.request.score = rank(scores, client.request.score);
            for copy in client.copies.iter_mut().flatten() {
                copy.score = rank(scores, copy.score);
            }
            match &mut client.reply {
                Reply::Busy { score, .. } => *score = rank(scores, *score),
                Reply::Granted { fence } => *fence = rank(fences, *fence),
                Reply::None | Reply::Abandoned | Reply::Released => {}
            }
        }
        self.last_fence = rank(fences, self.last_fence);
        self
    }

    fn scores(&self) -> u64 {
        let mut seen = 0;
        for entry in self.queue.iter().flatten() {
            seen |= 1 << entry.score;
        }
        for client in &self.clients {
            seen |= 1 << client.place | 1 << client.request.score;
            for copy in client.copies.iter().flatten() {
                seen |= 1 << copy.score;
            }
            if let Reply::Busy { score, .. } = client.reply {
                seen |= 1 << score;
            }
        }
        seen
    }

    fn fences(&self) -> u64 {
        let mut seen = 1 << self.last_fence;
        for client in &self.clients {
            if let Reply::Granted { fence } = client.reply {
                seen |= 1 << fence;
            }
        }
        seen
    }
}

fn highest(seen: u64) -> u8 {
    63 - (seen | 1).leading_zeros() as u8
}

/// The place of `value` among the numbers in `seen`; 0, which stands for none, stays 0.
fn rank(seen: u64, value: u8) -> u8 {
    if value == 0 {
        return 0;
    }
    let lower = seen & !1 & ((1 << value) - 1);
    lower.count_ones() as u8 + 1
}
