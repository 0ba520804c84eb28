//! The proxy's one thread: waits for sockets and controls, and applies the faults.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{Connection, Request};
use super::frame::{is_push, reply_count};
use super::{ReplyFault, Traffic};

/// A control: run on the engine's thread between two rounds.
pub(super) type Control = Box<dyn FnOnce(&mut Engine) + Send>;

/// What happens to traffic that no other fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    BlackHole,
    SwallowReplies,
}

/// A fault that waits for its reply; an empty needle fits every one.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) needle: Vec<u8>,
    pub(super) fault: ReplyFault,
}

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) port: u16,
    pub(super) target: SocketAddr,
    pub(super) listener: Option<TcpListener>,
    pub(super) mode: Mode,
    pub(super) request_delay: Duration,
    pub(super) reply_delay: Duration,
    /// Requests that contain these bytes are held, with all that follow on their connection.
    pub(super) hold: Option<Vec<u8>>,
    pub(super) armed: Vec<Armed>,
    pub(super) connections: Vec<Connection>,
    pub(super) traffic: Traffic,
    pub(super) stop: bool,
}

impl Engine {
    pub(super) fn new(listener: TcpListener, port: u16, target: SocketAddr) -> Self {
        Self {
            port,
            target,
            listener: Some(listener),
            mode: Mode::Pass,
            request_delay: Duration::ZERO,
            reply_delay: Duration::ZERO,
            hold: None,
            armed: Vec::new(),
            connections: Vec::new(),
            traffic: Traffic::default(),
            stop: false,
        }
    }

    pub(super) fn run(mut self, controls: &Receiver<Control>, mut wake: UnixStream) {
        while !self.stop {
            self.wait(&wake);
            let _ = wake.read(&mut [0; 64]);
            for control in controls.try_iter() {
                control(&mut self);
            }
            self.accept();
            let now = Instant::now();
            for index in 0..self.connections.len() {
                self.serve(index, now);
            }
            let black_hole = self.mode == Mode::BlackHole;
            self.connections.retain(|connection| !connection.is_over(black_hole));
        }
        for connection in &mut self.connections {
            connection.cut(false);
        }
    }

    /// Waits until a socket, a control or a delay is due.
    fn wait(&self, wake: &UnixStream) {
        let mut sockets = vec![PollFd::new(wake, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            sockets.push(PollFd::new(listener, PollFlags::IN));
        }
        let interest = |open: bool, blocked: bool| {
            let input = if open { PollFlags::IN } else { PollFlags::empty() };
            if blocked { input | PollFlags::OUT } else { input }
        };
        let mut due: Option<Instant> = None;
        for connection in &self.connections {
            let flags = interest(!connection.client_done, connection.to_client.is_blocked());
            if !flags.is_empty() {
                sockets.push(PollFd::new(&connection.client, flags));
            }
            if let Some(upstream) = &connection.upstream {
                let flags = interest(!connection.upstream_done, connection.to_upstream.is_blocked());
                if !flags.is_empty() {
                    sockets.push(PollFd::new(upstream, flags));
                }
            }
            let dues = [connection.to_client.due(), connection.to_upstream.due()];
            due = dues.into_iter().chain([due]).flatten().min();
        }
        let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        // An interrupted wait is only a round without work.
        let _ = poll(&mut sockets, timeout.as_ref());
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((client, _)) => {
                    let mut connection = Connection::new(self.traffic.accepted, client);
                    self.traffic.accepted += 1;
                    if self.mode != Mode::BlackHole {
                        connection.connect(self.target);
                    }
                    self.connections.push(connection);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }

    fn serve(&mut self, index: usize, now: Instant) {
        self.connections[index].read_client();
        while let Some(bytes) = self.connections[index].from_client.next() {
            self.request(index, bytes, now);
        }
        self.connections[index].read_upstream();
        while let Some(bytes) = self.connections[index].from_upstream.next() {
            self.reply(index, bytes, now);
        }
        let connection = &mut self.connections[index];
        if connection.upstream_done {
            // The server ended in the middle of a reply.
            let rest = connection.from_upstream.rest();
            if self.mode == Mode::Pass && !connection.closing {
                connection.to_client.push(now + self.reply_delay, rest);
            }
        }
        let (to_server, to_client) = connection.advance(now, self.mode == Mode::BlackHole);
        self.traffic.to_server += to_server;
        self.traffic.to_client += to_client;
    }

    fn request(&mut self, index: usize, bytes: Vec<u8>, now: Instant) {
        if self.mode == Mode::BlackHole {
            return;
        }
        let named = |armed: &Armed| !armed.needle.is_empty() && contains(&bytes, &armed.needle);
        let position = self.armed.iter().position(named);
        let fault = position.map(|position| self.armed.remove(position).fault);
        let connection = &mut self.connections[index];
        let hold = self.hold.as_ref().is_some_and(|needle| !connection.held.is_empty() || contains(&bytes, needle));
        let request = Request { bytes, fault };
        if hold {
            connection.held.push_back(request);
        } else {
            self.forward(index, request, now);
        }
    }

    pub(super) fn forward(&mut self, index: usize, mut request: Request, now: Instant) {
        let connection = &mut self.connections[index];
        connection.connect(self.target);
        for _ in 0..reply_count(&request.bytes) {
            connection.unanswered.push_back(request.fault.take());
        }
        connection.to_upstream.push(now + self.request_delay, request.bytes);
    }

    /// Lets go what a connection holds.
    pub(super) fn forward_held(&mut self, index: usize) {
        let now = Instant::now();
        while let Some(request) = self.connections[index].held.pop_front() {
            self.forward(index, request, now);
        }
    }

    fn reply(&mut self, index: usize, bytes: Vec<u8>, now: Instant) {
        let due = now + self.reply_delay;
        let push = is_push(&bytes);
        let connection = &mut self.connections[index];
        let named = if push { None } else { connection.unanswered.pop_front().flatten() };
        if connection.closing || self.mode != Mode::Pass {
            return;
        }
        let next = self.armed.iter().position(|armed| armed.needle.is_empty()).filter(|_| !push);
        let fault = named.or_else(|| Some(self.armed.remove(next?).fault));
        if fault.is_some() {
            self.traffic.faults_met += 1;
        }
        match fault {
            None => connection.to_client.push(due, bytes),
            Some(ReplyFault::Swallow) => {}
            Some(ReplyFault::CutAfter(count)) => {
                let count = count.min(bytes.len());
                connection.to_client.push(due, bytes[..count].to_vec());
                connection.closing = true;
            }
            Some(ReplyFault::Replace(other)) => connection.to_client.push(due, other),
        }
    }

    /// Listens again on the proxy's port.
    pub(super) fn listen(&mut self) -> std::io::Result<()> {
        if self.listener.is_none() {
            self.listener = Some(listen_on(self.port)?);
        }
        Ok(())
    }
}

pub(super) fn listen_on(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || bytes.windows(needle.len()).any(|window| window == needle)
}
