//! A store in this process with the same typed requests: for tests, of users and of redlatch itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Moment, Monitor};
use crate::error::{Error, Result};
use crate::protocol::{
    Acquire, Acquired, Ask, Inspection, Key, NO_INBOX, Place, Release, ReleaseAnswer, Renew, Renewal, SIBLING_LIFE,
};
use crate::token::Token;

use super::{Answered, Deployment, Exchange, Fault, Listener, Transport};

/// Stores with a name, shared by all clients of the process that use it while one of them lives.
static NAMED: LazyLock<Mutex<HashMap<String, Weak<MemoryServer>>>> = LazyLock::new(Mutex::default);

/// Server time at the clock's zero, in µs, so that fences look as they do on a server.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// Names from which on the store looks for those that have lapsed.
const SWEPT_FROM: usize = 1024;

/// Waiters without a subscriber that one release passes over at most.
const PASSED_OVER: usize = 256;

/// The store. It answers at once and never fails.
pub(crate) struct MemoryServer {
    clock: Clock,
    keys: Mutex<HashMap<Box<str>, Keyspace>>,
    channels: Mutex<HashMap<String, Arc<Channel>>>,
    shown: String,
}

/// Messages on their way to a subscriber.
type Channel = Monitor<VecDeque<Box<str>>>;

/// Whose turn it is: token and inbox.
type Next = (Box<str>, Box<str>);

/// All that is kept for one lock.
#[derive(Default)]
struct Keyspace {
    holder: Option<Expiring<Token>>,
    fence: Option<Expiring<u64>>,
    /// Waiting tokens by score, as the sorted set orders them.
    queue: BTreeSet<(u64, Box<str>)>,
    /// Waiting token to its inbox and score.
    waiters: HashMap<Box<str>, (Box<str>, u64)>,
    waiters_until: Option<Moment>,
    turn: Option<Turn>,
    tombstones: BTreeMap<Box<str>, Moment>,
}

struct Expiring<T> {
    value: T,
    until: Moment,
}

struct Turn {
    due: Moment,
    token: Box<str>,
    inbox: Box<str>,
    until: Moment,
}

impl MemoryServer {
    /// The store of that name, made if need be; without a name a new one of the caller's own.
    pub(crate) fn open(name: Option<&str>, clock: &Clock) -> Result<Arc<MemoryServer>> {
        let Some(name) = name else { return Ok(Arc::new(MemoryServer::new(clock, "memory://"))) };
        let mut named = NAMED.lock();
        named.retain(|_, server| server.strong_count() > 0);
        if let Some(server) = named.get(name).and_then(Weak::upgrade) {
            let same = match (&server.clock, clock) {
                (Clock::System, Clock::System) => true,
                (Clock::Manual(one), Clock::Manual(other)) => one.same(other),
                _ => false,
            };
            let expected = "the clock of the clients that share this store already";
            return if same { Ok(server) } else { Err(Error::config("manual_clock", "another clock", expected)) };
        }
        let server = Arc::new(MemoryServer::new(clock, &format!("memory://{name}")));
        named.insert(name.to_owned(), Arc::downgrade(&server));
        Ok(server)
    }

    fn new(clock: &Clock, shown: &str) -> MemoryServer {
        MemoryServer {
            clock: clock.clone(),
            keys: Mutex::default(),
            channels: Mutex::default(),
            shown: shown.to_owned(),
        }
    }

    fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Keyspace, Moment) -> T) -> Answered<T> {
        let now = self.clock.now();
        let mut keys = self.keys.lock();
        if keys.len() >= SWEPT_FROM && keys.len().is_power_of_two() {
            keys.retain(|_, keyspace| {
                keyspace.lapse(now);
                !keyspace.is_empty()
            });
        }
        let keyspace = keys.entry(key.as_str().into()).or_default();
        keyspace.lapse(now);
        let reply = work(keyspace, now);
        if keyspace.is_empty() {
            keys.remove(key.as_str());
        }
        Answered { reply, sent: now }
    }

    fn has_subscriber(&self, inbox: &str) -> bool {
        self.channels.lock().contains_key(inbox)
    }

    fn publish(&self, inbox: &str, message: &str) -> bool {
        let Some(channel) = self.channels.lock().get(inbox).cloned() else { return false };
        channel.lock().push_back(message.into());
        channel.notify_all();
        true
    }
}

#[cfg(test)]
impl MemoryServer {
    /// `SET NX PX` of a plain client.
    pub(crate) fn plain_set(&self, key: &Key, value: &str, ttl: Duration) {
        let set = |keyspace: &mut Keyspace, now: Moment| {
            keyspace.holder.get_or_insert(Expiring { value: Token::foreign(value), until: now.after(ttl) });
        };
        self.with(key, set);
    }

    /// `DEL` of a plain client.
    pub(crate) fn plain_delete(&self, key: &Key) {
        self.with(key, |keyspace, _| keyspace.holder = None);
    }
}

fn micros(now: Moment) -> u64 {
    EPOCH_MICROS + now.nanos() / 1_000
}

impl Keyspace {
    fn is_empty(&self) -> bool {
        let Keyspace { holder, fence, queue, waiters, waiters_until: _, turn, tombstones } = self;
        holder.is_none()
            && fence.is_none()
            && queue.is_empty()
            && waiters.is_empty()
            && turn.is_none()
            && tombstones.is_empty()
    }

    fn lapse(&mut self, now: Moment) {
        self.holder.take_if(|holder| holder.until <= now);
        self.fence.take_if(|fence| fence.until <= now);
        self.turn.take_if(|turn| turn.until <= now);
        self.tombstones.retain(|_, until| *until > now);
        if self.waiters_until.is_some_and(|until| until <= now) {
            self.queue.clear();
            self.waiters.clear();
            self.waiters_until = None;
        }
    }

    fn acquire(&mut self, request: &Acquire<'_>, now: Moment) -> Acquired {
        let token = request.token.as_str();
        if self.tombstones.contains_key(token) {
            return Acquired::Abandoned;
        }
        let mine = |turn: &Turn| &*turn.token == token;
        let my_turn = self.turn.as_ref().is_some_and(mine);
        let left = match (&self.holder, &self.turn, &request.ask) {
            (Some(holder), _, _) if holder.value == *request.token => return self.grant(request, now),
            (Some(holder), _, Ask::Adopt { from }) if holder.value == **from => return self.grant(request, now),
            (_, _, Ask::Adopt { .. }) => None,
            (Some(holder), _, _) => Some(holder.until.since(now)),
            (None, Some(turn), _) if !my_turn && now < turn.due => Some(turn.due.since(now)),
            (None, Some(_), _) => {
                if !my_turn {
                    self.prune_overdue_inbox();
                }
                return self.grant(request, now);
            }
            (None, None, _) => return self.grant(request, now),
        };
        if self.holder.is_some() {
            self.turn.take_if(|turn| mine(turn));
        }
        let place = match request.ask {
            Ask::Join { score, inbox } => Some(self.join(token, score, inbox, now)),
            Ask::Try | Ask::Adopt { .. } => None,
        };
        Acquired::Busy { left, place }
    }

    fn grant(&mut self, request: &Acquire<'_>, now: Moment) -> Acquired {
        self.holder = Some(Expiring { value: request.token.clone(), until: now.after(request.ttl) });
        self.turn.take_if(|turn| *turn.token == *request.token.as_str());
        self.leave(request.token.as_str());
        let last = self.fence.as_ref().map_or(0, |fence| fence.value);
        let fence = (last + 1).max(micros(now));
        self.fence = Some(Expiring { value: fence, until: now.after(request.fence_retention) });
        Acquired::Granted { fence }
    }

    fn join(&mut self, token: &str, score: Option<u64>, inbox: &str, now: Moment) -> Place {
        let known = self.waiters.get(token).map(|(_, score)| *score);
        let score = known.or(score).unwrap_or_else(|| micros(now));
        self.waiters.insert(token.into(), (inbox.into(), score));
        self.queue.insert((score, token.into()));
        self.waiters_until = Some(now.after(SIBLING_LIFE));
        let rank = self.queue.range(..(score, Box::from(token))).count();
        Place { rank: rank as u64, score }
    }

    fn leave(&mut self, token: &str) {
        if let Some((_, score)) = self.waiters.remove(token) {
            self.queue.remove(&(score, token.into()));
        }
    }

    fn prune_overdue_inbox(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        self.leave(&turn.token);
        if &*turn.inbox != NO_INBOX {
            let same = self.waiters.iter().filter(|(_, (inbox, _))| *inbox == turn.inbox);
            let tokens: Vec<Box<str>> = same.map(|(token, _)| token.clone()).collect();
            tokens.iter().for_each(|token| self.leave(token));
        }
    }

    /// Whether the key was the token's, and who has the turn next if it is passed on.
    fn release(
        &mut self,
        request: &Release<'_>,
        now: Moment,
        subscribed: impl Fn(&str) -> bool,
    ) -> (bool, Option<Next>) {
        let token = request.token.as_str();
        if let Some(life) = request.tombstone {
            self.tombstones.insert(token.into(), now.after(life));
        }
        self.leave(token);
        let released = self.holder.take_if(|holder| holder.value == *request.token).is_some();
        let had_turn = self.turn.take_if(|turn| &*turn.token == token).is_some();
        let pass = released || (had_turn && self.holder.is_none());
        (released, if pass { self.pass_turn(request.turn, now, subscribed) } else { None })
    }

    /// Gives the turn to the first live waiter: its token and inbox.
    fn pass_turn(&mut self, turn: Duration, now: Moment, subscribed: impl Fn(&str) -> bool) -> Option<Next> {
        for _ in 0..PASSED_OVER {
            let (_, token) = self.queue.pop_first()?;
            let inbox: Box<str> = self.waiters.remove(&token).map_or_else(|| NO_INBOX.into(), |(inbox, _)| inbox);
            if &*inbox == NO_INBOX || subscribed(&inbox) {
                let next = (token.clone(), inbox.clone());
                self.turn = Some(Turn { due: now.after(turn), token, inbox, until: now.after(SIBLING_LIFE) });
                return Some(next);
            }
        }
        None
    }
}

impl Transport for Arc<MemoryServer> {
    fn acquire(&self, request: &Acquire<'_>, _by: Moment) -> Exchange<Acquired> {
        let mut answer = self.with(request.key, |keyspace, now| keyspace.acquire(request, now));
        if let (Acquired::Granted { .. }, Some(_)) = (answer.reply, request.replication) {
            // The store has no replicas, so none acknowledges.
            answer.reply = Acquired::NotReplicated { acknowledged: 0, waited: Duration::ZERO };
        }
        Ok(answer)
    }

    fn release(&self, request: &Release<'_>, _by: Moment) -> Exchange<ReleaseAnswer> {
        let answer =
            self.with(request.key, |keyspace, now| keyspace.release(request, now, |inbox| self.has_subscriber(inbox)));
        let (released, next) = answer.reply;
        let woken = next.is_some_and(|(token, inbox)| self.publish(&inbox, &token));
        let reply = ReleaseAnswer { released, woken, publish_denied: false, damaged: None };
        Ok(Answered { reply, sent: answer.sent })
    }

    fn renew(&self, batch: &[Renew<'_>], _by: Moment) -> Exchange<Vec<Renewal>> {
        let sent = self.clock.now();
        let renew = |item: &Renew<'_>| {
            let renewed = self.with(item.key, |keyspace, now| match &mut keyspace.holder {
                Some(holder) if holder.value == *item.token => {
                    holder.until = now.after(item.ttl);
                    Renewal::Renewed
                }
                _ => Renewal::NotOurs,
            });
            renewed.reply
        };
        Ok(Answered { reply: batch.iter().map(renew).collect(), sent })
    }

    fn inspect(&self, key: &Key, _by: Moment) -> Exchange<Inspection> {
        Ok(self.with(key, |keyspace, now| Inspection {
            token: keyspace.holder.as_ref().map(|holder| holder.value.clone()),
            left: keyspace.holder.as_ref().map(|holder| holder.until.since(now)),
            fence: keyspace.fence.as_ref().map(|fence| fence.value),
            waiters: keyspace.queue.len() as u64,
        }))
    }

    fn listen(&self, channel: &str, listener: &dyn Listener) -> Result<(), Fault> {
        let messages = Arc::new(Monitor::new(&self.clock, true, VecDeque::new()));
        self.channels.lock().insert(channel.to_owned(), messages.clone());
        listener.subscribed();
        let mut waiting = messages.lock();
        while listener.wants_more() {
            match waiting.pop_front() {
                Some(message) => {
                    drop(waiting);
                    listener.message(&message);
                    waiting = messages.lock();
                }
                None => waiting = waiting.wait_until(Moment::FAR),
            }
        }
        drop(waiting);
        self.channels.lock().remove(channel);
        Ok(())
    }

    fn nudge(&self, channel: &str) {
        let channel = self.channels.lock().get(channel).cloned();
        if let Some(channel) = channel {
            // Taking the lock orders this after a listener that has looked but sleeps not yet.
            drop(channel.lock());
            channel.notify_all();
        }
    }

    fn deployment(&self, _by: Moment) -> Result<Deployment, Fault> {
        Ok(Deployment::Memory)
    }

    fn dedicated(&self) -> Box<dyn Transport> {
        Box::new(self.clone())
    }

    fn server(&self) -> &str {
        &self.shown
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryServer").field(&self.shown).finish()
    }
}
