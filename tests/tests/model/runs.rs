//! The runs, and the faults that are planted in them.

use std::time::Instant;

use super::explorer::Explored;
use super::promises::Violation;
use super::rules::{Fault, Role, Rules, Start, WAITER};
use super::state::{Budget, Owner, Phase, Reply};
use super::waits::{Waits, longest_waits};

/// A holder without an inbox, a waiter with an inbox that may give up, die or stop, and a waiter without an inbox.
fn three_clients() -> Rules {
    Rules {
        clients: [
            Role { name: "H", process: 0, ..WAITER },
            Role { name: "A", process: 1, inbox: Some(0), cancels: true, dies: true, stops: true, ..WAITER },
            Role { name: "B", process: 2, ..WAITER },
        ],
        start: Start::FirstHolds,
        ttl: 3,
        turn: 2,
        inboxes_up: true,
        budget: Budget::default(),
        fault: None,
        watched: None,
    }
}

pub(crate) fn late_copies() -> Rules {
    let mut rules = three_clients();
    rules.clients[1].unanswered = true;
    rules.budget = Budget { unanswered: 2, deaths: 1, ..Budget::default() };
    rules
}

fn everyone() -> Rules {
    let mut rules = three_clients();
    rules.clients.iter_mut().for_each(|role| role.unanswered = true);
    rules.clients[1].stops = false;
    rules.clients[2] = Role { inbox: Some(1), ..rules.clients[2] };
    rules.ttl = 2;
    rules.budget = Budget { unanswered: 1, ..Budget::default() };
    rules
}

fn renewals() -> Rules {
    let mut rules = three_clients();
    rules.clients[1] = Role { unanswered: true, renews: true, stops: false, ..rules.clients[1] };
    rules.clients[2].joins = false;
    rules.budget = Budget { renewals: 1, unanswered: 2, ..Budget::default() };
    rules
}

fn shared_inbox() -> Rules {
    let mut rules = three_clients();
    rules.clients[2] = Role { process: 1, inbox: Some(0), ..rules.clients[2] };
    rules.start = Start::SecondHasTurn;
    rules
}

/// How long live waiters may wait at most.
///
/// With all processes alive, whatever ttl and turn are: one whose turn it is, or whose late copy got it the lock, may
/// not know and sleep for 2 ticks, the poll interval of the second in the queue, and so delay another's poll, 1 tick.
/// With one killed or stopped: until its key lapses, or until its turn is due and the next poll comes; and one more
/// poll.
fn bounds(rules: &Rules) -> Waits {
    let delayed = rules.ttl.max(rules.turn + 1) + 1;
    Waits { healthy: 3, killed: delayed, stopped: delayed, both: delayed }
}

/// Explores a run that must keep every promise.
fn proven(name: &str, rules: Rules) -> Explored {
    let (began, bounds) = (Instant::now(), bounds(&rules));
    let explored = Explored::new(rules).unwrap_or_else(|found| panic!("{name}: {found}"));
    let waits = longest_waits(&explored, bounds).unwrap_or_else(|found| panic!("{name}: {found}"));
    let (states, transitions) = (explored.states.len(), explored.transitions);
    println!("{name}: {states} states, {transitions} transitions, complete in {:?}; {waits}", began.elapsed());
    explored
}

/// Explores a run with a planted fault, which must break a promise.
fn found(fault: Fault, broken: Violation, rules: Rules) {
    let rules = Rules { fault: Some(fault), watched: Some(broken), ..rules };
    let bounds = bounds(&rules);
    let found = match Explored::new(rules) {
        Err(found) => found,
        Ok(explored) => longest_waits(&explored, bounds).expect_err("the fault breaks no promise"),
    };
    assert_eq!(found.violation, broken, "{found}");
    println!("{fault:?}: {found}");
}

#[test]
fn late_copies_and_a_killed_waiter() {
    let explored = proven("late copies", late_copies());
    assert!(explored.meets(|state| {
        state.clients.iter().any(|client| matches!(client.reply, Reply::Granted { .. }) && client.deadline == 0)
    }));
    assert!(explored.meets(|state| {
        let a = &state.clients[1];
        a.gone && a.copies.iter().flatten().count() == 2 && state.clients[2].believes()
    }));
    let dead = Phase::Dead;
    assert!(explored.meets(|state| state.clients[1].phase == dead && state.key == Owner::Token(1)));
    assert!(explored.meets(|state| {
        let turn = state.turn.is_some_and(|turn| turn.client == 1 && turn.left == 0);
        turn && state.clients[1].phase == dead && state.clients[2].phase == Phase::Sleeping
    }));
}

#[test]
fn lost_answers_of_everyone() {
    let explored = proven("everyone", everyone());
    assert!(explored.meets(|state| state.clients[0].release_copies > 0 && state.clients[2].believes()));
}

#[test]
fn long_times_and_anybody_stopped() {
    let mut rules = three_clients();
    rules.clients.iter_mut().for_each(|role| role.stops = true);
    (rules.ttl, rules.turn) = (5, 4);
    rules.budget = Budget { deaths: 1, ..Budget::default() };
    proven("long times", rules);
}

#[test]
fn an_inbox_that_comes_and_goes() {
    let mut rules = three_clients();
    rules.inboxes_up = false;
    rules.clients[1].cancels = false;
    rules.ttl = 2;
    rules.budget = Budget { inbox_losses: 1, ..Budget::default() };
    let explored = proven("inboxes", rules);
    for subscribed in [false, true] {
        let waits = Phase::Sleeping;
        assert!(explored.meets(|state| {
            let inbox = state.inboxes[0];
            inbox.subscribed == subscribed && inbox.up != subscribed && state.clients[1].phase == waits
        }));
    }
}

#[test]
fn a_plain_client_that_takes_no_notice_of_turns() {
    let mut rules = three_clients();
    rules.budget = Budget { plain: 1, deaths: 1, ..Budget::default() };
    let explored = proven("plain client", rules);
    assert!(explored.meets(|state| state.key == Owner::Plain && state.turn.is_some_and(|turn| turn.client == 1)));
    let mut rules = three_clients();
    rules.clients[1] = Role { unanswered: true, stops: false, ..rules.clients[1] };
    rules.clients[2].joins = false;
    rules.budget = Budget { plain: 1, unanswered: 1, ..Budget::default() };
    proven("plain client, late copies", rules);
}

#[test]
fn renewals_late_and_lost() {
    let explored = proven("renewals", renewals());
    assert!(explored.meets(|state| {
        let a = &state.clients[1];
        a.renew_copies > 0 && a.gone && a.copies.iter().any(Option::is_some) && state.key == Owner::Nobody
    }));
}

#[test]
fn tries_that_get_no_answer() {
    let mut rules = three_clients();
    rules.clients[2] = Role { joins: false, unanswered: true, cancels: true, ..rules.clients[2] };
    rules.budget = Budget { unanswered: 2, ..Budget::default() };
    let explored = proven("tries", rules);
    assert!(explored.meets(|state| state.clients[2].gone && state.clients[2].copies.iter().any(Option::is_some)));
}

#[test]
fn two_waiters_with_one_inbox() {
    let explored = proven("shared inbox", shared_inbox());
    // Both were removed from the queue by another's acquire, and both live.
    assert!(explored.meets(|state| {
        let pruned = |client: usize| state.queue[client].is_none() && state.clients[client].phase == Phase::Sleeping;
        state.key == Owner::Token(0) && pruned(1) && pruned(2)
    }));
}

#[test]
fn a_deadline_counted_from_the_reply_is_found() {
    found(Fault::DeadlineFromReply, Violation::TwoHolders, late_copies());
}

#[test]
fn a_grant_that_is_accepted_after_its_own_deadline_is_found() {
    found(Fault::LateGrantAccepted, Violation::FenceNotHigher, late_copies());
}

#[test]
fn a_release_without_a_token_check_is_found() {
    found(Fault::ReleaseWithoutTokenCheck, Violation::ForeignKeyDeleted, late_copies());
    found(Fault::ReleaseWithoutTokenCheck, Violation::TwoHolders, late_copies());
}

#[test]
fn a_release_that_always_passes_the_turn_is_found() {
    found(Fault::ReleaseAlwaysPasses, Violation::TwoPushes, everyone());
    found(Fault::ReleaseAlwaysPasses, Violation::TurnBesideLease, late_copies());
}

#[test]
fn a_cancel_that_keeps_the_turn_is_found() {
    found(Fault::CancelKeepsTurn, Violation::LeftBehind, late_copies());
    // As a wait, too: nobody is dead, and yet it is as long as the turn.
    found(Fault::CancelKeepsTurn, Violation::WaitsTooLong, Rules { turn: 4, ..three_clients() });
}

#[test]
fn a_cancel_that_does_not_pass_the_turn_on_is_found() {
    found(Fault::CancelDropsTurn, Violation::TurnNotPassed, late_copies());
}

#[test]
fn a_release_without_a_tombstone_is_found() {
    found(Fault::NoTombstone, Violation::GrantedAfterRelease, late_copies());
    found(Fault::NoTombstone, Violation::LeftBehind, late_copies());
}

#[test]
fn a_release_that_is_given_up_while_a_copy_of_its_acquire_may_come_is_found() {
    found(Fault::ReleaseEndsWithTtl, Violation::LeftBehind, late_copies());
}

#[test]
fn a_probe_write_that_deletes_the_tombstone_is_found() {
    found(Fault::AcquireDeletesTombstone, Violation::GrantedAfterRelease, late_copies());
    found(Fault::RenewDeletesTombstone, Violation::GrantedAfterRelease, renewals());
}

#[test]
fn a_place_that_is_not_kept_is_found() {
    found(Fault::ScoreNotKept, Violation::Overtaken, late_copies());
}

/// The same with wider bounds: minutes, and gigabytes of memory.
#[test]
#[ignore = "takes minutes and two gigabytes: run it with --release after a change of the protocol"]
fn wider_bounds() {
    let budget = Budget { unanswered: 2, deaths: 1, ..Budget::default() };
    proven("everyone, wider", Rules { budget, ..everyone() });
    proven("plain client, wider", Rules { budget: Budget { plain: 2, ..budget }, ..late_copies() });
    let mut rules = renewals();
    rules.clients[0] = Role { unanswered: true, renews: true, ..rules.clients[0] };
    rules.clients[2].joins = true;
    proven("renewals, wider", Rules { budget: Budget { renewals: 2, ..budget }, ..rules });
    let mut rules = late_copies();
    rules.clients[0].unanswered = true;
    rules.clients[2].cancels = true;
    rules.inboxes_up = false;
    proven("inboxes, wider", Rules { budget: Budget { unanswered: 1, inbox_losses: 1, ..budget }, ..rules });
    let mut rules = shared_inbox();
    rules.clients[1].unanswered = true;
    rules.clients[2] = Role { dies: true, cancels: true, unanswered: true, ..rules.clients[2] };
    proven("shared inbox, wider", Rules { budget: Budget { unanswered: 1, plain: 1, ..budget }, ..rules });
}
