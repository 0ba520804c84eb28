//! Authorities and certificates of one's own: `tls_ca`, `tls_cert`, `tls_key`.

use std::path::Path;
use std::thread;
use std::time::Duration;

use redlatch::{Client, ClientBuilder, Error, Released};
use redlatch_tests::{Process, Server, assert_eventually};

use super::support::{NOISE, assert_nothing_left, assert_took, assert_unavailable, fixed, ms, sibling, timed};
use redlatch_tests::{Certificates, tls_server, tls_server_with};

const LIMIT: Duration = ms(1_000);
const LONG: Duration = Duration::from_secs(30);

/// Whether redlatch is built with TLS.
fn has_tls() -> bool {
    match Client::open("rediss://localhost") {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("`tls` feature"), "{error}");
            false
        }
    }
}

/// Certificates and a server that shows them, where this build and this machine have TLS.
fn start() -> Option<(Certificates, Server, u16)> {
    if !has_tls() {
        return None;
    }
    let certificates = Certificates::make()?;
    let (server, port) = tls_server(&certificates)?;
    Some((certificates, server, port))
}

fn builder(host: &str, port: u16) -> ClientBuilder {
    let url = format!("rediss://app:s3cret@{host}:{port}/");
    Client::builder(&url).connect_timeout(LIMIT).io_timeout(LIMIT)
}

/// Acquires, renews and releases, and has a waiter woken.
#[track_caller]
fn assert_works(server: &Server, client: &Client) {
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let guard = lock.try_acquire_for(5 * LIMIT).unwrap().expect("the lock is free");
    guard.renew().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.lease("n", fixed(LONG)).unwrap().release().unwrap());
        let with_inbox = || {
            let inboxes: Vec<String> = server.query(&["HVALS", &sibling("n", "waiters")]);
            inboxes.iter().any(|inbox| inbox != "-")
        };
        assert_eventually("a waiter has an inbox", 5 * LIMIT, with_inbox);
        assert_eq!(guard.release().unwrap(), Released::Released);
        assert_eq!(waiting.join().unwrap(), Released::Released);
    });
    assert_nothing_left(server, "n");
}

/// Asserts that no connection comes about, in words that hold each of `parts`.
#[track_caller]
fn assert_refused(client: &Client, host: &str, port: u16, parts: &[&str]) {
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let (result, took) = timed(|| lock.try_acquire_for(ms(500)));
    assert_took(took, ms(500)..ms(500) + NOISE);
    let error = result.unwrap_err();
    assert_unavailable(&error, &format!("rediss://{host}:{port}/0"), parts);
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}

#[test]
fn a_lock_works_over_tls_with_an_authority_of_ones_own() {
    let Some((certificates, server, port)) = start() else { return };
    for host in ["localhost", "127.0.0.1"] {
        let client = builder(host, port).tls_ca(certificates.path("ca.crt")).build().unwrap();
        assert_works(&server, &client);
    }
    certificates.authority("other");
    let read = |name| std::fs::read_to_string(certificates.path(name)).unwrap();
    let both = certificates.write("both.crt", &format!("{}{}", read("other.crt"), read("ca.crt")));
    assert_works(&server, &builder("localhost", port).tls_ca(both).build().unwrap());
}

#[test]
fn the_files_are_read_once() {
    let Some((certificates, server, port)) = start() else { return };
    let client = builder("localhost", port).tls_ca(certificates.path("ca.crt")).build().unwrap();
    certificates.write("ca.crt", "not a certificate any more");
    assert_works(&server, &client);
}

#[test]
fn a_certificate_of_another_authority_than_tls_ca_was_trusted() {
    let Some((certificates, _server, port)) = start() else { return };
    certificates.authority("other");
    let client = builder("localhost", port).tls_ca(certificates.path("other.crt")).build().unwrap();
    assert_refused(&client, "localhost", port, &["certificate"]);
}

#[test]
fn a_certificate_for_another_name_was_trusted() {
    if !has_tls() {
        return;
    }
    let Some(certificates) = Certificates::make() else { return };
    certificates.sign("elsewhere", "ca", "DNS:elsewhere.example");
    let started = tls_server_with(&certificates, "elsewhere", |builder| builder.config("tls-auth-clients", "no"));
    let Some((_server, port)) = started else { return };
    for host in ["localhost", "127.0.0.1"] {
        let client = builder(host, port).tls_ca(certificates.path("ca.crt")).build().unwrap();
        assert_refused(&client, host, port, &["certificate", "not valid for name"]);
    }
}

#[test]
fn a_server_that_wants_certificates_of_its_clients_serves_those_that_show_one() {
    if !has_tls() {
        return;
    }
    let Some(certificates) = Certificates::make() else { return };
    certificates.sign("client", "ca", "DNS:client.example");
    certificates.authority("other");
    certificates.sign("stranger", "other", "DNS:stranger.example");
    let started = tls_server_with(&certificates, "tls", |builder| builder.config("tls-auth-clients", "yes"));
    let Some((server, port)) = started else { return };
    let trusting = || builder("localhost", port).tls_ca(certificates.path("ca.crt"));
    let showing = |name: &str| {
        let (cert, key) = (certificates.path(&format!("{name}.crt")), certificates.path(&format!("{name}.key")));
        trusting().tls_cert(cert).tls_key(key).build().unwrap()
    };
    assert_works(&server, &showing("client"));
    for client in [trusting().build().unwrap(), showing("stranger")] {
        let shown = format!("rediss://localhost:{port}/0");
        // A server that hangs up while the client still writes is not always heard.
        let said = (0..10).any(|_| {
            let error = client.lock("n").unwrap().try_acquire_for(ms(300)).unwrap_err();
            assert_unavailable(&error, &shown, &["acquire"]);
            error.to_string().contains("tls_cert")
        });
        assert!(said, "nothing of certificates");
    }
    assert_nothing_left(&server, "n");
}

#[test]
fn refused_tls_options_are_named_with_their_files_and_without_their_content() {
    if !has_tls() {
        return;
    }
    let Some(certificates) = Certificates::make() else { return };
    certificates.sign("client", "ca", "DNS:client.example");
    certificates.openssl("pkcs8 -topk8 -in client.key -out encrypted.key -passout pass:s3cret");
    let (ca, cert, key) =
        (certificates.path("ca.crt"), certificates.path("client.crt"), certificates.path("client.key"));
    let missing = certificates.path("missing.pem");
    let empty = certificates.write("empty.pem", "");
    let text = certificates.write("text.pem", "CONTENT of a file that is no PEM");
    let broken = "-----BEGIN CERTIFICATE-----\nCONTENT CONTENT CONTENT\n-----END CERTIFICATE-----\n";
    let broken = certificates.write("broken.pem", broken);
    let no_certificate = "-----BEGIN CERTIFICATE-----\nQ09OVEVOVA==\n-----END CERTIFICATE-----\n";
    let no_certificate = certificates.write("no-certificate.pem", no_certificate);
    let unended = certificates.write("unended.pem", "-----BEGIN CONTENT\nCONTENT\n");
    let tls = || builder("localhost", 1);
    let refused = |builder: ClientBuilder, option: &str, file: &Path, words: &str| {
        let error = builder.build().err().unwrap_or_else(|| panic!("{option} = {} is accepted", file.display()));
        let text = error.to_string();
        assert!(matches!(&error, Error::Config { option: named, .. } if *named == option), "{option}: {text}");
        assert!(text.contains(&file.display().to_string()) && text.contains(words), "{option}: {words:?}: {text}");
        for content in ["CONTENT", "s3cret", "Q09OV", "67, 79, 78"] {
            assert!(!format!("{text} {error:?}").contains(content), "{error:?}");
        }
    };
    let dir = certificates.path("");
    for (file, words) in [(&missing, "No such file"), (&dir, "can be read"), (&empty, "at least one certificate")] {
        refused(tls().tls_ca(file), "tls_ca", file, words);
        refused(tls().tls_cert(file).tls_key(&key), "tls_cert", file, words);
    }
    for file in [&text, &broken, &unended, &key] {
        refused(tls().tls_ca(file), "tls_ca", file, "at least one certificate");
        refused(tls().tls_cert(file).tls_key(&key), "tls_cert", file, "at least one certificate");
    }
    refused(tls().tls_ca(&no_certificate), "tls_ca", &no_certificate, "certificates of authorities");
    refused(tls().tls_cert(&cert).tls_key(&missing), "tls_key", &missing, "No such file");
    for file in [&empty, &text, &broken, &unended, &cert, &certificates.path("encrypted.key")] {
        refused(tls().tls_cert(&cert).tls_key(file), "tls_key", file, "private key that is not encrypted");
    }
    let foreign = certificates.path("ca.key");
    refused(tls().tls_cert(&cert).tls_key(&foreign), "tls_key", &foreign, "the certificate in tls_cert");
    refused(tls().tls_cert(&cert), "tls_cert", &cert, "tls_key as well");
    refused(tls().tls_ca(&ca).tls_key(&key), "tls_key", &key, "tls_cert as well");
    for url in ["redis://localhost", "unix:///run/redis.sock", "memory://"] {
        let plain = || Client::builder(url);
        refused(plain().tls_ca(&ca), "tls_ca", &ca, "rediss://");
        refused(plain().tls_cert(&cert).tls_key(&key), "tls_cert", &cert, "rediss://");
    }
    assert!(tls().tls_ca(&ca).tls_cert(&cert).tls_key(&key).build().is_ok());
}

#[test]
fn without_the_feature_each_tls_option_is_refused_and_says_so() {
    if has_tls() {
        return;
    }
    let url = "redis://localhost";
    for builder in
        [Client::builder(url).tls_ca("x"), Client::builder(url).tls_cert("x"), Client::builder(url).tls_key("x")]
    {
        let text = builder.build().unwrap_err().to_string();
        assert!(text.starts_with("tls_") && text.contains("`tls` feature"), "{text}");
    }
}

/// Variables for the child of the next test.
const PORT: &str = "REDLATCH_TEST_TLS_PORT";
const AUTHORITY: &str = "REDLATCH_TEST_TLS_AUTHORITY";

#[test]
fn an_authority_that_only_the_platform_trusts_was_trusted_beside_tls_ca() {
    let Some((certificates, _server, port)) = start() else { return };
    certificates.authority("other");
    // The platform's store is chosen by a variable, which only a process of its own can have.
    let mut child = Process::start_with(std::env::current_exe().unwrap(), |command| {
        command.args(["--exact", "certificates::child_of_a_platform_that_trusts_it", "--ignored", "--nocapture"]);
        command.env("SSL_CERT_FILE", certificates.path("ca.crt")).env(PORT, port.to_string());
        command.env(AUTHORITY, certificates.path("other.crt"));
    });
    let status = child.wait_exit(Duration::from_secs(20)).expect("the child ends");
    assert!(status.success(), "{:#?} {:#?}", child.lines(), child.error_lines());
}

#[test]
#[ignore = "runs as a child of the test before it"]
fn child_of_a_platform_that_trusts_it() {
    let port = std::env::var(PORT).unwrap().parse().unwrap();
    let trusting = builder("localhost", port).build().unwrap();
    trusting.inspect("n").unwrap();
    let client = builder("localhost", port).tls_ca(std::env::var(AUTHORITY).unwrap()).build().unwrap();
    assert_refused(&client, "localhost", port, &["certificate"]);
}
