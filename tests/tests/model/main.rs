//! A model of the wire protocol and of the clients' rules, explored completely within small bounds.
//!
//! `server` is `acquire.lua`, `release.lua` and `renew.lua`, one script a step; `conformance` runs it beside real servers
//! with the real scripts. `steps` and `effects` have the rules of `waiting` (ask, sleep, be woken, give up), `lock`
//! (accept a grant or ask again, release) and `lease` (the deadline counts from the send), and everything that can go
//! wrong around them. `explorer` visits every state that any order of steps can reach, breadth first, and `promises` says
//! what each of them must keep. `waits` measures, from each of them on, how long a live waiter may still have to wait.
//!
//! The explorer is an own one because waits are cycles of polls, and `eventually` properties of the `stateright` crate
//! are right on acyclic paths only.
//!
//! # What it covers
//!
//! Three clients with one token each: a holder and two waiters, or three waiters of which one has the turn. A tick is
//! the poll interval of the first in the queue, and of everyone without an inbox; with an inbox the interval is one tick
//! more for each rank; ttl 3 ticks and turn 2, in some runs others. Times are relative, scores and fences are ranks, so a
//! run has an end without a limit on its length. In every run, at any moment and in any order:
//!
//! - clients are as slow as they like, and so pause across any deadline; sleepers may ask early, as they do after a push
//!   that came twice or for nothing; pushes are late or lost; keys lapse by time;
//! - a holder releases, or lets its lease lapse first; a waiter that may give up does so whenever it sleeps. A cancel
//!   that comes while a request is under way is one that comes right after its answer, as in `waiting`.
//!
//! Beyond that, each so many times in a run:
//!
//! | run | trouble |
//! |---|---|
//! | late copies | waiter A (with an inbox, may give up): 2 requests get no answer, and are executed late or never where they were not before; its process is killed, or stopped; waiter B has no inbox |
//! | everyone | 1 request of anybody gets no answer; both waiters have inboxes; ttl 2 |
//! | long times | A's process is killed, or anybody's is stopped; ttl 5, turn 4 |
//! | inboxes | A's inbox opens at its first contended wait and breaks once, noticed by server or client first; ttl 2; A does not give up |
//! | plain client | 1 `SET NX PX` by a client that takes no notice of turns; A's process is killed, or stopped |
//! | plain client, late copies | the same, and 1 request of A without an answer; B only tries |
//! | renewals | 1 renewal by A; 2 of its requests, renewals included, get no answer; B only tries |
//! | tries | B only tries, and 2 of its requests get no answer |
//! | shared inbox | two waiters of one process, one with the turn, the other queued; a third client; the process is stopped |
//!
//! The ignored test explores the same with wider bounds.
//!
//! # What it does not cover
//!
//! More clients, and more trouble at once than the table says. Clocks of different rates, and so the margin: all clocks
//! tick together. Loss of data, failover, replicas, clusters, foreign data under the keys, denied commands. The lives of
//! fence, queue, turn and tombstone: they outlast the run. A release that is given up by the background: it goes on until
//! it is confirmed or its process is killed; a planted fault shows why. The time until a client knows that an answer will
//! not come: it asks again a tick later. Adopted tokens. The plain client's own messages: each of its commands is one
//! step. Order among waiters that missed an answer: a late copy of a first request carries no score and may re-join
//! behind others.

mod conformance;
mod effects;
mod explorer;
mod index;
mod promises;
mod rules;
mod runs;
mod server;
mod state;
mod steps;
mod trace;
mod waits;

use redlatch_tests::each_server;

/// The model is the scripts: same answers, same keys, on every kind of server.
#[test]
fn the_models_server_answers_as_the_scripts_do() {
    // A turn falls due with a tick, so that many do.
    let rules = rules::Rules { turn: 1, ..runs::late_copies() };
    each_server(|server| {
        for seed in 1..=200 {
            let mut twins = conformance::Twins::new(&rules, server, seed);
            (0..20).for_each(|_| twins.step());
        }
    });
}
