//! Leases: locks that move between threads and processes.

use std::thread;

use redlatch::{Error, LostReason, Released};

use crate::store::{Store, on_each_store, ttl};

on_each_store![
    a_lease_moves_between_threads,
    a_lease_is_not_re_entrant,
    a_handed_over_lease_is_adopted_once,
    adopting_needs_the_right_token,
    adopting_takes_the_lease_from_a_holder_that_still_has_it,
    a_lost_lease_cannot_be_handed_over,
    a_handed_over_lease_is_renewed_no_more,
];

fn a_lease_moves_between_threads(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(5_000)).unwrap();
    let fence = lease.fence();
    let lease = thread::spawn(move || {
        lease.check().unwrap();
        lease.renew().unwrap();
        lease
    });
    let lease = lease.join().unwrap();
    // The thread that made it has ended, the lease lives on.
    assert!(lease.is_held() && lease.fence() == fence);
    assert_eq!(store.holder("a").as_deref(), Some(lease.token().as_str()));
    thread::scope(|scope| {
        // Looked at from several threads at a time.
        for _ in 0..2 {
            scope.spawn(|| assert!(lease.is_held() && !lease.remaining().is_zero()));
        }
    });
    assert_eq!(thread::spawn(move || lease.release().unwrap()).join().unwrap(), Released::Released);
    assert!(store.is_free("a"));
}

fn a_lease_is_not_re_entrant(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(5_000)).unwrap();
    assert!(client.try_lease("a", ttl(5_000)).unwrap().is_none());
    let lock = client.lock("a").unwrap();
    assert!(lock.try_acquire().unwrap().is_none(), "the thread that made a lease does not hold the lock");
    assert_eq!(lock.hold_count(), 0);
    assert!(matches!(lock.release(), Err(Error::NotHeld { .. })));
    drop(lease);
    let _guard = lock.acquire().unwrap();
    assert!(client.try_lease("a", ttl(5_000)).unwrap().is_none(), "nor does a held lock give a lease");
}

fn a_handed_over_lease_is_adopted_once(store: &Store) {
    let (from, to) = (store.client(), store.client());
    let lease = from.lease("a", ttl(60_000)).unwrap();
    let fence = lease.fence();
    let old = lease.into_token().unwrap();
    assert_eq!(store.holder("a").as_deref(), Some(old.as_str()), "nothing is released");
    assert_eq!(from.stats().held_now, 0);
    assert!(to.try_lease("a", ttl(5_000)).unwrap().is_none(), "a token is needed");

    let adopted = to.adopt("a", old.as_str(), ttl(20_000)).unwrap().expect("the token proves it");
    assert_ne!(adopted.token(), &old);
    assert!(adopted.fence() > fence);
    let info = store.look("a").unwrap();
    assert_eq!(info.token(), adopted.token());
    assert!(info.ttl_left().unwrap().as_secs() <= 20, "the adopter's ttl applies");
    assert!(to.adopt("a", old.as_str(), ttl(20_000)).unwrap().is_none(), "the old token proves nothing any more");
    assert!(from.adopt("a", old.as_str(), ttl(20_000)).unwrap().is_none());
    assert!(adopted.is_held());
    adopted.renew().unwrap();

    // And back again.
    let newer = adopted.into_token().unwrap();
    let back = from.adopt("a", newer.as_str(), ttl(5_000)).unwrap().expect("the new token proves it");
    assert_eq!(back.release().unwrap(), Released::Released);
    assert!(store.is_free("a"));
    assert!(from.adopt("a", newer.as_str(), ttl(5_000)).unwrap().is_none(), "a free lock is not adopted");
    assert!(store.is_free("a"));
}

fn adopting_needs_the_right_token(store: &Store) {
    let (from, to) = (store.client(), store.client());
    let lease = from.lease("a", ttl(60_000)).unwrap();
    let token = lease.into_token().unwrap();
    let other = from.lease("b", ttl(5_000)).unwrap();
    let almost = &token.as_str()[1..];
    for wrong in ["x", almost, other.token().as_str(), "*", "00000000-0000-4000-8000-000000000000@host:1"] {
        assert!(to.adopt("a", wrong, ttl(5_000)).unwrap().is_none(), "{wrong}");
        assert_eq!(store.holder("a").as_deref(), Some(token.as_str()));
    }
    assert!(to.adopt("b", token.as_str(), ttl(5_000)).unwrap().is_none(), "of another lock");
    assert!(to.adopt("free", token.as_str(), ttl(5_000)).unwrap().is_none());
    assert!(store.is_free("free"));
    assert!(to.adopt("a", token.as_str(), ttl(5_000)).unwrap().is_some());
}

fn adopting_takes_the_lease_from_a_holder_that_still_has_it(store: &Store) {
    let (from, to) = (store.client(), store.client());
    let lease = from.lease("a", ttl(60_000)).unwrap();
    let adopted = to.adopt("a", lease.token().as_str(), ttl(60_000)).unwrap().unwrap();
    let error = lease.renew().unwrap_err();
    assert!(matches!(error, Error::Lost(info) if info.reason() == LostReason::Taken));
    drop(lease);
    assert_eq!(store.holder("a").as_deref(), Some(adopted.token().as_str()));
}

fn a_lost_lease_cannot_be_handed_over(store: &Store) {
    let client = store.client();
    let lease = client.lease("a", ttl(60_000)).unwrap();
    store.take_away("a");
    let next = store.client().lease("a", ttl(60_000)).unwrap();
    let error = lease.into_token().unwrap_err();
    assert!(matches!(error, Error::Lost(info) if info.reason() == LostReason::Taken));
    assert_eq!(store.holder("a").as_deref(), Some(next.token().as_str()));
}

fn a_handed_over_lease_is_renewed_no_more(store: &Store) {
    let client = store.client();
    let token = client.lease("a", ttl(300)).unwrap().into_token().unwrap();
    redlatch_tests::assert_eventually("it lapses", crate::store::SECOND, || store.is_free("a"));
    assert_eq!(client.stats().lost_total(), 0, "given away is not lost");
    assert!(client.adopt("a", token.as_str(), ttl(300)).unwrap().is_none());
}
