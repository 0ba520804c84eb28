//! From states to their numbers: a hash table with open addressing, 32 bytes a state.

use super::state::{Channel, Client, Owner, Phase, Renewal, Reply, Request, State};

/// A state in four words: one for the server, one for each client.
type Key = [u64; 4];

/// Half of a key's hash, and its number.
type Slot = (u32, u32);

const FREE: u32 = u32::MAX;

/// The numbers of states in the order in which they came.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<Slot>,
    keys: Vec<Key>,
}

impl Default for Index {
    fn default() -> Index {
        Index { slots: vec![(0, FREE); 1 << 16], keys: Vec::new() }
    }
}

impl Index {
    /// The number of a state.
    pub(crate) fn find(&self, state: &State) -> Option<u32> {
        self.look(&key(state)).ok()
    }

    /// Gives a state the next number; false if it has one.
    pub(crate) fn insert(&mut self, state: &State) -> bool {
        let key = key(state);
        let Err(slot) = self.look(&key) else { return false };
        self.slots[slot] = ((hash(&key) >> 32) as u32, self.keys.len() as u32);
        self.keys.push(key);
        if self.keys.len() * 2 > self.slots.len() {
            self.grow();
        }
        true
    }

    fn look(&self, key: &Key) -> Result<u32, usize> {
        let hash = hash(key);
        let mut at = self.home(hash);
        loop {
            match self.slots[at] {
                (_, FREE) => return Err(at),
                (half, number) if half == (hash >> 32) as u32 && self.keys[number as usize] == *key => {
                    return Ok(number);
                }
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn grow(&mut self) {
        self.slots = vec![(0, FREE); self.slots.len() * 2];
        for (number, key) in self.keys.iter().enumerate() {
            let hash = hash(key);
            let mut at = self.home(hash);
            while self.slots[at].1 != FREE {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = ((hash >> 32) as u32, number as u32);
        }
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}

/// A quick hash; what comes in is no attacker's.
fn hash(key: &Key) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = key.iter().fold(0, |hash: u64, word| (hash.rotate_left(23) ^ word).wrapping_mul(ODD));
    // The high bits of the last word have reached only the high bits so far.
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(ODD);
    mixed ^ mixed >> 32
}

/// Numbers side by side in a word.
struct Word(u64);

impl Word {
    fn put(&mut self, value: impl Into<u64>, bits: u32) {
        let value = value.into();
        debug_assert!(value < 1 << bits, "{value} in {bits} bits");
        self.0 = self.0 << bits | value;
    }

    fn channel(&mut self, channel: Channel) {
        self.put(channel.map_or(0, |inbox| inbox + 1), 2);
    }

    fn request(&mut self, request: Request) {
        self.put(request.score, 4);
        self.channel(request.inbox);
    }
}

fn key(state: &State) -> Key {
    let [first, second, third] = &state.clients;
    [server(state), client(first), client(second), client(third)]
}

fn server(state: &State) -> u64 {
    let mut word = Word(0);
    let owner = match state.key {
        Owner::Nobody => 0,
        Owner::Plain => 1,
        Owner::Token(client) => 2 + client,
    };
    word.put(owner, 3);
    word.put(state.key_left, 3);
    word.put(state.turn.map_or(0, |turn| turn.client + 1), 2);
    word.put(state.turn.map_or(0, |turn| turn.left), 3);
    word.channel(state.turn.and_then(|turn| turn.inbox));
    for entry in state.queue {
        word.put(entry.map_or(0, |entry| entry.score), 4);
        word.channel(entry.and_then(|entry| entry.inbox));
    }
    for inbox in state.inboxes {
        word.put(inbox.open, 1);
        word.put(inbox.subscribed, 1);
        word.put(inbox.up, 1);
    }
    word.put(state.last_fence, 3);
    let budget = state.budget;
    for count in [budget.unanswered, budget.deaths, budget.renewals, budget.inbox_losses, budget.plain] {
        word.put(count, 2);
    }
    word.0
}

fn client(client: &Client) -> u64 {
    let mut word = Word(0);
    let phase = match client.phase {
        Phase::Idle => 0_u8,
        Phase::Asking => 1,
        Phase::Sleeping => 2,
        Phase::Holding => 3,
        Phase::Releasing => 4,
        Phase::GivingUp => 5,
        Phase::Over => 6,
        Phase::Dead => 7,
    };
    word.put(phase, 3);
    word.put(client.unanswered, 1);
    word.put(client.place, 4);
    // The request matters until its answer is there.
    let (kind, number, sleep) = match client.reply {
        Reply::None => (0_u8, client.request.score, client.request.inbox.map_or(0, |inbox| inbox + 1)),
        Reply::Granted { fence } => (1, fence, 0),
        Reply::Busy { score, sleep } => (2, score, sleep),
        Reply::Abandoned => (3, 0, 0),
        Reply::Released => (4, 0, 0),
    };
    word.put(kind, 3);
    word.put(number, 4);
    word.put(sleep, 2);
    word.put(client.deadline, 3);
    word.put(client.sleep, 2);
    word.put(client.pushed, 1);
    word.put(client.push, 1);
    let (kind, deadline) = match client.renewal {
        Renewal::None => (0_u8, 0),
        Renewal::Sent(deadline) => (1, deadline),
        Renewal::Answered { renewed, deadline } => (2 + u8::from(renewed), deadline),
    };
    word.put(kind, 2);
    word.put(deadline, 3);
    for copy in client.copies {
        word.put(copy.is_some(), 1);
        word.request(copy.unwrap_or_default());
    }
    word.put(client.release_copies, 2);
    word.put(client.renew_copies, 2);
    word.put(client.gone, 1);
    word.put(client.released, 1);
    word.put(client.woke, 1);
    word.0
}
