//! Why an attempt failed, in the terms that decide what happens next.

use std::sync::Arc;

use redis::{ConnectionAddr, ErrorKind, RedisError, ServerError};

use crate::error::Source;
use crate::protocol::{Malformed, Role, denied_command};

use super::words::presentable;

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
    /// The request may have reached the server and may be executed, now or later.
    pub(crate) unanswered: bool,
    /// The lock was granted before this went wrong: the key has the token.
    pub(crate) granted: bool,
    /// The connection had been idle and turned out to be closed: worth one retry without a pause.
    pub(crate) stale: bool,
    /// A signal interrupted the wait for the reply.
    pub(crate) interrupted: bool,
    pub(crate) source: Option<Source>,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No connection, no reply in time, a reply that makes no sense, no free slot in the pool.
    Unreachable,
    /// The server answers that it cannot serve now: loading, read-only, failing over, out of memory.
    Refusing,
    /// The credentials are refused or missing.
    Authentication,
    /// A command, key or channel is forbidden to this user.
    Permission,
    /// A key holds foreign data.
    KeyType(Role),
    /// The server cannot do this at all.
    Incompatible,
}

/// Error codes that pass by themselves, so that waiting for them makes sense.
const REFUSING: [&str; 14] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "BUSY",
    "NOREPLICAS",
    "MISCONF",
    "OOM",
    "MOVED",
    "ASK",
    "UNKILLABLE",
    "NOTBUSY",
    "UNBLOCKED",
];

impl Fault {
    /// Whether the same attempt may succeed later.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self.kind, FaultKind::Unreachable | FaultKind::Refusing)
    }

    /// Whether it says nothing of the server, so that the next attempt needs no pause.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        self.stale || self.interrupted
    }

    /// Whether the server answered with this error code.
    pub(crate) fn is_code(&self, code: &str) -> bool {
        !self.unanswered && self.detail.split(' ').next() == Some(code)
    }

    pub(crate) fn unreachable(detail: impl Into<String>) -> Fault {
        Fault::of(FaultKind::Unreachable, detail.into())
    }

    /// A server that answers, and will serve later at best.
    pub(crate) fn refusing(detail: impl Into<String>) -> Fault {
        Fault::of(FaultKind::Refusing, detail.into())
    }

    /// The same, with the server that it came from behind its words.
    pub(crate) fn at(mut self, server: &str) -> Fault {
        self.detail = format!("{} ({server})", self.detail);
        self
    }

    /// The same, where foreign data that it speaks of can only be under this key.
    pub(crate) fn of_key(mut self, role: Role) -> Fault {
        if let FaultKind::KeyType(_) = self.kind {
            self.kind = FaultKind::KeyType(role);
        }
        self
    }

    /// The same, without a secret of the request that the server's words may repeat.
    pub(crate) fn without(mut self, secret: &str) -> Fault {
        if !secret.is_empty() && self.detail.contains(secret) {
            // All of the words go: with a hole in words that everyone knows, the hole is what is known. Codes are no words.
            let code = self.detail.split(' ').next().filter(|code| code.bytes().all(|byte| byte.is_ascii_uppercase()));
            self.detail =
                format!("{} (the server's words are not shown, they contain a secret)", code.unwrap_or("ERR"));
        }
        self
    }

    fn of(kind: FaultKind, detail: String) -> Fault {
        Fault { kind, detail, unanswered: false, granted: false, stale: false, interrupted: false, source: None }
    }

    /// A connection that could not be made: nothing of the request was sent.
    pub(crate) fn connecting(error: RedisError) -> Fault {
        let kind = match error.kind() {
            ErrorKind::AuthenticationFailed => FaultKind::Authentication,
            ErrorKind::InvalidClientConfig => FaultKind::Incompatible,
            _ => match error.code() {
                Some(code) => kind_of(code, error.detail().unwrap_or_default()),
                None => FaultKind::Unreachable,
            },
        };
        let detail = if error.is_timeout() { "no answer while connecting".to_owned() } else { words(&error) };
        let interrupted = is_interruption(&error);
        Fault { interrupted, source: Some(Box::new(error)), ..Fault::of(kind, detail) }
    }

    /// A connection that was made and came to nothing before it could be used.
    pub(crate) fn login(error: RedisError, address: &ConnectionAddr) -> Fault {
        // A Redis server takes the beginning of TLS for the beginning of a command, and waits for its end.
        let words = error.to_string();
        let no_tls = error.is_timeout() || words.contains("corrupt message");
        // Only a server that asks its clients for certificates says this.
        let ours = words.contains("fatal alert") && ["Certificate", "UnknownCA"].iter().any(|it| words.contains(it));
        let hint = match address {
            ConnectionAddr::TcpTls { .. } if ours => {
                "; the server wants a certificate of its clients (tls_cert, tls_key) that it can verify"
            }
            ConnectionAddr::Tcp(..) if !error.is_timeout() => {
                "; if the server speaks TLS on this port, the URL begins with rediss://"
            }
            ConnectionAddr::TcpTls { .. } if no_tls => {
                "; if the server speaks no TLS on this port, the URL begins with redis://"
            }
            _ => "",
        };
        let fault = Fault::connecting(error);
        Fault { detail: format!("{}{hint}", fault.detail), ..fault }
    }

    /// A connection that broke after the request may have left.
    pub(crate) fn broken(error: RedisError, reused: bool) -> Fault {
        let stale = reused && error.is_connection_dropped();
        let detail = if error.is_timeout() { "no reply in time".to_owned() } else { words(&error) };
        let interrupted = is_interruption(&error);
        let source: Option<Source> = Some(Box::new(error));
        Fault { unanswered: true, stale, interrupted, source, ..Fault::unreachable(detail) }
    }

    /// An error that the server gave as its answer.
    pub(crate) fn answered(error: &ServerError) -> Fault {
        let details = error.details().unwrap_or_default();
        let code = error.code();
        let detail = if details.is_empty() { code.to_owned() } else { format!("{code} {details}") };
        let kind = kind_of(code, details);
        let is_named = ["the '", "' command"].iter().all(|words| details.contains(words));
        match denied_command(details) {
            Some(command) if kind == FaultKind::Permission && !is_named => {
                Fault::of(kind, format!("{}; the user lacks +{}", presentable(&detail), command.to_lowercase()))
            }
            _ => Fault::of(kind, presentable(&detail)),
        }
    }

    /// Whether access to a key is denied. A server does not say to which.
    pub(crate) fn is_about_keys(&self) -> bool {
        let about_keys = ["keys used as arguments", "access a key", "at least one of the keys"];
        self.kind == FaultKind::Permission && about_keys.iter().any(|words| self.detail.contains(words))
    }

    /// What went wrong with the wait for replicas that followed a grant.
    pub(crate) fn after_grant(self) -> Fault {
        let detail = format!("granted, but the wait for its replicas failed: {}", self.detail);
        // A connection that has just answered was not closed while idle.
        Fault { granted: true, stale: false, detail, ..self }
    }

    /// A reply that the protocol does not know: the request may have been executed.
    pub(crate) fn garbled(malformed: Malformed) -> Fault {
        Fault { unanswered: true, ..Fault::unreachable(malformed.0) }
    }
}

/// Whether a signal's handler ran while the socket was read. Reads that have a time limit are not restarted then, whatever
/// the handler asks for (signal(7)).
fn is_interruption(error: &RedisError) -> bool {
    let source = std::error::Error::source(error);
    // What `redis` gives as the source is the box that it keeps the error in.
    let boxed = source.and_then(|source| source.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>());
    let error = boxed.map(|boxed| &**boxed as &(dyn std::error::Error + 'static)).or(source);
    let error = error.and_then(|error| error.downcast_ref::<std::io::Error>());
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
}

/// The error in words for people.
fn words(error: &RedisError) -> String {
    match error.kind() {
        // The parser's own words are lines of byte values.
        ErrorKind::Parse => "the answer is no Redis protocol".to_owned(),
        _ => error.to_string(),
    }
}

/// Before Redis 7 an error inside a script arrives as `ERR`, or as `@user_script:` when the script passes it on,
/// with its own code somewhere in the text.
fn kind_of(code: &str, details: &str) -> FaultKind {
    if code == "KEYTYPE" {
        return match Role::parse(details.trim()) {
            Some(role) => FaultKind::KeyType(role),
            None => FaultKind::Incompatible,
        };
    }
    // A code of its own says what it is, whatever words come with it.
    if let Some(kind) = class_of(code) {
        return kind;
    }
    let inner = || {
        let mut words = details.split([' ', '-', ':']).filter(|word| word.len() > 2);
        words.find(|word| class_of(word).is_some()).and_then(class_of)
    };
    // A client without credentials may not even send a request of more than ten words.
    if details.contains("unauthenticated") {
        return FaultKind::Authentication;
    }
    // Whatever the request was, this is the answer, and it passes.
    if details.contains("max number of clients") {
        return FaultKind::Refusing;
    }
    // A primary that has become a replica between a grant and the wait for its replicas.
    if details.contains("WAIT cannot be used with replica") {
        return FaultKind::Refusing;
    }
    let wrapped = code == "ERR" || code.starts_with('@');
    wrapped.then(inner).flatten().unwrap_or_else(|| {
        // The wording of an access denial inside a script, before and since 7.0.
        let denied = ["can't access at least one of the keys", "can't run this command", "has no permissions"];
        if denied.iter().any(|words| details.contains(words)) { FaultKind::Permission } else { FaultKind::Incompatible }
    })
}

fn class_of(code: &str) -> Option<FaultKind> {
    match code {
        "NOAUTH" | "WRONGPASS" => Some(FaultKind::Authentication),
        "NOPERM" => Some(FaultKind::Permission),
        "WRONGTYPE" => Some(FaultKind::KeyType(Role::Lock)),
        code if REFUSING.contains(&code) => Some(FaultKind::Refusing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_recognized_in_the_words_of_every_server_version() {
        assert_eq!(kind_of("READONLY", "You can't write against a read only replica."), FaultKind::Refusing);
        let wrapped =
            "Error running script (call to f_abc): @user_script:7: @user_script: 7: -READONLY You can't write";
        assert_eq!(kind_of("ERR", wrapped), FaultKind::Refusing);
        let passed_on = "10: -READONLY You can't write against a read only replica.";
        assert_eq!(kind_of("@user_script:", passed_on), FaultKind::Refusing);
    }

    #[test]
    fn a_primary_that_became_a_replica_during_the_wait_for_its_own_replicas_is_refusing() {
        let text = "WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
                    configured to be writable (which is not the default) writes to replicas are just local and are not \
                    propagated.";
        assert_eq!(kind_of("ERR", text), FaultKind::Refusing);
        let text = "force unblock from blocking operation, instance state changed (master -> replica?)";
        assert_eq!(kind_of("UNBLOCKED", text), FaultKind::Refusing);
    }

    #[test]
    fn an_interrupted_read_is_told_from_other_failures() {
        let error = |kind: std::io::ErrorKind| RedisError::from(std::io::Error::from(kind));
        assert!(Fault::broken(error(std::io::ErrorKind::Interrupted), false).interrupted);
        assert!(Fault::connecting(error(std::io::ErrorKind::Interrupted)).interrupted);
        assert!(!Fault::broken(error(std::io::ErrorKind::UnexpectedEof), false).interrupted);
    }

    #[test]
    fn missing_credentials_are_recognized_where_the_request_is_too_long_to_be_refused_by_name() {
        assert_eq!(kind_of("NOAUTH", "Authentication required."), FaultKind::Authentication);
        let text = "Protocol error: unauthenticated multibulk length";
        assert_eq!(kind_of("ERR", text), FaultKind::Authentication);
    }

    #[test]
    fn denied_keys_in_scripts_are_permission_errors() {
        let text = "The user executing the script can't access at least one of the keys mentioned in the command";
        assert_eq!(kind_of("ERR", text), FaultKind::Permission);
        assert_eq!(kind_of("NOPERM", "this user has no permissions"), FaultKind::Permission);
    }

    #[test]
    fn a_command_that_a_script_may_not_call_was_not_named() {
        let sha = |source: &str| redis::Script::new(source).get_hash().to_owned();
        let release = include_str!("../protocol/release.lua");
        let line = 1 + release.lines().position(|line| line.contains("'ZRANGE'")).unwrap();
        let denied = "The user executing the script can't run this command or subcommand";
        for text in [
            format!("{denied} script: {}, on @user_script:{line}.", sha(release)),
            format!(
                "Error running script (call to f_{}): @user_script:{line}: @user_script: {line}: {denied}",
                sha(release)
            ),
            format!("{denied} [ZRANGE]"),
        ] {
            assert_eq!(denied_command(&text), Some("ZRANGE"), "{text}");
        }
        for text in [denied.to_owned(), format!("{denied} script: {}, on @user_script:1.", sha(release))] {
            assert_eq!(denied_command(&text), None, "{text}");
        }
    }

    #[test]
    fn foreign_data_names_its_key() {
        assert_eq!(kind_of("KEYTYPE", "queue"), FaultKind::KeyType(Role::Queue));
        assert_eq!(kind_of("ERR", "unknown command 'EVALSHA'"), FaultKind::Incompatible);
    }
}
