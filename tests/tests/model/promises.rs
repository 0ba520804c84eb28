//! What must hold in every state and after every step.

use super::rules::Rules;
use super::state::{Owner, Phase, State};

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two clients believe that they have the lock.
    TwoHolders,
    /// A release deleted a key that was not its token's.
    ForeignKeyDeleted,
    /// A token was granted after its release.
    GrantedAfterRelease,
    /// A token that was given up or released is still the key's, the turn's, or in the queue.
    LeftBehind,
    /// A client was told that its token is given up while it was not.
    AbandonedAlive,
    /// A caller was handed a fence that is not higher than one handed out before.
    FenceNotHigher,
    /// A release freed the lock, a live waiter was in the queue, and nobody has the turn.
    TurnNotPassed,
    /// A release gave the turn to a waiter although one that had joined before was there.
    Overtaken,
    /// The releases of one token woke two waiters.
    TwoPushes,
    /// A turn stands while a token of ours has the key.
    TurnBesideLease,
    /// A live waiter waits for longer than the bound once everything runs in time.
    WaitsTooLong,
}

impl Rules {
    /// The promises that every state keeps.
    pub(crate) fn check(&self, state: &State) -> Option<Violation> {
        let believers = state.clients.iter().filter(|client| client.believes()).count();
        if believers + usize::from(state.key == Owner::Plain) > 1 {
            return Some(Violation::TwoHolders);
        }
        for (index, client) in state.clients.iter().enumerate() {
            let token = Owner::Token(index as u8);
            let turn = state.turn.is_some_and(|turn| usize::from(turn.client) == index);
            let traces = state.key == token || turn || state.queue[index].is_some();
            if traces && (client.released || client.phase == Phase::Over) {
                return Some(Violation::LeftBehind);
            }
        }
        if state.turn.is_some() && matches!(state.key, Owner::Token(_)) {
            return Some(Violation::TurnBesideLease);
        }
        None
    }
}
