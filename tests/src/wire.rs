//! A bare client connection, for traffic that must hold exactly the commands a test sends.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use redis::{FromRedisValue, Parser, RedisResult, Value};

/// A TCP connection that sends nothing on its own: no handshake, no client name, no ping.
pub struct RawConnection {
    stream: TcpStream,
    parser: Parser,
}

impl RawConnection {
    /// Connects to `addr`; reads and writes wait at most `timeout`, which may not be zero.
    pub fn connect(addr: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream, parser: Parser::new() })
    }

    /// Sends one command and returns its reply; a server error is an error.
    pub fn command<T: FromRedisValue>(&mut self, args: &[&str]) -> RedisResult<T> {
        self.send(args)?;
        let reply = self.read()?;
        Ok(redis::from_redis_value(reply)?)
    }

    /// Sends one command without waiting for its reply.
    pub fn send(&mut self, args: &[&str]) -> io::Result<()> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.stream.write_all(&redis::pack_command(&args))
    }

    /// Reads one reply; a server error is an error.
    pub fn read(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&self.stream)?.extract_error()
    }

    /// The socket, for raw bytes and other time limits.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// This connection's own address, as MONITOR shows it.
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket has an address")
    }
}

impl fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConnection").field("stream", &self.stream).finish_non_exhaustive()
    }
}
