//! Half a command on the wire: the write times out because the peer reads nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use redlatch::{Lease, LockOptions, Released};
use redlatch_tests::{Server, assert_eventually};

use super::support::{client, key, ms, with_server};

/// Passes bytes on with buffers as small as the kernel makes them, and stops reading from clients on demand.
///
/// The proxy reads whatever comes, so a client never meets a full buffer there.
struct Relay {
    address: SocketAddr,
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    /// What each connection still brought after it had found the gate shut, before it ended.
    rests: Mutex<Vec<usize>>,
    stop: AtomicBool,
}

impl Gate {
    /// Waits while the gate is shut; whether it was.
    fn pass(&self) -> bool {
        let shut = self.shut.lock().unwrap();
        let waits = *shut;
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap());
        waits
    }

    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }
}

impl Relay {
    fn in_front_of(server: &Server) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Accepted sockets inherit it.
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let (address, target) = (listener.local_addr().unwrap(), server.addr());
        let gate = Arc::<Gate>::default();
        let shared = gate.clone();
        let thread = std::thread::spawn(move || {
            let mut copying = Vec::new();
            for client in listener.incoming() {
                if shared.stop.load(Ordering::Acquire) {
                    break;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
                let _ = server.set_nodelay(true);
                let _ = client.set_nodelay(true);
                let (back, forth) = ((server.try_clone().unwrap(), client.try_clone().unwrap()), shared.clone());
                copying.push(std::thread::spawn(move || copy(&client, &server, &forth)));
                copying.push(std::thread::spawn(move || copy(&back.0, &back.1, &Gate::default())));
            }
            copying.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Relay { address, gate, thread: Some(thread) }
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, gate: &Gate) {
    let mut buffer = [0; 2048];
    let mut rest = None;
    loop {
        if gate.pass() {
            rest = Some(0);
        }
        match from.read(&mut buffer) {
            Ok(count @ 1..) if to.write_all(&buffer[..count]).is_ok() => rest = rest.map(|rest| rest + count),
            _ => break,
        }
    }
    gate.rests.lock().unwrap().extend(rest);
    let _ = to.shutdown(Shutdown::Write);
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.gate.set(false);
        self.gate.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn half_a_renewal_on_the_wire_mixes_nothing_up() {
    with_server(|server| {
        let relay = Relay::in_front_of(server);
        let client = client(&format!("redis://{}/", relay.address), ms(500));
        // Requests of about 256 × 1,100 bytes, more than the buffers of a connection that nobody reads.
        let name = |n: usize| format!("{n:04}{}", "x".repeat(1020));
        let ttl = Duration::from_secs(3);
        let lease = |n| client.lease(&name(n), LockOptions::new().ttl(ttl)).unwrap();
        let leases: Vec<Lease> = (0..600).map(lease).collect();
        let before = client.stats();
        relay.gate.set(true);
        let failed = || client.stats().renewal_failed > before.renewal_failed;
        assert_eventually("a renewal has failed", ms(3_000), failed);
        relay.gate.set(false);
        let renewed = || client.stats().renewed >= before.renewed + 600;
        assert_eventually("every lease is renewed", ms(3_000), renewed);
        let half = || relay.gate.rests.lock().unwrap().iter().any(|rest| (1..256 * 1_000).contains(rest));
        assert_eventually("a connection ends with the beginning of a renewal", ms(2_000), half);
        for (n, lease) in leases.into_iter().enumerate() {
            lease.check().unwrap();
            assert_eq!(server.get(&key(&name(n))).as_deref(), Some(lease.token().as_str()));
            assert_eq!(lease.release().unwrap(), Released::Released);
        }
        assert!(server.keys("lock:*").is_empty());
        assert_eq!(client.stats().lost_total(), 0);
    });
}
