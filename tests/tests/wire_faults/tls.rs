//! TLS where the server speaks none, and the other way round.

use std::path::Path;
use std::time::Duration;

use redlatch::{Client, Error, Released};
use redlatch_tests::Process;

use super::support::{NOISE, assert_took, assert_unavailable, client, fixed, ms, timed, with_server};
use redlatch_tests::{Certificates, tls_server};

const LIMIT: Duration = ms(400);
const LONG: Duration = Duration::from_secs(30);

/// A client for TLS, `None` where redlatch is built without it.
fn tls_client(address: &str) -> Option<Client> {
    let url = format!("rediss://app:s3cret@{address}/");
    match Client::builder(&url).connect_timeout(LIMIT).io_timeout(LIMIT).build() {
        Ok(client) => Some(client),
        Err(Error::Config { option: "url", value, expected }) if expected.contains("`tls` feature") => {
            assert!(!value.contains("s3cret"), "{value}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn tls_to_a_plain_server_is_named_within_the_limit() {
    with_server(|server| {
        for host in ["localhost", "127.0.0.1"] {
            let address = format!("{host}:{}", server.port());
            let Some(client) = tls_client(&address) else { return };
            let lock = client.lock_with("n", fixed(LONG)).unwrap();
            let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
            assert_took(took, ms(300)..ms(300) + NOISE);
            let error = result.unwrap_err();
            assert_unavailable(&error, &format!("rediss://{address}/0"), &["acquire", "\"n\"", "TLS"]);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
            let (result, took) = timed(|| client.inspect("n"));
            assert_unavailable(&result.unwrap_err(), &format!("rediss://{address}/0"), &["inspect", "TLS"]);
            assert!(took < LIMIT + NOISE, "{took:?}");
        }
    });
}

#[test]
fn a_plain_connection_to_a_tls_server_is_named_within_the_limit() {
    let Some(certificates) = Certificates::make() else { return };
    let Some((_server, port)) = tls_server(&certificates) else { return };
    for credentials in ["", "app:s3cret@"] {
        let client = client(&format!("redis://{credentials}127.0.0.1:{port}/"), LIMIT);
        let lock = client.lock_with("n", fixed(LONG)).unwrap();
        let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
        assert_took(took, ms(300)..ms(300) + NOISE);
        let error = result.unwrap_err();
        let shown = format!("redis://127.0.0.1:{port}/0");
        assert_unavailable(&error, &shown, &["acquire", "\"n\"", "TLS", "rediss://"]);
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

#[test]
fn a_certificate_of_an_unknown_authority_is_named_within_the_limit() {
    let Some(certificates) = Certificates::make() else { return };
    let Some((_server, port)) = tls_server(&certificates) else { return };
    let address = format!("localhost:{port}");
    let Some(client) = tls_client(&address) else { return };
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
    assert_took(took, ms(300)..ms(300) + NOISE);
    assert_unavailable(&result.unwrap_err(), &format!("rediss://{address}/0"), &["certificate"]);
}

/// Variables for the child of the next test.
const ADDRESS: &str = "REDLATCH_TEST_TLS_ADDRESS";

#[test]
fn a_lock_works_over_tls_with_an_authority_that_the_platform_trusts() {
    let Some(certificates) = Certificates::make() else { return };
    let Some((server, port)) = tls_server(&certificates) else { return };
    if tls_client("localhost").is_none() {
        return;
    }
    // The platform's store is chosen by a variable, which only a process of its own can have.
    let mut child = over_tls(&certificates.path("ca.crt"), &format!("localhost:{port}"));
    let status = child.wait_exit(Duration::from_secs(20)).expect("the child ends");
    assert!(status.success(), "{:#?} {:#?}", child.lines(), child.error_lines());
    assert!(server.exists("{lock:over-tls}:redlatch:fence"));
}

fn over_tls(authority: &Path, address: &str) -> Process {
    Process::start_with(std::env::current_exe().unwrap(), |command| {
        command.args(["--exact", "tls::child_over_tls", "--ignored", "--nocapture"]);
        command.env("SSL_CERT_FILE", authority).env(ADDRESS, address);
    })
}

#[test]
#[ignore = "runs as a child of the test before it"]
fn child_over_tls() {
    let client = tls_client(&std::env::var(ADDRESS).unwrap()).unwrap();
    let lock = client.lock_with("over-tls", fixed(LONG)).unwrap();
    for _ in 0..3 {
        let guard = lock.try_acquire_for(Duration::from_secs(5)).unwrap().expect("the lock is free");
        guard.renew().unwrap();
        assert_eq!(guard.release().unwrap(), Released::Released);
    }
}
