//! All states that can be reached, breadth first.

use super::index::Index;
use super::rules::Rules;
use super::state::State;
use super::steps::{Schedule, Step};
use super::trace::Counterexample;

/// What a run found out.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) rules: Rules,
    pub(crate) states: Vec<State>,
    /// From where each state was reached first.
    parents: Vec<u32>,
    pub(crate) index: Index,
    pub(crate) transitions: u64,
}

impl Explored {
    /// Visits every state that can be reached; ends with a shortest way to a broken promise, if there is one.
    pub(crate) fn new(rules: Rules) -> Result<Explored, Box<Counterexample>> {
        let start = rules.start();
        let mut index = Index::default();
        index.insert(&start);
        let mut explored = Explored { rules, states: vec![start], parents: vec![0], index, transitions: 0 };
        let mut next = 0;
        while next < explored.states.len() {
            explored.expand(next)?;
            next += 1;
        }
        Ok(explored)
    }

    fn expand(&mut self, at: usize) -> Result<(), Box<Counterexample>> {
        let Explored { rules, states, parents, index, transitions } = self;
        let (state, mut broken) = (states[at], None);
        rules.steps(&state, Schedule::Any, |step, after, violation| {
            *transitions += 1;
            if let Some(violation) = violation {
                broken.get_or_insert((violation, step, after));
            } else if index.insert(&after) {
                states.push(after);
                parents.push(at as u32);
            }
        });
        let Some((violation, step, after)) = broken else { return Ok(()) };
        let mut steps = self.way_to(at as u32);
        steps.push((step, after));
        Err(Box::new(Counterexample { rules: self.rules.clone(), violation, steps }))
    }

    /// Whether a state of this kind was reached: a run that cannot meet what it is for proves nothing.
    pub(crate) fn meets(&self, kind: impl Fn(&State) -> bool) -> bool {
        self.states.iter().any(kind)
    }

    /// The steps from the start to a state.
    pub(crate) fn way_to(&self, mut at: u32) -> Vec<(Step, State)> {
        let mut steps = Vec::new();
        while at != 0 {
            let (parent, after) = (self.parents[at as usize], self.states[at as usize]);
            let mut found = None;
            self.rules.steps(&self.states[parent as usize], Schedule::Any, |step, reached, _| {
                if reached == after {
                    found = Some(step);
                }
            });
            steps.push((found.expect("a step leads from each state's parent to it"), after));
            at = parent;
        }
        steps.reverse();
        steps
    }
}
