//! How long live waiters wait at most, from every reachable state on, once no more trouble comes.

use std::fmt::{self, Display, Formatter};

use super::explorer::Explored;
use super::promises::Violation;
use super::state::{CLIENTS, Phase, State};
use super::steps::{Schedule, Step};
use super::trace::Counterexample;

/// Longest waits in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// With every process alive and running.
    pub(crate) healthy: u8,
    /// With one process killed before.
    pub(crate) killed: u8,
    /// With one process stopped for good, and the others alive.
    pub(crate) stopped: u8,
    /// With one killed and another one stopped.
    pub(crate) both: u8,
}

impl Display for Waits {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Waits { healthy, killed, stopped, both } = self;
        write!(out, "longest waits in ticks: {healthy}, one killed {killed}, one stopped {stopped}, both {both}")
    }
}

impl Waits {
    fn class(&mut self, killed: bool, stopped: bool) -> &mut u8 {
        match (killed, stopped) {
            (false, false) => &mut self.healthy,
            (true, false) => &mut self.killed,
            (false, true) => &mut self.stopped,
            (true, true) => &mut self.both,
        }
    }
}

/// The longest waits, or the way to one that is longer than `bounds` or has no end.
pub(crate) fn longest_waits(explored: &Explored, mut bounds: Waits) -> Result<Waits, Box<Counterexample>> {
    let mut waits = Waits::default();
    let stopping = explored.rules.clients.iter().filter(|role| role.stops);
    let mut processes: Vec<u8> = stopping.map(|role| role.process).collect();
    processes.dedup();
    for stopped in processes.into_iter().map(Some).chain([None]) {
        let mut calm = Calm { explored, stopped, longest: vec![UNKNOWN; explored.states.len()] };
        calm.measure()?;
        for (at, state) in explored.states.iter().enumerate() {
            let killed = state.clients.iter().any(|client| client.phase == Phase::Dead);
            let wait = calm.longest[at];
            if wait > *bounds.class(killed, stopped.is_some()) {
                return Err(calm.way_from(at as u32));
            }
            let longest = waits.class(killed, stopped.is_some());
            *longest = (*longest).max(wait);
        }
    }
    Ok(waits)
}

/// The longest waits of calm runs by state, with one process stopped or none.
struct Calm<'a> {
    explored: &'a Explored,
    stopped: Option<u8>,
    longest: Vec<u8>,
}

const UNKNOWN: u8 = u8::MAX;
/// On the way that is being followed.
const UNDER_WAY: u8 = u8::MAX - 1;

/// A state on the way that is being followed.
struct Frame {
    at: u32,
    /// The steps from here that were not followed yet: where to, and how many ticks they take.
    onward: Vec<(u32, u8)>,
    longest: u8,
}

impl Calm<'_> {
    /// Depth first. A way that comes back to itself is a wait without end.
    fn measure(&mut self) -> Result<(), Box<Counterexample>> {
        let mut way: Vec<Frame> = Vec::new();
        for root in 0..self.longest.len() as u32 {
            if self.longest[root as usize] != UNKNOWN {
                continue;
            }
            way.push(self.enter(root));
            while let Some(frame) = way.last_mut() {
                let Some((next, ticks)) = frame.onward.last().copied() else {
                    self.longest[frame.at as usize] = frame.longest;
                    way.pop();
                    continue;
                };
                match self.longest[next as usize] {
                    UNKNOWN => way.push(self.enter(next)),
                    UNDER_WAY => return Err(self.endless(&way, next)),
                    known => {
                        frame.longest = frame.longest.max(known + ticks);
                        frame.onward.pop();
                    }
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, at: u32) -> Frame {
        self.longest[at as usize] = UNDER_WAY;
        let onward = self.steps(at).into_iter().map(|(step, next)| (next, u8::from(step == Step::Tick))).collect();
        Frame { at, onward, longest: 0 }
    }

    /// What happens next in a state where somebody waits.
    fn steps(&self, at: u32) -> Vec<(Step, u32)> {
        let Explored { rules, states, index, .. } = self.explored;
        let state = &states[at as usize];
        let mut steps = Vec::new();
        let waits =
            |client: usize| state.clients[client].is_waiting() && Some(rules.clients[client].process) != self.stopped;
        if (0..CLIENTS).any(waits) {
            rules.steps(state, Schedule::Calm(self.stopped), |step, after, _| {
                steps.push((step, index.find(&after).expect("a calm run stays within the explored states")));
            });
        }
        steps
    }

    /// The way to a state and through the longest wait from there.
    fn way_from(&self, start: u32) -> Box<Counterexample> {
        let mut steps = self.explored.way_to(start);
        let mut at = start;
        let left = |next: u32, step: Step| self.longest[next as usize] + u8::from(step == Step::Tick);
        while let Some((step, next)) = self.steps(at).into_iter().max_by_key(|(step, next)| left(*next, *step)) {
            steps.push((step, self.state(next)));
            at = next;
        }
        self.too_long(steps)
    }

    /// The way to a state and on to where it comes back to itself.
    fn endless(&self, way: &[Frame], back: u32) -> Box<Counterexample> {
        let mut steps = self.explored.way_to(way[0].at);
        let targets = way[1..].iter().map(|frame| frame.at).chain([back]);
        for (from, to) in way.iter().zip(targets) {
            let step = self.steps(from.at).into_iter().find(|(_, next)| *next == to);
            let (step, _) = step.expect("each state of the way follows from the one before");
            steps.push((step, self.state(to)));
        }
        self.too_long(steps)
    }

    fn too_long(&self, steps: Vec<(Step, State)>) -> Box<Counterexample> {
        Box::new(Counterexample { rules: self.explored.rules.clone(), violation: Violation::WaitsTooLong, steps })
    }

    fn state(&self, at: u32) -> State {
        self.explored.states[at as usize]
    }
}
