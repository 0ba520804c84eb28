//! What a run prints.

use std::collections::BTreeMap;

use redlatch_tests::ServerKind;
use redlatch_tests::history::Nanos;

use crate::checker::{Evidence, Violation};
use crate::plan::{Fault, Phase};

/// How many findings of a kind are shown.
const SHOWN: usize = 5;

/// One part of a run, judged.
pub(crate) struct Part {
    pub(crate) phase: Phase,
    pub(crate) evidence: Evidence,
    pub(crate) found: Vec<Violation>,
    /// Overlaps, forgiven or not.
    pub(crate) overlaps: usize,
    /// The longest span in which a waiter saw its lock free, and all such spans together.
    pub(crate) watched: (Nanos, Nanos),
    pub(crate) happened: BTreeMap<Fault, usize>,
    pub(crate) missing: Vec<Fault>,
    pub(crate) leftovers: Vec<String>,
    /// What workers had to say that did not end in good order.
    pub(crate) complaints: Vec<String>,
    /// Failovers that sentinels began by themselves.
    pub(crate) unplanned: usize,
}

impl Part {
    pub(crate) fn describe(&self, kind: ServerKind) {
        let story = &self.evidence.story;
        let served = &self.evidence.served;
        let refused = served.iter().filter(|it| !it.accepted).count();
        println!("{} part on {kind}: {:?}", self.phase.name(), self.happened);
        println!(
            "  leases {}, waits {}, stale grants {}, failed acquires {}, overlaps in all {}; store: {} requests, {refused} refused",
            story.held.len(),
            story.waits.len(),
            story.stale,
            story.failures.len(),
            self.overlaps,
            served.len(),
        );
        let count = |all: &[(u64, String)]| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            all.iter().for_each(|(_, how)| *counts.entry(how.clone()).or_default() += 1);
            counts
        };
        if self.unplanned > 0 {
            println!("  failovers that nobody planned {}", self.unplanned);
        }
        println!("  locks looked at {}", self.evidence.seen.len());
        println!("  releases {:?}, losses {:?}", count(&story.releases), count(&story.losses));
        let (longest, sum) = self.watched;
        println!(
            "  waiters beside a free lock: {:.3} s at most, {:.1} s in all",
            longest as f64 / 1e9,
            sum as f64 / 1e9
        );
        for kind in Violation::KINDS {
            self.found.iter().filter(|it| it.kind() == kind).take(SHOWN).for_each(|it| println!("  {it:?}"));
        }
        self.leftovers.iter().take(SHOWN).for_each(|key| println!("  leftover: {key}"));
        self.complaints.iter().for_each(|what| println!("  hanging: {what}"));
        self.missing.iter().for_each(|fault| println!("  never happened: {fault:?}"));
    }
}

/// What all parts add up to.
#[derive(Default)]
pub(crate) struct Limits {
    leases: usize,
    idle: usize,
    values: BTreeMap<&'static str, usize>,
}

impl Limits {
    pub(crate) fn take(&mut self, part: &Part) {
        self.leases += part.evidence.story.held.len();
        self.idle += usize::from(part.evidence.story.held.is_empty());
        let mut add = |name, count| *self.values.entry(name).or_default() += count;
        for kind in Violation::KINDS {
            add(kind, part.found.iter().filter(|it| it.kind() == kind).count());
        }
        add("leftovers", part.leftovers.len());
        add("missing", part.missing.len());
    }

    /// Prints every value beside its limit; whether all are within.
    pub(crate) fn judge(&self) -> bool {
        for (name, value) in &self.values {
            println!("CHAOS {name} {value} 0 {}", if *value == 0 { "ok" } else { "over" });
        }
        println!("CHAOS leases {}", self.leases);
        self.idle == 0 && self.values.values().all(|value| *value == 0)
    }
}
