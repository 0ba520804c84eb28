//! A primary, its replicas and the sentinels that watch them.

use std::time::Duration;

use super::{ADMIN_PASSWORD, ADMIN_USER, Server, ServerBuilder, ServerKind};
use crate::assert_eventually;

/// The name that sentinels know the servers by.
const SERVICE: &str = "orders";
/// How long a server is silent before a sentinel takes it for down. Sentinels ask once a second, so with little more than that
/// they replace a new primary right away, whose first answer is late on a busy machine.
const DOWN_AFTER: Duration = Duration::from_millis(3_000);
/// Time for everything that sentinels agree on.
const AGREED: Duration = Duration::from_secs(40);

/// One primary and two replicas, each watched by three sentinels of which two must agree.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl SentinelGroup {
    /// Starts all of it and waits, at most 40 s, until every sentinel knows the others and both replicas.
    pub fn start(kind: ServerKind) -> Self {
        Self::start_with(kind, |builder| builder, |builder| builder)
    }

    /// As [`start`](Self::start), with servers and sentinels set up by the two functions.
    pub fn start_with(
        kind: ServerKind,
        server: impl Fn(ServerBuilder) -> ServerBuilder,
        sentinel: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        // Any of them may be a replica later.
        let builder = || {
            let builder = server(Server::builder(kind));
            builder.config("masteruser", ADMIN_USER).config("masterauth", ADMIN_PASSWORD)
        };
        let primary = builder().start();
        let replicas = [0; 2].map(|_| builder().config("replicaof", &format!("127.0.0.1 {}", primary.port())).start());
        replicas.iter().for_each(Server::wait_synced);
        let watch = |n: usize| {
            let option = |name: &str, value: &str| format!("{name} {SERVICE} {value}");
            sentinel(Server::builder(kind))
                .sentinel()
                .config("sentinel", &option("monitor", &format!("127.0.0.1 {} 2", primary.port())))
                .config("sentinel", &option("auth-user", ADMIN_USER))
                .config("sentinel", &option("auth-pass", ADMIN_PASSWORD))
                .config("sentinel", &option("down-after-milliseconds", &DOWN_AFTER.as_millis().to_string()))
                .config("sentinel", &option("failover-timeout", "4000"))
                .config("sentinel", &option("parallel-syncs", "2"))
                // Two of them that began in the same microsecond would have the same.
                .config("sentinel", &format!("myid {n:040x}"))
                .start()
        };
        let sentinels: Vec<Server> = (1..=3).map(watch).collect();
        let [first, second] = replicas;
        let group = Self { servers: vec![primary, first, second], sentinels };
        group.wait_settled();
        group
    }

    /// The servers: first the one that began as primary.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The name that they know the servers by.
    pub fn service(&self) -> &str {
        SERVICE
    }

    /// URL for the default user, with its password if there is one.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}{}", self.servers[0].credentials(), self.hosts())
    }

    /// URL for a user made with [`ServerBuilder::user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis+sentinel://{user}:{password}@{}", self.hosts())
    }

    fn hosts(&self) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|it| it.addr().to_string()).collect();
        format!("{}/{SERVICE}", hosts.join(","))
    }

    /// The server that most running sentinels name as primary, if it runs and says so too.
    pub fn primary(&self) -> Option<&Server> {
        let named = |server: &Server| {
            let running = self.sentinels.iter().filter(|it| it.is_running());
            running.filter(|sentinel| named_by(sentinel) == Some(server.port())).count() >= 2
        };
        let is_primary = |server: &&Server| {
            server.is_running() && server.try_query::<Vec<redis::Value>>(&["ROLE"]).is_ok_and(|role| is_master(&role))
        };
        self.servers.iter().find(|server| named(server)).filter(is_primary)
    }

    /// Has the sentinels make another server the primary, and waits, at most 40 s, until they have; the former one
    /// goes on as a replica.
    pub fn fail_over(&self) -> &Server {
        let former = self.primary().expect("there is a primary").port();
        // A sentinel refuses while it deals with an earlier failover.
        let begun = || self.sentinels[0].try_query::<()>(&["SENTINEL", "FAILOVER", SERVICE]).is_ok();
        assert_eventually("a failover begins", AGREED, begun);
        self.wait_other_than(former)
    }

    /// Waits, at most 40 s, until another server than the one at this port is primary.
    pub fn wait_other_than(&self, port: u16) -> &Server {
        let other = || self.primary().filter(|server| server.port() != port);
        assert_eventually("another server is primary", AGREED, || other().is_some());
        other().expect("it still is")
    }

    /// Waits, at most 40 s, until each sentinel knows the two others and two replicas that follow the primary.
    pub fn wait_settled(&self) {
        for sentinel in &self.sentinels {
            let settled = || {
                let quorum = sentinel.try_query::<String>(&["SENTINEL", "CKQUORUM", SERVICE]);
                let replicas: Vec<Vec<String>> = sentinel.query(&["SENTINEL", "REPLICAS", SERVICE]);
                let follows = |fields: &&Vec<String>| {
                    fields.chunks(2).any(|pair| pair == ["master-link-status", "ok"])
                        && fields.chunks(2).any(|pair| pair == ["flags", "slave"])
                };
                quorum.is_ok_and(|text| text.starts_with("OK 3 ")) && replicas.iter().filter(follows).count() == 2
            };
            assert_eventually("the sentinels know each other and the replicas", AGREED, settled);
        }
    }
}

fn named_by(sentinel: &Server) -> Option<u16> {
    let address = sentinel.try_query::<Option<Vec<String>>>(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
    address.ok()??.get(1)?.parse().ok()
}

fn is_master(role: &[redis::Value]) -> bool {
    role.first() == Some(&redis::Value::BulkString(b"master".to_vec()))
}
