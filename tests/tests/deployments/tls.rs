//! Sentinels and clusters over TLS. Debian's server is built with it.

use redlatch::{Client, Error, Released};
use redlatch_tests::{Server, ServerKind, assert_eventually};

use crate::support::{AGREED, SECOND, acquire, closed_port, key, limited, ttl};
use redlatch_tests::{Certificates, tls_server_with};

/// Certificates, where this build and this machine have TLS.
fn certificates() -> Option<Certificates> {
    Client::open("rediss://localhost").is_ok().then(Certificates::make).flatten()
}

#[track_caller]
fn assert_works(server: &Server, url: &str, certificates: &Certificates) {
    let client = limited(url, SECOND).tls_ca(certificates.path("ca.crt")).build().unwrap();
    let guard = client.lock_with("a", ttl(900)).unwrap().try_acquire_for(10 * SECOND).unwrap().expect("it is free");
    assert_eq!(server.get(&key("a")).as_deref(), Some(guard.token().as_str()));
    assert_eventually("the background renews", 10 * SECOND, || client.stats().renewed >= 2);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let other = limited(url, SECOND).tls_ca(certificates.path("ca.crt")).build().unwrap();
            acquire(&other, "a").release().unwrap()
        });
        assert_eventually("it waits", AGREED, || client.inspect("a").unwrap().is_some_and(|info| info.waiters() == 1));
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
    });

    certificates.authority("other");
    let client = limited(url, SECOND).tls_ca(certificates.path("other.crt")).build().unwrap();
    let error = client.lock("b").unwrap().try_acquire_for(SECOND).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("certificate"), "{error:?}");
}

#[test]
fn a_primary_behind_sentinels_is_reached_over_tls() {
    let Some(certificates) = certificates() else { return };
    let set_up = |it: redlatch_tests::ServerBuilder| it.config("tls-auth-clients", "no");
    let Some((server, port)) = tls_server_with(&certificates, "tls", set_up) else { return };
    let quoted = |name: &str| format!("{:?}", certificates.path(name));
    let sentinel_port = closed_port();
    let _sentinel = Server::builder(ServerKind::Redis70)
        .sentinel()
        .config("tls-port", &sentinel_port.to_string())
        .config("tls-cert-file", &quoted("tls.crt"))
        .config("tls-key-file", &quoted("tls.key"))
        .config("tls-ca-cert-file", &quoted("ca.crt"))
        .config("tls-auth-clients", "no")
        // It talks to the servers over TLS, and names their ports for that.
        .config("tls-replication", "yes")
        .config("sentinel", &format!("monitor s 127.0.0.1 {port} 1"))
        .config("sentinel", "auth-user s harness")
        .config("sentinel", "auth-pass s harness-admin")
        .start();
    assert_works(&server, &format!("rediss+sentinel://app:s3cret@localhost:{sentinel_port}/s"), &certificates);
}

#[test]
fn a_cluster_is_reached_over_tls() {
    let Some(certificates) = certificates() else { return };
    let set_up = |it: redlatch_tests::ServerBuilder| {
        it.config("tls-auth-clients", "no").config("cluster-enabled", "yes").config("tls-cluster", "yes")
    };
    let Some((server, port)) = tls_server_with(&certificates, "tls", set_up) else { return };
    let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
    let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    server.query::<()>(&words);
    let up = || server.query::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
    assert_eventually("the cluster is up", AGREED, up);
    assert_works(&server, &format!("rediss+cluster://app:s3cret@localhost:{port}"), &certificates);
}
