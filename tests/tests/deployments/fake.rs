//! A sentinel that names whatever a test wants.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread;

use redis::{Parser, Value};
use std::io::Write;

/// Listens until it is dropped.
pub(crate) struct FakeSentinel {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Port of the primary that it names; 0: it knows none.
    names: AtomicU16,
    asked: AtomicUsize,
    ended: AtomicBool,
}

impl FakeSentinel {
    pub(crate) fn start(names: u16) -> FakeSentinel {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { names: AtomicU16::new(names), asked, ended });
        let serving = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ended.load(Ordering::Acquire) {
                    return;
                }
                let serving = serving.clone();
                thread::spawn(move || serve(&stream.unwrap(), &serving));
            }
        });
        FakeSentinel { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it names the server at this port.
    pub(crate) fn name(&self, port: u16) {
        self.shared.names.store(port, Ordering::Release);
    }

    /// How often it was asked for the primary.
    pub(crate) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::Acquire)
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let mut parser = Parser::new();
    let mut writer = stream;
    while let Ok(Value::Array(words)) = parser.parse_value(stream) {
        let is_question = words.get(1) == Some(&Value::BulkString(b"GET-MASTER-ADDR-BY-NAME".to_vec()));
        let reply = match (is_question, shared.names.load(Ordering::Acquire)) {
            (false, _) => "+OK\r\n".to_owned(),
            (true, 0) => "*-1\r\n".to_owned(),
            (true, port) => {
                let port = port.to_string();
                format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
            }
        };
        if is_question {
            shared.asked.fetch_add(1, Ordering::AcqRel);
        }
        if writer.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}
