//! One line of MONITOR: `1700000000.123456 [0 127.0.0.1:5000] "SET" "k" "v\r\n\x00"`.

use std::time::{Duration, Instant};

/// A command as MONITOR shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorLine {
    /// Server time since the Unix epoch at which the command began.
    pub at: Duration,
    /// When the harness read the line.
    pub received: Instant,
    /// Number of the database.
    pub db: u32,
    /// `address:port` or `unix:path` of the client, or `lua` for a command that a script called.
    pub client: String,
    /// Whether a script called the command.
    pub lua: bool,
    /// Command and arguments without quoting; bytes that are not UTF-8 become U+FFFD.
    pub args: Vec<String>,
}

impl MonitorLine {
    /// Whether the command has this name, in any case.
    pub fn is(&self, command: &str) -> bool {
        self.args.first().is_some_and(|name| name.eq_ignore_ascii_case(command))
    }

    /// Whether an argument, the command's name included, equals `text`.
    pub fn has(&self, text: &str) -> bool {
        self.args.iter().any(|arg| arg == text)
    }

    /// Whether an argument contains `text`.
    pub fn mentions(&self, text: &str) -> bool {
        self.args.iter().any(|arg| arg.contains(text))
    }

    /// Parses a line without its leading `+`; `None` for what is no command.
    pub(super) fn parse(line: &str, received: Instant) -> Option<Self> {
        let (time, rest) = line.split_once(" [")?;
        let (seconds, micros) = time.split_once('.')?;
        let at = Duration::new(seconds.parse().ok()?, micros.parse::<u32>().ok()?.checked_mul(1000)?);
        let (db, rest) = rest.split_once(' ')?;
        // The path of a Unix socket may hold brackets, the end of the source cannot be anything but `] "`.
        let (client, quoted) = rest.split_once("] \"")?;
        let args = unquote(quoted)?;
        let lua = client == "lua";
        Some(Self { at, received, db: db.parse().ok()?, client: client.to_owned(), lua, args })
    }
}

/// Splits `SET" "k" "v\n"`, which follows the first quote, into its arguments.
fn unquote(text: &str) -> Option<Vec<String>> {
    let mut args = Vec::new();
    let mut arg = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                args.push(String::from_utf8_lossy(&arg).into_owned());
                arg.clear();
                match (bytes.next(), bytes.next()) {
                    (None, _) => return Some(args),
                    (Some(b' '), Some(b'"')) => {}
                    _ => return None,
                }
            }
            b'\\' => arg.push(match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => hex(bytes.next()?)? * 16 + hex(bytes.next()?)?,
                other => other,
            }),
            other => arg.push(other),
        }
    }
    None
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<MonitorLine> {
        MonitorLine::parse(line, Instant::now())
    }

    #[test]
    fn a_client_line() {
        let line = parse(r#"1700000000.000042 [3 127.0.0.1:5000] "SET" "a b" "x\"\\\r\n\x00\xc3\xa9" """#).unwrap();
        assert_eq!(line.at, Duration::new(1_700_000_000, 42_000));
        assert_eq!((line.db, line.client.as_str(), line.lua), (3, "127.0.0.1:5000", false));
        assert_eq!(line.args, ["SET", "a b", "x\"\\\r\n\0é", ""]);
        assert!(line.is("set") && line.has("a b") && line.mentions(" ") && !line.has("a"));
    }

    #[test]
    fn a_script_line_and_a_socket_line() {
        assert!(parse(r#"1.5 [0 lua] "del" "k""#).unwrap().lua);
        assert_eq!(parse(r#"1.5 [0 unix:/tmp/a] b] "PING""#).unwrap().client, "unix:/tmp/a] b");
    }

    #[test]
    fn what_is_no_command() {
        for line in ["", "OK", "1.5 [0 lua]", r#"1.5 [0 lua] "open"#, r#"1.5 [x lua] "a""#, r#"1.5 [0 lua] "a"b"#] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
