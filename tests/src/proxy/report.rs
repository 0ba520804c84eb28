//! What a test tells a proxy and reads from it.

/// What a reply meets instead of passing, once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// The client never gets this reply; later ones pass.
    Swallow,
    /// The client gets this many bytes of the reply, then end of file.
    CutAfter(usize),
    /// The client gets these bytes in its place.
    Replace(Vec<u8>),
}

/// Counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections accepted since the start.
    pub accepted: usize,
    /// Connections whose client side is open now.
    pub open: usize,
    /// Bytes written to the server.
    pub to_server: u64,
    /// Bytes written to clients.
    pub to_client: u64,
    /// One-shot faults that have met their reply.
    pub faults_met: u64,
}

/// A connection that the proxy still serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionState {
    /// Its number in order of acceptance, from 0.
    pub index: usize,
    /// Whether the client has not closed it.
    pub client_open: bool,
    /// Number of requests held.
    pub held: usize,
    /// Number of replies that the server owes.
    pub unanswered: usize,
}

/// A request that the proxy holds back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRequest {
    /// Number of its connection, as in [`ConnectionState::index`].
    pub connection: usize,
    /// Command and arguments; bytes that are not UTF-8 become U+FFFD.
    pub args: Vec<String>,
}
