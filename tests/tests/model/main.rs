mod clients;
mod conformance;
mod explorer;
mod index;
mod rules;
mod server;
mod state;
mod trace;
mod waits;

use std::time::Instant;

use redlatch_tests::{Server, any_server};

use conformance::Twins;
use explorer::Explored;
use rules::{Fault, Role, Rules, Start, Violation, WAITER};
use state::{Budget, Owner, Phase, Renewal, Reply, State};
use trace::Counterexample;
use waits::{Waits, longest_waits};

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

/// Late copies, lost answers, a killed or stopped waiter: A's requests.
fn late_copies() -> Rules {
    let mut rules = three_clients();
    rules.clients[1].unanswered = true;
    rules.budget = Budget { unanswered: 2, deaths: 1, ..Budget::default() };
    rules
}

/// Anybody's request may get no answer, and both waiters have inboxes and may give up.
fn everyone() -> Rules {
    let mut rules = three_clients();
    rules.clients.iter_mut().for_each(|role| role.unanswered = true);
    rules.clients[2] = Role { inbox: Some(1), cancels: true, ..rules.clients[2] };
    rules.budget = Budget { unanswered: 1, deaths: 1, ..Budget::default() };
    rules
}

/// An inbox that opens at the first contended wait and whose connection breaks once.
fn inboxes() -> Rules {
    let mut rules = three_clients();
    rules.inboxes_up = false;
    rules.budget = Budget { inbox_losses: 1, deaths: 1, ..Budget::default() };
    rules
}

/// A client of the plain pattern that takes no notice of turns.
fn plain_client() -> Rules {
    let mut rules = three_clients();
    rules.clients[1].unanswered = true;
    rules.clients[1].dies = false;
    rules.budget = Budget { plain: 1, unanswered: 1, ..Budget::default() };
    rules
}

/// A lease that is renewed, and a client that only tries.
fn renewals() -> Rules {
    let mut rules = three_clients();
    rules.clients[1] = Role { unanswered: true, renews: true, dies: false, ..rules.clients[1] };
    rules.clients[2] = Role { joins: false, unanswered: true, ..rules.clients[2] };
    rules.budget = Budget { renewals: 1, unanswered: 2, ..Budget::default() };
    rules
}

/// Two waiters of one process share an inbox, one of them has the turn; a third waiter comes from elsewhere.
fn shared_inbox() -> Rules {
    let mut rules = three_clients();
    rules.clients[2] = Role { process: 1, inbox: Some(0), dies: true, ..rules.clients[2] };
    rules.start = Start::SecondHasTurn;
    rules.budget = Budget { deaths: 1, ..Budget::default() };
    rules
}

fn proven(name: &str, rules: Rules, bounds: Waits) -> Explored {
    let began = Instant::now();
    let explored = Explored::new(rules).unwrap_or_else(|found| panic!("{name}: {found}"));
    let waits = longest_waits(&explored, bounds).unwrap_or_else(|found| panic!("{name}: {found}"));
    let (states, transitions) = (explored.states.len(), explored.transitions);
    println!("{name}: {states} states, {transitions} transitions, {waits:?}, {:?}", began.elapsed());
    explored
}
const ALL: Waits = Waits { healthy: 200, killed: 200, stopped: 200, both: 200 };

#[test]
fn t1() {
    proven("late", late_copies(), ALL);
}
#[test]
fn t2() {
    proven("everyone", everyone(), ALL);
}
#[test]
fn t3() {
    proven("inboxes", inboxes(), ALL);
}
#[test]
fn t4() {
    proven("plain", plain_client(), ALL);
}
#[test]
fn t5() {
    proven("renewals", renewals(), ALL);
}
#[test]
fn t6() {
    proven("shared", shared_inbox(), ALL);
}
#[test]
fn t7() {
    let mut r = late_copies();
    r.ttl = 5;
    r.turn = 4;
    r.budget.unanswered = 1;
    proven("long", r, ALL);
}

fn find(fault: Fault, watched: Violation, mut rules: Rules) {
    rules.fault = Some(fault);
    rules.watched = Some(watched);
    let t = Instant::now();
    let found = match Explored::new(rules) {
        Err(f) => f,
        Ok(e) => longest_waits(&e, Waits { healthy: 2, ..ALL }).unwrap_err(),
    };
    println!("{fault:?} {:?}\n{found}", t.elapsed());
}
#[test]
fn faults() {
    use Violation::*;
    find(Fault::DeadlineFromReply, TwoHolders, late_copies());
    find(Fault::LateGrantAccepted, FenceNotHigher, late_copies());
    find(Fault::ReleaseWithoutTokenCheck, ForeignKeyDeleted, late_copies());
    find(Fault::ReleaseWithoutTokenCheck, TwoHolders, late_copies());
    find(Fault::CancelKeepsTurn, LeftBehind, late_copies());
    let mut r = three_clients();
    r.turn = 4;
    find(Fault::CancelKeepsTurn, WaitsTooLong, r);
    find(Fault::CancelDropsTurn, TurnNotPassed, late_copies());
    find(Fault::NoTombstone, GrantedAfterRelease, late_copies());
    find(Fault::NoTombstone, TwoPushes, late_copies());
    find(Fault::ProbeDeletesTombstone, GrantedAfterRelease, late_copies());
    find(Fault::ProbeDeletesTombstone, GrantedAfterRelease, renewals());
    find(Fault::ScoreNotKept, Overtaken, late_copies());
}

#[test]
fn conform() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    let rules = three_clients();
    let t = Instant::now();
    for seed in 0..60 {
        let mut twins = Twins::new(&rules, &server, seed);
        for _ in 0..60 {
            twins.step();
        }
    }
    println!("{:?}", t.elapsed());
}
