//! Requests that are held back and let go in another order.

use std::time::Duration;

use super::connection::Connection;
use super::frame::words;
use super::{HeldRequest, Proxy};
use crate::eventually;

/// How long a released request may go unanswered.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

impl Proxy {
    /// Holds every request from now on, until they are released. A request is kept and delivered even
    /// when its client closes the connection, as bytes on a slow line are.
    pub fn hold_requests(&self) {
        self.hold_requests_with(b"");
    }

    /// As [`hold_requests`](Self::hold_requests), but a connection's requests pass until one contains
    /// `needle`: handshakes go through, and the client can send the request that the test is about.
    pub fn hold_requests_with(&self, needle: &[u8]) {
        let needle = needle.to_vec();
        self.control(move |engine| engine.hold = Some(needle));
    }

    /// The requests held now, by connection and in order of arrival.
    pub fn held_requests(&self) -> Vec<HeldRequest> {
        self.control(|engine| {
            let text = |word: &&[u8]| String::from_utf8_lossy(word).into_owned();
            let connections = engine.connections.iter();
            let held = connections.flat_map(|it| it.held.iter().map(|request| (it.index, request)));
            held.map(|(connection, request)| HeldRequest {
                connection,
                args: words(&request.bytes).iter().map(text).collect(),
            })
            .collect()
        })
    }

    /// Lets go what the connections with these numbers hold now, in this order: each connection's
    /// requests are answered before the next one's go out, so the server executes them in this order.
    ///
    /// Holding stays on for all other and all later requests; [`pass`](Self::pass) ends it. Panics when
    /// a connection holds nothing, and when the server does not answer within 5 s.
    #[track_caller]
    pub fn release_requests_in_order(&self, connections: &[usize]) {
        for &index in connections {
            let released = self.control(move |engine| {
                let position = engine.connections.iter().position(|it| it.index == index);
                let holding = position.filter(|&it| !engine.connections[it].held.is_empty());
                holding.map(|position| engine.forward_held(position)).is_some()
            });
            assert!(released, "connection {index} holds no request");
            let answered = eventually(RELEASE_LIMIT, || {
                self.control(move |engine| {
                    let connection = engine.connections.iter().find(|it| it.index == index);
                    connection.is_none_or(Connection::is_answered)
                })
            });
            assert!(answered, "the requests of connection {index} were not answered within {RELEASE_LIMIT:?}");
        }
    }
}
