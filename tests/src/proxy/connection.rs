//! One client's connection through the proxy.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::ReplyFault;
use super::frame::Framer;

/// The kernel accepts for a server that is stopped until its backlog is full; the proxy must not hang then.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Bytes on their way to a socket, each part not before its time.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    parts: VecDeque<(Instant, Vec<u8>)>,
    /// The socket took no more: wait until it is writable.
    blocked: bool,
}

impl Outbox {
    pub(super) fn push(&mut self, due: Instant, bytes: Vec<u8>) {
        match self.parts.back_mut() {
            // Frames that arrived together leave together.
            Some((last, part)) if *last == due => part.extend_from_slice(&bytes),
            _ if bytes.is_empty() => {}
            _ => self.parts.push_back((due, bytes)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// When to write next, unless the socket is the one to say so.
    pub(super) fn due(&self) -> Option<Instant> {
        self.parts.front().filter(|_| !self.blocked).map(|(due, _)| *due)
    }

    /// Makes everything due now.
    pub(super) fn hurry(&mut self, now: Instant) {
        for (due, _) in &mut self.parts {
            *due = now.min(*due);
        }
    }

    /// Writes what is due and returns the number of bytes; an error drops the rest.
    fn flush(&mut self, mut socket: &TcpStream, now: Instant) -> Result<u64, ()> {
        let mut written = 0;
        self.blocked = false;
        while let Some((due, bytes)) = self.parts.front_mut() {
            if *due > now {
                break;
            }
            match socket.write(bytes) {
                Ok(count) => {
                    written += count as u64;
                    bytes.drain(..count);
                    if bytes.is_empty() {
                        self.parts.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.parts.clear();
                    return Err(());
                }
            }
        }
        Ok(written)
    }
}

/// A request with the fault that its reply will meet.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) fault: Option<ReplyFault>,
}

/// State of one connection.
///
/// | client | upstream | what happens |
/// |---|---|---|
/// | open | open | traffic passes |
/// | done | open | requests that arrived still go out, then the upstream's write side is shut; replies still go to a client that shut only its own write side |
/// | open | done | replies that arrived still go out, then the client is closed |
/// | done | done | the connection is removed |
///
/// A black hole hides the end of either side from the other.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) index: usize,
    pub(super) client: TcpStream,
    pub(super) upstream: Option<TcpStream>,
    pub(super) from_client: Framer,
    pub(super) from_upstream: Framer,
    pub(super) to_client: Outbox,
    pub(super) to_upstream: Outbox,
    pub(super) held: VecDeque<Request>,
    /// Faults of the replies that are still to come, one entry for each.
    pub(super) unanswered: VecDeque<Option<ReplyFault>>,
    pub(super) client_done: bool,
    pub(super) upstream_done: bool,
    /// Close the client as soon as its outbox is empty, and read nothing more from the upstream.
    pub(super) closing: bool,
    upstream_shut: bool,
    /// Both sockets are to be closed now.
    cut: bool,
}

impl Connection {
    pub(super) fn new(index: usize, client: TcpStream) -> Self {
        let _ = client.set_nodelay(true);
        let _ = client.set_nonblocking(true);
        Self {
            index,
            client,
            upstream: None,
            from_client: Framer::default(),
            from_upstream: Framer::default(),
            to_client: Outbox::default(),
            to_upstream: Outbox::default(),
            held: VecDeque::new(),
            unanswered: VecDeque::new(),
            client_done: false,
            upstream_done: false,
            closing: false,
            upstream_shut: false,
            cut: false,
        }
    }

    /// Connects to the server unless that was done; a refusal ends the upstream side.
    pub(super) fn connect(&mut self, target: SocketAddr) {
        if self.upstream.is_none() && !self.upstream_done {
            match TcpStream::connect_timeout(&target, CONNECT_LIMIT) {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    let _ = stream.set_nonblocking(true);
                    self.upstream = Some(stream);
                }
                Err(_) => self.upstream_done = true,
            }
        }
    }

    /// Closes both sides at once; with `reset` the client meets ECONNRESET, else end of file.
    pub(super) fn cut(&mut self, reset: bool) {
        if reset {
            let _ = rustix::net::sockopt::set_socket_linger(&self.client, Some(Duration::ZERO));
        } else {
            let _ = self.client.shutdown(Shutdown::Both);
        }
        if let Some(upstream) = &self.upstream {
            let _ = upstream.shutdown(Shutdown::Both);
        }
        self.cut = true;
        self.client_done = true;
        self.upstream_done = true;
        self.held.clear();
        self.to_client = Outbox::default();
        self.to_upstream = Outbox::default();
    }

    /// Reads what the client has sent.
    pub(super) fn read_client(&mut self) {
        if !self.client_done {
            self.client_done = drain(&self.client, &mut self.from_client);
        }
    }

    /// Reads what the server has sent.
    pub(super) fn read_upstream(&mut self) {
        if let Some(upstream) = self.upstream.as_ref().filter(|_| !self.upstream_done) {
            self.upstream_done = drain(upstream, &mut self.from_upstream);
        }
    }

    /// Writes what is due and passes on the end of a side; returns bytes to the server and to the client.
    pub(super) fn advance(&mut self, now: Instant, black_hole: bool) -> (u64, u64) {
        let mut counts = (0, 0);
        if let Some(upstream) = &self.upstream {
            match self.to_upstream.flush(upstream, now) {
                Ok(written) => counts.0 = written,
                Err(()) => self.upstream_done = true,
            }
        }
        match self.to_client.flush(&self.client, now) {
            Ok(written) => counts.1 = written,
            Err(()) => self.client_done = true,
        }
        if black_hole {
            return counts;
        }
        if self.client_done && self.held.is_empty() && self.to_upstream.is_empty() && !self.upstream_shut {
            self.upstream_shut = true;
            match &self.upstream {
                Some(upstream) if !self.upstream_done => {
                    let _ = upstream.shutdown(Shutdown::Write);
                }
                _ => self.upstream_done = true,
            }
        }
        if (self.upstream_done || self.closing) && !self.client_done && self.to_client.is_empty() {
            self.cut(false);
        }
        counts
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self, black_hole: bool) -> bool {
        let over = self.client_done && self.upstream_done && self.to_client.is_empty();
        self.cut || (over && !black_hole)
    }

    /// Whether everything sent to the server so far has been answered, or never will be.
    pub(super) fn is_answered(&self) -> bool {
        self.upstream_done || (self.to_upstream.is_empty() && self.unanswered.is_empty())
    }
}

/// Reads everything there is; whether the stream has ended.
fn drain(mut socket: &TcpStream, framer: &mut Framer) -> bool {
    let mut buffer = [0; 16 * 1024];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return true,
            Ok(count) => framer.push(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}
