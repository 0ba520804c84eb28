//! The hold table: (key, holder) to a lease and how often it is held.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::thread::Thread;

use crate::sync::{AtomicU32, Mutex, Ordering};

const SHARDS: usize = 16;

/// A lease in the hands of one holder. Only its holder changes the count.
#[derive(Debug)]
pub(crate) struct Hold<G> {
    pub(crate) grant: Arc<G>,
    slot: SlotKey,
    /// The thread that acquired it, on which the holder runs: its number, and for errors its handle.
    thread: u64,
    handle: Thread,
    count: AtomicU32,
}

impl<G> Hold<G> {
    /// Number and thread of its holder.
    pub(crate) fn holder(&self) -> (u64, &Thread) {
        (self.slot.holder, &self.handle)
    }

    /// How often it is held; 0 once it is released.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Holds it once more.
    pub(crate) fn enter(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What leaving a hold came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is still held this often.
    Inner(u32),
    /// That was the last; the hold is out of the table.
    Last,
    /// It was not held any more.
    NotHeld,
}

/// Whose holds are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Those acquired on this thread.
    Thread(u64),
    /// Those of this holder.
    Holder(u64),
    /// All.
    Everyone,
}

/// A key with its hash, computed once for a lock handle.
#[derive(Clone, Debug)]
pub(crate) struct HashedKey {
    hash: u64,
    text: Arc<str>,
}

#[derive(Clone, Debug)]
struct SlotKey {
    key: HashedKey,
    holder: u64,
}

impl PartialEq for SlotKey {
    fn eq(&self, other: &SlotKey) -> bool {
        self.holder == other.holder && self.key.hash == other.key.hash && self.key.text == other.key.text
    }
}

impl Eq for SlotKey {}

impl Hash for SlotKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.key.hash ^ self.holder.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
}

/// A hold in the table, found by its slot. The slot is in the hold alone: a table that doubles is mostly empty, so that what
/// its entries take counts twice.
#[derive(Debug)]
struct Entry<G>(Arc<Hold<G>>);

impl<G> Borrow<SlotKey> for Entry<G> {
    fn borrow(&self) -> &SlotKey {
        &self.0.slot
    }
}

impl<G> PartialEq for Entry<G> {
    fn eq(&self, other: &Entry<G>) -> bool {
        self.0.slot == other.0.slot
    }
}

impl<G> Eq for Entry<G> {}

impl<G> Hash for Entry<G> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.slot.hash(state);
    }
}

/// Passes on a hash that is one already.
#[derive(Default)]
struct Passed(u64);

impl Hasher for Passed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Shard<G> = Mutex<HashSet<Entry<G>, BuildHasherDefault<Passed>>>;

/// All holds of a client. A key's holders share a shard.
#[derive(Debug)]
pub(crate) struct HoldTable<G> {
    shards: [Shard<G>; SHARDS],
}

impl HashedKey {
    pub(crate) fn new(hashing: &RandomState, key: &Arc<str>) -> HashedKey {
        HashedKey { hash: hashing.hash_one(&**key), text: key.clone() }
    }
}

impl<G> HoldTable<G> {
    pub(crate) fn new() -> HoldTable<G> {
        HoldTable { shards: std::array::from_fn(|_| Mutex::new(HashSet::default())) }
    }

    /// The hold of `key` by `holder`.
    pub(crate) fn get(&self, key: &HashedKey, holder: u64) -> Option<Arc<Hold<G>>> {
        let slot = SlotKey { key: key.clone(), holder };
        self.shard(key).lock().get(&slot).map(|entry| entry.0.clone())
    }

    /// Notes that `holder`, on `thread`, was granted the lock; it did not hold it before.
    pub(crate) fn insert(&self, key: &HashedKey, holder: u64, thread: u64, grant: Arc<G>) -> Arc<Hold<G>> {
        let slot = SlotKey { key: key.clone(), holder };
        let handle = std::thread::current();
        let hold = Arc::new(Hold { grant, slot, thread, handle, count: AtomicU32::new(1) });
        // In the place of one that stands there yet, which `insert` would keep.
        self.shard(key).lock().replace(Entry(hold.clone()));
        hold
    }

    /// Gives up one level of a hold; to be called by its holder.
    pub(crate) fn leave(&self, hold: &Arc<Hold<G>>) -> Left {
        let down = |count: u32| count.checked_sub(1);
        match hold.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, down) {
            Err(_) => Left::NotHeld,
            Ok(1) => {
                self.remove(hold);
                Left::Last
            }
            Ok(count) => Left::Inner(count - 1),
        }
    }

    fn remove(&self, hold: &Arc<Hold<G>>) {
        let mut shard = self.shard(&hold.slot.key).lock();
        if shard.get(&hold.slot).is_some_and(|found| Arc::ptr_eq(&found.0, hold)) {
            shard.remove(&hold.slot);
        }
    }

    /// Another holder of `key`, if this client has one.
    pub(crate) fn other_holder(&self, key: &HashedKey, holder: u64) -> Option<Arc<Hold<G>>> {
        let shard = self.shard(key).lock();
        let found = shard.iter().find(|Entry(hold)| hold.slot.holder != holder && hold.slot.key.text == key.text);
        found.map(|Entry(hold)| hold.clone())
    }

    /// Takes out every hold of whoever has ended.
    pub(crate) fn abandon(&self, ended: Ended) -> Vec<Arc<Hold<G>>> {
        let mut abandoned = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|Entry(hold)| {
                let abandon = match ended {
                    Ended::Thread(thread) => hold.thread == thread,
                    Ended::Holder(holder) => hold.slot.holder == holder,
                    Ended::Everyone => true,
                };
                if abandon {
                    hold.count.store(0, Ordering::Relaxed);
                    abandoned.push(hold.clone());
                }
                !abandon
            });
        }
        abandoned
    }

    /// Holds in the table.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, key: &HashedKey) -> &Shard<G> {
        // The map inside uses the low bits.
        &self.shards[(key.hash >> 56) as usize % SHARDS]
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn hashed(key: &str) -> HashedKey {
        HashedKey { hash: key.bytes().map(u64::from).sum(), text: key.into() }
    }

    #[test]
    fn nested_holds_end_with_the_last() {
        let table = HoldTable::new();
        let key = hashed("lock:a");
        let hold = table.insert(&key, 1, 1, Arc::new(()));
        assert_eq!(hold.enter(), 2);
        assert_eq!(table.leave(&hold), Left::Inner(1));
        assert_eq!(table.leave(&hold), Left::Last);
        assert_eq!(table.leave(&hold), Left::NotHeld);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn another_holder_can_neither_see_nor_enter_a_hold() {
        let table = HoldTable::new();
        let key = hashed("lock:a");
        table.insert(&key, 1, 1, Arc::new(()));
        assert!(table.get(&key, 2).is_none());
        assert_eq!(table.other_holder(&key, 2).unwrap().holder().0, 1);
        assert!(table.other_holder(&key, 1).is_none());
    }

    #[test]
    fn an_abandoned_hold_cannot_be_left() {
        let table = HoldTable::new();
        let hold = table.insert(&hashed("lock:a"), 7, 7, Arc::new(()));
        assert_eq!(table.abandon(Ended::Thread(7)).len(), 1);
        assert_eq!(table.leave(&hold), Left::NotHeld);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_holder_that_ends_leaves_those_of_its_thread_alone() {
        let table = HoldTable::new();
        table.insert(&hashed("lock:a"), 7, 1, Arc::new(()));
        let kept = table.insert(&hashed("lock:a"), 8, 1, Arc::new(()));
        assert_eq!(table.abandon(Ended::Holder(7)).len(), 1);
        assert_eq!(table.leave(&kept), Left::Last);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn leaving_an_old_hold_does_not_remove_its_successor() {
        let table = HoldTable::new();
        let key = hashed("lock:a");
        let old = table.insert(&key, 1, 1, Arc::new(1));
        table.insert(&key, 1, 1, Arc::new(2));
        assert_eq!(table.leave(&old), Left::Last);
        assert_eq!(*table.get(&key, 1).unwrap().grant, 2);
    }
}

/// Interleavings of the table's callers: scripts/interleavings.sh.
#[cfg(all(test, shuttle))]
mod interleavings {
    use super::*;

    fn hashed(key: &str) -> HashedKey {
        HashedKey { hash: key.bytes().map(u64::from).sum(), text: key.into() }
    }

    #[test]
    fn holds_of_many_threads_never_mix_and_the_table_ends_empty() {
        shuttle::check_random(
            || {
                let table = Arc::new(HoldTable::new());
                let threads: Vec<_> = (1..=3u64)
                    .map(|holder| {
                        let table = table.clone();
                        shuttle::thread::spawn(move || {
                            let key = hashed("lock:a");
                            for _ in 0..2 {
                                assert!(table.get(&key, holder).is_none());
                                let hold = table.insert(&key, holder, holder, Arc::new(holder));
                                assert_eq!(*table.get(&key, holder).unwrap().grant, holder);
                                hold.enter();
                                assert_eq!(table.leave(&hold), Left::Inner(1));
                                assert_eq!(table.leave(&hold), Left::Last);
                            }
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(table.len(), 0);
            },
            2_000,
        );
    }

    #[test]
    fn an_ended_thread_is_cleared_while_others_work() {
        shuttle::check_random(
            || {
                let table = Arc::new(HoldTable::new());
                let leaving = table.clone();
                let left = shuttle::thread::spawn(move || {
                    leaving.insert(&hashed("lock:a"), 1, 7, Arc::new(1u64));
                    leaving.insert(&hashed("lock:b"), 1, 7, Arc::new(1u64));
                    leaving.abandon(Ended::Thread(7)).len()
                });
                let other = table.clone();
                let busy = shuttle::thread::spawn(move || {
                    let hold = other.insert(&hashed("lock:a"), 2, 2, Arc::new(2u64));
                    assert_eq!(other.leave(&hold), Left::Last);
                });
                busy.join().unwrap();
                assert_eq!(left.join().unwrap(), 2);
                assert_eq!(table.len(), 0);
            },
            2_000,
        );
    }
}
