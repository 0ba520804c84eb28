//! Name lookup with a limit: the system's own has none.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::Fault;

type Found = Result<Vec<SocketAddr>, String>;

/// Lookups that run, and who waits for each: a resolver that hangs gets one thread a name, not one a try.
static RUNNING: LazyLock<Mutex<HashMap<Name, Vec<mpsc::Sender<Found>>>>> = LazyLock::new(Mutex::default);

/// Host, port, and the process: a forked child does not wait for its parent's lookups.
type Name = (String, u16, u32);

/// The addresses of `host`, within `limit`.
///
/// A literal address needs no lookup. Otherwise the lookup runs on a thread of its own, which ends by itself
/// when the system's resolver gives up.
pub(crate) fn resolve(host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Fault> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (answer, answered) = mpsc::channel();
    let name = (host.to_owned(), port, std::process::id());
    let first = {
        let mut running = RUNNING.lock();
        let waiting = running.entry(name.clone()).or_default();
        waiting.push(answer);
        waiting.len() == 1
    };
    if first {
        let looked_up = name.clone();
        let started = thread::Builder::new().name("redlatch-lookup".to_owned()).spawn(move || look_up(&looked_up));
        if let Err(error) = started {
            RUNNING.lock().remove(&name);
            return Err(Fault::unreachable(format!("cannot look up {host:?}: {error}")));
        }
    }
    match answered.recv_timeout(limit) {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(Ok(_)) => Err(Fault::unreachable(format!("the host name {host:?} has no address"))),
        Ok(Err(error)) => Err(Fault::unreachable(format!("cannot look up the host name {host:?}: {error}"))),
        Err(_) => Err(Fault::unreachable(format!("the lookup of the host name {host:?} took over {limit:?}"))),
    }
}

fn look_up(name: &Name) {
    let found = (name.0.as_str(), name.1).to_socket_addrs();
    let found = found.map(Iterator::collect::<Vec<_>>).map_err(|error| error.to_string());
    let waiting = RUNNING.lock().remove(name).unwrap_or_default();
    for answer in waiting {
        // Whoever has given up does not listen any more.
        let _ = answer.send(found.clone());
    }
}
