//! At most one holder at a time.

use redlatch_tests::history::Held;

use super::{Evidence, Violation};

/// `held` is of one lock, in order of beginning.
pub(super) fn find(held: &[&Held], evidence: &Evidence, found: &mut Vec<Violation>) {
    // Those that may still last. Few, because leases that overlap are the exception.
    let mut open: Vec<&Held> = Vec::new();
    for it in held {
        open.retain(|before| before.until > it.from);
        for before in &open {
            let together = (it.from, before.until.min(it.until));
            if together.0 < together.1 && !evidence.is_forgiven(together) {
                found.push(Violation::Overlap((*before).clone(), (*it).clone()));
            }
        }
        open.push(it);
    }
}
