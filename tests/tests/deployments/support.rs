//! What the tests of this target share.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use redlatch::{Client, ClientBuilder, Guard, LockOptions};
use redlatch_tests::{Proxy, assert_eventually};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What a loaded two-core machine adds to a call that answers at once.
pub(crate) const NOISE: Duration = ms(400);

/// Time for everything that servers have to agree on, a failover for example.
pub(crate) const AGREED: Duration = Duration::from_secs(40);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn ttl(millis: u64) -> LockOptions {
    LockOptions::new().ttl(ms(millis))
}

/// A client whose connecting and requests have the same limit.
pub(crate) fn limited(url: &str, limit: Duration) -> ClientBuilder {
    Client::builder(url).connect_timeout(limit).io_timeout(limit)
}

/// The key of the lock `name`.
pub(crate) fn key(name: &str) -> String {
    format!("lock:{name}")
}

/// A sibling of that key.
pub(crate) fn sibling(name: &str, role: &str) -> String {
    format!("{{lock:{name}}}:redlatch:{role}")
}

/// Waits for the lock, not for ever: a test that fails must end.
#[track_caller]
pub(crate) fn acquire(client: &Client, name: &str) -> Guard {
    let guard = client.lock(name).unwrap().try_acquire_for(2 * AGREED);
    guard.unwrap().expect("the lock is granted in the end")
}

/// Asserts that `waiter` was told of its turn by a message, of which it has had `before` so far. It may have been asking just
/// then, so that the message did not have to wake it.
#[track_caller]
pub(crate) fn assert_pushed(waiter: &Client, before: u64) {
    assert_eventually("the message has come", AGREED, || waiter.stats().pushes > before);
}

/// The result of `work` and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

/// An address at which connecting works and nothing is ever answered.
pub(crate) fn silent() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// A port on 127.0.0.1 at which nobody listens: of the harness's range, from which the kernel takes none for outgoing
/// connections.
pub(crate) fn closed_port() -> u16 {
    Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))).port()
}
