//! Subjects that take turns, and how they compare.

use redlatch_tests::bench::{Limit, Report, Spread};

use super::subjects::{OURS_IN_RUST, Subject};

/// What one subject has measured: one value a round.
pub(crate) struct Entry<T> {
    pub(crate) subject: &'static Subject,
    pub(crate) values: Vec<T>,
}

pub(crate) fn entries<T>(subjects: impl IntoIterator<Item = &'static Subject>) -> Vec<Entry<T>> {
    subjects.into_iter().map(|subject| Entry { subject, values: Vec::new() }).collect()
}

/// Each has a turn; who begins changes from round to round. One that has nothing to tell is out.
pub(crate) fn play_round<T>(
    entries: &mut Vec<Entry<T>>,
    round: usize,
    mut play: impl FnMut(&'static Subject) -> Option<T>,
) {
    let mut out = Vec::new();
    for turn in 0..entries.len() {
        let turn = (round + turn) % entries.len();
        match play(entries[turn].subject) {
            Some(value) => entries[turn].values.push(value),
            None => out.push(entries[turn].subject.name),
        }
    }
    entries.retain(|entry| !out.contains(&entry.subject.name));
}

/// The ratios of a subject's values to those of another, which has played in the same rounds.
pub(crate) fn ratio_of(entries: &[Entry<f64>], subject: &str, per: &str) -> Option<Spread> {
    let values = |name: &str| entries.iter().find(|entry| entry.subject.name == name).map(|entry| &entry.values);
    Some(Spread::of_ratios(values(subject)?, values(per)?))
}

/// Reports each peer beside redlatch in its language, and in Rust.
pub(crate) fn tell_ratios(entries: &[Entry<f64>], what: &str, report: &mut Report) {
    for subject in entries.iter().map(|entry| entry.subject).filter(|subject| !subject.is_ours()) {
        let mut per = vec![subject.ours(), OURS_IN_RUST];
        per.dedup();
        for ours in per {
            if let Some(ratio) = ratio_of(entries, subject.name, ours) {
                report.ratio(format!("{}_{what}_per_{ours}", subject.name), ratio, Limit::None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::subjects::SUBJECTS;
    use super::*;

    #[test]
    fn each_has_a_turn_in_each_round_and_another_begins() {
        let mut all = entries::<()>(&SUBJECTS[..3]);
        let mut order = Vec::new();
        for round in 0..2 {
            play_round(&mut all, round, |subject| {
                order.push(subject.name);
                Some(())
            });
        }
        let [first, second, third] = [0, 1, 2].map(|place| SUBJECTS[place].name);
        assert_eq!(order, [first, second, third, second, third, first]);
    }

    #[test]
    fn one_that_fails_is_out_and_the_others_go_on() {
        let mut all = entries::<u32>(&SUBJECTS[..3]);
        for round in 0..2 {
            play_round(&mut all, round, |subject| (round == 0 || subject.name != SUBJECTS[1].name).then_some(7));
        }
        let left: Vec<(&str, usize)> = all.iter().map(|entry| (entry.subject.name, entry.values.len())).collect();
        assert_eq!(left, [(SUBJECTS[0].name, 2), (SUBJECTS[2].name, 2)]);
    }

    #[test]
    fn a_ratio_needs_both() {
        let mut all = entries::<f64>(&SUBJECTS[..2]);
        let [first, second] = [0, 1].map(|place| SUBJECTS[place].name);
        play_round(&mut all, 0, |subject| Some(if subject.name == first { 2.0 } else { 10.0 }));
        assert_eq!(ratio_of(&all, second, first).map(|spread| spread.median), Some(5.0));
        assert_eq!(ratio_of(&all, second, "absent"), None);
    }
}
