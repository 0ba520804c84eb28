//! How a connection is opened and logs in.

use std::time::Duration;

use redis::{
    Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    Value, io::tcp::TcpSettings,
};

use crate::clock::{Clock, Moment};
use crate::signals::without_sigpipe;

use super::resolve::resolve;
use super::socket::within;
use super::{Endpoint, Fault, FaultKind};

/// What a server has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Anything,
    /// No replica, by its own word.
    Primary,
}

/// Opens a connection to `endpoint` and logs in, by `by`. Its timeouts are unset.
pub(crate) fn connect(endpoint: &Endpoint, expected: Expected, clock: &Clock, by: Moment) -> Result<Connection, Fault> {
    if endpoint.writes_raise_sigpipe() {
        without_sigpipe(|| open_any(endpoint, expected, clock, by))
    } else {
        open_any(endpoint, expected, clock, by)
    }
}

/// Tries the addresses of `endpoint` one after another.
fn open_any(endpoint: &Endpoint, expected: Expected, clock: &Clock, by: Moment) -> Result<Connection, Fault> {
    let left = || by.since(clock.now());
    // A host name behind TLS stays a name, which the certificate must match; it is looked up here all
    // the same, because the lookup inside the connect has no limit and an answer makes it quick.
    let mut shares = 1;
    let candidates: Vec<ConnectionAddr> = match &endpoint.address {
        ConnectionAddr::Tcp(host, port) => {
            let found = resolve(host, *port, left())?;
            found.into_iter().map(|address| ConnectionAddr::Tcp(address.ip().to_string(), address.port())).collect()
        }
        ConnectionAddr::TcpTls { host, port, .. } => {
            #[cfg(feature = "tls")]
            choose_cryptography();
            // Each of its addresses gets the time that is passed on.
            shares = u32::try_from(resolve(host, *port, left())?.len()).unwrap_or(u32::MAX);
            vec![endpoint.address.clone()]
        }
        other => vec![other.clone()],
    };
    let mut last = Fault::unreachable("no time left to connect");
    for address in candidates {
        let left = left();
        if left.is_zero() {
            break;
        }
        let is_socket = matches!(address, ConnectionAddr::Unix(_));
        let info = connection_info(address).map_err(Fault::connecting)?;
        let open = move || redis::Client::open(info)?.get_connection_with_timeout(left / shares);
        let opened = if is_socket { within(left, open) } else { open().map_err(Fault::connecting) };
        match opened.and_then(|connection| log_in(connection, endpoint, expected, clock, by)) {
            Ok(connection) => return Ok(connection),
            Err(fault) if !fault.is_retryable() => return Err(fault),
            Err(fault) => last = fault,
        }
    }
    Err(last)
}

/// A step of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Authenticate,
    ChooseDatabase,
    /// Whether it is a primary.
    AskRole,
    /// For `CLIENT LIST`; servers that do not know it, or forbid it, serve locks all the same.
    TellName,
}

/// Logs in by `by`, with one request.
///
/// Not left to `redis`, which waits its whole limit for each reply and drops the server's words and error codes.
fn log_in(
    mut connection: Connection,
    endpoint: &Endpoint,
    expected: Expected,
    clock: &Clock,
    by: Moment,
) -> Result<Connection, Fault> {
    let failed = |error| Fault::login(error, &endpoint.address);
    let limit = |connection: &Connection| {
        // Zero is no limit but an error.
        let left = by.since(clock.now()).max(Duration::from_micros(1));
        connection.set_read_timeout(Some(left)).and_then(|()| connection.set_write_timeout(Some(left)))
    };
    let steps = login_steps(&endpoint.login, expected);
    let request: Vec<u8> = steps.iter().flat_map(|(_, command)| command.get_packed_command()).collect();
    limit(&connection).and_then(|()| connection.send_packed_command(&request)).map_err(failed)?;
    for (step, _) in steps {
        let reply = limit(&connection).and_then(|()| connection.recv_response()).map_err(failed)?;
        step.accept(&reply, &endpoint.login)?;
    }
    Ok(connection)
}

impl Step {
    /// Whether the login goes on after this reply.
    pub(crate) fn accept(self, reply: &Value, login: &RedisConnectionInfo) -> Result<(), Fault> {
        let Value::ServerError(error) = reply else {
            return match self {
                Step::AskRole if !is_primary(reply) => Err(Fault::refusing("it answers that it is a replica")),
                _ => Ok(()),
            };
        };
        let fault = Fault::answered(error).without(login.password().unwrap_or_default());
        match (self, fault.kind) {
            (Step::TellName, FaultKind::Incompatible | FaultKind::Permission) => Ok(()),
            (Step::Authenticate, FaultKind::Incompatible) => Err(Fault { kind: FaultKind::Authentication, ..fault }),
            _ => Err(fault),
        }
    }
}

/// The reply to `ROLE`.
fn is_primary(reply: &Value) -> bool {
    let Value::Array(fields) = reply else { return false };
    matches!(fields.first(), Some(Value::BulkString(role)) if role == b"master")
}

fn login_steps(login: &RedisConnectionInfo, expected: Expected) -> Vec<(Step, Cmd)> {
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
    if expected == Expected::Primary {
        steps.push((Step::AskRole, redis::cmd("ROLE")));
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
