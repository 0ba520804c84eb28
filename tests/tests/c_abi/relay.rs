//! A relay that ends its connections as some proxies do: first their own half, and then with a reset.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Passes bytes on to a server until it [resets](Relay::reset).
pub(crate) struct Relay {
    address: SocketAddr,
    connections: Receiver<Connection>,
}

struct Connection {
    inward: TcpStream,
    outward: TcpStream,
    copying: [JoinHandle<()>; 2],
}

impl Relay {
    pub(crate) fn to(port: u16) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("it has an address");
        let (sender, connections) = channel();
        thread::spawn(move || accept(&listener, port, &sender));
        Relay { address, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection: a client that writes to one now gets a broken pipe. There will be no others.
    pub(crate) fn reset(self) {
        let Relay { address, connections } = self;
        let open: Vec<Connection> = connections.try_iter().collect();
        drop(connections);
        // Ends the listener.
        drop(TcpStream::connect(address));
        for Connection { inward, outward, copying } in open {
            inward.shutdown(Shutdown::Write).expect("it is open");
            for ended in [inward.shutdown(Shutdown::Read), outward.shutdown(Shutdown::Both)] {
                ended.expect("it is open");
            }
            for thread in copying {
                thread.join().expect("no panic");
            }
            // Closed so, it sends a reset.
            set_socket_linger(&inward, Some(Duration::ZERO)).expect("it is a socket");
        }
    }
}

fn accept(listener: &TcpListener, port: u16, connections: &Sender<Connection>) {
    for inward in listener.incoming().flatten() {
        let Ok(outward) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
        let twin = |stream: &TcpStream| stream.try_clone().expect("a descriptor is left");
        let copying = [(twin(&inward), twin(&outward)), (twin(&outward), twin(&inward))];
        let copying = copying.map(|(mut from, mut to)| thread::spawn(move || drop(io::copy(&mut from, &mut to))));
        if connections.send(Connection { inward, outward, copying }).is_err() {
            return;
        }
    }
}
