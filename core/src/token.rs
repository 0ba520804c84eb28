//! Tokens: text that proves ownership of one lease.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};

/// Proof of ownership of one lease: `<uuid v4>@<host>:<pid>[:<label>]`, new for every lease.
///
/// Whoever knows it can release the lock, so it never shows in `Debug` or in logs; only the part after
/// `@`, which says who it is, does. [`as_str`](Token::as_str) is the way to the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<str>);

impl Token {
    /// Longest token that is accepted from elsewhere, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// A new token. The random part comes from the operating system at each call, so that a forked child
    /// never repeats its parent's.
    pub(crate) fn new(owner: &Owner) -> Token {
        let mut buffer = Uuid::encode_buffer();
        let id: &str = Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        Token(format!("{id}@{}", owner.0).into())
    }

    /// A token as text from a server or another process.
    pub(crate) fn foreign(text: &str) -> Token {
        Token(text.into())
    }

    /// A token handed over by another process.
    pub(crate) fn handed_over(text: &str) -> Result<Token> {
        if text.is_empty() || text.len() > Token::MAX_BYTES {
            let expected = format!("a token of 1 to {} bytes, as into_token() gives it", Token::MAX_BYTES);
            return Err(Error::config("token", format_args!("<{} bytes>", text.len()), expected));
        }
        Ok(Token(text.into()))
    }

    /// The token's text. Treat it as a secret: who has it can release the lock.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who made it, `<host>:<pid>[:<label>]`, when the token has redlatch's form.
    pub fn owner(&self) -> Option<&str> {
        let (id, owner) = self.0.split_once('@')?;
        Uuid::try_parse(id).ok().map(|_| owner)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(…@{})", self.owner().unwrap_or("?"))
    }
}

/// The part of a token that says who made it.
#[derive(Clone, Debug)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    /// Of this process; `label` is validated before.
    pub(crate) fn of_this_process(label: Option<&str>) -> Owner {
        let uname = rustix::system::uname();
        let host: String = uname.nodename().to_string_lossy().chars().filter(|c| plain(*c)).take(64).collect();
        let host = if host.is_empty() { "unknown" } else { &host };
        let pid = std::process::id();
        Owner(match label {
            Some(label) => format!("{host}:{pid}:{label}").into(),
            None => format!("{host}:{pid}").into(),
        })
    }
}

/// Characters that a host or label may have: none that the protocol or a log line gives a meaning.
pub(crate) fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_owner_and_hides_the_secret() {
        let token = Token::new(&Owner::of_this_process(Some("worker-1")));
        let shown = format!("{token:?}");
        assert!(shown.contains(":worker-1"), "{shown}");
        assert!(!shown.contains(token.as_str().split('@').next().unwrap()), "{shown}");
    }

    #[test]
    fn a_plain_clients_token_has_no_owner() {
        assert_eq!(Token::foreign("dcb54d2e").owner(), None);
        assert_eq!(format!("{:?}", Token::foreign("secret@host")), "Token(…@?)");
    }
}
