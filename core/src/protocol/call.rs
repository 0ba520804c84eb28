//! Calls of scripts as bytes.
//!
//! Written here and not by `redis::Cmd`, which holds the arguments in one buffer first and then writes them into a second one.

/// A command in the making: an array of as many bulk strings as it was begun with.
pub(super) struct Call {
    bytes: Vec<u8>,
    /// How many words are to come.
    missing: usize,
}

impl Call {
    /// Of that many words, of about so many bytes in all.
    pub(super) fn begin(words: usize, bytes: usize) -> Call {
        // `$`, up to four digits, and two line ends for each word.
        let mut call = Call { bytes: Vec::with_capacity(16 + words * 9 + bytes), missing: words };
        call.header(b'*', words);
        call
    }

    pub(super) fn word(&mut self, word: &str) -> &mut Call {
        self.joined(&[word])
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Call {
        self.word(itoa::Buffer::new().format(number))
    }

    /// One word made of these parts.
    pub(super) fn joined(&mut self, parts: &[&str]) -> &mut Call {
        self.missing = self.missing.wrapping_sub(1);
        self.header(b'$', parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// The command. With a word too few the server would wait for it, and with one too many take it for another command.
    pub(super) fn finish(self) -> Vec<u8> {
        debug_assert_eq!(self.missing, 0, "words that are missing");
        self.bytes
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_what_redis_rs_writes() {
        let long = "x".repeat(12_345);
        let mut ours = Call::begin(6, 0);
        ours.word("EVALSHA").number(0).number(u64::MAX).joined(&["{lock:", "ä", "}"]).word("").word(&long);
        let mut theirs = redis::cmd("EVALSHA");
        theirs.arg(0).arg(u64::MAX).arg("{lock:ä}").arg("").arg(&long);
        assert_eq!(ours.finish(), theirs.get_packed_command());
    }

    #[test]
    #[should_panic(expected = "words that are missing")]
    #[cfg(debug_assertions)]
    fn a_word_too_few_is_noticed() {
        let mut call = Call::begin(2, 0);
        call.word("PING");
        call.finish();
    }
}
