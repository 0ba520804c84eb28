//! A server whose answers a test chooses, for what no real server does on demand.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{Parser, Value};

/// What a request meets.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// These bytes.
    Send(Vec<u8>),
    /// These bytes, one by one, each after a pause.
    Drip(Vec<u8>, Duration),
}

impl Answer {
    pub(crate) fn text(reply: &str) -> Answer {
        Answer::Send(format!("{reply}\r\n").into_bytes())
    }

    pub(crate) fn ok() -> Answer {
        Answer::text("+OK")
    }

    /// The acquire script's reply to a request that is granted.
    pub(crate) fn granted() -> Answer {
        Answer::Send(GRANTED.to_vec())
    }

    /// The release script's reply to the holder's request.
    pub(crate) fn released() -> Answer {
        Answer::Send(RELEASED.to_vec())
    }
}

pub(crate) const GRANTED: &[u8] = b"*5\r\n:1\r\n:-1\r\n:-1\r\n$0\r\n\r\n$16\r\n1764496000000001\r\n";
pub(crate) const RELEASED: &[u8] = b"*4\r\n:1\r\n:0\r\n:0\r\n$0\r\n\r\n";

/// Requests that run a script.
pub(crate) fn is_script(request: &[String]) -> bool {
    matches!(request[0].as_str(), "EVALSHA" | "EVAL")
}

/// Requests that run the release script: it has the fewest arguments of those with seven keys, the first one over a
/// connection one more.
pub(crate) fn is_release(request: &[String]) -> bool {
    is_script(request) && matches!(request.len(), 15 | 16)
}

type Answering = Box<dyn Fn(&[String]) -> Answer + Send + Sync>;

struct Shared {
    answer: Answering,
    connections: Mutex<Vec<TcpStream>>,
    scripts: AtomicUsize,
    stop: AtomicBool,
}

/// The server. It ends, with its connections, when it is dropped.
pub(crate) struct FakeServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Starts a server that answers every request, logins included, as `answer` says.
    pub(crate) fn start(answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> FakeServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            connections: Mutex::default(),
            scripts: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut serving = Vec::new();
            for stream in listener.incoming() {
                if accepting.stop.load(Ordering::Acquire) {
                    break;
                }
                let stream = stream.unwrap();
                accepting.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = accepting.clone();
                serving.push(std::thread::spawn(move || shared.serve(stream)));
            }
            for stream in accepting.connections.lock().unwrap().iter() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            serving.into_iter().for_each(|thread| thread.join().unwrap());
        });
        FakeServer { address, shared, thread: Some(thread) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Requests that ran a script so far.
    pub(crate) fn scripts(&self) -> usize {
        self.shared.scripts.load(Ordering::Acquire)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// Answers one connection until either side ends it.
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut parser = Parser::new();
        while let Ok(request) = parser.parse_value(&stream) {
            let request = words(&request);
            if is_script(&request) {
                self.scripts.fetch_add(1, Ordering::AcqRel);
            }
            let mut writer = &stream;
            let sent = match (self.answer)(&request) {
                Answer::Send(bytes) => writer.write_all(&bytes),
                Answer::Drip(bytes, pause) => bytes.chunks(1).try_for_each(|byte| {
                    std::thread::sleep(pause);
                    writer.write_all(byte)
                }),
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

fn words(request: &Value) -> Vec<String> {
    let Value::Array(words) = request else { panic!("a request is an array: {request:?}") };
    let word = |word: &Value| match word {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("a word of a request is a string: {other:?}"),
    };
    words.iter().map(word).collect()
}
