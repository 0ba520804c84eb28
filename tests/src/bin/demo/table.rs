//! The protected resource: a table of orders and a stock, in the server that also has the locks.

use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Connection, Script};

use crate::server::connect;

/// Life of every key, for a demo that is interrupted before it can clean up.
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(120);
const STOCK: i64 = 100;

/// A worker starts on an order: like
/// `UPDATE orders SET fence = :fence WHERE id = :id AND fence <= :fence RETURNING status`.
/// From here on nobody with a lower fence can write. Without a fence it only reads.
const BEGIN: &str = "
    local fence = tonumber(ARGV[1])
    if fence then
        local highest = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
        if fence < highest then return 'refused' end
        redis.call('HSET', KEYS[1], 'fence', ARGV[1])
    end
    return redis.call('HGET', KEYS[1], 'status')";

/// A worker writes its result: order done, stock less one, as one transaction. With a fence only
/// `WHERE fence <= :fence`. Replies how often the order has been written, or 0 and the highest fence.
const FINISH: &str = "
    local fence = tonumber(ARGV[1])
    local highest = redis.call('HGET', KEYS[1], 'fence') or '0'
    if fence and fence < tonumber(highest) then return { 0, highest } end
    redis.call('HSET', KEYS[1], 'status', 'done')
    redis.call('DECR', KEYS[2])
    redis.call('LREM', KEYS[3], 0, ARGV[2])
    return { redis.call('HINCRBY', KEYS[1], 'writes', 1), highest }";

/// Names of the keys of one run.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// What a write of the table came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Accepted; the order has been written this often.
    Accepted { times: u64 },
    /// Refused, because the table has seen this higher fence.
    Refused { highest: u64 },
}

/// The table as one process sees it.
pub(crate) struct Table {
    connection: Connection,
    keys: Keys,
    begin: Script,
    finish: Script,
}

/// Deletes the keys of one run when it is dropped.
#[derive(Debug)]
pub(crate) struct Cleanup {
    url: String,
    keys: Keys,
    orders: u32,
}

impl Keys {
    /// Names that nobody else uses.
    pub(crate) fn unique(run: &str) -> Keys {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Keys { prefix: format!("{{redlatch-demo-{:x}-{:x}-{run}}}:", process::id(), now.as_nanos()) }
    }

    pub(crate) fn from_prefix(prefix: &str) -> Keys {
        Keys { prefix: prefix.to_owned() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The `key_prefix` of redlatch clients.
    pub(crate) fn lock_prefix(&self) -> String {
        format!("{}lock:", self.prefix)
    }

    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}{name}", self.lock_prefix())
    }

    fn order(&self, order: u32) -> String {
        format!("{}order:{order}", self.prefix)
    }

    fn stock(&self) -> String {
        format!("{}stock", self.prefix)
    }

    fn pending(&self) -> String {
        format!("{}pending", self.prefix)
    }
}

/// Name of an order's lock.
pub(crate) fn lock_name(order: u32) -> String {
    format!("order:{order}")
}

impl Table {
    pub(crate) fn open(url: &str, keys: &Keys) -> redis::RedisResult<Table> {
        let (begin, finish) = (Script::new(BEGIN), Script::new(FINISH));
        Ok(Table { connection: connect(url)?, keys: keys.clone(), begin, finish })
    }

    /// Enters orders 1 to `orders`, all new, and fills the stock.
    pub(crate) fn fill(&mut self, orders: u32) -> redis::RedisResult<()> {
        let life = KEY_LIFE.as_secs();
        let mut pipe = redis::pipe();
        for order in 1..=orders {
            let key = self.keys.order(order);
            pipe.cmd("HSET").arg(&key).arg("status").arg("new").cmd("EXPIRE").arg(&key).arg(life);
            pipe.cmd("RPUSH").arg(self.keys.pending()).arg(order);
        }
        pipe.cmd("EXPIRE").arg(self.keys.pending()).arg(life);
        pipe.cmd("SET").arg(self.keys.stock()).arg(STOCK).arg("EX").arg(life);
        pipe.exec(&mut self.connection)
    }

    /// The orders that nobody has written yet.
    pub(crate) fn pending(&mut self) -> redis::RedisResult<Vec<u32>> {
        redis::cmd("LRANGE").arg(self.keys.pending()).arg(0).arg(-1).query(&mut self.connection)
    }

    /// Whether the order is new. False also when the table has seen a higher fence.
    pub(crate) fn begin(&mut self, order: u32, fence: Option<u64>) -> redis::RedisResult<bool> {
        let mut call = self.begin.key(self.keys.order(order));
        let status: String = call.arg(fence_text(fence)).invoke(&mut self.connection)?;
        Ok(status == "new")
    }

    pub(crate) fn finish(&mut self, order: u32, fence: Option<u64>) -> redis::RedisResult<Written> {
        let mut call = self.finish.key(self.keys.order(order));
        call.key(self.keys.stock()).key(self.keys.pending());
        let (times, highest) = call.arg(fence_text(fence)).arg(order).invoke(&mut self.connection)?;
        Ok(if times == 0 { Written::Refused { highest } } else { Written::Accepted { times } })
    }

    /// How often the order was written.
    pub(crate) fn writes(&mut self, order: u32) -> redis::RedisResult<u64> {
        let writes: Option<u64> =
            redis::cmd("HGET").arg(self.keys.order(order)).arg("writes").query(&mut self.connection)?;
        Ok(writes.unwrap_or(0))
    }

    /// How many pieces are gone from the stock.
    pub(crate) fn deducted(&mut self) -> redis::RedisResult<i64> {
        let left: i64 = redis::cmd("GET").arg(self.keys.stock()).query(&mut self.connection)?;
        Ok(STOCK - left)
    }

    /// `SET name owner NX EX seconds`: whether the lock was free.
    pub(crate) fn plain_lock(&mut self, name: &str, owner: &str, lease: Duration) -> redis::RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg(self.keys.lock(name)).arg(owner).arg("NX").arg("EX").arg(lease.as_secs());
        let reply: Option<String> = set.query(&mut self.connection)?;
        Ok(reply.is_some())
    }

    /// `DEL name`: whether there was anything to delete.
    pub(crate) fn plain_unlock(&mut self, name: &str) -> redis::RedisResult<bool> {
        redis::cmd("DEL").arg(self.keys.lock(name)).query(&mut self.connection)
    }
}

fn fence_text(fence: Option<u64>) -> String {
    fence.map(|fence| fence.to_string()).unwrap_or_default()
}

impl Cleanup {
    pub(crate) fn new(url: &str, run: &str, orders: u32) -> redis::RedisResult<Cleanup> {
        let cleanup = Cleanup { url: url.to_owned(), keys: Keys::unique(run), orders };
        Table::open(url, &cleanup.keys)?.fill(orders)?;
        Ok(cleanup)
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    fn delete(&self) -> redis::RedisResult<()> {
        let mut names: Vec<String> = (1..=self.orders).map(lock_name).collect();
        names.push(crate::crash::LOCK.to_owned());
        let mut delete = redis::cmd("DEL");
        delete.arg(self.keys.stock()).arg(self.keys.pending());
        for order in 1..=self.orders {
            delete.arg(self.keys.order(order));
        }
        for name in names {
            let lock = self.keys.lock(&name);
            for sibling in ["fence", "queue", "waiters", "turn"] {
                delete.arg(format!("{lock}:redlatch:{sibling}"));
            }
            delete.arg(lock);
        }
        delete.exec(&mut connect(&self.url)?)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Err(error) = self.delete() {
            let (prefix, life) = (self.keys.prefix(), KEY_LIFE.as_secs());
            eprintln!("demo: keys that begin with {prefix} stay for {life} s: {error}");
        }
    }
}
