//! Servers, sentinels and nodes at addresses of version 6.

use std::net::{Ipv6Addr, TcpListener};
use std::thread;

use redlatch::{Client, Error, Released};
use redlatch_tests::{Server, ServerBuilder, any_server, assert_eventually};

use crate::nodes::{SLOTS, cluster_of, give, names, slot};
use crate::support::{AGREED, SECOND, acquire, assert_pushed, key, limited, ms, sibling, ttl};

/// Sets a server up to listen at `::1` as well.
fn both(builder: ServerBuilder) -> ServerBuilder {
    builder.config("bind", "127.0.0.1 ::1")
}

/// Whether this machine has such addresses.
fn is_there() -> bool {
    let there = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !there {
        eprintln!("SKIPPED: this machine has no ::1");
    }
    there
}

#[track_caller]
fn assert_works(server: &Server, url: &str, name: &str) {
    let (client, other) = (Client::open(url).unwrap(), Client::open(url).unwrap());
    let lease = client.lease(name, ttl(600)).unwrap();
    assert_eq!(server.get(&key(name)).as_deref(), Some(lease.token().as_str()));
    assert_eventually("the background renews", 10 * SECOND, || client.stats().renewed >= 2);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&other, name).release().unwrap());
        assert_eventually("it waits with an inbox", AGREED, || {
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling(name, "waiters")]);
            inboxes.iter().any(|inbox| inbox != "-")
        });
        assert_eq!(lease.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
    });
    assert_pushed(&other, 0);
    assert_eq!(client.server().trim_end_matches("/0"), url.trim_end_matches('/'), "an address with its brackets");
}

#[test]
fn a_server_is_reached_by_its_address_of_version_6() {
    let Some(kind) = any_server().filter(|_| is_there()) else { return };
    let server = both(Server::builder(kind)).start();
    assert_works(&server, &format!("redis://[::1]:{}", server.port()), "a");
    server.pause();
    let client = limited(&format!("redis://[::1]:{}", server.port()), ms(100)).build().unwrap();
    let error = client.lock("a").unwrap().try_acquire_for(ms(200)).unwrap_err();
    server.resume();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&format!("redis://[::1]:{}/0", server.port())), "{error}");
}

#[test]
fn sentinels_are_reached_by_their_addresses_of_version_6_and_name_such() {
    let Some(kind) = any_server().filter(|_| is_there()) else { return };
    let server = both(Server::builder(kind)).start();
    let sentinel = both(Server::builder(kind).sentinel())
        .config("sentinel", &format!("monitor s ::1 {} 1", server.port()))
        .config("sentinel", "auth-user s harness")
        .config("sentinel", "auth-pass s harness-admin")
        .start();
    let named: Vec<String> = sentinel.query(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "s"]);
    assert_eq!(named, ["::1".to_owned(), server.port().to_string()]);
    assert_works(&server, &format!("redis+sentinel://[::1]:{}/s", sentinel.port()), "a");
}

#[test]
fn nodes_are_reached_by_their_addresses_of_version_6_and_send_to_such() {
    let Some(kind) = any_server().filter(|_| is_there()) else { return };
    let nodes = cluster_of(kind, "::1", &[0, SLOTS / 2], both);
    let [first, second] = &nodes[..] else { unreachable!("there are two") };
    let url = format!("redis+cluster://[::1]:{}", first.port());
    let mut there = names(first, |slot| slot >= SLOTS / 2);
    let name = there.next().unwrap();
    assert_works(second, &url, &name);

    // A client that knows the slot's former node is sent to the other one.
    let moving = slot(first, &key(&name));
    let client = Client::open(&url).unwrap();
    assert_eq!(client.lease(&name, ttl(5_000)).unwrap().release().unwrap(), Released::Released);
    second.flush();
    give(&[first, second], moving, first);
    let lease = client.lease(&name, ttl(5_000)).unwrap();
    assert_eq!(first.get(&key(&name)).as_deref(), Some(lease.token().as_str()));
    assert_eq!(lease.release().unwrap(), Released::Released);
}
