//! The fenced store accepts no stale write: played again, each accepted request is what the rules of the table allow, and
//! each accepted write rests on the last one before it.

use std::collections::BTreeMap;

use super::Violation;

/// What the store was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A holder shows its fence and reads the row.
    Begin,
    /// It writes the row.
    Write,
}

/// One request, as the store served it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) verb: Verb,
    pub(crate) key: usize,
    pub(crate) fence: u64,
    /// How often the row had been written when its holder read it.
    pub(crate) version: u64,
    pub(crate) accepted: bool,
}

pub(super) fn find(served: &[Served], found: &mut Vec<Violation>) {
    // Fence and version of each row.
    let mut rows: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for it in served {
        let (fence, version) = rows.entry(it.key).or_default();
        let allowed = match it.verb {
            Verb::Begin => it.fence >= *fence,
            Verb::Write => it.fence == *fence,
        };
        let fresh = it.version == *version;
        if it.accepted && !(allowed && fresh) {
            found.push(Violation::StaleWrite(it.clone()));
        } else if !it.accepted && allowed {
            found.push(Violation::WrongRefusal(it.clone()));
        }
        if it.accepted {
            match it.verb {
                Verb::Begin => *fence = it.fence.max(*fence),
                Verb::Write => *version += 1,
            }
        }
    }
}
