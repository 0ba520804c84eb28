//! A place for one connection, opened on the caller's thread and dropped after any failure.

use std::time::Duration;

use redis::{
    Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    Value, io::tcp::TcpSettings,
};

use crate::clock::{Clock, Moment};

use super::resolve::resolve;
use super::{Answered, Endpoint, Exchange, Fault, FaultKind, Limits};

/// What a slot needs to open its connection.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) endpoint: Endpoint,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

/// A connection, or none yet. A taint empties it: after a failure nobody knows what is still on its wire.
pub(crate) struct Slot {
    connection: Option<Connection>,
    /// The socket's read and write timeouts as last set.
    timeout: Duration,
}

/// What is sent over a connection, and how.
struct Request<'a> {
    bytes: &'a [u8],
    /// How many replies come, of which the last one counts.
    replies: usize,
    by: Moment,
    /// The longest time for each.
    most: Duration,
    /// The connection has been used before.
    reused: bool,
}

impl Slot {
    pub(crate) fn empty() -> Slot {
        Slot { connection: None, timeout: Duration::ZERO }
    }

    /// Sends `request` and reads `replies` replies, of which the last one counts, by `by`.
    pub(crate) fn exchange(&mut self, open: &Opener, request: &[u8], replies: usize, by: Moment) -> Exchange<Value> {
        let reused = self.connection.is_some();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.timeout = Duration::ZERO;
                let by = by.min(open.clock.now().after(open.limits.connect));
                open.connect(by)?
            }
        };
        self.converse(connection, open, Request { bytes: request, replies, by, most: open.limits.io, reused })
    }

    /// As [`exchange`](Slot::exchange), only over the connection that answered last, and for longer than the limit of
    /// a request if `by` says so: for a server that is asked to wait.
    pub(crate) fn follow_up(&mut self, open: &Opener, request: &[u8], by: Moment) -> Exchange<Value> {
        let Some(connection) = self.connection.take() else {
            return Err(Fault::unreachable("the connection is gone"));
        };
        self.converse(connection, open, Request { bytes: request, replies: 1, by, most: Duration::MAX, reused: true })
    }

    fn converse(&mut self, mut connection: Connection, open: &Opener, request: Request<'_>) -> Exchange<Value> {
        let Request { bytes: request, replies, by, most, reused } = request;
        let sent = open.clock.now();
        let left = by.since(sent).min(most);
        if left.is_zero() {
            self.connection = Some(connection);
            return Err(Fault::unreachable("no time left to send the request"));
        }
        // An error here leaves the slot empty: that is the taint.
        self.set_timeout(&connection, left, open.limits.io).map_err(|error| Fault::broken(error, reused))?;
        connection.send_packed_command(request).map_err(|error| Fault::broken(error, reused))?;
        let mut reply = Value::Nil;
        let mut refused = None;
        for more in (0..replies).rev() {
            reply = connection.recv_response().map_err(|error| Fault::broken(error, reused))?;
            if more > 0 {
                if let Value::ServerError(error) = &reply {
                    refused.get_or_insert(error.clone());
                }
                let left = by.since(open.clock.now()).min(most).max(Duration::from_millis(1));
                self.set_timeout(&connection, left, open.limits.io).map_err(|error| Fault::broken(error, reused))?;
            }
        }
        let Value::ServerError(error) = reply else {
            self.connection = Some(connection);
            return Ok(Answered { reply, sent });
        };
        // The first error of a transaction says why it was aborted.
        let fault = Fault::answered(refused.as_ref().unwrap_or(&error));
        // A server that refuses for now may be the wrong one behind a name that has moved: connect anew.
        if fault.kind != FaultKind::Refusing {
            self.connection = Some(connection);
        }
        Err(fault)
    }

    /// Empties the slot.
    pub(crate) fn taint(&mut self) {
        self.connection = None;
    }

    /// The socket's timeouts become `left`; two system calls, saved while both old and new are the full `io` limit.
    fn set_timeout(&mut self, connection: &Connection, left: Duration, io: Duration) -> Result<(), RedisError> {
        if left == io && self.timeout == io {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        connection.set_write_timeout(Some(left))?;
        self.timeout = left;
        Ok(())
    }
}

impl Opener {
    /// Opens a connection and logs in, by `by`. Its timeouts are unset.
    pub(crate) fn connect(&self, by: Moment) -> Result<Connection, Fault> {
        let left = || by.since(self.clock.now());
        // A host name behind TLS stays a name, which the certificate must match; it is looked up here all
        // the same, because the lookup inside the connect has no limit and an answer makes it quick.
        let mut shares = 1;
        let candidates: Vec<ConnectionAddr> = match &self.endpoint.address {
            ConnectionAddr::Tcp(host, port) => {
                let found = resolve(host, *port, left())?;
                found.into_iter().map(|address| ConnectionAddr::Tcp(address.ip().to_string(), address.port())).collect()
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                #[cfg(feature = "tls")]
                choose_cryptography();
                // Each of its addresses gets the time that is passed on.
                shares = u32::try_from(resolve(host, *port, left())?.len()).unwrap_or(u32::MAX);
                vec![self.endpoint.address.clone()]
            }
            other => vec![other.clone()],
        };
        let mut last = Fault::unreachable("no time left to connect");
        for address in candidates {
            let left = left();
            if left.is_zero() {
                break;
            }
            let info = connection_info(address).map_err(Fault::connecting)?;
            let opened = redis::Client::open(info).and_then(|client| client.get_connection_with_timeout(left / shares));
            match opened.map_err(Fault::connecting).and_then(|connection| log_in(connection, self, by)) {
                Ok(connection) => return Ok(connection),
                Err(fault) if !fault.is_retryable() => return Err(fault),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }
}

/// A step of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Authenticate,
    ChooseDatabase,
    /// For `CLIENT LIST`; servers that do not know it, or forbid it, serve locks all the same.
    TellName,
}

/// Logs in by `by`, with one request.
///
/// Not left to `redis`, which waits its whole limit for each reply and drops the server's words and error codes.
fn log_in(mut connection: Connection, open: &Opener, by: Moment) -> Result<Connection, Fault> {
    let failed = |error| Fault::login(error, &open.endpoint.address);
    let limit = |connection: &Connection| {
        // Zero is no limit but an error.
        let left = by.since(open.clock.now()).max(Duration::from_micros(1));
        connection.set_read_timeout(Some(left)).and_then(|()| connection.set_write_timeout(Some(left)))
    };
    let steps = login_steps(&open.endpoint.login);
    let request: Vec<u8> = steps.iter().flat_map(|(_, command)| command.get_packed_command()).collect();
    limit(&connection).and_then(|()| connection.send_packed_command(&request)).map_err(failed)?;
    for (step, _) in steps {
        let reply = limit(&connection).and_then(|()| connection.recv_response()).map_err(failed)?;
        let Value::ServerError(error) = reply else { continue };
        let fault = Fault::answered(&error);
        match (step, fault.kind) {
            (Step::TellName, FaultKind::Incompatible | FaultKind::Permission) => {}
            (Step::Authenticate, FaultKind::Incompatible) => {
                return Err(Fault { kind: FaultKind::Authentication, ..fault });
            }
            _ => return Err(fault),
        }
    }
    Ok(connection)
}

fn login_steps(login: &RedisConnectionInfo) -> Vec<(Step, Cmd)> {
    let mut steps = Vec::new();
    if let Some(password) = login.password() {
        let mut command = redis::cmd("AUTH");
        command.arg(login.username()).arg(password);
        steps.push((Step::Authenticate, command));
    }
    if login.db() != 0 {
        let mut command = redis::cmd("SELECT");
        command.arg(login.db());
        steps.push((Step::ChooseDatabase, command));
    }
    for (what, word) in [("LIB-NAME", login.lib_name()), ("LIB-VER", login.lib_ver())] {
        let mut command = redis::cmd("CLIENT");
        command.arg("SETINFO").arg(what).arg(word.unwrap_or_default());
        steps.push((Step::TellName, command));
    }
    steps
}

/// Names a provider of cryptography for the process, unless the program has: without one, TLS panics.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Fails when another thread was quicker, which is as good.
        let _ = ring::default_provider().install_default();
    }
}

/// How to open the socket, and nothing more: without login there is nothing to send.
fn connection_info(address: ConnectionAddr) -> Result<ConnectionInfo, RedisError> {
    if !address.is_supported() {
        return Err((ErrorKind::InvalidClientConfig, "this kind of address is not supported here").into());
    }
    let info = address.into_connection_info()?;
    let tcp = TcpSettings::default().set_nodelay(true);
    let login = RedisConnectionInfo::default().set_skip_set_lib_name();
    Ok(info.set_tcp_settings(tcp).set_redis_settings(login))
}
