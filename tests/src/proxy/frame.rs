//! Where requests and replies end in the byte stream.

/// What a stream holds, cut into whole requests or replies.
#[derive(Debug, Default)]
pub(super) struct Framer {
    buffer: Vec<u8>,
    /// Where the first frame not yet taken begins.
    begin: usize,
    /// Set by bytes that are no Redis protocol, as TLS: each chunk then counts as one frame.
    opaque: bool,
}

/// The bytes are no Redis protocol.
struct Foreign;

impl Framer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole frame.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let unread = &self.buffer[self.begin..];
        if unread.is_empty() {
            return None;
        }
        let length = if self.opaque { Ok(Some(unread.len())) } else { frame_length(unread) };
        let Ok(length) = length else {
            self.opaque = true;
            return self.next();
        };
        let frame = unread[..length?].to_vec();
        self.begin += frame.len();
        Some(frame)
    }

    /// Takes what is left of an unfinished frame.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        std::mem::take(&mut self.buffer)
    }
}

/// Length of the frame at the start of `bytes`, `None` while it is unfinished.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Foreign> {
    let mut position = 0;
    let mut values = 1_u64;
    while values > 0 {
        let Some(end) = line_end(&bytes[position..]) else {
            let plausible = bytes.get(position).is_none_or(|byte| byte.is_ascii_graphic());
            return if plausible { Ok(None) } else { Err(Foreign) };
        };
        let line = &bytes[position..position + end];
        position += end + 2;
        values -= 1;
        match line.first() {
            Some(b'*' | b'~' | b'>') => values += count(line)?,
            Some(b'%') => values += 2 * count(line)?,
            // Attributes come before the value they describe.
            Some(b'|') => values += 2 * count(line)? + 1,
            Some(b'$' | b'=' | b'!') if line != b"$-1" => {
                position += usize::try_from(count(line)?).map_err(|_| Foreign)? + 2;
                if position > bytes.len() {
                    return Ok(None);
                }
            }
            // Lines: simple values, and requests typed by hand.
            Some(byte) if byte.is_ascii_graphic() => {}
            None => {}
            Some(_) => return Err(Foreign),
        }
    }
    Ok(Some(position))
}

/// Length of the line at the start of `bytes`, without its CRLF.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

/// The 3 of `*3`; −1, which stands for null, counts as 0.
fn count(line: &[u8]) -> Result<u64, Foreign> {
    if line == b"*-1" {
        return Ok(0);
    }
    let digits = std::str::from_utf8(&line[1..]).map_err(|_| Foreign)?;
    digits.parse().map_err(|_| Foreign)
}

/// How many replies a request has.
pub(super) fn reply_count(request: &[u8]) -> usize {
    let words = words(request);
    let Some(name) = words.first().map(|name| name.to_ascii_lowercase()) else {
        return 0;
    };
    match name.as_slice() {
        // One reply for each channel.
        b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe" | b"sunsubscribe" => {
            (words.len() - 1).max(1)
        }
        _ => 1,
    }
}

/// Whether a frame from the server is a message of pub/sub rather than a reply.
pub(super) fn is_push(frame: &[u8]) -> bool {
    match frame.first() {
        // RESP3 sends the confirmations of SUBSCRIBE and the like as pushes too.
        Some(b'>') => words(frame).first().is_none_or(|kind| !kind.ends_with(b"subscribe")),
        Some(b'*') => matches!(words(frame).first(), Some(&(b"message" | b"pmessage" | b"smessage"))),
        _ => false,
    }
}

/// Name and arguments of a request, or the leading strings of a push.
pub(super) fn words(frame: &[u8]) -> Vec<&[u8]> {
    if !matches!(frame.first(), Some(b'*' | b'>')) {
        return frame.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    }
    let mut words = Vec::new();
    let mut rest = line_end(frame).map_or(&[][..], |end| &frame[end + 2..]);
    while rest.first() == Some(&b'$') {
        let Some(end) = line_end(rest) else { break };
        let Ok(length) = count(&rest[..end]) else {
            break;
        };
        let begin = end + 2;
        let Some(stop) = usize::try_from(length).ok().and_then(|length| begin.checked_add(length)) else {
            break;
        };
        let Some(word) = rest.get(begin..stop) else {
            break;
        };
        words.push(word);
        rest = rest.get(stop + 2..).unwrap_or_default();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8], chunk: usize) -> Vec<Vec<u8>> {
        let mut framer = Framer::default();
        let mut frames = Vec::new();
        for part in bytes.chunks(chunk) {
            framer.push(part);
            while let Some(frame) = framer.next() {
                frames.push(frame);
            }
        }
        assert!(framer.rest().is_empty());
        frames
    }

    #[test]
    fn frames_are_found_whatever_the_chunks() {
        let parts: [&[u8]; 12] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":-1\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"%1\r\n+a\r\n:1\r\n",
            b"|1\r\n+a\r\n:1\r\n+OK\r\n",
            b"PING\r\n",
        ];
        let stream = parts.concat();
        for chunk in 1..=stream.len() {
            assert_eq!(frames(&stream, chunk), parts, "chunks of {chunk}");
        }
    }

    #[test]
    fn what_is_no_protocol_passes_as_chunks() {
        assert_eq!(frames(&[0x16, 3, 1, b'\r', b'\n', 0], 4), [&[0x16, 3, 1, b'\r'][..], b"\n\0"]);
        assert_eq!(frames(b"*x\r\nabc", 7), [b"*x\r\nabc"]);
    }

    #[test]
    fn replies_are_told_from_messages() {
        assert!(is_push(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"));
        assert!(is_push(b">2\r\n$10\r\ninvalidate\r\n*-1\r\n"));
        assert!(!is_push(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
        assert!(!is_push(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
        assert!(!is_push(b"*1\r\n:1\r\n") && !is_push(b"+message\r\n"));
        assert_eq!(reply_count(b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n"), 2);
        assert_eq!(reply_count(b"PING a b\r\n"), 1);
    }
}
