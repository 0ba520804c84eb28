//! Where a slot's connection leads.

use redis::Connection;

use crate::clock::{Clock, Moment};

use super::login::{Expected, connect};
use super::{Endpoint, Fault, FaultKind, Limits, Sentinels};

/// What a slot needs to open its connection.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) way: Way,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

/// Which server it is.
#[derive(Debug)]
pub(crate) enum Way {
    /// Always this one.
    Direct(Endpoint),
    /// Always this one, which is a node of a cluster.
    Node(Endpoint),
    /// Whichever the sentinels name.
    Primary(Box<Sentinels>),
}

/// A connection, and the number of the server that it leads to.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) term: u64,
}

impl Opener {
    /// Opens a connection and logs in, by `by`. Its timeouts are unset.
    pub(crate) fn connect(&self, by: Moment) -> Result<Opened, Fault> {
        match &self.way {
            Way::Direct(endpoint) => {
                let connection = connect(endpoint, Expected::Anything, &self.clock, by)?;
                Ok(Opened { connection, term: 0 })
            }
            Way::Node(endpoint) => {
                let connection = connect(endpoint, Expected::Anything, &self.clock, by);
                let connection = connection.map_err(|fault| fault.at(endpoint.as_str()))?;
                Ok(Opened { connection, term: 0 })
            }
            Way::Primary(sentinels) => sentinels.connect(&self.clock, by),
        }
    }

    /// Whether writes to its connections can raise SIGPIPE.
    pub(crate) fn writes_raise_sigpipe(&self) -> bool {
        match &self.way {
            Way::Direct(endpoint) | Way::Node(endpoint) => endpoint.writes_raise_sigpipe(),
            Way::Primary(sentinels) => sentinels.writes_raise_sigpipe(),
        }
    }

    /// Whether connections of this number still lead to the right server, as far as is known or can be found out in a
    /// part of the time until `by`.
    pub(crate) fn is_current(&self, term: u64, by: Moment) -> bool {
        match &self.way {
            Way::Direct(_) | Way::Node(_) => true,
            Way::Primary(sentinels) => sentinels.is_current(term, &self.clock, by),
        }
    }

    /// Takes in a failure over a connection of this number, and adds to it what a reader needs to know of the server.
    pub(crate) fn failed(&self, term: u64, fault: Fault) -> Fault {
        match &self.way {
            Way::Direct(_) => fault,
            Way::Node(endpoint) => fault.at(endpoint.as_str()),
            Way::Primary(sentinels) => sentinels.failed(term, fault),
        }
    }

    /// Whether a connection over which the server has answered so can be used on.
    pub(crate) fn keeps_after(&self, fault: &Fault) -> bool {
        let elsewhere = || ["MOVED", "ASK", "TRYAGAIN"].iter().any(|code| fault.is_code(code));
        // A server that refuses for now may be the wrong one behind a name that has moved: connect anew. A node of a
        // cluster that sends its client elsewhere is the right one, for other keys.
        fault.kind != FaultKind::Refusing || (matches!(self.way, Way::Node(_)) && elsewhere())
    }

    /// Gives back the connections to those that were asked for the way.
    pub(crate) fn close(&self) {
        if let Way::Primary(sentinels) = &self.way {
            sentinels.close();
        }
    }

    /// The server that connections lead to, as far as is known.
    pub(crate) fn reached(&self) -> String {
        let primary = match &self.way {
            Way::Primary(sentinels) => sentinels.primary(),
            Way::Direct(_) | Way::Node(_) => None,
        };
        primary.unwrap_or_else(|| self.server().to_owned())
    }

    /// The server, or what leads to it, for error texts.
    pub(crate) fn server(&self) -> &str {
        match &self.way {
            Way::Direct(endpoint) | Way::Node(endpoint) => endpoint.as_str(),
            Way::Primary(sentinels) => sentinels.as_str(),
        }
    }
}
