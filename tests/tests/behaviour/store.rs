//! The stores, and how a test meets them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Client, ClientBuilder, LockInfo, LockOptions};
use redlatch_tests::{
    DOCUMENTED_PASSWORD, DOCUMENTED_USER, Server, ServerKind, assert_eventually, available, documented_user,
};

/// A server whose clients have the documented access rules and no more: all that is shown here they allow.
fn start(kind: ServerKind) -> Server {
    Server::builder(kind).user(&documented_user("")).start()
}

/// Where locks are kept in one run of a test, with a key prefix that no other run uses.
pub(crate) struct Store {
    name: &'static str,
    url: String,
    prefix: String,
    server: Option<Arc<Server>>,
    /// Looks at the store, and keeps a `memory://` store alive between the test's own clients.
    observer: Client,
}

impl Store {
    /// A store in this process.
    pub(crate) fn memory() -> Store {
        let url = format!("memory://behaviour-{}", unique());
        Store::new("memory", url, None)
    }

    /// A server of this kind, shared with the tests that run at the same time; `None` when it is not installed.
    pub(crate) fn shared(kind: ServerKind) -> Option<Store> {
        static SERVERS: Mutex<[Weak<Server>; 3]> = Mutex::new([Weak::new(), Weak::new(), Weak::new()]);
        if !available().contains(&kind) {
            return None;
        }
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut servers[kind as usize];
        let server = slot.upgrade().unwrap_or_else(|| Arc::new(start(kind)));
        *slot = Arc::downgrade(&server);
        Some(Store::on(server))
    }

    /// A server of this kind that no other test uses.
    pub(crate) fn fresh(kind: ServerKind) -> Store {
        Store::on(Arc::new(start(kind)))
    }

    /// The memory store and every installed server.
    pub(crate) fn all() -> Vec<Store> {
        let servers = available().into_iter().filter_map(Store::shared);
        std::iter::once(Store::memory()).chain(servers).collect()
    }

    fn on(server: Arc<Server>) -> Store {
        let url = server.url_as(DOCUMENTED_USER, DOCUMENTED_PASSWORD);
        Store::new(server.kind().name(), url, Some(server))
    }

    fn new(name: &'static str, url: String, server: Option<Arc<Server>>) -> Store {
        // What the documented rules allow.
        let prefix = format!("lock:{}:", unique());
        let observer = Client::builder(&url).key_prefix(&prefix).build().unwrap();
        Store { name, url, prefix, server, observer }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A new client; all clients of one store contend for the same keys.
    pub(crate) fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(&self.url).key_prefix(&self.prefix)
    }

    /// As [`builder`](Store::builder), for a user who may use keys of any prefix.
    pub(crate) fn any_prefix(&self) -> ClientBuilder {
        Client::builder(&self.server.as_ref().map_or(self.url.clone(), |server| server.url()))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The server, for tests that run on servers only.
    pub(crate) fn server(&self) -> &Server {
        self.server.as_deref().expect("this store is a server")
    }

    pub(crate) fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// The key of lock `name`.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A key that belongs to lock `name`, whose key has no hash tag: `fence`, `queue`, `waiters`, `turn`, `probe`.
    pub(crate) fn sibling(&self, name: &str, role: &str) -> String {
        format!("{{{}{name}}}:redlatch:{role}", self.prefix)
    }

    /// What the store knows of the lock; `None` when it is free.
    pub(crate) fn look(&self, name: &str) -> Option<LockInfo> {
        self.observer.inspect(name).unwrap()
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.look(name).is_none()
    }

    /// Text of the holder's token.
    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        self.look(name).map(|info| info.token().as_str().to_owned())
    }

    /// Takes the lock away from its holder, as an administrator would.
    pub(crate) fn take_away(&self, name: &str) {
        assert!(self.observer.force_release(name).unwrap(), "someone has {name:?}");
    }

    /// Waits until this many waiters are queued for a lock that someone has.
    pub(crate) fn wait_for_waiters(&self, name: &str, waiters: u64) {
        assert_eventually("the waiters are queued", 5 * SECOND, || {
            self.look(name).is_some_and(|info| info.waiters() == waiters)
        });
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Options with this ttl in milliseconds.
pub(crate) fn ttl(millis: u64) -> LockOptions {
    LockOptions::new().ttl(ms(millis))
}

/// A number that no other call in this process gets.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How long `work` takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let outcome = work();
    (outcome, began.elapsed())
}

/// Keeps apart the tests that measure short times and those that load the machine.
pub(crate) fn machine_to_myself() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` on a server of this kind; see [`on_each_store`].
pub(crate) fn on_server(kind: ServerKind, body: fn(&Store)) {
    if let Some(store) = Store::shared(kind) {
        body(&store);
    }
}

/// Runs `body` on all stores at once, each on a thread of its own; a panic is passed on with the store's name.
pub(crate) fn at_once(body: impl Fn(&Store) + Sync) {
    let stores = Store::all();
    let run = |store: &Store| {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(store))) else { return };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        match text.or_else(|| panic.downcast_ref::<&str>().copied()) {
            Some(text) => panic!("on {}: {text}", store.name()),
            None => resume_unwind(panic),
        }
    };
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = stores.iter().map(|store| scope.spawn(move || run(store))).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
}

/// Tests of the named bodies, one for each body and store.
macro_rules! on_each_store {
    ($($body:ident),+ $(,)?) => {
        $(mod $body {
            #[test]
            fn memory() {
                super::$body(&crate::store::Store::memory());
            }

            crate::store::server_tests!(super::$body);
        })+
    };
}

/// As [`on_each_store`], without the memory store.
macro_rules! on_each_server {
    ($($body:ident),+ $(,)?) => {
        $(mod $body {
            crate::store::server_tests!(super::$body);
        })+
    };
}

macro_rules! server_tests {
    ($body:path) => {
        #[test]
        fn redis_7_0() {
            crate::store::on_server(redlatch_tests::ServerKind::Redis70, $body);
        }

        #[test]
        fn valkey_9_1() {
            crate::store::on_server(redlatch_tests::ServerKind::Valkey91, $body);
        }

        #[test]
        fn redis_6_2() {
            crate::store::on_server(redlatch_tests::ServerKind::Redis62, $body);
        }
    };
}

/// As [`on_each_store`], as one test for each body, for bodies that mostly wait.
macro_rules! on_all_stores_at_once {
    ($($body:ident),+ $(,)?) => {
        $(mod $body {
            #[test]
            fn all_stores() {
                crate::store::at_once(super::$body);
            }
        })+
    };
}

pub(crate) use {on_all_stores_at_once, on_each_server, on_each_store, server_tests};
