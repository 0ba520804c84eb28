//! A server's words, made fit for an error text and a log.
//!
//! They are one line of bounded length, and do not repeat a request: Redis and Valkey answer an unknown command with the
//! arguments that came with it, and a token among these is as good as the lock.

use uuid::Uuid;

/// Most characters that are passed on.
const LONGEST: usize = 500;

/// Length of the random part of a token.
const ID: usize = uuid::fmt::Hyphenated::LENGTH;

/// What comes before the arguments of an unknown command.
const REPEATED: &str = ", with args beginning with: ";

/// `text` on one line, without what it repeats of a request or of any token, and not longer than that.
pub(crate) fn presentable(text: &str) -> String {
    let (text, repeats) = match text.find(REPEATED).map(|at| text.split_at(at + REPEATED.len())) {
        Some((before, after)) => (before, !after.is_empty()),
        None => (text, false),
    };
    // Not a space, which would end a word that was none.
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    // A token across the cut is hidden as well.
    let whole: String = text.chars().take(LONGEST + ID).map(printable).collect();
    let mut shown: String = without_ids(&whole).chars().take(LONGEST).collect();
    if repeats || text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Whether a server may name this as a host: without what would end a word, or a line of a log.
pub(crate) fn is_host(text: &str) -> bool {
    // The longest domain name, RFC 1035.
    (1..=253).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// The random part of a token is a UUID, and all of its secret.
fn without_ids(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.get(..ID).is_some_and(|id| Uuid::try_parse(id).is_ok()) {
            shown.push('…');
            rest = &rest[ID..];
        } else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_repeats_a_request_shows_no_token() {
        let id = "0191d2c4-51a3-4f0e-9d4c-0c2f4a7b9e11";
        assert_eq!(presentable(&format!("ERR what is {id}@host:7 to me")), "ERR what is …@host:7 to me");
        let text = format!("ERR unknown command 'EVALSHA', with args beginning with: '{id}@host:7' ");
        assert_eq!(presentable(&text), "ERR unknown command 'EVALSHA', with args beginning with: …");
    }

    #[test]
    fn a_token_across_the_end_of_what_is_shown_showed_most_of_it() {
        let id = "0191d2c4-51a3-4f0e-9d4c-0c2f4a7b9e11";
        for before in LONGEST - ID..LONGEST {
            let shown = presentable(&format!("{}{id}@host:7", "x".repeat(before)));
            assert!(!shown.contains("0191"), "{before}: {shown}");
        }
    }

    #[test]
    fn what_a_server_says_stays_on_one_line_of_bounded_length() {
        assert_eq!(presentable("ERR one\r\ntwo\x1b[2J"), "ERR one\u{fffd}\u{fffd}two\u{fffd}[2J");
        assert_eq!(presentable(&"é".repeat(10_000)).chars().count(), LONGEST + 1);
    }
}
