//! A place for one connection, opened on the caller's thread and dropped after any failure.

use std::time::Duration;

use redis::{Connection, RedisError, Value};

use crate::clock::Moment;

use super::opener::{Opened, Opener};
use super::{Answered, Exchange, Fault, FaultKind};

/// A connection, or none yet. A taint empties it: after a failure nobody knows what is still on its wire.
pub(crate) struct Slot {
    connection: Option<Connection>,
    /// The socket's read and write timeouts as last set.
    timeout: Duration,
    /// Of which server it is, as its [`Opener`] numbers them.
    term: u64,
}

/// What is sent over a connection, and how.
struct Request<'a> {
    bytes: &'a [u8],
    /// How many replies come, of which the last one counts.
    replies: usize,
    by: Moment,
    /// The longest time for each.
    most: Duration,
    /// The connection has been used before.
    reused: bool,
}

impl Slot {
    pub(crate) fn empty() -> Slot {
        Slot { connection: None, timeout: Duration::ZERO, term: 0 }
    }

    /// Sends `request` and reads `replies` replies, of which the last one counts, by `by`.
    pub(crate) fn exchange(&mut self, open: &Opener, request: &[u8], replies: usize, by: Moment) -> Exchange<Value> {
        let mut reused = true;
        let connection = match self.connection.take() {
            Some(connection) if open.is_current(self.term, by) => connection,
            _ => {
                reused = false;
                self.timeout = Duration::ZERO;
                let by = by.min(open.clock.now().after(open.limits.connect));
                let Opened { connection, term } = open.connect(by)?;
                self.term = term;
                connection
            }
        };
        self.converse(connection, open, Request { bytes: request, replies, by, most: open.limits.io, reused })
    }

    /// As [`exchange`](Slot::exchange), only over the connection that answered last, and for longer than the limit of
    /// a request if `by` says so: for a server that is asked to wait.
    pub(crate) fn follow_up(&mut self, open: &Opener, request: &[u8], by: Moment) -> Exchange<Value> {
        let Some(connection) = self.connection.take() else {
            return Err(Fault::unreachable("the connection is gone"));
        };
        self.converse(connection, open, Request { bytes: request, replies: 1, by, most: Duration::MAX, reused: true })
    }

    fn converse(&mut self, connection: Connection, open: &Opener, request: Request<'_>) -> Exchange<Value> {
        self.talk(connection, open, request).map_err(|fault| open.failed(self.term, fault))
    }

    fn talk(&mut self, mut connection: Connection, open: &Opener, request: Request<'_>) -> Exchange<Value> {
        let Request { bytes: request, replies, by, most, reused } = request;
        let sent = open.clock.now();
        let left = by.since(sent).min(most);
        if left.is_zero() {
            self.connection = Some(connection);
            return Err(Fault::unreachable("no time left to send the request"));
        }
        // An error here leaves the slot empty: that is the taint.
        self.set_timeout(&connection, left, open.limits.io).map_err(|error| Fault::broken(error, reused))?;
        connection.send_packed_command(request).map_err(|error| Fault::broken(error, reused))?;
        let mut reply = Value::Nil;
        let mut refused = None;
        for more in (0..replies).rev() {
            reply = connection.recv_response().map_err(|error| Fault::broken(error, reused))?;
            if more > 0 {
                if let Value::ServerError(error) = &reply {
                    refused.get_or_insert(error.clone());
                }
                let left = by.since(open.clock.now()).min(most).max(Duration::from_millis(1));
                self.set_timeout(&connection, left, open.limits.io).map_err(|error| Fault::broken(error, reused))?;
            }
        }
        let Value::ServerError(error) = reply else {
            self.connection = Some(connection);
            return Ok(Answered { reply, sent });
        };
        // The first error of a transaction says why it was aborted.
        let fault = Fault::answered(refused.as_ref().unwrap_or(&error));
        // A server that refuses for now may be the wrong one behind a name that has moved: connect anew.
        if fault.kind != FaultKind::Refusing {
            self.connection = Some(connection);
        }
        Err(fault)
    }

    /// Empties the slot.
    pub(crate) fn taint(&mut self) {
        self.connection = None;
    }

    /// The socket's timeouts become `left`; two system calls, saved while both old and new are the full `io` limit.
    fn set_timeout(&mut self, connection: &Connection, left: Duration, io: Duration) -> Result<(), RedisError> {
        if left == io && self.timeout == io {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        connection.set_write_timeout(Some(left))?;
        self.timeout = left;
        Ok(())
    }
}
