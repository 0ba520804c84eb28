//! Free TCP ports.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// First port that is handed out.
const FIRST: u32 = 10_000;
/// Number of ports. Ports and their cluster bus ports (+ 10,000) lie below 32,768, where Linux begins
/// to take ports for outgoing connections: nobody takes the port of a server that is down for a moment,
/// and no client that dials it connects to itself.
const COUNT: u32 = 12_700;

static NEXT: AtomicU32 = AtomicU32::new(u32::MAX);

/// A port on 127.0.0.1 that is free now, as is the port 10,000 above it; different at each call.
///
/// Another process may take it before the caller binds: retry then.
pub(crate) fn free_port() -> u16 {
    // Test processes that run side by side begin at different places.
    let _ = NEXT.compare_exchange(u32::MAX, seed(), Ordering::Relaxed, Ordering::Relaxed);
    for _ in 0..COUNT {
        let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = u16::try_from(number).expect("the range ends below 65,536");
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + COUNT);
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn seed() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    std::process::id().wrapping_mul(2_654_435_761).wrapping_add(now.subsec_micros()) % COUNT
}
