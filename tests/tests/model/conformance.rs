//! The model's server and a real one with the real scripts, side by side through the same random requests: they must
//! give the same answers and end in the same state. Time is the model's: a tick that ends a lease or makes a turn due
//! is written into the real keys.

use redlatch_tests::{RawConnection, Server};

use super::rules::{Role, Rules};
use super::server::World;
use super::state::{CLIENTS, Channel, Client, INBOXES, Owner, Phase, Reply, Request, State};

const ACQUIRE: &str = include_str!("../../../core/src/protocol/acquire.lua");
const RELEASE: &str = include_str!("../../../core/src/protocol/release.lua");
const RENEW: &str = include_str!("../../../core/src/protocol/renew.lua");

/// Longer than the test, in ms: nothing ends but by a tick.
const LONG: &str = "3600000";

const LOCK: &str = "lock:model";
const PLAIN: &str = "plain";

fn sibling(suffix: &str) -> String {
    format!("{{{LOCK}}}:redlatch:{suffix}")
}

fn token(client: usize) -> String {
    format!("token-{client}")
}

fn channel(inbox: Channel) -> String {
    inbox.map_or("-".to_owned(), |inbox| format!("redlatch:inbox:{inbox}"))
}

/// What both have in common: the key's value, the turn's token and inbox, the queue in order, the tombstones.
#[derive(Debug, PartialEq)]
struct Seen {
    key: Option<String>,
    turn: Option<(String, String)>,
    queue: Vec<(String, String)>,
    gone: Vec<bool>,
}

/// The two servers.
pub(crate) struct Twins<'a> {
    rules: &'a Rules,
    state: State,
    server: &'a Server,
    subscribers: Vec<RawConnection>,
    /// The score that each client was told by the real server, or nothing.
    places: [String; CLIENTS],
    last_fence: u64,
    random: u64,
}

impl<'a> Twins<'a> {
    pub(crate) fn new(rules: &'a Rules, server: &'a Server, seed: u64) -> Twins<'a> {
        server.flush();
        // A client that sleeps keeps everything that the server knows of it in the state.
        let client = Client { phase: Phase::Sleeping, ..Client::default() };
        let state = State { clients: [client; CLIENTS], ..State::default() };
        let subscribers = (0..INBOXES).map(|_| server.raw_connection()).collect();
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut twins = Twins { rules, state, server, subscribers, places: Default::default(), last_fence: 0, random };
        (0..INBOXES).for_each(|inbox| twins.subscription(inbox));
        if twins.below(2) == 0 {
            // Chance alone seldom leads to a turn with others in the queue.
            let inbox = twins.inbox();
            (0..CLIENTS).for_each(|client| twins.acquire(client, true, inbox));
            twins.release(0);
            twins.tick();
        }
        twins
    }

    /// One random request, tick or change of the world.
    pub(crate) fn step(&mut self) {
        let client = self.below(CLIENTS);
        match self.below(14) {
            0..4 => {
                let (joins, inbox) = (self.below(4) > 0, self.inbox());
                self.acquire(client, joins, inbox);
            }
            4..7 => self.release(client),
            7 => self.renew(client),
            8..12 => self.tick(),
            12 => self.plain(),
            _ => {
                let inbox = self.below(INBOXES);
                self.subscription(inbox);
            }
        }
        self.state = self.state.canonical();
        assert_eq!(self.model(), self.real());
    }

    fn inbox(&mut self) -> Channel {
        [None, Some(0), Some(0), Some(1)][self.below(4)]
    }

    fn acquire(&mut self, client: usize, joins: bool, inbox: Channel) {
        let knows = self.below(2) == 0;
        let place = self.state.clients[client].place;
        let request = Request { score: if knows { place } else { 0 }, inbox };
        let score = if knows { self.places[client].clone() } else { String::new() };

        let mut rules = self.rules.clone();
        rules.clients[client] = Role { joins, ..rules.clients[client] };
        let mut world = World { state: self.state, rules: &rules, broken: None };
        let expected = world.acquire(client, request);
        self.state = world.state;

        let mode = if joins { "join" } else { "try" };
        let (token, channel) = (token(client), channel(inbox));
        // The outcome is the same whether all keys are read in any case or not.
        let thorough = ["", "1"][self.below(2)];
        let arguments = [&token, LONG, LONG, mode, &score, &channel, LONG, "", thorough];
        let (status, _, rank, score, fence): (i64, i64, i64, String, String) = self.run(ACQUIRE, client, &arguments);
        match expected {
            Reply::Granted { .. } => {
                assert_eq!((status, rank), (1, -1));
                let fence = fence.parse().unwrap();
                assert!(fence > self.last_fence);
                self.last_fence = fence;
            }
            Reply::Busy { score: 0, .. } => assert_eq!((status, rank, score.as_str()), (0, -1, "")),
            Reply::Busy { score: place, .. } => {
                let before = self.state.queue.iter().flatten().filter(|entry| entry.score < place).count();
                assert_eq!((status, rank), (0, before as i64));
                self.state.clients[client].place = place;
                self.places[client] = score;
            }
            Reply::Abandoned => assert_eq!(status, -1),
            Reply::None | Reply::Released => unreachable!("no answer to an acquire"),
        }
    }

    fn release(&mut self, client: usize) {
        let tombstone = self.below(4) == 0;
        let held = self.state.key == Owner::Token(client as u8);
        let mut world = World { state: self.state, rules: self.rules, broken: None };
        world.state.clients.iter_mut().for_each(|client| client.push = false);
        world.state.clients[client].unanswered = tombstone;
        world.release(client);
        self.state = world.state;

        let (token, life) = (token(client), if tombstone { LONG } else { "0" });
        let thorough = ["", "1"][self.below(2)];
        let arguments = [&token, life, LONG, LONG, "1", thorough];
        let (released, woken, denied, damaged): (i64, i64, i64, String) = self.run(RELEASE, client, &arguments);
        let pushed = (0..CLIENTS).find(|other| self.state.clients[*other].push);
        let expected = (i64::from(held), i64::from(pushed.is_some()), 0, "");
        assert_eq!((released, woken, denied, damaged.as_str()), expected);
        if let Some(pushed) = pushed {
            let inbox = self.state.turn.and_then(|turn| turn.inbox).expect("a push goes to an inbox");
            let message = self.subscribers[usize::from(inbox)].read().unwrap();
            let (_, _, woken): (String, String, String) = redis::from_redis_value(message).unwrap();
            assert_eq!(woken, self::token(pushed));
        }
    }

    fn renew(&mut self, client: usize) {
        let mut world = World { state: self.state, rules: self.rules, broken: None };
        let expected = world.renew(client);
        self.state = world.state;
        let probe = sibling("probe");
        let renewed: Vec<i64> = self.server.query(&["EVAL", RENEW, "2", LOCK, &probe, &token(client), LONG]);
        assert_eq!(renewed, [i64::from(expected)]);
    }

    fn tick(&mut self) {
        let before = self.state;
        let mut world = World { state: self.state, rules: self.rules, broken: None };
        world.tick();
        self.state = world.state;
        if before.key != Owner::Nobody && self.state.key == Owner::Nobody {
            self.server.del(LOCK);
        }
        if let Some(turn) = self.state.turn.filter(|turn| turn.left == 0) {
            let overdue = format!("1 {} {}", token(turn.client.into()), channel(turn.inbox));
            self.server.set(&sibling("turn"), &overdue);
        }
    }

    fn plain(&mut self) {
        match self.state.key {
            Owner::Nobody => {
                (self.state.key, self.state.key_left) = (Owner::Plain, self.rules.ttl);
                self.server.set(LOCK, PLAIN);
            }
            Owner::Plain => {
                (self.state.key, self.state.key_left) = (Owner::Nobody, 0);
                self.server.del(LOCK);
            }
            Owner::Token(_) => {}
        }
    }

    /// An inbox comes or goes.
    fn subscription(&mut self, inbox: usize) {
        let subscribed = &mut self.state.inboxes[inbox].subscribed;
        *subscribed = !*subscribed;
        let verb = if *subscribed { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
        let _: redis::Value = self.subscribers[inbox].command(&[verb, &channel(Some(inbox as u8))]).unwrap();
    }

    fn run<T: redis::FromRedisValue>(&self, script: &str, client: usize, arguments: &[&str]) -> T {
        let gone = format!("gone:{}", token(client));
        let siblings = ["fence", "queue", "waiters", "turn", &gone, "probe"].map(sibling);
        let mut command = vec!["EVAL", script, "7", LOCK];
        command.extend(siblings.iter().map(String::as_str));
        command.extend(arguments);
        self.server.query(&command)
    }

    fn model(&self) -> Seen {
        let state = &self.state;
        let key = match state.key {
            Owner::Nobody => None,
            Owner::Plain => Some(PLAIN.to_owned()),
            Owner::Token(client) => Some(token(client.into())),
        };
        let mut queue: Vec<_> = (0..CLIENTS).filter_map(|client| Some((state.queue[client]?, client))).collect();
        queue.sort_unstable_by_key(|(entry, _)| entry.score);
        Seen {
            key,
            turn: state.turn.map(|turn| (token(turn.client.into()), channel(turn.inbox))),
            queue: queue.into_iter().map(|(entry, client)| (token(client), channel(entry.inbox))).collect(),
            gone: state.clients.iter().map(|client| client.gone).collect(),
        }
    }

    fn real(&self) -> Seen {
        let server = self.server;
        let queue: Vec<String> = server.query(&["ZRANGE", &sibling("queue"), "0", "-1"]);
        let waiters: std::collections::BTreeMap<String, String> = server.query(&["HGETALL", &sibling("waiters")]);
        assert_eq!(waiters.len(), queue.len(), "queue and waiters differ: {queue:?}, {waiters:?}");
        let turn = server.get(&sibling("turn")).map(|turn| {
            let words: Vec<&str> = turn.split(' ').skip(1).collect();
            (words[0].to_owned(), words[1].to_owned())
        });
        Seen {
            key: server.get(LOCK),
            turn,
            queue: queue.into_iter().map(|token| (token.clone(), waiters[&token].clone())).collect(),
            gone: (0..CLIENTS).map(|client| server.exists(&sibling(&format!("gone:{}", token(client))))).collect(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % limit
    }
}
