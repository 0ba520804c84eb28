//! Judges a history: what the workers noted, what the fenced store served, and when which fault was there. Pure: it reads no
//! clock and asks no server.

mod fences;
mod limits;
mod overlaps;
mod sleepers;
mod writes;

#[cfg(test)]
mod tests;

use std::time::Duration;

use redlatch_tests::history::{Held, Nanos, Story, Wait};

pub(crate) use sleepers::watched;
pub(crate) use writes::{Served, Verb};

/// From one instant until another.
pub(crate) type Span = (Nanos, Nanos);

/// All that is known of a phase.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) story: Story,
    /// Spans in which workers were stopped, with the worker.
    pub(crate) stops: Vec<(usize, Span)>,
    /// Spans in which requests or their answers were late or lost, or keys stayed for longer, and some time after.
    pub(crate) outages: Vec<Span>,
    /// From before each loss of the server's data, and each step of its clock forward, until every lease from before must
    /// be over: the only spans in which a lock may have two holders.
    pub(crate) forgiven: Vec<Span>,
    /// What the store served, in order.
    pub(crate) served: Vec<Served>,
    /// Locks that were there when the server was asked.
    pub(crate) seen: Vec<Seen>,
    /// When the last worker had ended: nobody takes a lock after that.
    pub(crate) ended: Nanos,
}

/// A lock as the server had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: usize,
    /// Read before the server was asked.
    pub(crate) at: Nanos,
    /// The time that it has left, in ms; `None`: it has no ttl.
    pub(crate) left: Option<u64>,
}

/// What the checker measures against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    /// How much longer a lock may live by steps of the server's clock.
    pub(crate) stepped: Duration,
    pub(crate) turn: Duration,
    /// The longest wait that is asked for, and what a busy machine may add to it.
    pub(crate) wait: Duration,
    /// From one poll of the first waiter to its next at most, and what each waiter before another one adds.
    pub(crate) poll: Duration,
    /// What a busy machine may add to any time.
    pub(crate) slack: Duration,
}

/// What must not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two holders at once.
    Overlap(Held, Held),
    /// The later one of two holders has no larger fence.
    Regression(Held, Held),
    /// The store accepted a write that rests on what is not the row's last state, or a lower fence than one before.
    StaleWrite(Served),
    /// The store refused what it had to accept, so that its acceptances prove nothing.
    WrongRefusal(Served),
    /// The store refused a holder whose lease was valid.
    RefusedHolder { key: usize, at: Nanos },
    /// The server took a lease away before its deadline.
    Taken { at: Nanos, how: String },
    /// An error that no fault of the run explains.
    Failure { at: Nanos, error: String },
    /// A waiter slept on while its lock was free, from the instant on.
    Slept { wait: Wait, free: Span },
    /// A call took longer than it was given.
    Overdue(Wait),
    /// A lock without a ttl, with a longer one than its holder asked for, or that is still there a ttl after the last holder.
    Outlived(Seen),
    /// A worker that was told to end and did not in its time, or not in good order, with the threads that did not.
    Hung { worker: usize, threads: Vec<usize> },
}

impl Violation {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Violation::Overlap(..) => "overlaps",
            Violation::Regression(..) => "regressions",
            Violation::StaleWrite(_) => "stale_writes",
            Violation::WrongRefusal(_) => "wrong_refusals",
            Violation::RefusedHolder { .. } => "refused_holders",
            Violation::Taken { .. } => "taken",
            Violation::Failure { .. } => "failures",
            Violation::Slept { .. } => "slept",
            Violation::Overdue(_) => "overdue",
            Violation::Outlived(_) => "outlived",
            Violation::Hung { .. } => "hanging",
        }
    }

    /// All kinds.
    pub(crate) const KINDS: [&'static str; 11] = [
        "overlaps",
        "regressions",
        "stale_writes",
        "wrong_refusals",
        "refused_holders",
        "taken",
        "failures",
        "slept",
        "overdue",
        "outlived",
        "hanging",
    ];
}

/// Everything that must not have happened and did.
pub(crate) fn check(evidence: &Evidence, rules: &Rules) -> Vec<Violation> {
    let mut found = Vec::new();
    for held in by_key(&evidence.story.held, |it| it.key) {
        overlaps::find(&held, evidence, &mut found);
        fences::find(&held, evidence, &mut found);
    }
    writes::find(&evidence.served, &mut found);
    sleepers::find(evidence, rules, &mut found);
    limits::find(evidence, rules, &mut found);
    found
}

/// The entries of each key, in their order.
fn by_key<T>(all: &[T], key: impl Fn(&T) -> usize) -> Vec<Vec<&T>> {
    let keys = all.iter().map(&key).max().map_or(0, |last| last + 1);
    let mut sorted: Vec<Vec<&T>> = (0..keys).map(|_| Vec::new()).collect();
    all.iter().for_each(|it| sorted[key(it)].push(it));
    sorted
}

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

impl Evidence {
    /// Whether the span lies in one in which a lock may have two holders.
    fn is_forgiven(&self, (from, until): Span) -> bool {
        self.forgiven.iter().any(|span| span.0 <= from && until <= span.1)
    }
}
