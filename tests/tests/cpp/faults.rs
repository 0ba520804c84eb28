//! Exceptions that take a server which refuses, or does not answer.

use std::net::TcpListener;
use std::time::Duration;

use redlatch_tests::c::{Program, finish};
use redlatch_tests::{Server, any_server, each_server};

use crate::scenarios::shared;

const LIMIT: Duration = Duration::from_secs(20);

/// The program, and a server that `configure` sets up.
fn prepared(
    configure: impl FnOnce(redlatch_tests::ServerBuilder) -> redlatch_tests::ServerBuilder,
) -> Option<(&'static Program, Server)> {
    let program = shared()?;
    let kind = any_server()?;
    Some((program, configure(Server::builder(kind)).start()))
}

#[test]
fn a_wrong_password_is_an_authentication_error() {
    let Some((program, server)) = prepared(|builder| builder.password("right")) else { return };
    let wrong = format!("redis://:hunter2@{}/", server.addr());
    program.run(&["refused", &wrong, "authentication_error"]);
}

#[test]
fn denied_commands_are_a_permission_error() {
    let rules = "app on >hunter2 ~other:* &* +@all";
    let Some((program, server)) = prepared(|builder| builder.user(rules)) else { return };
    program.run(&["refused", &server.url_as("app", "hunter2"), "permission_error"]);
}

#[test]
fn foreign_data_under_the_key_is_a_key_type_error() {
    let Some((program, server)) = prepared(|builder| builder) else { return };
    let _: u64 = server.query(&["HSET", "lock:refused", "field", "value"]);
    program.run(&["refused", &server.url(), "key_type_error"]);
    assert_eq!(server.query::<String>(&["HGET", "lock:refused", "field"]), "value");
}

#[test]
fn a_server_without_scripts_is_an_incompatible_error() {
    let without = |builder: redlatch_tests::ServerBuilder| {
        ["EVAL", "EVALSHA", "SCRIPT"]
            .iter()
            .fold(builder, |builder, command| builder.config("rename-command", &format!("{command} \"\"")))
    };
    let Some((program, server)) = prepared(without) else { return };
    program.run(&["refused", &server.url(), "incompatible_error"]);
}

#[test]
fn a_port_without_a_server_is_an_unavailable_error() {
    let Some(program) = shared() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}/", listener.local_addr().expect("it has an address"));
    drop(listener);
    program.run(&["refused", &url, "unavailable_error"]);
}

#[test]
fn a_grant_without_its_replicas_is_a_not_replicated_error() {
    let Some((program, server)) = prepared(|builder| builder) else { return };
    program.run(&["refused", &server.url(), "not_replicated_error"]);
}

#[test]
fn an_outage_is_unavailable_or_unconfirmed_and_passes() {
    let Some(program) = shared() else { return };
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
