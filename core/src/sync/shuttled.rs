//! Primitives of which `shuttle` chooses the order, and a time that a test moves.
//!
//! A condition's time limit passes when the test says so, and a sleeper is woken by its own limit or by a call that is
//! meant for it, by nothing else: a lost wake-up stays one.

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::{Condvar as Condition, Mutex as Lock};

/// `shuttle`'s mutex with `parking_lot`'s face.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(Lock<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(Lock::new(value))
    }

    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What all threads of one execution share.
#[derive(Default)]
struct World {
    /// Nanoseconds.
    now: u64,
    /// Threads of the library, and how many of them are not asleep.
    threads: usize,
    awake: usize,
    sleepers: Vec<Sleeper>,
}

/// A thread that sleeps on the condition at that address.
struct Sleeper {
    condition: usize,
    until: Option<u64>,
    of_library: bool,
    bed: Arc<Bed>,
}

#[derive(Default)]
struct Bed {
    woken: Lock<bool>,
    called: Condition,
}

shuttle::lazy_static! {
    static ref WORLD: Mutex<World> = Mutex::default();
    static ref CHANGED: Condition = Condition::new();
}

shuttle::thread_local! {
    static OF_LIBRARY: std::cell::Cell<bool> = std::cell::Cell::new(false);
}

impl World {
    /// Wakes those sleepers that `which` picks, in the order in which they fell asleep, `most` of them.
    fn wake(&mut self, most: usize, which: impl Fn(&Sleeper) -> bool) {
        for _ in 0..most {
            let Some(at) = self.sleepers.iter().position(&which) else { return };
            let sleeper = self.sleepers.remove(at);
            self.awake += usize::from(sleeper.of_library);
            *sleeper.bed.woken.lock().unwrap() = true;
            sleeper.bed.called.notify_one();
        }
    }
}

/// std's mutex and condition.
pub(crate) mod blocking {
    use std::sync::LockResult;

    use super::*;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(Lock<T>);

    pub(crate) struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        guard: shuttle::sync::MutexGuard<'a, T>,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(Lock::new(value))
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            Ok(MutexGuard { mutex: self, guard: self.0.lock().unwrap() })
        }
    }

    impl<T> std::ops::Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }

    /// Not of size zero, so that each has an address of its own.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(#[allow(dead_code)] u8);

    pub(crate) struct WaitTimeoutResult;

    impl WaitTimeoutResult {
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar::default()
        }

        pub(crate) fn notify_one(&self) {
            self.notify(1);
        }

        pub(crate) fn notify_all(&self) {
            self.notify(usize::MAX);
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            self.sleep(guard, None)
        }

        pub(crate) fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            limit: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            Ok((self.sleep(guard, Some(limit)).unwrap(), WaitTimeoutResult))
        }

        pub(crate) fn wait_timeout_while<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            _limit: Duration,
            mut condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            while condition(&mut guard) {
                guard = self.sleep(guard, None).unwrap();
            }
            Ok((guard, WaitTimeoutResult))
        }

        fn address(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }

        fn notify(&self, most: usize) {
            let condition = self.address();
            WORLD.lock().wake(most, |sleeper| sleeper.condition == condition);
        }

        fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Option<Duration>) -> LockResult<MutexGuard<'a, T>> {
            let (bed, mutex) = (Arc::new(Bed::default()), guard.mutex);
            {
                let mut world = WORLD.lock();
                let until = limit.map(|limit| world.now.saturating_add(limit.as_nanos() as u64));
                let of_library = OF_LIBRARY.with(std::cell::Cell::get);
                world.awake -= usize::from(of_library);
                world.sleepers.push(Sleeper { condition: self.address(), until, of_library, bed: bed.clone() });
                CHANGED.notify_all();
            }
            drop(guard);
            let woken = bed.woken.lock().unwrap();
            drop(bed.called.wait_while(woken, |woken| !*woken).unwrap());
            mutex.lock()
        }
    }
}

/// Threads of the library.
pub(crate) mod thread {
    use super::*;

    pub(crate) use shuttle::thread::current;

    #[derive(Debug)]
    pub(crate) struct JoinHandle<T>(shuttle::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        pub(crate) fn thread(&self) -> &shuttle::thread::Thread {
            self.0.thread()
        }

        /// Nobody is told; a handle too many does no harm.
        pub(crate) fn is_finished(&self) -> bool {
            false
        }
    }

    pub(crate) struct Builder(shuttle::thread::Builder);

    struct Counted;

    impl Drop for Counted {
        fn drop(&mut self) {
            let mut world = WORLD.lock();
            world.awake -= 1;
            world.threads -= 1;
            CHANGED.notify_all();
        }
    }

    impl Builder {
        pub(crate) fn new() -> Builder {
            Builder(shuttle::thread::Builder::new())
        }

        pub(crate) fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            work: impl FnOnce() -> T + Send + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            {
                let mut world = WORLD.lock();
                world.awake += 1;
                world.threads += 1;
            }
            let counted = move || {
                let _counted = Counted;
                OF_LIBRARY.with(|of_library| of_library.set(true));
                work()
            };
            self.0.spawn(counted).map(JoinHandle)
        }
    }
}

/// The time of an execution.
pub(crate) mod time {
    use shuttle::sync::MutexGuard;

    use super::*;

    pub(crate) fn now() -> u64 {
        WORLD.lock().now
    }

    /// Waits until every thread of the library sleeps or has ended.
    pub(crate) fn settle() {
        drop(settled());
    }

    /// Waits until no thread of the library is left.
    pub(crate) fn until_none_is_left() {
        drop(until(|world| world.threads == 0));
    }

    /// Moves the time on, from one sleeper's limit to the next, each time when nothing is left to do before.
    pub(crate) fn advance(span: Duration) {
        let target = now() + span.as_nanos() as u64;
        loop {
            let mut world = settled();
            let next = world.sleepers.iter().filter_map(|sleeper| sleeper.until).min();
            world.now = world.now.max(next.unwrap_or(target).min(target));
            let now = world.now;
            world.wake(usize::MAX, |sleeper| sleeper.until.is_some_and(|until| until <= now));
            if now == target && next.is_none_or(|next| next > target) {
                return;
            }
        }
    }

    fn settled() -> MutexGuard<'static, World> {
        until(|world| world.awake == 0)
    }

    fn until(reached: impl Fn(&World) -> bool) -> MutexGuard<'static, World> {
        let mut world = WORLD.lock();
        while !reached(&world) {
            world = CHANGED.wait(world).unwrap();
        }
        world
    }
}
