//! Wrong password, wrong host, wrong port: each its own clear error within its limit.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redlatch::{Client, Error};
use redlatch_tests::{Proxy, Server, ServerBuilder, available, each_server_with};

use super::support::{
    NOISE, assert_text, assert_took, assert_unavailable, client, closed_port, connect, fixed, ms, shown, timed,
};

const LIMIT: Duration = ms(400);
const LONG: Duration = Duration::from_secs(30);
const PASSWORD: &str = "s3cret";

fn locked(builder: ServerBuilder) -> ServerBuilder {
    builder.password(PASSWORD).user("app on >app-s3cret ~* &* +@all").user("off off >app-s3cret ~* &* +@all")
}

/// Asserts that a wait of 5 s ends at once with the server's words about credentials.
#[track_caller]
fn assert_refused(url: &str, server: &str, words: &[&str]) {
    let client = client(url, LIMIT);
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let (result, took) = timed(|| lock.try_acquire_for(ms(5_000)));
    let error = result.expect_err("the credentials are wrong");
    assert_took(took, ms(0)..NOISE);
    assert!(matches!(error, Error::Authentication { .. }) && !error.is_retryable(), "{error:?}");
    let parts: Vec<&str> = words.iter().copied().chain(["acquire", "\"n\"", "credentials of the URL"]).collect();
    assert_text(&error, server, &parts);
    assert_no_secret(&error);
    let error = client.inspect("n").unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    // Nothing reached the server that would have to be taken back.
    assert_eq!(client.stats().background_now, 0);
}

/// Asserts that neither the text nor the details nor the causes hold a password or a user's name.
#[track_caller]
fn assert_no_secret(error: &Error) {
    let mut texts = vec![format!("{error} {error:?} {error:#?}")];
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        texts.push(format!("{inner} {inner:?}"));
        cause = inner.source();
    }
    for text in texts {
        assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    }
}

#[test]
fn a_wrong_password_is_reported_at_once_and_as_such() {
    each_server_with(locked, |server| {
        let (address, port) = (server.addr(), server.port());
        for credentials in [":wr0ng@", "app:wr0ng@", "nobody:s3cret@", "off:app-s3cret@"] {
            assert_refused(&format!("redis://{credentials}{address}/"), &shown(port), &["WRONGPASS"]);
            let third = format!("redis://127.0.0.1:{port}/3");
            assert_refused(&format!("redis://{credentials}{address}/3"), &third, &["WRONGPASS"]);
        }
    });
}

#[test]
fn a_missing_password_is_reported_at_once_and_as_such() {
    each_server_with(locked, |server| {
        let (address, port) = (server.addr(), server.port());
        assert_refused(&format!("redis://{address}/"), &shown(port), &["authenticat"]);
        // The choice of a database is what the server refuses first.
        assert_refused(&format!("redis://{address}/3"), &format!("redis://127.0.0.1:{port}/3"), &["NOAUTH"]);
    });
}

#[test]
fn a_password_for_a_server_that_wants_none_is_reported_at_once_and_as_such() {
    redlatch_tests::each_server(|server| {
        let words = "without any password configured";
        assert_refused(&format!("redis://:s3cret@{}/", server.addr()), &shown(server.port()), &[words]);
    });
}

#[test]
fn a_password_that_was_changed_is_reported_at_the_next_connection() {
    for kind in available() {
        let server = locked(Server::builder(kind)).start();
        let proxy = Proxy::in_front_of(&server);
        let client = client(&proxy.url(), LIMIT);
        connect(&client);
        server.query::<()>(&["CONFIG", "SET", "requirepass", "new-s3cret"]);
        proxy.cut_all();
        let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(5_000)));
        let error = result.unwrap_err();
        assert_took(took, ms(0)..NOISE);
        assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
        assert_no_secret(&error);
    }
}

#[test]
fn an_unknown_host_is_named_within_the_limit() {
    // Reserved: no resolver may know it (RFC 6761).
    let host = "redlatch.invalid";
    let url = format!("redis://app:s3cret@{host}:6390/2");
    let shown = "redis://redlatch.invalid:6390/2";
    let client = client(&url, LIMIT);
    let lock = client.lock_with("n", fixed(LONG)).unwrap();
    let (result, took) = timed(|| lock.try_acquire_for(ms(300)));
    assert_took(took, ms(300)..ms(300) + NOISE);
    let error = result.unwrap_err();
    assert_unavailable(&error, shown, &["acquire", "\"n\"", "host name", host]);
    assert_no_secret(&error);
    let (result, took) = timed(|| lock.try_acquire());
    assert_unavailable(&result.unwrap_err(), shown, &["host name"]);
    assert!(took < 2 * LIMIT + NOISE, "{took:?}");
    let (result, took) = timed(|| client.inspect("n"));
    assert_unavailable(&result.unwrap_err(), shown, &["inspect", "host name"]);
    assert!(took < LIMIT + NOISE, "{took:?}");
}

#[test]
fn a_host_name_that_is_none_is_named_within_the_limit() {
    // A label of more than 63 bytes: the resolver refuses it without asking anyone.
    let host = format!("{}.invalid", "x".repeat(70));
    let client = client(&format!("redis://{host}:6390/"), LIMIT);
    let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(100)));
    assert_took(took, ms(100)..ms(100) + NOISE);
    assert_unavailable(&result.unwrap_err(), &host, &["host name"]);
}

#[test]
fn a_wrong_port_is_named_within_the_limit() {
    let port = closed_port();
    let client = client(&format!("redis://app:s3cret@127.0.0.1:{port}/"), LIMIT);
    for wait in [ms(100), ms(300)] {
        let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(wait));
        assert_took(took, wait..wait + NOISE);
        let error = result.unwrap_err();
        assert_unavailable(&error, &shown(port), &["acquire", "\"n\"", "refused"]);
        assert_no_secret(&error);
    }
    let (result, took) = timed(|| client.inspect("n"));
    assert_unavailable(&result.unwrap_err(), &shown(port), &["inspect", "refused"]);
    assert!(took < NOISE, "{took:?}");
}

#[test]
fn a_server_of_another_protocol_is_named_within_the_limit() {
    use std::io::{Read, Write};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = client(&format!("redis://127.0.0.1:{port}/"), LIMIT);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(200)));
    assert_took(took, ms(200)..ms(200) + NOISE);
    assert_unavailable(&result.unwrap_err(), &shown(port), &["no Redis protocol"]);
}

#[test]
fn a_database_that_the_server_does_not_have_is_reported_at_once() {
    redlatch_tests::each_server(|server| {
        let client = Client::open(&server.url_db(99)).unwrap();
        let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(5_000)));
        let error = result.unwrap_err();
        assert_took(took, ms(0)..NOISE);
        assert!(!error.is_retryable(), "{error:?}");
        assert_text(&error, &format!("redis://127.0.0.1:{}/99", server.port()), &["DB index is out of range"]);
    });
}

#[test]
fn a_socket_that_does_not_exist_is_named() {
    let client = client("unix:///nonexistent/redis.sock?db=2&pass=s3cret", LIMIT);
    let (result, took) = timed(|| client.lock("n").unwrap().try_acquire_for(ms(100)));
    assert_took(took, ms(100)..ms(100) + NOISE);
    let error = result.unwrap_err();
    assert_unavailable(&error, "unix:///nonexistent/redis.sock?db=2", &["No such file"]);
    assert_no_secret(&error);
}
