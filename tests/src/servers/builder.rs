//! How a server is set up.

use std::fmt::Write as _;
use std::path::Path;

use super::{ADMIN_PASSWORD, ADMIN_USER, Server, ServerKind};

/// Options of a [`Server`]; made by [`Server::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder starts nothing before `start`"]
pub struct ServerBuilder {
    pub(super) kind: ServerKind,
    pub(super) port: Option<u16>,
    pub(super) password: Option<String>,
    pub(super) unix_socket: bool,
    sentinel: bool,
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    lines: Vec<String>,
}

impl ServerBuilder {
    pub(super) fn new(kind: ServerKind) -> Self {
        Self {
            kind,
            port: None,
            password: None,
            unix_socket: false,
            sentinel: false,
            args: Vec::new(),
            variables: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Password of the default user. Defaults to none.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds an ACL user by its rule line without the word `user`, as `app on >secret ~* &* +@all -subscribe`.
    /// Rules for `default` are welcome too: the harness itself uses a user of its own. Defaults to no users.
    pub fn user(self, rules: &str) -> Self {
        self.config("user", rules)
    }

    /// Adds one line to the configuration file; a value of several words is several arguments, and an
    /// empty one becomes `""`. Fails at start when the server does not know the key. Defaults to
    /// no persistence, `bind 127.0.0.1`, no daemon.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        let value = if value.is_empty() { "\"\"" } else { value };
        self.lines.push(format!("{key} {value}"));
        self
    }

    /// Adds arguments after the configuration file on the command line. Defaults to none.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the server's environment. Defaults to that of the test process.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Port to listen on; start fails when it is taken. Defaults to a free port below 22,700.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Listens on a Unix socket as well, see [`Server::unix_url`]. Defaults to false.
    pub fn unix_socket(mut self, on: bool) -> Self {
        self.unix_socket = on;
        self
    }

    /// Makes the server a replica of `primary`. [`start`](Self::start) does not wait for the first
    /// synchronization, [`Server::wait_synced`] does. Defaults to a primary.
    pub fn replica_of(self, primary: &Server) -> Self {
        self.config("replicaof", &format!("127.0.0.1 {}", primary.port()))
            .config("masteruser", ADMIN_USER)
            .config("masterauth", ADMIN_PASSWORD)
    }

    /// Makes it a sentinel, which watches what [`config`](Self::config) lines with `sentinel` name. Defaults to a server.
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self.args(["--sentinel"])
    }

    /// Starts the server and waits, at most 10 s, until it answers PING.
    ///
    /// Panics with the server's log when it does not, and when the kind is not installed.
    pub fn start(self) -> Server {
        Server::launch(self)
    }

    pub(super) fn configuration(&self, port: u16, dir: &Path, socket: &Path) -> String {
        let mut text = format!(
            "port {port}\nbind 127.0.0.1\ndaemonize no\ndir {dir:?}\nlogfile {log:?}\n\
             user {ADMIN_USER} on >{ADMIN_PASSWORD} ~* &* +@all\n",
            log = dir.join("server.log"),
        );
        if !self.sentinel {
            text.push_str("save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\n");
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {password:?}");
        }
        if self.unix_socket {
            let _ = writeln!(text, "unixsocket {socket:?}\nunixsocketperm 700");
        }
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}
