//! Sentinels and clusters over TLS. Debian's server is built with it.

use redlatch::{Client, ClientBuilder, Error, Released};
use redlatch_tests::{Certificates, Server, ServerKind, assert_eventually, tls_server_with};

use crate::support::{AGREED, SECOND, acquire, closed_port, key, limited, ms, sibling, ttl};

/// Certificates, where this build and this machine have TLS.
fn certificates() -> Option<Certificates> {
    Client::open("rediss://localhost").is_ok().then(Certificates::make).flatten()
}

/// A client that trusts the authority, and shows a certificate of it.
fn trusted(url: &str, certificates: &Certificates) -> ClientBuilder {
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|name| certificates.path(name));
    limited(url, SECOND).tls_ca(ca).tls_cert(cert).tls_key(key)
}

#[track_caller]
fn assert_works(server: &Server, url: &str, certificates: &Certificates) {
    certificates.sign("client", "ca", "DNS:client.example");
    let open = || trusted(url, certificates).build().unwrap();
    let client = open();
    let guard = client.lock_with("a", ttl(900)).unwrap().try_acquire_for(10 * SECOND).unwrap().expect("it is free");
    assert_eq!(server.get(&key("a")).as_deref(), Some(guard.token().as_str()));
    assert_eventually("the background renews", 10 * SECOND, || client.stats().renewed >= 2);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&open(), "a").release().unwrap());
        assert_eventually("it waits with an inbox", AGREED, || {
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling("a", "waiters")]);
            inboxes.iter().any(|inbox| inbox != "-")
        });
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
    });

    // An authority that vouches for nothing here, and no certificate of one's own.
    certificates.authority("other");
    assert_refused(trusted(url, certificates).tls_ca(certificates.path("other.crt")), "certificate");
    let silent = limited(url, SECOND).tls_ca(certificates.path("ca.crt")).build().unwrap();
    // A server that hangs up while the client still writes is not always heard.
    let said = (0..10).any(|_| {
        let error = silent.lock("b").unwrap().try_acquire_for(ms(300)).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        error.to_string().contains("tls_cert")
    });
    assert!(said && !server.exists(&key("b")), "nothing of certificates");
}

#[track_caller]
fn assert_refused(builder: ClientBuilder, why: &str) {
    let error = builder.build().unwrap().lock("b").unwrap().try_acquire_for(SECOND).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unavailable { .. }) && text.contains("certificate") && text.contains(why), "{text}");
}

/// A server, with this certificate, and a sentinel, valid for all names, that watches it at 127.0.0.1; and the URL.
fn behind_a_sentinel(certificates: &Certificates, name: &str) -> Option<(Server, Server, String)> {
    let (server, port) = tls_server_with(certificates, name, |it| it.config("tls-auth-clients", "yes"))?;
    let quoted = |name: &str| format!("{:?}", certificates.path(name));
    let sentinel_port = closed_port();
    let sentinel = Server::builder(ServerKind::Redis70)
        .sentinel()
        .config("tls-port", &sentinel_port.to_string())
        .config("tls-cert-file", &quoted("tls.crt"))
        .config("tls-key-file", &quoted("tls.key"))
        .config("tls-ca-cert-file", &quoted("ca.crt"))
        .config("tls-auth-clients", "yes")
        // It talks to the servers over TLS, and names their ports for that.
        .config("tls-replication", "yes")
        .config("sentinel", &format!("monitor s 127.0.0.1 {port} 1"))
        .config("sentinel", "auth-user s harness")
        .config("sentinel", "auth-pass s harness-admin")
        .start();
    Some((server, sentinel, format!("rediss+sentinel://app:s3cret@localhost:{sentinel_port}/s")))
}

/// The only node of a cluster, with this certificate; and the URL.
fn node(certificates: &Certificates, name: &str) -> Option<(Server, String)> {
    let set_up = |it: redlatch_tests::ServerBuilder| {
        let it = it.config("tls-auth-clients", "yes").config("cluster-enabled", "yes").config("tls-cluster", "yes");
        it.config("cluster-announce-ip", "127.0.0.1")
    };
    let (server, port) = tls_server_with(certificates, name, set_up)?;
    let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
    let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    server.query::<()>(&words);
    let up = || server.query::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
    assert_eventually("the cluster is up", AGREED, up);
    Some((server, format!("rediss+cluster://app:s3cret@localhost:{port}")))
}

#[test]
fn a_primary_behind_sentinels_is_reached_over_tls() {
    let Some(certificates) = certificates() else { return };
    let Some((server, _sentinel, url)) = behind_a_sentinel(&certificates, "tls") else { return };
    assert_works(&server, &url, &certificates);
}

#[test]
fn a_cluster_is_reached_over_tls() {
    let Some(certificates) = certificates() else { return };
    let Some((server, url)) = node(&certificates, "tls") else { return };
    assert_works(&server, &url, &certificates);
}

/// The URL's own host is fine; what it leads to shows a certificate for another name than the one it was named by.
#[test]
fn a_certificate_for_another_name_than_a_sentinel_or_the_cluster_gave_was_trusted() {
    let Some(certificates) = certificates() else { return };
    certificates.sign("client", "ca", "DNS:client.example");
    certificates.sign("named", "ca", "DNS:localhost");
    let Some((_server, _sentinel, url)) = behind_a_sentinel(&certificates, "named") else { return };
    assert_refused(trusted(&url, &certificates), "not valid for name");
    let Some((_node, url)) = node(&certificates, "named") else { return };
    assert_refused(trusted(&url, &certificates), "not valid for name");
}
