//! Statuses that take a server which refuses, or does not answer.

use std::net::TcpListener;
use std::time::Duration;

use redlatch_tests::c::{Program, finish};
use redlatch_tests::{Certificates, Server, any_server, each_server, each_server_with, tls_server};

use crate::SCENARIOS;
use crate::relay::Relay;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_wrong_password_is_an_authentication_error() {
    let program = Program::new(&SCENARIOS);
    each_server_with(
        |builder| builder.password("right"),
        |server| {
            let wrong = format!("redis://:hunter2@{}/", server.addr());
            program.run(&["refused", &wrong, "REDLATCH_AUTHENTICATION"]);
        },
    );
}

#[test]
fn a_server_that_cannot_be_asked_is_a_status_of_the_check() {
    let Some(kind) = any_server() else { return };
    let program = Program::new(&SCENARIOS);
    let server = Server::builder(kind).password("right").user("app on >hunter2 ~* &* +@all -select").start();
    let unchecked = |url: &str, status: &str| drop(program.run(&["unchecked", url, status]));
    unchecked(&format!("redis://:hunter2@{}/", server.addr()), "REDLATCH_AUTHENTICATION");
    unchecked(&format!("redis://:right@{}/99", server.addr()), "REDLATCH_INCOMPATIBLE");
    unchecked(&format!("{}1", server.url_as("app", "hunter2")), "REDLATCH_PERMISSION");
    let address = server.addr();
    drop(server);
    unchecked(&format!("redis://:hunter2@{address}/"), "REDLATCH_UNAVAILABLE");
}

#[test]
fn denied_commands_are_a_permission_error() {
    let program = Program::new(&SCENARIOS);
    each_server_with(
        |builder| builder.user("app on >hunter2 ~other:* &* +@all"),
        |server| {
            program.run(&["refused", &server.url_as("app", "hunter2"), "REDLATCH_PERMISSION"]);
        },
    );
}

#[test]
fn foreign_data_under_the_key_is_a_key_type_error() {
    let program = Program::new(&SCENARIOS);
    each_server(|server| {
        let _: u64 = server.query(&["HSET", "lock:refused", "field", "value"]);
        program.run(&["refused", &server.url(), "REDLATCH_KEY_TYPE"]);
        assert_eq!(server.query::<String>(&["HGET", "lock:refused", "field"]), "value");
    });
}

#[test]
fn a_server_without_scripts_is_incompatible() {
    let Some(kind) = any_server() else { return };
    let mut builder = Server::builder(kind);
    for command in ["EVAL", "EVALSHA", "SCRIPT"] {
        builder = builder.config("rename-command", &format!("{command} \"\""));
    }
    let server = builder.start();
    Program::new(&SCENARIOS).run(&["refused", &server.url(), "REDLATCH_INCOMPATIBLE"]);
}

#[test]
fn a_port_without_a_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://:hunter2@{}/", listener.local_addr().expect("it has an address"));
    drop(listener);
    Program::new(&SCENARIOS).run(&["refused", &url, "REDLATCH_UNAVAILABLE"]);
}

#[test]
fn a_grant_without_its_replicas_is_not_replicated() {
    let Some(kind) = any_server() else { return };
    let server = Server::start(kind);
    Program::new(&SCENARIOS).run(&["refused", &server.url(), "REDLATCH_NOT_REPLICATED", "1"]);
    assert!(!server.query::<bool>(&["EXISTS", "lock:refused"]), "what was given up is released");
}

#[test]
fn an_outage_is_unavailable_or_unconfirmed_and_passes() {
    let program = Program::new(&SCENARIOS);
    each_server(|server| {
        let args = ["outage", &server.url()];
        let mut process = program.start(&args);
        process.expect("held", LIMIT);
        server.pause();
        process.send("go on");
        process.expect("stopped", LIMIT);
        server.resume();
        process.send("go on");
        finish(process, &args);
    });
}

#[test]
fn a_program_was_ended_by_sigpipe_when_its_tls_connection_was_reset() {
    let Some(certificates) = Certificates::make() else { return };
    let Some((_server, port)) = tls_server(&certificates) else { return };
    let relay = Relay::to(port);
    let url = format!("rediss://app:s3cret@{}/", relay.address());
    let authority = certificates.path("ca.crt");
    let args = ["cut_off", &url, authority.to_str().expect("a path of text")];
    let program = Program::new(&SCENARIOS);
    let mut process = program.start(&args);
    process.expect("held", LIMIT);
    relay.reset();
    process.send("go on");
    finish(process, &args);
}
