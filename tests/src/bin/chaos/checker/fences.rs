//! Fences grow, whatever was lost.

use std::collections::BTreeMap;

use redlatch_tests::history::Held;

use super::{Evidence, Violation};

/// `held` is of one lock, in order of beginning.
///
/// Three rules. Of two holders in a row the later one has the larger fence; not so where the server lost its data between
/// the grant of the later one and the moment when it knew. A lease that was asked for when another one was known has the
/// larger fence, always. No two leases have the same, ever.
pub(super) fn find(held: &[&Held], evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut regression = |before: &Held, after: &Held| {
        let violation = Violation::Regression(before.clone(), after.clone());
        if !found.contains(&violation) {
            found.push(violation);
        }
    };
    for two in held.windows(2) {
        if two[0].fence >= two[1].fence && !evidence.is_forgiven((two[1].from, two[1].from)) {
            regression(two[0], two[1]);
        }
    }
    let mut by_fence = BTreeMap::new();
    for it in held {
        if let Some(before) = by_fence.insert(it.fence, *it) {
            regression(before, it);
        }
    }
    let mut asked = held.to_vec();
    asked.sort_by_key(|it| it.asked);
    let mut known = held.iter().peekable();
    let mut largest: Option<&Held> = None;
    for it in asked {
        while let Some(before) = known.next_if(|before| before.from <= it.asked) {
            if largest.is_none_or(|largest| largest.fence < before.fence) {
                largest = Some(before);
            }
        }
        if let Some(before) = largest.filter(|before| before.fence >= it.fence && *before != it) {
            regression(before, it);
        }
    }
}
