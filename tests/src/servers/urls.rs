//! How clients reach a server.

use std::net::{Ipv4Addr, SocketAddr};

use super::Server;

impl Server {
    /// Address to connect to.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    /// URL of the default user, with the password if there is one.
    pub fn url(&self) -> String {
        format!("redis://{}{}/", self.credentials(), self.addr())
    }

    /// As [`url`](Self::url), for database `number`.
    pub fn url_db(&self, number: u32) -> String {
        format!("{}{number}", self.url())
    }

    /// URL for a user made with [`ServerBuilder::user`](super::ServerBuilder::user).
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{}:{}@{}/", percent_encoded(user), percent_encoded(password), self.addr())
    }

    /// URL of the Unix socket; panics when the server has none.
    pub fn unix_url(&self) -> String {
        assert!(self.options.unix_socket, "the server was started without a Unix socket");
        let password = self.options.password.as_deref().map(|it| format!("?pass={}", percent_encoded(it)));
        format!("redis+unix://{}{}", self.socket().display(), password.unwrap_or_default())
    }

    /// `:password@` or nothing.
    pub(crate) fn credentials(&self) -> String {
        self.options.password.as_deref().map(|it| format!(":{}@", percent_encoded(it))).unwrap_or_default()
    }
}

/// Percent-encoding of what must not stand in the user part of a URL, and of some more.
pub fn percent_encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
