//! A place for one connection, opened on the caller's thread and dropped after any failure.

use std::time::Duration;

use redis::{Connection, RedisError, Value};

use crate::clock::Moment;
use crate::signals::without_sigpipe;

use super::opener::{Opened, Opener};
use super::{Answered, Exchange, Fault};

/// How much longer than its time a request with several replies may take.
const ACCURACY: Duration = Duration::from_millis(5);

/// What socket timeouts are rounded up to; the kernel does no better, as it counts them in ticks of 1 to 10 ms.
const TICK: Duration = Duration::from_millis(4);

/// A connection, or none yet. A taint empties it: after a failure nobody knows what is still on its wire.
pub(crate) struct Slot {
    connection: Option<Connection>,
    /// The socket's read and write timeouts as last set.
    timeout: Duration,
    /// Of which server it is, as its [`Opener`] numbers them.
    term: u64,
    /// What has been done over it in full.
    proven: Proven,
}

/// The scripts that a connection has run with all their commands. Its first acquire and its first release do so even where
/// nobody waits: what its user may not do shows there, and not at the first contention.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proven {
    pub(crate) acquire: bool,
    pub(crate) release: bool,
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
        Slot { connection: None, timeout: Duration::ZERO, term: 0, proven: Proven::default() }
    }

    /// What has been done over the connection; nothing over one that is still to be opened.
    pub(crate) fn proven(&mut self) -> &mut Proven {
        if self.connection.is_none() {
            self.proven = Proven::default();
        }
        &mut self.proven
    }

    /// Sends `request` and reads `replies` replies, of which the last one counts, by `by`.
    pub(crate) fn exchange(&mut self, open: &Opener, request: &[u8], replies: usize, by: Moment) -> Exchange<Value> {
        let (connection, reused) = self.connected(open, by)?;
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
        let mut reply = Value::Nil;
        let mut refused = None;
        let (connection, sent) = self.talk(connection, open, request, |next| {
            // The first error of a transaction says why it was aborted.
            if let (Value::ServerError(error), None) = (std::mem::replace(&mut reply, next), &refused) {
                refused = Some(error);
            }
        })?;
        let Value::ServerError(error) = reply else {
            self.connection = Some(connection);
            return Ok(Answered { reply, sent });
        };
        let fault = Fault::answered(refused.as_ref().unwrap_or(&error));
        if open.keeps_after(&fault) {
            self.connection = Some(connection);
        }
        Err(open.failed(self.term, fault))
    }

    /// As [`exchange`](Slot::exchange), with all replies, errors among them.
    pub(crate) fn exchange_each(
        &mut self,
        open: &Opener,
        request: &[u8],
        replies: usize,
        by: Moment,
    ) -> Exchange<Vec<Value>> {
        let (connection, reused) = self.connected(open, by)?;
        let mut reply = Vec::with_capacity(replies);
        let request = Request { bytes: request, replies, by, most: open.limits.io, reused };
        let (connection, sent) = self.talk(connection, open, request, |next| reply.push(next))?;
        self.connection = Some(connection);
        Ok(Answered { reply, sent })
    }

    /// Takes the connection, or opens one; whether it has been used before.
    fn connected(&mut self, open: &Opener, by: Moment) -> Result<(Connection, bool), Fault> {
        if let Some(connection) = self.connection.take()
            && open.is_current(self.term, by)
        {
            return Ok((connection, true));
        }
        self.timeout = Duration::ZERO;
        self.proven = Proven::default();
        let by = by.min(open.clock.now().after(open.limits.connect));
        let Opened { connection, term } = open.connect(by)?;
        self.term = term;
        Ok((connection, false))
    }

    /// Sends a request and passes each of its replies on. The connection comes back when all has gone well: dropping it
    /// is the taint.
    fn talk(
        &mut self,
        connection: Connection,
        open: &Opener,
        request: Request<'_>,
        each: impl FnMut(Value),
    ) -> Result<(Connection, Moment), Fault> {
        if open.writes_raise_sigpipe() {
            without_sigpipe(|| self.send_and_receive(connection, open, request, each))
        } else {
            self.send_and_receive(connection, open, request, each)
        }
    }

    fn send_and_receive(
        &mut self,
        mut connection: Connection,
        open: &Opener,
        request: Request<'_>,
        mut each: impl FnMut(Value),
    ) -> Result<(Connection, Moment), Fault> {
        let Request { bytes, replies, by, most, reused } = request;
        let sent = open.clock.now();
        let left = by.since(sent).min(most);
        if left.is_zero() {
            self.connection = Some(connection);
            return Err(Fault::unreachable("no time left to send the request"));
        }
        let term = self.term;
        let broken = |error: RedisError| open.failed(term, Fault::broken(error, reused));
        self.set_timeout(&connection, left).map_err(broken)?;
        connection.send_packed_command(bytes).map_err(broken)?;
        let mut timed = sent;
        for more in (0..replies).rev() {
            each(connection.recv_response().map_err(broken)?);
            let now = if more > 0 { open.clock.now() } else { timed };
            // Replies that come at once need no limit of their own each.
            if now.since(timed) >= ACCURACY {
                let left = by.since(now).min(most).max(Duration::from_millis(1));
                self.set_timeout(&connection, left).map_err(broken)?;
                timed = now;
            }
        }
        Ok((connection, sent))
    }

    /// Empties the slot.
    pub(crate) fn taint(&mut self) {
        self.connection = None;
    }

    /// The socket's timeouts become `left`, or up to a [`TICK`] more; two system calls, saved while that is no change.
    fn set_timeout(&mut self, connection: &Connection, left: Duration) -> Result<(), RedisError> {
        let ticks = left.as_nanos().div_ceil(TICK.as_nanos());
        let left = TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
        if left == self.timeout {
            return Ok(());
        }
        connection.set_read_timeout(Some(left))?;
        connection.set_write_timeout(Some(left))?;
        self.timeout = left;
        Ok(())
    }
}
