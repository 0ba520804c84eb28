//! What the tests of this target share.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::{Duration, Instant};

use redlatch::{Client, Error, Lock, LockOptions, Released};
use redlatch_tests::{HeldRequest, MonitorLine, Proxy, Server, any_server};

/// The protocol's scripts, to find their requests on the wire.
const ACQUIRE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/protocol/acquire.lua"));
const RELEASE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/protocol/release.lua"));
const RENEW: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/protocol/renew.lua"));

/// What a loaded two-core machine adds to a call that answers at once.
pub(crate) const NOISE: Duration = Duration::from_millis(300);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    Release,
    Renew,
}

impl Script {
    fn source(self) -> &'static str {
        match self {
            Script::Acquire => ACQUIRE,
            Script::Release => RELEASE,
            Script::Renew => RENEW,
        }
    }

    /// Its hash as a needle for the proxy. After a request without an answer, the next one carries the source instead.
    pub(crate) fn needle(self) -> Vec<u8> {
        redis::Script::new(self.source()).get_hash().as_bytes().to_vec()
    }

    /// Whether these are the words of its request.
    fn is_in(self, args: &[String]) -> bool {
        let Some([verb, what]) = args.get(..2) else { return false };
        (verb == "EVAL" && what == self.source()) || (verb == "EVALSHA" && what.as_bytes() == self.needle())
    }

    pub(crate) fn is(self, line: &MonitorLine) -> bool {
        self.is_in(&line.args)
    }

    /// Whether the proxy holds a request of this kind.
    pub(crate) fn is_held(self, request: &HeldRequest) -> bool {
        self.is_in(&request.args)
    }
}

/// The token in the words of an acquire or release: after verb, script, number of keys and seven keys.
pub(crate) fn token_in(args: &[String]) -> &str {
    &args[10]
}

/// Loads the scripts, so that no request has to be repeated with its source.
pub(crate) fn load_scripts(server: &Server) {
    for source in [ACQUIRE, RELEASE, RENEW] {
        server.query::<String>(&["SCRIPT", "LOAD", source]);
    }
}

/// Runs against a server of the first kind, with the scripts loaded.
pub(crate) fn with_server(body: impl FnOnce(&Server)) {
    if let Some(kind) = any_server() {
        let server = Server::start(kind);
        load_scripts(&server);
        body(&server);
    }
}

/// Runs against a server of each kind, with the scripts loaded.
pub(crate) fn each_loaded_server(body: impl Fn(&Server)) {
    redlatch_tests::each_server(|server| {
        load_scripts(server);
        body(server);
    });
}

/// A client of one connection, so that a test knows which one a request takes; connecting and a request have the
/// same limit.
pub(crate) fn client(url: &str, limit: Duration) -> Client {
    pooled_client(url, limit, 1)
}

/// As [`client`], with more connections.
pub(crate) fn pooled_client(url: &str, limit: Duration, size: u32) -> Client {
    Client::builder(url).pool_size(size).connect_timeout(limit).io_timeout(limit).build().unwrap()
}

/// Options of a lease that sends nothing by itself.
pub(crate) fn fixed(ttl: Duration) -> LockOptions {
    LockOptions::new().ttl(ttl).auto_renew(false)
}

/// A port on 127.0.0.1 at which nobody listens: of the harness's range, from which the kernel takes none for outgoing
/// connections.
pub(crate) fn closed_port() -> u16 {
    Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))).port()
}

/// Opens the client's connection, so that a test times requests and not connecting.
pub(crate) fn connect(client: &Client) {
    assert_eq!(client.inspect("opens-a-connection").unwrap(), None);
}

/// The key of the lock `name`.
pub(crate) fn key(name: &str) -> String {
    format!("lock:{name}")
}

/// A sibling of that key.
pub(crate) fn sibling(name: &str, role: &str) -> String {
    format!("{{lock:{name}}}:redlatch:{role}")
}

/// The tombstone of a token.
pub(crate) fn tombstone(name: &str, token: &str) -> String {
    sibling(name, &format!("gone:{token}"))
}

/// Asserts that nobody has the lock, waits for it or has its turn.
#[track_caller]
pub(crate) fn assert_nothing_left(server: &Server, name: &str) {
    let keys = [key(name), sibling(name, "queue"), sibling(name, "waiters"), sibling(name, "turn")];
    let left: Vec<&String> = keys.iter().filter(|key| server.exists(key)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Asserts that the lock can be had and given back at once.
#[track_caller]
pub(crate) fn assert_free(lock: &Lock) {
    let guard = lock.try_acquire().unwrap().expect("the lock is free");
    assert_eq!(guard.release().unwrap(), Released::Released);
}

/// Asserts that the token's tombstone stands, and for how long it must outlive the wait.
#[track_caller]
pub(crate) fn assert_tombstone(server: &Server, name: &str, token: &str) {
    let key = tombstone(name, token);
    assert!(server.exists(&key), "no tombstone");
    let left = server.pttl(&key);
    assert!((50_000..=60_000).contains(&left), "the tombstone has {left} ms left");
}

/// The result of `work` and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

#[track_caller]
pub(crate) fn assert_took(elapsed: Duration, expected: Range<Duration>) {
    assert!(expected.contains(&elapsed), "took {elapsed:?}, expected {expected:?}");
}

/// Asserts that what `call` has measured is never less than expected, and once in three tries no more: other work of
/// the machine slows one call down, a wrong limit each.
#[track_caller]
pub(crate) fn assert_takes(expected: Range<Duration>, mut call: impl FnMut() -> Duration) {
    let mut times = Vec::new();
    while times.len() < 3 {
        let took = call();
        times.push(took);
        if expected.contains(&took) {
            return;
        }
        assert!(took >= expected.start, "took {took:?}, expected {expected:?}");
    }
    panic!("took {times:?}, expected {expected:?}");
}

/// Asserts that `error` says that the server at `server` could not be used, in words that hold each of `parts`.
#[track_caller]
pub(crate) fn assert_unavailable(error: &Error, server: &str, parts: &[&str]) {
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert_text(error, server, parts);
}

/// Asserts that the error names the server and holds each of `parts`.
#[track_caller]
pub(crate) fn assert_text(error: &Error, server: &str, parts: &[&str]) {
    let text = error.to_string();
    for part in parts.iter().chain([&server]) {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "no {part:?} in: {text}");
    }
}

/// A server as error texts name it.
pub(crate) fn shown(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0")
}
