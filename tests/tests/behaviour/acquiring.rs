//! Asking for a lock, and who gets it.

use std::time::{Duration, Instant};

use redlatch::{Client, Released};
use redlatch_tests::{Server, any_server};

use crate::store::{SECOND, Store, ms, on_each_server, on_each_store, ttl};

on_each_store![
    a_free_lock_is_granted_by_every_way_of_asking,
    two_clients_exclude_each_other,
    threads_of_one_client_exclude_each_other,
    busy_is_none_however_it_is_asked,
    other_names_and_other_prefixes_are_other_locks,
];
on_each_server![the_key_holds_the_token_for_one_ttl, database_numbers_are_separate];

fn a_free_lock_is_granted_by_every_way_of_asking(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let ways: [&dyn Fn() -> redlatch::Guard; 5] = [
        &|| lock.acquire().unwrap(),
        &|| lock.try_acquire().unwrap().unwrap(),
        &|| lock.try_acquire_for(SECOND).unwrap().unwrap(),
        &|| lock.try_acquire_for(Duration::MAX).unwrap().unwrap(),
        &|| lock.try_acquire_until(Instant::now() + SECOND).unwrap().unwrap(),
    ];
    for (way, ask) in ways.iter().enumerate() {
        let guard = ask();
        assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()), "way {way}");
        assert!(guard.is_held() && guard.check().is_ok() && guard.lost().is_none(), "way {way}");
        assert_eq!((guard.name(), lock.name()), ("a", "a"));
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert!(store.is_free("a"), "way {way}");
    }
    let ways: [&dyn Fn() -> redlatch::Lease; 3] =
        [&|| client.lease("a", ttl(5_000)).unwrap(), &|| client.try_lease("a", ttl(5_000)).unwrap().unwrap(), &|| {
            client.try_lease_for("a", ttl(5_000), SECOND).unwrap().unwrap()
        }];
    for (way, ask) in ways.iter().enumerate() {
        let lease = ask();
        assert_eq!(store.holder("a").as_deref(), Some(lease.token().as_str()), "way {way}");
        assert!(lease.is_held() && lease.check().is_ok() && lease.lost().is_none(), "way {way}");
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert!(store.is_free("a"), "way {way}");
    }
}

fn two_clients_exclude_each_other(store: &Store) {
    let (one, other) = (store.client(), store.client());
    let (mine, theirs) = (one.lock("a").unwrap(), other.lock("a").unwrap());
    let mut last = 0;
    for _ in 0..5 {
        let guard = mine.acquire().unwrap();
        assert!(theirs.try_acquire().unwrap().is_none());
        assert!(other.try_lease("a", ttl(5_000)).unwrap().is_none());
        assert!(guard.fence() > last);
        last = guard.fence();
        drop(guard);
        let guard = theirs.try_acquire().unwrap().expect("it was released");
        assert!(mine.try_acquire().unwrap().is_none());
        assert!(guard.fence() > last);
        last = guard.fence();
    }
}

fn threads_of_one_client_exclude_each_other(store: &Store) {
    let client = store.client();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(lock.hold_count(), 0);
            assert!(lock.try_acquire().unwrap().is_none());
        });
    });
    assert_eq!(guard.hold_count(), 1);
}

fn busy_is_none_however_it_is_asked(store: &Store) {
    let (holder, client) = (store.client(), store.client());
    let guard = holder.lock("a").unwrap().acquire().unwrap();
    let lock = client.lock("a").unwrap();
    assert!(lock.try_acquire().unwrap().is_none());
    assert!(lock.try_acquire_for(Duration::ZERO).unwrap().is_none());
    assert!(lock.try_acquire_for(ms(60)).unwrap().is_none());
    assert!(lock.try_acquire_until(Instant::now()).unwrap().is_none());
    assert!(lock.try_acquire_until(Instant::now() + ms(60)).unwrap().is_none());
    assert!(client.try_lease("a", ttl(5_000)).unwrap().is_none());
    assert!(client.try_lease_for("a", ttl(5_000), ms(60)).unwrap().is_none());
    assert!(guard.is_held());
    assert_eq!(store.holder("a").as_deref(), Some(guard.token().as_str()));
    store.wait_for_waiters("a", 0);
}

fn other_names_and_other_prefixes_are_other_locks(store: &Store) {
    let client = store.client();
    let other_prefix = format!("{}x:", store.prefix());
    let other = store.builder().key_prefix(&other_prefix).build().unwrap();
    let _a = client.lock("a").unwrap().acquire().unwrap();
    let _b = client.lock("b").unwrap().try_acquire().unwrap().expect("another name");
    let _c = other.lock("a").unwrap().try_acquire().unwrap().expect("another prefix");
    // What counts is the key, not how it is cut into prefix and name.
    assert!(client.lock("x:a").unwrap().try_acquire().unwrap().is_none());
}

fn the_key_holds_the_token_for_one_ttl(store: &Store) {
    let client = store.client();
    let guard = client.lock_with("a", ttl(60_000)).unwrap().acquire().unwrap();
    let key = store.key("a");
    assert_eq!(store.server().get(&key).as_deref(), Some(guard.token().as_str()));
    let left = store.server().pttl(&key);
    assert!((50_000..=60_000).contains(&left), "{left}");
    let remaining = guard.remaining();
    // One percent of the ttl and 2 ms are given up.
    assert!(remaining <= ms(60_000 - 602) && remaining > ms(50_000), "{remaining:?}");
    assert!(remaining <= ms(left as u64), "the holder's deadline comes before the server's");
}

fn database_numbers_are_separate(store: &Store) {
    let open = |database: u32| {
        let url = store.server().url_db(database);
        redlatch::Client::builder(&url).key_prefix(store.prefix()).build().unwrap()
    };
    let _zero = open(0).lock("a").unwrap().acquire().unwrap();
    let one = open(1);
    let guard = one.lock("a").unwrap().try_acquire().unwrap().expect("another database");
    assert!(one.inspect("a").unwrap().is_some_and(|info| info.token() == guard.token()));
}

#[test]
fn a_socket_file_and_a_password_lead_to_the_same_locks_and_show_nowhere() {
    let Some(kind) = any_server() else { return };
    let server = Server::builder(kind).password("p@ss:w/rd %41").unix_socket(true).start();
    let socket = server.unix_url().replace("redis+unix://", "unix://");
    let (by_socket, by_network) = (Client::open(&socket).unwrap(), Client::open(&server.url()).unwrap());
    let (mine, theirs) = (by_socket.lock("a").unwrap(), by_network.lock("a").unwrap());
    let guard = mine.acquire().unwrap();
    assert!(theirs.try_acquire().unwrap().is_none());
    assert_eq!(server.get("lock:a").as_deref(), Some(guard.token().as_str()), "the default prefix");
    let shown =
        format!("{by_socket:?} {by_network:?} {mine:?} {theirs:?} {guard:?} {:?}", Client::builder(&server.url()));
    by_network.close();
    let shown = format!("{shown} {by_network:?} {:?}", theirs.try_acquire());
    for secret in ["p@ss", "p%40ss", guard.token().as_str()] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn what_may_be_shared_between_threads_can_be() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Client>();
    shared::<redlatch::Lock>();
    shared::<redlatch::Lease>();
    shared::<redlatch::LockOptions>();
    shared::<redlatch::Error>();
    shared::<redlatch::LostInfo>();
    shared::<redlatch::LockInfo>();
    shared::<redlatch::Stats>();
    shared::<redlatch::Token>();
    shared::<redlatch::ManualClock>();
    shared::<redlatch::CancelToken>();
}
