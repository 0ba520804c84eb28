//! The names that are waited for most, in bounded memory.

use std::collections::HashMap;

/// Counters kept; a name that is waited for more often than 1 in this many waits is always among them.
const KEPT: usize = 64;

/// The space-saving sketch (Metwally, Agrawal, El Abbadi 2005): a new name takes the place and the count of
/// the rarest one, so counts are upper bounds and frequent names stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct HotNames {
    counts: HashMap<Box<str>, u64>,
}

impl HotNames {
    pub(crate) fn waited(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        let mut inherited = 0;
        if self.counts.len() >= KEPT {
            let rarest = self.counts.iter().min_by_key(|(_, count)| **count).map(|(name, _)| name.clone());
            if let Some(rarest) = rarest {
                inherited = self.counts.remove(&rarest).unwrap_or(0);
            }
        }
        self.counts.insert(name.into(), inherited + 1);
    }

    /// Names and upper bounds of their counts, most waited for first.
    pub(crate) fn ranked(&self) -> Vec<(String, u64)> {
        let mut ranked: Vec<_> = self.counts.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_name_survives_a_flood_of_rare_ones() {
        let mut hot = HotNames::default();
        for n in 0..10_000 {
            hot.waited(&format!("rare-{n}"));
            if n % 10 == 0 {
                hot.waited("frequent");
            }
        }
        assert_eq!(hot.counts.len(), KEPT);
        assert_eq!(hot.ranked()[0].0, "frequent");
        assert!(hot.ranked()[0].1 >= 1_000);
    }
}
