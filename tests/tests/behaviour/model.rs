//! Random calls against a model that fits on a page, on every store: what a lock does does not depend on where
//! it is kept.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redlatch::{Client, Error, Guard, Lease, LostReason, Released, Token};

use crate::store::{Store, at_once, machine_to_myself, ttl};

const CLIENTS: usize = 2;
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Copy, Debug)]
enum Call {
    TryAcquire,
    Release,
    TryLease,
    ReleaseLease,
    HandOver,
    Adopt,
    Renew,
    TakeAway,
}

fn calls() -> impl Strategy<Value = Vec<(Call, usize, usize)>> {
    use Call::{Adopt, HandOver, Release, ReleaseLease, Renew, TakeAway, TryAcquire, TryLease};
    let call = prop_oneof![
        4 => Just(TryAcquire), 3 => Just(Release), 2 => Just(TryLease), 2 => Just(ReleaseLease),
        1 => Just(HandOver), 1 => Just(Adopt), 1 => Just(Renew), 1 => Just(TakeAway),
    ];
    proptest::collection::vec((call, 0..CLIENTS, 0..NAMES.len()), 1..40)
}

/// Who has a lock on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Thread(usize),
    Lease(usize),
    Token,
}

/// One run: the real things beside what the model says of them.
#[derive(Default)]
struct Run {
    owner: HashMap<usize, Owner>,
    last_fence: HashMap<usize, u64>,
    guards: HashMap<(usize, usize), Vec<Guard>>,
    leases: HashMap<(usize, usize), Vec<Lease>>,
    tokens: HashMap<usize, Token>,
}

impl Run {
    fn step(&mut self, store: &Store, clients: &[Client], call: Call, client: usize, name: usize) {
        let at = (client, name);
        let (who, text) = (&clients[client], NAMES[name]);
        let options = ttl(60_000);
        match call {
            Call::TryAcquire => {
                let outcome = who.lock(text).unwrap().try_acquire();
                let depth = self.guards.get(&at).map_or(0, Vec::len);
                let held = self.guards.get(&at).and_then(|guards| guards.last());
                let (fence, lost) = (held.map(Guard::fence), held.and_then(Guard::lost));
                if let Some(lost) = lost {
                    assert!(matches!(outcome, Err(Error::Lost(info)) if info.reason() == lost));
                    return;
                }
                match outcome.unwrap() {
                    Some(guard) => {
                        assert_eq!(guard.hold_count() as usize, depth + 1);
                        if depth == 0 {
                            self.granted(name, Owner::Thread(client), guard.fence());
                        } else {
                            assert_eq!(fence, Some(guard.fence()));
                        }
                        self.guards.entry(at).or_default().push(guard);
                    }
                    None => assert!(depth == 0 && self.owner.contains_key(&name)),
                }
            }
            Call::Release => {
                let Some(guard) = self.guards.get_mut(&at).and_then(Vec::pop) else {
                    assert!(matches!(who.lock(text).unwrap().release(), Err(Error::NotHeld { .. })));
                    return;
                };
                let left = self.guards[&at].len() as u32;
                let known = guard.lost();
                let mine = self.owner.get(&name) == Some(&Owner::Thread(client));
                let outcome = guard.release();
                assert_eq!(who.lock(text).unwrap().hold_count(), left);
                match (known, left) {
                    (Some(reason), _) => assert!(matches!(outcome, Err(Error::Lost(info)) if info.reason() == reason)),
                    (None, 1..) => assert_eq!(outcome.unwrap(), Released::StillHeld(left)),
                    (None, 0) => self.ended(name, mine, outcome),
                }
            }
            Call::TryLease => match who.try_lease(text, options).unwrap() {
                Some(lease) => {
                    self.granted(name, Owner::Lease(client), lease.fence());
                    self.leases.entry(at).or_default().push(lease);
                }
                None => assert!(self.owner.contains_key(&name)),
            },
            Call::ReleaseLease => {
                let Some(lease) = self.leases.get_mut(&at).and_then(Vec::pop) else { return };
                let mine = store.holder(text).as_deref() == Some(lease.token().as_str());
                let known = lease.lost();
                let outcome = lease.release();
                match known {
                    Some(reason) => assert!(matches!(outcome, Err(Error::Lost(info)) if info.reason() == reason)),
                    None => self.ended(name, mine, outcome),
                }
            }
            Call::HandOver => {
                let Some(lease) = self.leases.get_mut(&at).and_then(Vec::pop) else { return };
                let mine = store.holder(text).as_deref() == Some(lease.token().as_str());
                match lease.into_token() {
                    Ok(token) => {
                        assert!(mine);
                        self.owner.insert(name, Owner::Token);
                        self.tokens.insert(name, token);
                    }
                    Err(error) => assert!(!mine && matches!(error, Error::Lost(_))),
                }
            }
            Call::Adopt => {
                let Some(token) = self.tokens.get(&name) else { return };
                let valid = self.owner.get(&name) == Some(&Owner::Token);
                let adopted = who.adopt(text, token.as_str(), options).unwrap();
                assert_eq!(adopted.is_some(), valid);
                if let Some(lease) = adopted {
                    self.owner.remove(&name);
                    self.granted(name, Owner::Lease(client), lease.fence());
                    self.leases.entry(at).or_default().push(lease);
                }
            }
            Call::Renew => {
                let Some(guard) = self.guards.get(&at).and_then(|guards| guards.last()) else { return };
                let mine = self.owner.get(&name) == Some(&Owner::Thread(client)) && guard.lost().is_none();
                assert_eq!(guard.renew().is_ok(), mine);
            }
            Call::TakeAway => {
                let taken = who.force_release(text).unwrap();
                assert_eq!(taken, self.owner.remove(&name).is_some());
                self.forget_lost(name);
            }
        }
    }

    /// A grant needs a free lock and gives a larger fence.
    fn granted(&mut self, name: usize, owner: Owner, fence: u64) {
        assert_eq!(self.owner.insert(name, owner), None, "granted while another has it");
        let last = self.last_fence.insert(name, fence).unwrap_or(0);
        assert!(fence > last);
    }

    /// The last release of a lease that its holder believes in.
    fn ended(&mut self, name: usize, mine: bool, outcome: Result<Released, Error>) {
        if mine {
            assert_eq!(outcome.unwrap(), Released::Released);
            self.owner.remove(&name);
        } else {
            assert!(matches!(outcome, Err(Error::Lost(info)) if info.reason() == LostReason::Taken));
        }
    }

    /// After an operator has stepped in, every holder of the name finds out, so that the model knows too.
    fn forget_lost(&mut self, name: usize) {
        for ((_, of), guards) in &self.guards {
            if *of == name {
                guards.iter().for_each(|guard| assert!(guard.renew().is_err()));
            }
        }
        for ((_, of), leases) in &self.leases {
            if *of == name {
                leases.iter().for_each(|lease| assert!(lease.renew().is_err()));
            }
        }
    }
}

#[test]
fn any_sequence_of_calls_does_on_every_store_what_the_model_says() {
    let _machine = machine_to_myself();
    at_once(|store| {
        let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&calls(), |calls| {
            let clients: Vec<Client> = (0..CLIENTS).map(|_| store.client()).collect();
            let mut run = Run::default();
            for (call, client, name) in calls {
                run.step(store, &clients, call, client, name);
                for (number, text) in NAMES.iter().enumerate() {
                    assert_eq!(!store.is_free(text), run.owner.contains_key(&number), "after {call:?}");
                }
            }
            drop(run);
            NAMES.iter().filter(|text| !store.is_free(text)).for_each(|text| store.take_away(text));
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    });
}
