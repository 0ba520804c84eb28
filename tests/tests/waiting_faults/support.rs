//! What the tests of this target share.

use std::sync::mpsc::Sender;
use std::thread::Scope;
use std::time::{Duration, Instant};

use redlatch::{Client, Guard, Lease, LockOptions, Released};
use redlatch_tests::{Process, Server, assert_eventually};

const ACQUIRE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/protocol/acquire.lua"));
const RELEASE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/protocol/release.lua"));

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Time in which a push reaches its waiter on a loaded machine. A poll comes 160 ms after the last one at the soonest,
/// and without it a lost turn falls due after 1 s.
pub(crate) const AT_ONCE: Duration = ms(150);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn ttl(millis: u64) -> LockOptions {
    LockOptions::new().ttl(ms(millis))
}

pub(crate) fn client(server: &Server) -> Client {
    Client::open(&server.url()).unwrap()
}

/// The key of the lock `name`.
pub(crate) fn key(name: &str) -> String {
    format!("lock:{name}")
}

/// A sibling of that key.
pub(crate) fn sibling(name: &str, role: &str) -> String {
    format!("{{lock:{name}}}:redlatch:{role}")
}

/// Holds the lock until it is given back, whatever that takes.
pub(crate) fn hold(client: &Client, name: &str) -> Lease {
    client.try_lease(name, ttl(60_000)).unwrap().expect("the lock is free")
}

#[track_caller]
pub(crate) fn give_back(lease: Lease) {
    assert_eq!(lease.release().unwrap(), Released::Released);
}

/// Waits for the lock, not for ever: a test that fails must end.
#[track_caller]
pub(crate) fn acquire(client: &Client, name: &str) -> Guard {
    let guard = client.lock(name).unwrap().try_acquire_for(60 * SECOND);
    guard.unwrap().expect("the lock is granted in the end")
}

pub(crate) fn queue_len(server: &Server, name: &str) -> usize {
    server.query(&["ZCARD", &sibling(name, "queue")])
}

/// Waits until that many are in the queue.
#[track_caller]
pub(crate) fn await_queue(server: &Server, name: &str, count: usize) {
    assert_eventually(&format!("{count} wait for {name}"), 10 * SECOND, || queue_len(server, name) == count);
}

/// Waits until that many are in the queue, each with an inbox to be woken on.
#[track_caller]
pub(crate) fn await_inboxes(server: &Server, name: &str, count: usize) {
    assert_eventually(&format!("{count} wait for {name} with an inbox"), 20 * SECOND, || {
        let inboxes: Vec<String> = server.query(&["HVALS", &sibling(name, "waiters")]);
        inboxes.len() == count && inboxes.iter().all(|inbox| inbox != "-")
    });
}

/// Waits until nobody has the lock, waits for it or has its turn.
#[track_caller]
pub(crate) fn await_nothing_left(server: &Server, name: &str) {
    let keys = [key(name), sibling(name, "queue"), sibling(name, "waiters"), sibling(name, "turn")];
    assert_eventually(&format!("nothing of {name} is left"), 5 * SECOND, || keys.iter().all(|key| !server.exists(key)));
}

/// Number of connections that have subscribed to a channel.
pub(crate) fn subscribers(server: &Server) -> usize {
    let clients: String = server.query(&["CLIENT", "LIST"]);
    clients.lines().filter(|line| line.contains(" sub=1 ")).count()
}

/// How often a command ran, in scripts or outside.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    server.command_counts().get(command).copied().unwrap_or(0)
}

/// How often clients called a script.
pub(crate) fn script_calls(server: &Server) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

/// The hash of the acquire script, by which its requests are found on the wire.
pub(crate) fn acquire_sha() -> String {
    redis::Script::new(ACQUIRE).get_hash().to_owned()
}

/// Loads the scripts, so that every request is one EVALSHA with a known hash.
pub(crate) fn load_scripts(server: &Server) {
    for source in [ACQUIRE, RELEASE] {
        server.query::<String>(&["SCRIPT", "LOAD", source]);
    }
}

/// Opens the client's inbox by one wait, so that later waits join with it at once.
#[track_caller]
pub(crate) fn open_inbox(server: &Server, client: &Client) {
    let holder = self::client(server);
    let lease = hold(&holder, "opens-the-inbox");
    std::thread::scope(|scope| {
        scope.spawn(|| acquire(client, "opens-the-inbox").release().unwrap());
        await_inboxes(server, "opens-the-inbox", 1);
        give_back(lease);
    });
}

/// One grant, as a waiter saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// Number of the waiter.
    pub(crate) number: usize,
    pub(crate) fence: u64,
    pub(crate) at: Instant,
}

/// Starts a waiter that reports its grant, and releases at once.
pub(crate) fn start_waiter<'scope>(
    scope: &'scope Scope<'scope, '_>,
    client: &Client,
    name: &str,
    number: usize,
    grants: &Sender<Grant>,
) {
    let (client, name, grants) = (client.clone(), name.to_owned(), grants.clone());
    scope.spawn(move || {
        let guard = acquire(&client, &name);
        grants.send(Grant { number, fence: guard.fence(), at: Instant::now() }).unwrap();
        assert_eq!(guard.release().unwrap(), Released::Released);
    });
}

/// The result of `work` and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

/// A helper process with a client of this server.
pub(crate) fn helper(server: &Server) -> Process {
    let mut process = Process::start(env!("CARGO_BIN_EXE_waiter"), [""; 0]);
    process.send(&format!("open {}", server.url()));
    process.expect("opened", 10 * SECOND);
    process
}
