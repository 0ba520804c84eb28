//! Which workers stall, and until when.

use std::time::{Duration, Instant};

/// Stalls of a run: the first workers, each at its first order.
pub(crate) const STALLS: usize = PLAN.len();

/// For worker 1, 2, … when it goes on, and whether it is one that checks its lease then.
const PLAN: [(Until, bool); 3] = [(Until::Finished, true), (Until::Taken, true), (Until::Finished, false)];

/// When a stopped worker goes on. Always later than its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// As soon as another worker is at work on its order.
    Taken,
    /// When another worker has finished its order, and one and a half leases have passed.
    Finished,
}

/// One worker that is stopped while it holds the lock of an order.
#[derive(Debug)]
pub(crate) struct Stall {
    /// Counts from 0, as the others do.
    pub(crate) worker: usize,
    pub(crate) order: u32,
    since: Instant,
    until: Until,
    /// Another worker is at work on the order.
    pub(crate) taken: bool,
    /// Another worker has finished the order.
    pub(crate) finished: bool,
    /// How long the process was stopped, once it goes on.
    pub(crate) lasted: Option<Duration>,
    /// The worker has dealt with its order.
    pub(crate) over: bool,
}

/// Whether this worker checks its lease before it writes, where its lock can tell.
pub(crate) fn is_careful(worker: usize) -> bool {
    PLAN.get(worker).is_none_or(|(_, careful)| *careful)
}

impl Stall {
    /// The stall of this worker at its first order, from now on; `None` for a worker that never stalls.
    pub(crate) fn planned(worker: usize, order: u32) -> Option<Stall> {
        let (until, _) = *PLAN.get(worker)?;
        let since = Instant::now();
        Some(Stall { worker, order, since, until, taken: false, finished: false, lasted: None, over: false })
    }

    /// Whether the process should go on now.
    pub(crate) fn is_due(&self, lease: Duration) -> bool {
        let stopped = self.since.elapsed();
        self.lasted.is_none()
            && match self.until {
                Until::Taken => self.taken && stopped > lease,
                Until::Finished => self.finished && stopped > lease.mul_f64(1.5),
            }
    }

    /// Notes that the process goes on.
    pub(crate) fn end(&mut self) -> Duration {
        *self.lasted.insert(self.since.elapsed())
    }

    /// Whether the worker comes back while another is still at work on its order, and has yet to do so.
    pub(crate) fn is_awaited(&self) -> bool {
        self.until == Until::Taken && !self.over
    }
}
