//! The answers of a node that does not have a key.

use crate::transport::Fault;
use crate::transport::words::is_host;

/// Where a node sends its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// To the node that has the slot.
    Moved { slot: u16, host: String, port: u16 },
    /// For this request to the node that is about to get the slot.
    Ask { host: String, port: u16 },
}

impl Redirect {
    /// What the answer says, if it is one of these. An empty host is that of the node that answered.
    pub(crate) fn of(fault: &Fault) -> Option<Redirect> {
        let moved = fault.is_code("MOVED");
        if !moved && !fault.is_code("ASK") {
            return None;
        }
        let mut words = fault.detail.split(' ').skip(1);
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        if !host.is_empty() && !is_host(host) {
            return None;
        }
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        Some(if moved { Redirect::Moved { slot, host, port } } else { Redirect::Ask { host, port } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_redirections_are_understood_with_any_host() {
        let of = |text: &str| Redirect::of(&Fault::refusing(text));
        let moved = |host: &str| Some(Redirect::Moved { slot: 7, host: host.to_owned(), port: 6381 });
        assert_eq!(of("MOVED 7 127.0.0.1:6381 (redis://127.0.0.1:1/0)"), moved("127.0.0.1"));
        assert_eq!(of("MOVED 7 :6381"), moved(""));
        assert_eq!(of("MOVED 7 ::1:6381"), moved("::1"));
        assert_eq!(of("ASK 7 b:1"), Some(Redirect::Ask { host: "b".to_owned(), port: 1 }));
        for text in ["TRYAGAIN Multiple keys", "MOVED", "MOVED x a:1", "MOVED 7 a", "MOVED 7 a:x"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
