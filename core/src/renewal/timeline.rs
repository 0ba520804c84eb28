//! Leases in the order of an instant of each.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::btree_set::Iter;
use std::sync::Arc;

use crate::clock::Moment;
use crate::lease::Grant;

/// A lease under the instant at which something is to be done about it. Ordered by the instant, and for the same one by
/// grant.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) at: Moment,
    pub(super) grant: Arc<Grant>,
}

/// Leases under their instants. Every held lease is in two of these, so that the size of an entry counts.
#[derive(Debug, Default)]
pub(super) struct Timeline(BTreeSet<Timed>);

impl Timeline {
    pub(super) fn insert(&mut self, at: Moment, grant: &Arc<Grant>) {
        self.0.insert(Timed { at, grant: grant.clone() });
    }

    /// Takes out a lease that may be here, under `at`.
    pub(super) fn remove(&mut self, at: Moment, grant: &Arc<Grant>) {
        self.0.remove(&Timed { at, grant: grant.clone() });
    }

    pub(super) fn first(&self) -> Option<&Timed> {
        self.0.first()
    }

    pub(super) fn pop_first(&mut self) -> Option<Timed> {
        self.0.pop_first()
    }

    pub(super) fn iter(&self) -> Iter<'_, Timed> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> Ordering {
        self.at.cmp(&other.at).then_with(|| self.grant.id.cmp(&other.grant.id))
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timed {}
