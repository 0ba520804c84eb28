//! Running one test body against every installed server.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Server, ServerBuilder, ServerKind, available};

/// Runs `body` against a fresh server of each installed kind, one after another.
///
/// A panic of the body is passed on with the kind's name in front of its message.
pub fn each_server(body: impl Fn(&Server)) {
    each_server_with(|builder| builder, body);
}

/// As [`each_server`], with servers set up by `configure`.
pub fn each_server_with(configure: impl Fn(ServerBuilder) -> ServerBuilder, body: impl Fn(&Server)) {
    for kind in available() {
        named(kind, || body(&configure(Server::builder(kind)).start()));
    }
}

/// The first installed kind, for tests in which the kind makes no difference.
///
/// `None` when no server is installed: [`available`] has said so, and the test returns.
pub fn any_server() -> Option<ServerKind> {
    available().first().copied()
}

fn named(kind: ServerKind, run: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else {
        return;
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    match text.or_else(|| payload.downcast_ref::<&str>().copied()) {
        Some(text) => panic!("on {kind}: {text}"),
        None => resume_unwind(payload),
    }
}
