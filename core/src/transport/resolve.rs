//! Name lookup with a limit: the system's own has none.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Fault;

/// The addresses of `host`, within `limit`.
///
/// A literal address needs no lookup. Otherwise the lookup runs on a thread of its own, which ends by itself
/// when the system's resolver gives up.
pub(crate) fn resolve(host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Fault> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (answer, answered) = mpsc::channel();
    let name = host.to_owned();
    let lookup = move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = answer.send(found);
    };
    let started = thread::Builder::new().name("redlatch-lookup".to_owned()).spawn(lookup);
    started.map_err(|error| Fault::unreachable(format!("cannot look up {host:?}: {error}")))?;
    match answered.recv_timeout(limit) {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(Ok(_)) => Err(Fault::unreachable(format!("the host name {host:?} has no address"))),
        Ok(Err(error)) => Err(Fault::unreachable(format!("cannot look up the host name {host:?}: {error}"))),
        Err(_) => Err(Fault::unreachable(format!("the lookup of the host name {host:?} took over {limit:?}"))),
    }
}
