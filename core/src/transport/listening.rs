//! The subscriber's side of one server.

use std::time::Duration;

use redis::{PubSub, RedisError, Value};

use crate::clock::Moment;
use crate::options::TURN;

use super::opener::{Opened, Opener};
use super::{Fault, Listener};

/// How often a quiet subscriber looks whether it should end.
const TICK: Duration = Duration::from_millis(250);

/// How long a channel may be silent before its connection has to prove that it lives.
const SILENCE: Duration = Duration::from_secs(1);

/// See [`Transport::listen`](super::Transport::listen). `belongs`: whether messages still reach this server; it is asked at
/// each look, and takes a moment at most.
pub(crate) fn listen(
    open: &Opener,
    channel: &str,
    listener: &dyn Listener,
    belongs: &dyn Fn() -> bool,
) -> Result<(), Fault> {
    // Connecting and subscribing share one limit, so that the end of the client waits no longer than that.
    let by = open.clock.now().after(open.limits.connect.min(open.limits.io));
    let Opened { mut connection, term } = open.connect(by)?;
    let broken = |error: RedisError| open.failed(term, Fault::broken(error, false));
    let left = by.since(open.clock.now()).max(Duration::from_millis(1));
    connection.set_read_timeout(Some(left)).map_err(broken)?;
    connection.set_write_timeout(Some(open.limits.io)).map_err(broken)?;
    // Not `PubSub::subscribe`, which takes an error reply for success.
    connection.send_packed_command(&redis::cmd("SUBSCRIBE").arg(channel).get_packed_command()).map_err(broken)?;
    confirmed(&connection.recv_response().map_err(broken)?)?;
    let tick = TICK.min(open.limits.io);
    let mut subscription = connection.as_pubsub();
    subscription.set_read_timeout(Some(tick)).map_err(broken)?;
    listener.subscribed();
    let mut heard = open.clock.now();
    let mut seen = heard;
    while listener.wants_more() {
        if !open.is_current(term, seen.after(tick)) {
            return Err(Fault::unreachable("another server has become the primary"));
        }
        if !belongs() {
            return Err(Fault::refusing("the node has left the cluster, or has no slots any more"));
        }
        let outcome = subscription.get_message();
        let now = open.clock.now();
        if now.since(std::mem::replace(&mut seen, now)) >= TURN.min {
            listener.stalled();
        }
        match outcome {
            Ok(message) => {
                heard = now;
                if let Ok(payload) = message.get_payload::<String>() {
                    listener.message(&payload);
                }
            }
            Err(error) if error.is_timeout() => {
                heard = prove_alive(&mut subscription, open, heard, tick).map_err(|fault| open.failed(term, fault))?;
            }
            // A signal that has a handler, or a stop of the process and its end, interrupts a read that has a time
            // limit, and the connection is as good as before.
            Err(error) if error.is_io_error() && !error.is_connection_dropped() => {
                heard = prove_alive(&mut subscription, open, Moment::from_nanos(0), tick)
                    .map_err(|fault| open.failed(term, fault))?;
            }
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(())
}

/// The reply to `SUBSCRIBE`.
pub(crate) fn confirmed(reply: &Value) -> Result<(), Fault> {
    match reply {
        Value::ServerError(error) => Err(Fault::answered(error)),
        Value::Array(_) | Value::Push { .. } => Ok(()),
        _ => Err(Fault::unreachable("the reply to SUBSCRIBE is no confirmation")),
    }
}

/// Pings a connection that has been silent for long; a dead one would look like a quiet one for ever.
fn prove_alive(subscription: &mut PubSub<'_>, open: &Opener, heard: Moment, tick: Duration) -> Result<Moment, Fault> {
    let now = open.clock.now();
    if now.since(heard) < SILENCE {
        return Ok(heard);
    }
    let broken = |error: RedisError| Fault::broken(error, false);
    subscription.set_read_timeout(Some(open.limits.io)).map_err(broken)?;
    let answer = subscription.ping::<Value>();
    // Also before an error is passed on: the end of a subscription waits for an answer of its own.
    subscription.set_read_timeout(Some(tick)).map_err(broken)?;
    answer.map_err(broken)?;
    Ok(now)
}
