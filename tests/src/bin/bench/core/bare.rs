//! What the library is compared with: the same commands, sent without it.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use redis::{ConnectionInfo, ConnectionLike, IntoConnectionInfo, Value, io::tcp::TcpSettings};
use redlatch_tests::{MonitorLine, Server};
use uuid::Uuid;

const ACQUIRE: &str = include_str!("../../../../../core/src/protocol/acquire.lua");
const RELEASE: &str = include_str!("../../../../../core/src/protocol/release.lua");
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// Where the keys are in the arguments of `EVALSHA`, after the hash and their number.
const KEYS: Range<usize> = 2..9;

/// One command of the library as MONITOR showed it, to be sent again with other tokens.
#[derive(Debug)]
struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Fixed(String),
    Token,
    /// A key that ends with the token.
    Ending(String),
}

impl Template {
    fn of(line: &MonitorLine, source: &str, token: &str) -> Template {
        assert!(line.is("EVALSHA"), "the library sends its scripts by EVALSHA: {:?}", line.args);
        let sha = redis::Script::new(source).get_hash().to_owned();
        assert_eq!(line.args[1], sha, "the library sends the script that this benchmark was built with");
        let part = |arg: &String| match arg.strip_suffix(token) {
            Some("") => Part::Token,
            Some(before) => Part::Ending(before.to_owned()),
            None => Part::Fixed(arg.clone()),
        };
        Template(line.args[1..].iter().map(part).collect())
    }

    fn command(&self, token: &str) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        for part in &self.0 {
            match part {
                Part::Fixed(text) => command.arg(text),
                Part::Token => command.arg(token),
                Part::Ending(before) => command.arg(format!("{before}{token}")),
            };
        }
        command
    }

    /// The command put together by redis-rs, with room for all of it, and a text of its own for each key.
    fn assembled(&self, token: &str) -> redis::Cmd {
        let mut command = redis::Cmd::with_capacity(1 + self.0.len(), 1_024);
        command.arg("EVALSHA");
        for (position, part) in self.0.iter().enumerate() {
            match part {
                Part::Fixed(key) if KEYS.contains(&position) => command.arg(key.clone()),
                Part::Fixed(text) => command.arg(text),
                Part::Token => command.arg(token),
                Part::Ending(before) => command.arg(format!("{before}{token}")),
            };
        }
        command
    }

    /// The command with more arguments, written once into one buffer.
    fn bytes(&self, token: &str, more: &[&str]) -> Vec<u8> {
        let mut bytes = String::with_capacity(1_024);
        let mut word = |parts: [&str; 2]| {
            let length = parts[0].len() + parts[1].len();
            write!(bytes, "${length}\r\n{}{}\r\n", parts[0], parts[1]).expect("a text takes what is written");
        };
        word(["EVALSHA", ""]);
        for part in &self.0 {
            match part {
                Part::Fixed(text) => word([text, ""]),
                Part::Token => word([token, ""]),
                Part::Ending(before) => word([before, token]),
            }
        }
        more.iter().for_each(|text| word([text, ""]));
        let mut whole = format!("*{}\r\n", 1 + self.0.len() + more.len());
        whole.push_str(&bytes);
        whole.into_bytes()
    }

    /// The command as words.
    fn words(&self, token: &str) -> Vec<String> {
        let word = |part: &Part| match part {
            Part::Fixed(text) => text.clone(),
            Part::Token => token.to_owned(),
            Part::Ending(before) => format!("{before}{token}"),
        };
        std::iter::once("EVALSHA".to_owned()).chain(self.0.iter().map(word)).collect()
    }
}

/// How the two scripts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the library does it now.
    Plain,
    /// With the argument that has them read all keys.
    Thorough,
    /// The socket's time limits are set to what is left for each request.
    Limited,
    /// By `redis::Cmd`, with a text of its own for each key.
    Assembled,
}

/// One redis-rs connection and what is sent over it, `TCP_NODELAY` set as the library sets it, without time limits.
///
/// Every pair makes a token of the library's form and length, from a new version 4 UUID. Scripts are sent by
/// their hash, and replies are parsed and looked at.
pub(crate) struct Bare {
    connection: redis::Connection,
    acquire: Template,
    release: Template,
    owner: String,
    naive_key: String,
    compare_and_delete: String,
    limit: Duration,
}

impl Bare {
    /// A replay of one uncontended pair of the library, with its keys and arguments.
    pub(crate) fn replaying(server: &Server, pair: &[MonitorLine]) -> Bare {
        let [acquire, release] = pair else { panic!("a pair is two commands: {pair:?}") };
        let key = &acquire.args[3];
        assert!(!server.exists(key), "the pair has released its lock");
        // EVALSHA sha 7 <seven keys> token …
        let token = &acquire.args[10];
        let (_, owner) = token.split_once('@').expect("a token is <uuid>@<owner>");
        let mut connection = connect(server);
        let load = |connection: &mut redis::Connection, source: &str| -> String {
            redis::cmd("SCRIPT").arg("LOAD").arg(source).query(connection).expect("the server loads scripts")
        };
        let compare_and_delete = load(&mut connection, COMPARE_AND_DELETE);
        Bare {
            acquire: Template::of(acquire, ACQUIRE, token),
            release: Template::of(release, RELEASE, token),
            owner: owner.to_owned(),
            naive_key: format!("{key}.naive"),
            compare_and_delete,
            limit: Duration::from_secs(1_000_000),
            connection,
        }
    }

    /// The two scripts of the library.
    pub(crate) fn scripts(&mut self) {
        let token = self.token();
        let granted: Value = self.acquire.command(&token).query(&mut self.connection).expect("acquire is answered");
        assert!(begins_with_one(&granted), "the lock is free");
        let released: Value = self.release.command(&token).query(&mut self.connection).expect("release is answered");
        assert!(begins_with_one(&released), "the lock is the token's");
    }

    /// The two scripts, sent in this manner.
    pub(crate) fn scripts_in(&mut self, manner: Manner) {
        let token = self.token();
        for template in [&self.acquire, &self.release] {
            let request = match manner {
                Manner::Assembled => template.assembled(&token).get_packed_command(),
                Manner::Thorough => template.bytes(&token, &["1"]),
                Manner::Plain | Manner::Limited => template.bytes(&token, &[]),
            };
            if manner == Manner::Limited {
                self.limit -= Duration::from_millis(1);
                let set = self.connection.set_read_timeout(Some(self.limit));
                set.and_then(|()| self.connection.set_write_timeout(Some(self.limit))).expect("the limit is valid");
            }
            let reply = self.connection.req_packed_command(&request).expect("the script is answered");
            assert!(begins_with_one(&reply), "the lock is free, then the token's");
        }
    }

    /// What people write by hand: `SET NX PX`, then compare-and-delete.
    pub(crate) fn naive(&mut self) {
        let token = self.token();
        let mut set = redis::cmd("SET");
        set.arg(&self.naive_key).arg(&token).arg("NX").arg("PX").arg(30_000);
        let granted: Value = set.query(&mut self.connection).expect("SET is answered");
        assert_eq!(granted, Value::Okay);
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&self.compare_and_delete).arg(1).arg(&self.naive_key).arg(&token);
        let released: Value = delete.query(&mut self.connection).expect("the script is answered");
        assert_eq!(released, Value::Int(1));
    }

    /// The floor of anything that needs two round trips.
    pub(crate) fn two_pings(&mut self) {
        for _ in 0..2 {
            let pong: Value = redis::cmd("PING").query(&mut self.connection).expect("PING is answered");
            assert_eq!(pong, Value::SimpleString("PONG".to_owned()));
        }
    }

    /// The two scripts as words, for those who send them by other means.
    pub(crate) fn words(&self, token: &str) -> [Vec<String>; 2] {
        [self.acquire.words(token), self.release.words(token)]
    }

    /// What a token ends with, after its `@`.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    fn token(&self) -> String {
        let mut buffer = Uuid::encode_buffer();
        let id: &str = Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        format!("{id}@{}", self.owner)
    }
}

fn connect(server: &Server) -> redis::Connection {
    let info: ConnectionInfo = server.url().into_connection_info().expect("the URL is valid");
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    redis::Client::open(info).and_then(|client| client.get_connection()).expect("the server accepts")
}

fn begins_with_one(reply: &Value) -> bool {
    matches!(reply, Value::Array(fields) if fields.first() == Some(&Value::Int(1)))
}
