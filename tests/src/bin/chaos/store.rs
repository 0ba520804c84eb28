//! The fenced store, as its process and as a client sees it; `store.py` names the lines.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redlatch_tests::Process;

use crate::checker::{Served, Verb};

/// How long the store may take to start and to end.
const LIMIT: Duration = Duration::from_secs(20);

/// The store's process.
pub(crate) struct Store {
    process: Process,
    socket: PathBuf,
}

impl Store {
    /// Run by any Python 3; its files are in `dir`.
    pub(crate) fn start(python: &Path, dir: &Path) -> Store {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/chaos/store.py");
        let (socket, database) = (dir.join("store.sock"), dir.join("store.db"));
        let mut process = Process::start(python, ["-I".as_ref(), script.as_path(), &socket, &database]);
        process.expect("ready", LIMIT);
        Store { process, socket }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Everything it has served, in order, once nobody writes any more.
    pub(crate) fn end(mut self) -> Vec<Served> {
        let mut connection = Connection::open(&self.socket).expect("the store serves");
        connection.send("dump").expect("the store serves");
        let served = |line: String| Served::parse(&line).unwrap_or_else(|| panic!("the store says {line:?}"));
        let mut all = Vec::new();
        loop {
            let line = connection.line().expect("the store serves");
            if line == "end" {
                break;
            }
            all.push(served(line));
        }
        self.process.close_input();
        assert!(self.process.wait_exit(LIMIT).is_some(), "the store ends");
        all
    }
}

impl Served {
    fn parse(line: &str) -> Option<Served> {
        let words: Vec<&str> = line.split(' ').collect();
        let [verb, key, fence, version, accepted] = words[..] else { return None };
        let verb = match verb {
            "begin" => Verb::Begin,
            "write" => Verb::Write,
            _ => return None,
        };
        let (key, fence, version) = (key.parse().ok()?, fence.parse().ok()?, version.parse().ok()?);
        Some(Served { verb, key, fence, version, accepted: accepted == "1" })
    }
}

/// A worker's connection to the store.
pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(crate) fn open(socket: &Path) -> io::Result<Connection> {
        Ok(Connection(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// The version that the holder of this fence found, `None` when it is refused.
    pub(crate) fn begin(&mut self, key: usize, fence: u64) -> io::Result<Option<u64>> {
        self.ask(&format!("begin {key} {fence}"))
    }

    /// The version that was written, `None` when the write is refused.
    pub(crate) fn write(&mut self, key: usize, fence: u64, version: u64) -> io::Result<Option<u64>> {
        self.ask(&format!("write {key} {fence} {version}"))
    }

    fn ask(&mut self, line: &str) -> io::Result<Option<u64>> {
        self.send(line)?;
        let answer = self.line()?;
        match answer.split_once(' ') {
            Some(("ok", version)) => version.parse().map(Some).map_err(io::Error::other),
            Some(("refused", _)) => Ok(None),
            _ => Err(io::Error::other(answer)),
        }
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
