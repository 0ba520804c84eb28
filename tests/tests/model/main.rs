//! A model of the wire protocol and of the clients' rules, explored completely within small bounds.
//!
//! [`server`] is `acquire.lua`, `release.lua` and `renew.lua`, a script a step; [`conformance`] runs it beside real
//! servers with the real scripts. [`clients`] has the rules of `waiting` (ask, sleep, be woken, give up), `lock` (grant
//! or ask again, release) and `lease` (the deadline counts from the send), and everything that can go wrong around them.
//! [`explorer`] visits every state that any order of steps can reach, breadth first; [`waits`] measures, from each of
//! them on, how long a live waiter may still have to wait. It is an explorer of its own because waits are cycles of
//! polls, and the `eventually` properties of the `stateright` crate are right on acyclic paths only.
//!
//! # What each run covers
//!
//! Three clients with one token each: a holder and two waiters, or three waiters of which one has the turn. A tick is
//! the poll interval of the first in the queue; ttl 3 ticks, turn 2 (in one run 5 and 4), poll 1, with an inbox one
//! more for each rank. Scores and fences are ranks, times are relative, so that runs are complete without a limit on
//! their length. In every run, at any moment and in any order:
//!
//! - clients are as slow as they like, and so pause across any deadline; sleepers may ask early, as after a push that
//!   came twice or for nothing; pushes are late or lost; keys lapse by time;
//! - a holder releases or lets its lease lapse; a waiter that may give up does so whenever it sleeps.
//!
//! In addition, so many times in a run:
//!
//! | run | trouble |
//! |---|---|
//! | late copies | 2 requests of waiter A (inbox, may give up) get no answer and are executed late or never; its process is killed or stopped; waiter B has no inbox |
//! | everyone | 1 request of anybody gets no answer; both waiters have inboxes and may give up |
//! | long times | A's process is killed; anybody is stopped |
//! | inboxes | the inbox opens at the first contended wait and breaks once, noticed by server or client first |
//! | plain client | 1 `SET NX PX` of a client that takes no notice of turns; 1 request without an answer |
//! | renewals | 1 renewal of A, 2 requests of it without an answer, renewals included; B only tries |
//! | tries | B only tries, and 2 of its requests get no answer |
//! | shared inbox | two waiters of one process, one with the turn, the other queued; a third client |
//!
//! # What it does not cover
//!
//! More clients, more trouble at once than the table says, and a second acquire by the same thread (a new token, so a
//! new client). Clocks of different rates, and so the margin: all clocks tick together. Loss of data, failover,
//! replicas, clusters, foreign data under the keys, denied commands. The lives of fence, queue and tombstone: they
//! outlast the run. A background release that gives up: it goes on until it is confirmed or its process is killed. The
//! time that a failed request takes until its client knows: the next one comes a tick later. Adopted tokens. The plain
//! client's own messages: each of its commands is one step.

mod clients;
mod conformance;
mod explorer;
mod index;
mod promises;
mod rules;
mod runs;
mod server;
mod state;
mod trace;
mod waits;

use redlatch_tests::each_server;

/// The model is the scripts: same answers, same keys, on every kind of server.
#[test]
fn the_models_server_answers_as_the_scripts_do() {
    let rules = runs::late_copies();
    each_server(|server| {
        for seed in 1..=40 {
            let mut twins = conformance::Twins::new(&rules, server, seed);
            (0..60).for_each(|_| twins.step());
        }
    });
}
