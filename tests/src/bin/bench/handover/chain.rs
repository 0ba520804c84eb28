//! The messages of a hand-over, sent without the library: one thread, one connection for requests, one for the inbox.

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, Value, io::tcp::TcpSettings};
use redlatch_tests::MonitorLine;
use uuid::Uuid;

const ACQUIRE: &str = include_str!("../../../../../core/src/protocol/acquire.lua");
const RELEASE: &str = include_str!("../../../../../core/src/protocol/release.lua");

/// What the commands of one lock are made of.
#[derive(Debug)]
struct Commands {
    key: String,
    acquire: String,
    release: String,
}

impl Commands {
    fn new(key: &str) -> Commands {
        let sha = |source| redis::Script::new(source).get_hash().to_owned();
        Commands { key: key.to_owned(), acquire: sha(ACQUIRE), release: sha(RELEASE) }
    }

    fn script(&self, sha: &str, token: &str) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha).arg(7).arg(&self.key);
        for sibling in ["fence", "queue", "waiters", "turn"] {
            command.arg(format!("{{{}}}:redlatch:{sibling}", self.key));
        }
        command.arg(format!("{{{}}}:redlatch:gone:{token}", self.key));
        command.arg(format!("{{{}}}:redlatch:probe", self.key)).arg(token);
        command
    }

    fn acquire(&self, token: &str, score: &str, inbox: &str) -> redis::Cmd {
        let mut command = self.script(&self.acquire, token);
        command.arg(30_000).arg(3_600_000).arg("join").arg(score).arg(inbox).arg(60_000).arg("");
        command
    }

    fn release(&self, token: &str) -> redis::Cmd {
        let mut command = self.script(&self.release, token);
        command.arg(0).arg(1_000).arg(60_000).arg(1);
        command
    }
}

/// Panics unless the chain would send what the library has sent for the lock under `key`.
pub(crate) fn assert_same_messages(key: &str, sent: &[MonitorLine]) {
    let commands = Commands::new(key);
    let scripts: Vec<&MonitorLine> = sent.iter().filter(|line| line.is("EVALSHA") && line.args[3] == key).collect();
    let (mut acquires, mut releases) = (0, 0);
    for line in scripts {
        let args: Vec<&str> = line.args.iter().map(String::as_str).collect();
        let token = args[10];
        let same = if args[1] == commands.acquire {
            acquires += 1;
            commands.acquire(token, args[14], args[15])
        } else {
            releases += 1;
            commands.release(token)
        };
        let words: Vec<String> = same
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(words, args, "the library sends what this benchmark was built with");
    }
    assert!(acquires > 0 && releases > 0, "the library has handed the lock over: {sent:?}");
}

/// A participant that uses the bare messages.
pub(crate) struct Chain {
    commands: Commands,
    requests: redis::Connection,
    inbox: redis::Connection,
    channel: String,
    owner: String,
}

impl Chain {
    /// Connects, subscribes, and loads the scripts; `owner` is what the library's tokens end with.
    pub(crate) fn open(url: &str, key: &str, owner: &str) -> Chain {
        let mut requests = connect(url);
        for source in [ACQUIRE, RELEASE] {
            redis::cmd("SCRIPT").arg("LOAD").arg(source).exec(&mut requests).expect("the server loads scripts");
        }
        let mut inbox = connect(url);
        let channel = format!("redlatch:inbox:{}", Uuid::new_v4().hyphenated());
        let subscribed: Value = redis::cmd("SUBSCRIBE").arg(&channel).query(&mut inbox).expect("the server subscribes");
        assert!(matches!(subscribed, Value::Array(_)), "{subscribed:?}");
        Chain { commands: Commands::new(key), requests, inbox, channel, owner: owner.to_owned() }
    }

    /// Blocks until the lock is granted; the token and fence of the grant.
    pub(crate) fn acquire(&mut self) -> (String, u64) {
        let mut buffer = Uuid::encode_buffer();
        let id: &str = Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
        let token = format!("{id}@{}", self.owner);
        let mut score = String::new();
        loop {
            let command = self.commands.acquire(&token, &score, &self.channel);
            let reply: Value = command.query(&mut self.requests).expect("acquire is answered");
            let Value::Array(fields) = reply else { panic!("acquire: {reply:?}") };
            match fields.as_slice() {
                [Value::Int(1), _, _, _, Value::BulkString(fence)] => {
                    let fence = std::str::from_utf8(fence).ok().and_then(|digits| digits.parse().ok());
                    return (token, fence.expect("a fence is a number"));
                }
                [Value::Int(0), _, _, Value::BulkString(place), _] => {
                    score = String::from_utf8_lossy(place).into_owned();
                }
                _ => panic!("acquire: {fields:?}"),
            }
            self.wait_for_push(&token);
        }
    }

    /// Blocks on the inbox until this text arrives: the token whose turn it is.
    pub(crate) fn wait_for_push(&mut self, text: &str) {
        loop {
            let message = self.inbox.recv_response().expect("the inbox stays open");
            let Value::Array(fields) = message else { panic!("inbox: {message:?}") };
            if matches!(fields.last(), Some(Value::BulkString(payload)) if payload == text.as_bytes()) {
                return;
            }
        }
    }

    /// The channel of the inbox.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Publishes to another's inbox, by no script.
    pub(crate) fn push(&mut self, channel: &str, text: &str) {
        let receivers: Value =
            redis::cmd("PUBLISH").arg(channel).arg(text).query(&mut self.requests).expect("PUBLISH is answered");
        assert_eq!(receivers, Value::Int(1), "somebody listens");
    }

    pub(crate) fn release(&mut self, token: &str) {
        let reply: Value = self.commands.release(token).query(&mut self.requests).expect("release is answered");
        assert!(matches!(&reply, Value::Array(fields) if fields.first() == Some(&Value::Int(1))), "{reply:?}");
    }
}

/// `TCP_NODELAY` is set as the library sets it; there are no time limits.
fn connect(url: &str) -> redis::Connection {
    let info: ConnectionInfo = url.into_connection_info().expect("the URL is valid");
    let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(login);
    redis::Client::open(info).and_then(|client| client.get_connection()).expect("the server accepts")
}
