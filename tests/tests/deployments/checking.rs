//! What `check_server` says of servers as people run them.

use std::collections::BTreeSet;

use redlatch::{Client, ClientBuilder, Error, Finding, FindingKind, Severity};
use redlatch_tests::{
    SentinelGroup, Server, ServerBuilder, ServerCluster, ServerKind, any_server, assert_eventually, documented_user,
    each_server, each_server_with,
};

use crate::support::{AGREED, NOISE, SECOND, closed_port, key, limited, timed};

/// What a server that keeps every lock is set up with.
fn durable(builder: ServerBuilder) -> ServerBuilder {
    builder.config("appendonly", "yes").config("appendfsync", "always")
}

fn check(url: &str) -> Vec<Finding> {
    check_as(Client::builder(url))
}

fn check_as(builder: ClientBuilder) -> Vec<Finding> {
    builder.build().unwrap().check_server().unwrap()
}

/// The kinds that were found, and how bad each is; the round trip, which is always told, left out.
#[track_caller]
fn kinds(found: &[Finding]) -> BTreeSet<(&'static str, Severity)> {
    assert!(found.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity())), "the worst comes first");
    let others = found.iter().filter(|finding| finding.kind() != FindingKind::RoundTrip);
    others.map(|finding| (finding.kind().as_str(), finding.severity())).collect()
}

#[track_caller]
fn assert_kinds(found: &[Finding], expected: &[(FindingKind, Severity)]) {
    let expected: BTreeSet<_> = expected.iter().map(|(kind, severity)| (kind.as_str(), *severity)).collect();
    assert_eq!(kinds(found), expected, "{found:#?}");
}

#[track_caller]
fn message(found: &[Finding], kind: FindingKind) -> &str {
    found.iter().find(|finding| finding.kind() == kind).unwrap_or_else(|| panic!("no {kind} in {found:#?}")).message()
}

fn set(server: &Server, name: &str, value: &str) {
    server.query::<()>(&["CONFIG", "SET", name, value]);
}

/// Connections to the server other than the harness's own.
fn clients(server: &Server) -> usize {
    let list: String = server.query(&["CLIENT", "LIST"]);
    list.lines().filter(|line| !line.contains("user=harness")).count()
}

#[test]
fn a_server_that_keeps_every_lock_has_no_problem_and_nothing_is_left_there() {
    each_server_with(durable, |server| {
        let client = Client::open(&server.url()).unwrap();
        let scripts = server.info("memory", "number_of_cached_scripts");
        server.reset_stats();
        let found = client.check_server().unwrap();
        assert_kinds(&found, &[]);
        let trip = found.iter().find(|finding| finding.kind() == FindingKind::RoundTrip).expect("it is measured");
        assert_eq!(trip.server(), client.server());
        assert!(trip.message().contains("supports a ttl from"), "{trip}");

        let counts = server.command_counts();
        let writes = ["set", "del", "pexpire", "zadd", "hset", "script", "script|load", "config|set"];
        assert!(writes.iter().all(|name| !counts.contains_key(*name)), "{counts:?}");
        assert_eq!(server.query::<u64>(&["DBSIZE"]), 0);
        assert_eq!(server.info("memory", "number_of_cached_scripts"), scripts);
        assert_eventually("no connection is left", AGREED, || clients(server) == 0);
    });
}

#[test]
fn settings_that_lose_locks_are_found() {
    each_server(|server| {
        use FindingKind::{Eviction, MemoryLimit, NoPersistence, PartialPersistence};
        let forgets = (NoPersistence, Severity::Warning);
        assert_kinds(&check(&server.url()), &[forgets]);

        set(server, "maxmemory-policy", "allkeys-lru");
        assert_kinds(&check(&server.url()), &[forgets, (Eviction, Severity::Info)]);
        set(server, "maxmemory", "200mb");
        let found = check(&server.url());
        assert_kinds(&found, &[forgets, (Eviction, Severity::Problem)]);
        assert!(message(&found, Eviction).contains("allkeys-lru"));
        set(server, "maxmemory-policy", "volatile-ttl");
        assert_kinds(&check(&server.url()), &[forgets, (Eviction, Severity::Problem)]);
        set(server, "maxmemory-policy", "noeviction");
        assert_kinds(&check(&server.url()), &[forgets]);
        set(server, "maxmemory", "1");
        assert_kinds(&check(&server.url()), &[forgets, (MemoryLimit, Severity::Problem)]);
        set(server, "maxmemory", "0");

        set(server, "save", "3600 1");
        assert_kinds(&check(&server.url()), &[(PartialPersistence, Severity::Info)]);
        set(server, "save", "");
        set(server, "appendonly", "yes");
        set(server, "appendfsync", "everysec");
        let found = check(&server.url());
        assert_kinds(&found, &[(PartialPersistence, Severity::Info)]);
        assert!(message(&found, PartialPersistence).contains("everysec"));
    });
}

#[test]
fn settings_that_leave_clients_without_connections_or_writes_are_found() {
    each_server_with(durable, |server| {
        use FindingKind::{Connections, IdleTimeout, Refusing};
        set(server, "timeout", "5");
        assert_kinds(&check(&server.url()), &[(IdleTimeout, Severity::Info)]);
        set(server, "timeout", "0");
        set(server, "maxclients", "14");
        assert_kinds(&check(&server.url()), &[(Connections, Severity::Warning)]);
        assert_kinds(&check_as(Client::builder(&server.url()).pool_size(1)), &[]);
        set(server, "maxclients", "1000");
        set(server, "min-replicas-to-write", "1");
        let granted = Client::open(&server.url()).unwrap().lock("a").unwrap().try_acquire();
        if server.kind() == ServerKind::Redis62 {
            assert!(granted.unwrap().is_some(), "before 7.0 the setting does not concern scripts");
            return assert_kinds(&check(&server.url()), &[]);
        }
        assert!(matches!(granted, Err(Error::Unavailable { .. })), "{granted:?}");
        let found = check(&server.url());
        assert_kinds(&found, &[(Refusing, Severity::Problem)]);
        assert!(message(&found, Refusing).contains("NOREPLICAS"));
    });
}

#[test]
fn a_replica_and_its_primary_are_told_apart() {
    each_server_with(durable, |primary| {
        use FindingKind::{FewReplicas, Replica, Unacknowledged};
        let replica = durable(Server::builder(primary.kind())).replica_of(primary).start();
        replica.wait_synced();
        let online = || primary.info("replication", "slave0").contains("state=online");
        assert_eventually("the replica follows", AGREED, online);
        let found = check(&replica.url());
        assert_kinds(&found, &[(Replica, Severity::Problem)]);
        assert!(message(&found, Replica).contains(&format!("127.0.0.1:{}", primary.port())));

        assert_kinds(&check(&primary.url()), &[(Unacknowledged, Severity::Info)]);
        assert_kinds(&check_as(Client::builder(&primary.url()).min_replicas(1)), &[]);
        assert_kinds(&check_as(Client::builder(&primary.url()).min_replicas(2)), &[(FewReplicas, Severity::Problem)]);
    });
}

#[test]
fn commands_that_were_renamed_are_found() {
    let Some(kind) = any_server() else { return };
    for command in ["EVAL", "EVALSHA"] {
        let server = durable(Server::builder(kind)).config("rename-command", &format!("{command} \"\"")).start();
        let found = check(&server.url());
        assert_kinds(&found, &[(FindingKind::Scripting, Severity::Problem)]);
        assert!(message(&found, FindingKind::Scripting).contains(command));
    }
}

#[test]
fn other_commands_that_were_renamed_went_unnoticed() {
    use FindingKind::{FewReplicas, MissingCommand, NotChecked, PushDenied};
    let Some(kind) = any_server() else { return };
    let renamed = |commands: &[&str]| {
        let each = |it: ServerBuilder, command: &&str| it.config("rename-command", &format!("{command} \"\""));
        commands.iter().fold(durable(Server::builder(kind)), each).start()
    };
    let needed = ["EXISTS", "GET", "PTTL", "ZCARD", "ZRANGE", "ZRANK", "ZSCORE", "HGET", "HGETALL", "SET", "DEL"];
    let others = ["PEXPIRE", "ZADD", "ZREM", "HDEL", "HSET", "WAIT", "TIME"];
    let server = renamed(&[&needed[..], &others].concat());
    let locked = Client::open(&server.url()).unwrap().lock("a").unwrap().try_acquire();
    assert!(locked.is_err(), "{locked:?}");
    let found = check_as(Client::builder(&server.url()).min_replicas(1));
    let problem = Severity::Problem;
    assert_kinds(&found, &[(FewReplicas, problem), (MissingCommand, problem), (NotChecked, Severity::Info)]);
    let text = message(&found, MissingCommand);
    assert!(needed.iter().chain(&others).all(|command| text.contains(command)), "{text}");

    let server = renamed(&["PUBLISH", "SUBSCRIBE", "PUBSUB"]);
    let found = check(&server.url());
    assert_kinds(&found, &[(PushDenied, Severity::Warning)]);
    let text = message(&found, PushDenied);
    assert!(["PUBLISH", "SUBSCRIBE", "NUMSUB"].iter().all(|command| text.contains(command)), "{text}");
}

#[test]
fn what_the_access_rules_deny_is_found_and_never_an_error() {
    each_server_with(durable, |server| {
        use FindingKind::{AccessDenied, NotChecked, PushDenied};
        let as_user = |rules: &str| {
            let words: Vec<&str> = "ACL SETUSER it reset on >it ~lock:* ~{lock:* &* +@all".split(' ').collect();
            let rules: Vec<&str> = rules.split(' ').collect();
            server.query::<()>(&[words, rules].concat());
            Client::builder(&server.url_as("it", "it"))
        };
        assert_kinds(&check_as(as_user("+@all")), &[]);
        for (rules, word) in
            [("-eval", "EVAL"), ("-evalsha", "EVALSHA"), ("resetkeys ~lock:*", "EXISTS"), ("-wait", "WAIT")]
        {
            let found = check_as(as_user(rules).min_replicas(1));
            let few = (FindingKind::FewReplicas, Severity::Problem);
            assert_kinds(&found, &[few, (AccessDenied, Severity::Problem)]);
            assert!(message(&found, AccessDenied).contains(word), "{found:#?}");
        }
        for (rules, word) in [
            ("-subscribe", "SUBSCRIBE"),
            ("-publish", "PUBLISH"),
            ("resetchannels", "PUBLISH"),
            ("-ping", "PING"),
            ("-pubsub", "NUMSUB"),
        ] {
            let found = check_as(as_user(rules));
            assert_kinds(&found, &[(PushDenied, Severity::Warning)]);
            assert!(message(&found, PushDenied).contains(word), "{found:#?}");
        }
        // A server looks at the arguments first, so nothing tells of these without having them carried out.
        for rules in ["-set", "-zadd"] {
            assert_kinds(&check_as(as_user(rules)), &[]);
        }
        let found = check_as(as_user("-time"));
        assert_kinds(&found, &[(AccessDenied, Severity::Problem), (NotChecked, Severity::Info)]);
        assert!(message(&found, AccessDenied).contains("TIME"), "{found:#?}");
        for (rules, word) in [("-config", "CONFIG GET"), ("-info", "INFO")] {
            let found = check_as(as_user(rules));
            let left: Vec<_> = kinds(&found).into_iter().filter(|(kind, _)| *kind != "partial_persistence").collect();
            assert_eq!(left, [(NotChecked.as_str(), Severity::Info)], "{found:#?}");
            assert!(message(&found, NotChecked).contains(word), "{found:#?}");
        }
        assert_eventually("no connection is left", AGREED, || clients(server) == 0);
    });
}

#[test]
fn nobody_to_ask_is_an_error_within_its_limits() {
    let Some(kind) = any_server() else { return };
    let server = Server::builder(kind).password("right").start();
    let error = Client::open(&format!("redis://:wrong@{}/", server.addr())).unwrap().check_server().unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("cannot check the server: ") && !text.contains("wrong"), "{text}");
    assert_eq!(error.name(), None);
    let error = Client::open(&format!("redis://{}/", server.addr())).unwrap().check_server().unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");

    let nobody = limited(&format!("redis://127.0.0.1:{}", closed_port()), SECOND).build().unwrap();
    let (outcome, took) = timed(|| nobody.check_server());
    assert!(matches!(&outcome, Err(error @ Error::Unavailable { .. }) if error.is_retryable()), "{outcome:?}");
    assert!(took < SECOND + NOISE, "{took:?}");

    let client = limited(&server.url(), SECOND).build().unwrap();
    server.pause();
    let (outcome, took) = timed(|| client.check_server());
    server.resume();
    assert!(matches!(outcome, Err(Error::Unavailable { .. })), "{outcome:?}");
    assert!(took < 2 * SECOND + NOISE, "{took:?}");

    client.close();
    let closed = client.check_server();
    assert!(matches!(closed, Err(Error::Closed { .. })), "{closed:?}");
    assert_eq!(closed.unwrap_err().to_string(), "cannot check the server: the client is closed");
}

#[test]
fn a_store_in_the_process_is_told_as_such() {
    let found = check("memory://");
    assert_kinds(&found, &[(FindingKind::Memory, Severity::Info)]);
    let strict = check_as(Client::builder("memory://").min_replicas(1));
    assert_kinds(&strict, &[(FindingKind::FewReplicas, Severity::Problem), (FindingKind::Memory, Severity::Info)]);
    assert_eq!((found.len(), found[0].server()), (1, "memory://"));
}

#[test]
fn sentinels_are_asked_whether_they_can_agree() {
    use FindingKind::{
        DifferentPrimaries, FormerPrimary, NotChecked, Quorum, SentinelPort, Unacknowledged, Unreachable,
    };
    let Some(kind) = any_server() else { return };
    let less = "less on >it resetchannels -@all +sentinel|get-master-addr-by-name";
    let more = "+sentinel|master +sentinel|ckquorum";
    let enough = less.replace("less", "enough") + " " + more;
    let group = SentinelGroup::start_with(
        kind,
        |it| durable(it).user(&documented_user("+role +wait +info +config|get")),
        |it| it.user(less).user(&enough),
    );
    let url = group.url();
    let former = (FormerPrimary, Severity::Warning);
    let found = check(&url);
    assert_kinds(&found, &[former, (Unacknowledged, Severity::Info)]);
    let of_primary = format!("redis://127.0.0.1:{}/0", group.servers()[0].port());
    assert!(found.iter().all(|finding| finding.server() == of_primary), "{found:#?}");
    group.servers().iter().for_each(|server| set(server, "min-replicas-to-write", "1"));
    let strict = || Client::builder(&url).min_replicas(1);
    assert_kinds(&check_as(strict()), &[]);

    let as_user = |user: &str| {
        let url = group.url_as("redlatch", "PASSWORD");
        check_as(Client::builder(&format!("{url}?sentinel_user={user}&sentinel_password=it")).min_replicas(1))
    };
    assert!(documented_user(more).ends_with(more), "the docs name what is enough");
    assert_kinds(&as_user("enough"), &[]);
    let denied = as_user("less");
    let connected = |server: &Server| {
        let list: String = server.query(&["CLIENT", "LIST"]);
        ["redlatch", "less", "enough"].iter().any(|user| list.contains(&format!("user={user} ")))
    };
    let all = || group.servers().iter().chain(group.sentinels());
    assert_eventually("no connection is left", AGREED, || !all().any(connected));
    assert_kinds(&denied, &[(NotChecked, Severity::Info)]);
    assert!(message(&denied, NotChecked).contains("SENTINEL MASTER"), "{denied:#?}");

    let port = check(&format!("redis://{}", group.sentinels()[0].addr()));
    assert_eq!(port.iter().map(Finding::kind).collect::<Vec<_>>(), [SentinelPort], "{port:#?}");

    let astray = &group.sentinels()[2];
    astray.query::<()>(&["SENTINEL", "REMOVE", "orders"]);
    let found = check_as(strict());
    assert_kinds(&found, &[(Unreachable, Severity::Warning)]);
    assert!(message(&found, Unreachable).contains("does not know orders"), "{found:#?}");
    let other = durable(Server::builder(kind)).start();
    astray.query::<()>(&["SENTINEL", "MONITOR", "orders", "127.0.0.1", &other.port().to_string(), "2"]);
    let found = check_as(strict());
    assert!(kinds(&found).contains(&(DifferentPrimaries.as_str(), Severity::Problem)), "{found:#?}");
    assert!(message(&found, DifferentPrimaries).contains(&other.port().to_string()), "{found:#?}");

    group.sentinels()[1..].iter().for_each(Server::kill);
    let gone = || kinds(&check_as(strict())).contains(&(Quorum.as_str(), Severity::Warning));
    assert_eventually("the one that is left has noticed", AGREED, gone);
    let found = check_as(strict());
    assert_kinds(&found, &[(Unreachable, Severity::Warning), (Quorum, Severity::Warning)]);
    assert_eq!(found.iter().filter(|finding| finding.kind() == Unreachable).count(), 2, "each is named");
    assert!(message(&found, Quorum).contains("NOQUORUM"), "{found:#?}");
}

#[test]
fn each_primary_of_a_cluster_is_checked_by_itself() {
    use FindingKind::{ClusterNode, ClusterState, Eviction, Unacknowledged, Unreachable};
    let Some(kind) = any_server() else { return };
    let enough = documented_user("+cluster|slots +wait +info +config|get +cluster|info");
    let cluster = ServerCluster::start_with(kind, |it| durable(it).user(&enough));
    let [first, second] = [&cluster.nodes()[0], &cluster.nodes()[1]];
    let client = || Client::builder(&cluster.url()).min_replicas(1);
    assert_kinds(&check_as(client()), &[]);
    let by_rules = cluster.url().replace("://", "://redlatch:PASSWORD@");
    assert_kinds(&check_as(Client::builder(&by_rules).min_replicas(1)), &[]);
    assert_kinds(&check(&cluster.url()), &[(Unacknowledged, Severity::Info)]);
    let alone = check(&first.url());
    assert_kinds(&alone, &[(ClusterNode, Severity::Problem), (Unacknowledged, Severity::Info)]);

    set(second, "maxmemory-policy", "volatile-lru");
    let found = check_as(client());
    assert_kinds(&found, &[(Eviction, Severity::Info)]);
    let eviction = found.iter().find(|finding| finding.kind() == Eviction).expect("it is there");
    assert_eq!(eviction.server(), format!("redis://127.0.0.1:{}/0", second.port()), "it names the node");
    set(second, "maxmemory-policy", "noeviction");

    // Its owner tells the others of it as long as it has it itself.
    let slot = cluster.slot(&key("a")).to_string();
    let states = || {
        cluster.nodes().iter().for_each(|node| drop(node.try_query::<()>(&["CLUSTER", "DELSLOTS", &slot])));
        let found = check_as(client()).into_iter().filter(|finding| finding.kind() == ClusterState);
        found.map(|finding| (finding.severity(), finding.message().to_owned())).collect::<Vec<_>>()
    };
    let told = |(severity, text): &(Severity, String)| *severity == Severity::Problem && text.starts_with("1 slots");
    assert_eventually("a slot without a node is told of", AGREED, || states().iter().any(told));

    // Nobody takes over.
    cluster.nodes()[3].kill();
    first.pause();
    let found = check_as(client());
    first.resume();
    let gone: Vec<_> = found.iter().filter(|finding| finding.kind() == Unreachable).collect();
    assert_eq!((gone.len(), gone[0].severity()), (1, Severity::Problem), "{found:#?}");
    assert_eq!(gone[0].server(), format!("redis://127.0.0.1:{}/0", first.port()));
}
