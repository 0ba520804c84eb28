//! The clock every deadline is measured by, and the only place where threads wait for time to pass.
//!
//! The system clock counts suspended time (`CLOCK_BOOTTIME` on Linux), so a laptop or a VM that slept
//! through a lease does not believe in it afterwards. Relative spans only; no lease
//! depends on a wall clock.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use crate::sync::blocking::{Condvar, Mutex, MutexGuard};

/// Longest uninterrupted sleep on a condition. Conditions count time without suspension, deadlines
/// count it; waking this often bounds how late a sleeper notices a deadline that passed in suspend.
const SLICE: Duration = Duration::from_secs(5);

/// An instant on the suspend-aware monotonic clock, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// The end of time: a wait without limit.
    pub(crate) const FAR: Moment = Moment(u64::MAX >> 4);

    /// A moment from its nanoseconds, at most [`Moment::FAR`].
    pub(crate) fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos.min(Moment::FAR.0))
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    /// `self + span`, at most [`Moment::FAR`].
    pub(crate) fn after(self, span: Duration) -> Moment {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Moment::from_nanos(self.0.saturating_add(span))
    }

    /// Time from `earlier` to `self`, zero when `earlier` is later.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where the time comes from.
#[derive(Clone, Debug, Default)]
pub(crate) enum Clock {
    /// The machine's suspend-aware monotonic clock.
    #[default]
    System,
    /// A clock that moves only when told to.
    Manual(ManualClock),
}

impl Clock {
    pub(crate) fn now(&self) -> Moment {
        match self {
            Clock::System => system_now(),
            Clock::Manual(manual) => manual.moment(),
        }
    }

    /// Marks a library thread as running until the returned value is dropped, so that
    /// [`ManualClock::advance`] can wait until it has nothing left to do.
    pub(crate) fn background(&self) -> Background {
        if let Clock::Manual(manual) = self {
            manual.state().awake += 1;
        }
        Background { clock: self.clone() }
    }
}

/// How long it is until an instant of std's clock, for callers that think in those.
#[allow(clippy::disallowed_methods, reason = "converts the caller's own clock")]
pub(crate) fn left_until(deadline: std::time::Instant) -> Duration {
    deadline.saturating_duration_since(std::time::Instant::now())
}

/// The time of day, since 1970, as this machine has it: only to be compared with a server's. It may be wrong, and may be
/// set, so no lease counts by it.
#[allow(clippy::disallowed_methods, reason = "the one place for it")]
pub(crate) fn wall() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(shuttle)]
fn system_now() -> Moment {
    Moment::from_nanos(crate::sync::time::now())
}

#[cfg(not(shuttle))]
fn system_now() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(ID);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// See [`Clock::background`].
#[derive(Debug)]
pub(crate) struct Background {
    clock: Clock,
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Clock::Manual(manual) = &self.clock {
            manual.state().awake -= 1;
            manual.inner.changed.notify_all();
        }
    }
}

/// A clock for tests that stands still until [`advance`](ManualClock::advance) moves it.
///
/// It drives clients of `memory://` only: a real server keeps its own time. Clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Client, LockOptions, ManualClock};
///
/// let clock = ManualClock::new();
/// let client = Client::builder("memory://").manual_clock(&clock).build()?;
/// let options = LockOptions::new().ttl(Duration::from_secs(10)).auto_renew(false);
/// let guard = client.lock_with("report", options)?.acquire()?;
/// clock.advance(Duration::from_secs(11));
/// assert!(!guard.is_held());
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    inner: Arc<ManualInner>,
}

#[derive(Default)]
struct ManualInner {
    state: Mutex<ManualState>,
    changed: Condvar,
}

#[derive(Default)]
struct ManualState {
    now: u64,
    /// Library threads that are neither asleep nor ended.
    awake: usize,
    sleepers: Vec<Sleep>,
    next_sleeper: u64,
    wakers: Vec<Weak<dyn Wake>>,
}

/// A thread that sleeps by a manual clock.
struct Sleep {
    id: u64,
    /// Address of the monitor that it sleeps on.
    monitor: usize,
    until: Moment,
}

/// Something with sleepers that must look at the clock again.
trait Wake: Send + Sync {
    fn wake(&self);
}

impl ManualClock {
    /// Longest real time that one step of `advance` waits for the library's threads.
    const SETTLE: Duration = Duration::from_secs(2);

    /// Part of it that ends by itself.
    const SLICE: Duration = Duration::from_millis(50);

    /// A clock that stands at zero.
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Moves the clock by `span`, stopping at every instant for which a library thread sleeps and
    /// letting it do its work there: leases with automatic renewal survive a long `advance`.
    ///
    /// Blocks for as long as that work takes; a step in which a callback blocks ends after 2 s.
    pub fn advance(&self, span: Duration) {
        let target = self.moment().after(span);
        loop {
            // Threads that have just begun, or were called for something new, have yet to say until when they sleep. Under
            // one lock with the choice of the next instant: a sleeper that wakes early leaves the list, and time would
            // pass over its own.
            let mut state = self.settled();
            let now = Moment(state.now);
            if now >= target {
                return;
            }
            let due = state.sleepers.iter().map(|sleep| sleep.until);
            state.now = due.filter(|until| *until > now).min().unwrap_or(target).min(target).0;
            drop(state);
            self.wake_all();
        }
    }

    fn moment(&self) -> Moment {
        Moment(self.state().now)
    }

    fn wake_all(&self) {
        let wakers = {
            let mut state = self.state();
            state.wakers.retain(|waker| waker.strong_count() > 0);
            state.wakers.clone()
        };
        for waker in wakers.iter().filter_map(Weak::upgrade) {
            waker.wake();
        }
    }

    /// The state, when no library thread has anything left to do at this instant, or does not come to an end of it.
    fn settled(&self) -> MutexGuard<'_, ManualState> {
        let busy = |state: &mut ManualState| {
            let now = Moment(state.now);
            state.awake > 0 || state.sleepers.iter().any(|sleep| sleep.until <= now)
        };
        let mut state = self.state();
        // In slices: a process that is stopped for a while gives its threads their time when it goes on.
        for _ in 0..Self::SETTLE.as_millis() / Self::SLICE.as_millis() {
            let waited = self.inner.changed.wait_timeout_while(state, Self::SLICE, busy);
            let (next, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if !outcome.timed_out() {
                break;
            }
        }
        state
    }

    fn sleep_begins(&self, monitor: usize, until: Moment, background: bool) -> u64 {
        let mut state = self.state();
        let id = state.next_sleeper;
        state.next_sleeper += 1;
        state.sleepers.push(Sleep { id, monitor, until });
        state.awake -= usize::from(background);
        self.inner.changed.notify_all();
        id
    }

    fn sleep_ends(&self, id: u64, background: bool) {
        let mut state = self.state();
        state.sleepers.retain(|sleep| sleep.id != id);
        state.awake += usize::from(background);
        self.inner.changed.notify_all();
    }

    /// Makes all sleepers of a monitor due, so that time stands still until they have chosen anew.
    fn called(&self, monitor: usize) {
        let mut state = self.state();
        state.sleepers.iter_mut().filter(|sleep| sleep.monitor == monitor).for_each(|sleep| sleep.until = Moment(0));
    }

    fn state(&self) -> MutexGuard<'_, ManualState> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both handles are the same clock.
    pub(crate) fn same(&self, other: &ManualClock) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", Duration::from_nanos(self.state().now))
    }
}

/// A value behind a mutex, with a condition on which threads wait by a [`Clock`].
///
/// std's mutex and condition, not `parking_lot`'s: a child forked while other threads park on
/// `parking_lot`'s global table can inherit that table locked and hang.
pub(crate) struct Monitor<T> {
    clock: Clock,
    background: bool,
    inner: Arc<MonitorInner<T>>,
}

struct MonitorInner<T> {
    value: Mutex<T>,
    condition: Condvar,
}

impl<T: Send> Wake for MonitorInner<T> {
    fn wake(&self) {
        // Taking the mutex orders this after a sleeper that has looked at the clock but sleeps not yet.
        drop(self.value.lock().unwrap_or_else(PoisonError::into_inner));
        self.condition.notify_all();
    }
}

impl<T: Send + 'static> Monitor<T> {
    /// A monitor for caller threads; with `background` for threads of the library.
    pub(crate) fn new(clock: &Clock, background: bool, value: T) -> Monitor<T> {
        let inner = Arc::new(MonitorInner { value: Mutex::new(value), condition: Condvar::new() });
        if let Clock::Manual(manual) = clock {
            let waker: Arc<dyn Wake> = inner.clone();
            manual.state().wakers.push(Arc::downgrade(&waker));
        }
        Monitor { clock: clock.clone(), background, inner }
    }

    pub(crate) fn lock(&self) -> MonitorGuard<'_, T> {
        let guard = self.inner.value.lock().unwrap_or_else(PoisonError::into_inner);
        MonitorGuard { monitor: self, guard }
    }

    /// Wakes one sleeper. The caller must not hold the lock.
    pub(crate) fn notify_one(&self) {
        match &self.clock {
            Clock::System => self.inner.condition.notify_one(),
            Clock::Manual(_) => self.notify_all(),
        }
    }

    /// Wakes all sleepers. The caller must not hold the lock.
    pub(crate) fn notify_all(&self) {
        if let Clock::Manual(manual) = &self.clock {
            // With the lock, so that every sleeper that is marked also hears the call.
            let _held = self.inner.value.lock().unwrap_or_else(PoisonError::into_inner);
            manual.called(self.address());
            self.inner.condition.notify_all();
        } else {
            self.inner.condition.notify_all();
        }
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).cast::<()>().addr()
    }
}

impl<T> fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// Access to a [`Monitor`]'s value.
pub(crate) struct MonitorGuard<'a, T> {
    monitor: &'a Monitor<T>,
    guard: MutexGuard<'a, T>,
}

impl<'a, T: Send + 'static> MonitorGuard<'a, T> {
    /// Sleeps until a notification or `until`; may wake early. Callers check their condition again.
    pub(crate) fn wait_until(self, until: Moment) -> MonitorGuard<'a, T> {
        self.wait_within(until, None)
    }

    /// As [`wait_until`](MonitorGuard::wait_until); with `block`, for that long at most by the system's clock.
    pub(crate) fn wait_within(self, until: Moment, block: Option<Duration>) -> MonitorGuard<'a, T> {
        let MonitorGuard { monitor, guard } = self;
        let now = monitor.clock.now();
        if now >= until {
            return MonitorGuard { monitor, guard };
        }
        let guard = match &monitor.clock {
            Clock::System => {
                let span = until.since(now).min(SLICE).min(block.unwrap_or(SLICE));
                let waited = monitor.inner.condition.wait_timeout(guard, span);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            Clock::Manual(manual) => {
                let id = manual.sleep_begins(monitor.address(), until, monitor.background);
                let guard = if manual.moment() >= until {
                    guard
                } else if let Some(block) = block {
                    let waited = monitor.inner.condition.wait_timeout(guard, block);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                } else {
                    monitor.inner.condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
                };
                manual.sleep_ends(id, monitor.background);
                guard
            }
        };
        MonitorGuard { monitor, guard }
    }
}

impl<T> Deref for MonitorGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
