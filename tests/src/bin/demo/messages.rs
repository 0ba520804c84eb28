//! What a worker tells the demo, one line each on its standard output.

use std::fmt;
use std::str::FromStr;

use crate::Outcome;

/// Answer to [`Event::Ready`], [`Event::Took`] and [`Event::Holds`]: go on.
pub(crate) const GO: &str = "go";

/// What a worker did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Waits for [`GO`].
    Ready,
    /// Has the lock of a new order and has read it; waits for its payment, [`GO`].
    Took { order: u32, fence: Option<u64> },
    /// Wrote the order, which was its `times`th write, and gave the lock up.
    Wrote { order: u32, times: u64, unlocked: Unlocked },
    /// Found its lease lost before it wrote, and did not write.
    Lost { order: u32, reason: String },
    /// Its write was refused.
    Refused { order: u32, fence: u64, highest: u64 },
    /// Asks for the lock of the crash run now.
    Waits,
    /// Has the lock of the crash run, until [`GO`].
    Holds { fence: u64 },
    /// Nothing left to do.
    End,
}

/// What giving up a lock met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    /// Its own lock, or none after the lease was over.
    Own,
    /// Another worker's lock, which it deleted.
    Others,
    /// No lock, although its lease was not over: someone else deleted it.
    Stolen,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ready => write!(f, "ready"),
            Event::Took { order, fence: None } => write!(f, "took {order}"),
            Event::Took { order, fence: Some(fence) } => write!(f, "took {order} {fence}"),
            Event::Wrote { order, times, unlocked } => write!(f, "wrote {order} {times} {unlocked:?}"),
            Event::Lost { order, reason } => write!(f, "lost {order} {reason}"),
            Event::Refused { order, fence, highest } => write!(f, "refused {order} {fence} {highest}"),
            Event::Waits => write!(f, "waits"),
            Event::Holds { fence } => write!(f, "holds {fence}"),
            Event::End => write!(f, "end"),
        }
    }
}

impl FromStr for Event {
    type Err = Box<dyn std::error::Error>;

    fn from_str(line: &str) -> Outcome<Event> {
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words.as_slice() {
            ["ready"] => Event::Ready,
            ["took", order] => Event::Took { order: order.parse()?, fence: None },
            ["took", order, fence] => Event::Took { order: order.parse()?, fence: Some(fence.parse()?) },
            ["wrote", order, times, unlocked] => {
                let unlocked = match *unlocked {
                    "Others" => Unlocked::Others,
                    "Stolen" => Unlocked::Stolen,
                    _ => Unlocked::Own,
                };
                Event::Wrote { order: order.parse()?, times: times.parse()?, unlocked }
            }
            ["lost", order, reason] => Event::Lost { order: order.parse()?, reason: (*reason).to_owned() },
            ["refused", order, fence, highest] => {
                Event::Refused { order: order.parse()?, fence: fence.parse()?, highest: highest.parse()? }
            }
            ["waits"] => Event::Waits,
            ["holds", fence] => Event::Holds { fence: fence.parse()? },
            ["end"] => Event::End,
            _ => return Err(format!("a worker said {line:?}").into()),
        })
    }
}
