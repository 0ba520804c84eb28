//! A TCP proxy that does to traffic what networks do: lose, delay, cut, damage and reorder it.

mod connection;
mod engine;
mod frame;
mod holding;
mod report;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Server;
use crate::launch::harness_thread;
use crate::ports::free_port;
use engine::{Armed, Control, Engine, Mode};

pub use report::{ConnectionState, HeldRequest, ReplyFault, Traffic};

/// A proxy on 127.0.0.1 with faults that are switched on and off while it runs.
///
/// A control is in force when its call returns. Faults concern whole requests and replies, so traffic
/// that is let through after a fault is sound; bytes that are no Redis protocol (TLS) pass in chunks.
/// Messages of pub/sub are no replies: one-shot faults leave them alone, delays and black holes do not.
/// `CLIENT REPLY`, `MONITOR` and `RESET` would spoil the pairing of requests with replies.
///
/// Clones are handles of the same proxy. Dropping the last one closes every connection. A forked child of
/// the test process may connect through the proxy but must not call its controls, which wait for a thread
/// that only the parent has; while the child lives, it keeps its copies of the sockets open.
#[derive(Debug, Clone)]
pub struct Proxy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    port: u16,
    credentials: String,
    controls: Mutex<Sender<Control>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
    owner: u32,
}

impl Proxy {
    /// Starts a proxy in front of `target`, on a free port.
    pub fn start(target: SocketAddr) -> Self {
        Self::with_credentials(target, String::new())
    }

    /// Starts a proxy in front of a server; its URL has the server's password.
    pub fn in_front_of(server: &Server) -> Self {
        Self::with_credentials(server.addr(), server.credentials())
    }

    fn with_credentials(target: SocketAddr, credentials: String) -> Self {
        let (listener, port) = (0..20)
            .find_map(|_| {
                let port = free_port();
                Some((engine::listen_on(port).ok()?, port))
            })
            .expect("a free port can be bound");
        let (wake, woken) = UnixStream::pair().expect("a socket pair can be made");
        woken.set_nonblocking(true).expect("a socket has options");
        wake.set_nonblocking(true).expect("a socket has options");
        let (controls, receiver) = mpsc::channel();
        let engine = Engine::new(listener, port, target);
        let thread = harness_thread("proxy", move || engine.run(&receiver, woken));
        let inner = Inner {
            port,
            credentials,
            controls: Mutex::new(controls),
            wake,
            thread: Some(thread),
            owner: std::process::id(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.inner.port))
    }

    /// Port that clients connect to.
    pub fn port(&self) -> u16 {
        self.inner.port
    }

    /// URL that clients connect to.
    pub fn url(&self) -> String {
        format!("redis://{}{}/", self.inner.credentials, self.addr())
    }

    /// Sends new connections to another server; open ones stay where they are.
    pub fn set_target(&self, target: SocketAddr) {
        self.control(move |engine| engine.target = target);
    }

    /// Ends all faults: delays, black hole and swallowing are off, faults that have not met their reply
    /// are disarmed, late traffic goes out now, held requests go out in order of acceptance.
    pub fn pass(&self) {
        self.control(|engine| {
            engine.mode = Mode::Pass;
            engine.request_delay = Duration::ZERO;
            engine.reply_delay = Duration::ZERO;
            engine.armed.clear();
            engine.hold = None;
            let now = Instant::now();
            for index in 0..engine.connections.len() {
                engine.forward_held(index);
                let connection = &mut engine.connections[index];
                connection.unanswered.iter_mut().for_each(|fault| *fault = None);
                connection.to_client.hurry(now);
                connection.to_upstream.hurry(now);
            }
        });
    }

    /// Black hole: connections are accepted and read, nothing is passed on either way, not even the end
    /// of a connection. What arrives is lost for good; what already waits for its delay still goes out.
    pub fn drop_all(&self) {
        self.control(|engine| engine.mode = Mode::BlackHole);
    }

    /// Requests reach the server, all replies and messages are lost, until [`pass`](Self::pass).
    pub fn swallow_replies(&self) {
        self.control(|engine| engine.mode = Mode::SwallowReplies);
    }

    /// Every reply and message that arrives from now on reaches the client this much later.
    ///
    /// Order is kept and the delays of several replies overlap, as on a long line. Zero ends it.
    pub fn delay_replies(&self, delay: Duration) {
        self.control(move |engine| engine.reply_delay = delay);
    }

    /// Every request that arrives from now on reaches the server this much later, as
    /// [`delay_replies`](Self::delay_replies).
    pub fn delay_requests(&self, delay: Duration) {
        self.control(move |engine| engine.request_delay = delay);
    }

    /// Arms a fault for the reply to the next request that contains `needle`, on any connection.
    ///
    /// With an empty needle it meets the next reply, also to a request that is already on its way.
    /// Several faults may be armed; each is used once, in the order of arming.
    pub fn fault_next_reply_to(&self, needle: &[u8], fault: ReplyFault) {
        let armed = Armed { needle: needle.to_vec(), fault };
        self.control(move |engine| engine.armed.push(armed));
    }

    /// The reply to the next request that contains `needle` (a script's SHA, `EVALSHA`) is lost; the
    /// request is executed and the connection goes on.
    pub fn swallow_next_reply_to(&self, needle: &[u8]) {
        self.fault_next_reply_to(needle, ReplyFault::Swallow);
    }

    /// The next reply on any connection ends after `bytes` bytes, and its connection is closed.
    pub fn cut_next_reply_after(&self, bytes: usize) {
        self.fault_next_reply_to(b"", ReplyFault::CutAfter(bytes));
    }

    /// The client gets `bytes` instead of the next reply on any connection.
    pub fn garbage_next_reply(&self, bytes: &[u8]) {
        self.fault_next_reply_to(b"", ReplyFault::Replace(bytes.to_vec()));
    }

    /// Closes all connections in good order (FIN); requests held or late are lost.
    pub fn cut_all(&self) {
        self.control(|engine| engine.connections.iter_mut().for_each(|it| it.cut(false)));
    }

    /// Breaks all connections (RST): clients meet ECONNRESET; requests held or late are lost.
    pub fn reset_all(&self) {
        self.control(|engine| engine.connections.iter_mut().for_each(|it| it.cut(true)));
    }

    /// Stops listening: new connections are refused, open ones stay.
    pub fn refuse(&self) {
        self.control(|engine| engine.listener = None);
    }

    /// Listens again on the same port after [`refuse`](Self::refuse).
    pub fn listen(&self) {
        self.control(Engine::listen).expect("the port is still free");
    }

    /// The connections that are still served, in order of acceptance: also those whose client has gone
    /// while requests are held.
    pub fn connections(&self) -> Vec<ConnectionState> {
        self.control(|engine| {
            let state = |it: &connection::Connection| ConnectionState {
                index: it.index,
                client_open: !it.client_done,
                held: it.held.len(),
                unanswered: it.unanswered.len(),
            };
            engine.connections.iter().map(state).collect()
        })
    }

    /// Counters since the start.
    pub fn traffic(&self) -> Traffic {
        self.control(|engine| {
            let open = engine.connections.iter().filter(|it| !it.client_done).count();
            Traffic { open, ..engine.traffic }
        })
    }

    /// Runs `control` on the proxy's thread and returns its result.
    fn control<R: Send + 'static>(&self, control: impl FnOnce(&mut Engine) -> R + Send + 'static) -> R {
        let (answer, result) = mpsc::channel();
        let boxed: Control = Box::new(move |engine| {
            let _ = answer.send(control(engine));
        });
        let controls = self.inner.controls.lock().unwrap_or_else(PoisonError::into_inner);
        controls.send(boxed).expect("the proxy's thread runs");
        drop(controls);
        self.inner.wake();
        result.recv().expect("the proxy's thread runs")
    }
}

impl Inner {
    fn wake(&self) {
        // A full pipe means that the thread is about to wake anyway.
        let _ = (&self.wake).write(&[1]);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            return;
        }
        let controls = self.controls.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = controls.send(Box::new(|engine| engine.stop = true));
        self.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
