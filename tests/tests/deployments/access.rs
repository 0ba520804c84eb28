//! The access rules of docs/operations.md behind sentinels and on a cluster, with what they say about these.

use redlatch::{Client, Error, LockOptions, Released};
use redlatch_tests::{SentinelGroup, Server, ServerCluster, any_server, assert_eventually, documented_user};

use crate::support::{AGREED, SECOND, acquire, assert_pushed, key, limited, ms, sibling, ttl};

const DOCS: &str = include_str!("../../../docs/operations.md");

/// Has two clients of the URL do what clients do, with the lock at `node`.
fn exercise(url: &str, node: &Server, name: &str) {
    let (client, other) = (Client::open(url).unwrap(), Client::open(url).unwrap());
    let lease = client.lease(name, ttl(5_000)).unwrap();
    lease.renew().unwrap();
    assert_eq!(client.inspect(name).unwrap().and_then(|info| info.fence()), Some(lease.fence()));
    let fence = lease.fence();
    // One joins the queue, and leaves it at the end of its time.
    assert!(other.try_lease_for(name, LockOptions::new(), ms(300)).unwrap().is_none());
    assert_eq!(client.inspect(name).unwrap().map(|info| info.waiters()), Some(0));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&other, name).release().unwrap());
        assert_eventually("it waits with an inbox", AGREED, || {
            let inboxes: Vec<String> = node.query(&["HVALS", &sibling(name, "waiters")]);
            inboxes.iter().any(|inbox| inbox != "-")
        });
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
    });
    let lease = client.lease(name, LockOptions::new()).unwrap();
    assert!(lease.fence() > fence);
    let token = lease.into_token().unwrap();
    let lease = other.adopt(name, token.as_str(), LockOptions::new()).unwrap().expect("it has the lock");
    assert!(client.force_release(name).unwrap());
    assert!(matches!(lease.renew(), Err(Error::Lost(_))));
    // The overdue turn of a client with an inbox.
    node.set(&sibling(name, "turn"), "1 its-token its-inbox");
    assert_eq!(client.lease(name, LockOptions::new()).unwrap().release().unwrap(), Released::Released);
    let replicated = Client::builder(url).min_replicas(1).replica_timeout(10 * SECOND).build().unwrap();
    let lease = replicated.lease(name, LockOptions::new());
    assert_eq!(lease.unwrap().release().unwrap(), Released::Released);
    let stats = other.stats();
    assert_eq!((stats.push_denied, stats.publish_denied, client.stats().publish_denied), (0, 0, 0));
    assert_pushed(&other, 0);
}

fn permission(result: Result<impl Sized, Error>, word: &str) {
    let error = result.err().expect("it is denied");
    assert!(matches!(error, Error::Permission { .. }), "{error:?}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn the_documented_rules_are_enough_behind_sentinels() {
    let Some(kind) = any_server() else { return };
    let of_sentinels = "it on >it resetchannels -@all +sentinel|get-master-addr-by-name";
    assert!(DOCS.contains("+sentinel|get-master-addr-by-name"));
    let group = SentinelGroup::start_with(
        kind,
        |it| it.user(&documented_user("+role +wait")).user("less on >less ~* &* +@all -role"),
        |it| it.user(of_sentinels),
    );
    let login = "sentinel_user=it&sentinel_password=it";
    exercise(&format!("{}?{login}", group.url_as("redlatch", "PASSWORD")), &group.servers()[0], "a");
    let less = limited(&format!("{}?{login}", group.url_as("less", "less")), SECOND).build().unwrap();
    permission(less.lease("b", LockOptions::new()), "role");
}

#[test]
fn the_documented_rules_are_enough_on_a_cluster() {
    let Some(kind) = any_server() else { return };
    let cluster = ServerCluster::start_with(kind, |it| {
        it.user(&documented_user("+cluster|slots +asking +wait"))
            .user("no_slots on >less ~* &* +@all -cluster|slots")
            .user("no_asking on >less ~* &* +@all -asking")
    });
    let url = |login: &str| cluster.url().replace("://", &format!("://{login}@"));
    let first = &cluster.nodes()[0];
    let mut names = (0..).map(|n| format!("n{n}"));
    let name = names.find(|name| cluster.owner(&key(name)).port() == first.port()).unwrap();
    exercise(&url("redlatch:PASSWORD"), first, &name);

    let no_slots = limited(&url("no_slots:less"), SECOND).build().unwrap();
    permission(no_slots.lease(&name, LockOptions::new()), "slots");

    let client = Client::open(&url("redlatch:PASSWORD")).unwrap();
    let lease = client.lease(&name, ttl(30_000)).unwrap();
    let no_asking = limited(&url("no_asking:less"), SECOND).build().unwrap();
    let name_of_less = names.find(|name| cluster.owner(&key(name)).port() == first.port()).unwrap();
    let other = no_asking.lease(&name_of_less, ttl(30_000)).unwrap();
    let to = &cluster.nodes()[1];
    for name in [&name, &name_of_less] {
        cluster.begin_move(&key(name), to);
        cluster.move_keys(&key(name), to);
    }
    lease.renew().unwrap();
    assert_eq!(lease.release().unwrap(), Released::Released);
    permission(other.renew(), "asking");
}
