//! Who could rely on which lock when, and who waited, out of the journals of all workers.

use super::{Event, NOTHING, Nanos, Record};

/// One worker process from its start to its end.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Which of the workers, whatever its process.
    pub worker: usize,
    /// Its process.
    pub pid: u32,
    /// Its journal.
    pub records: Vec<Record>,
    /// When it was surely dead, if it was killed.
    pub killed: Option<Nanos>,
    /// From before each SIGSTOP until after its SIGCONT.
    pub stops: Vec<(Nanos, Nanos)>,
    /// It was told to end, and did not in its time, or ended otherwise than in good order.
    pub hung: bool,
}

/// A span in which a thread could rely on a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which of the workers.
    pub worker: usize,
    /// Which of its threads.
    pub thread: usize,
    /// Which lock.
    pub key: usize,
    /// When it began to ask; the grant happened after that.
    pub asked: Nanos,
    /// When it knew of the grant.
    pub from: Nanos,
    /// Its release, its loss, its death or its deadline.
    pub until: Nanos,
    /// When its release was confirmed; `None` when the key had to lapse, or nobody knows.
    pub released: Option<Nanos>,
    /// The fence of its lease.
    pub fence: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the lock.
    Granted,
    /// With a lock that was lost before anyone relied on it.
    Stale,
    /// Its time was over.
    Busy,
    /// With an error.
    Failed,
    /// Its process was killed.
    Killed,
    /// It still waited at the end of the run.
    Open,
}

/// A wait for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which of the workers.
    pub worker: usize,
    /// Which of its threads.
    pub thread: usize,
    /// Which lock.
    pub key: usize,
    /// When it began to ask, or its process last went on after a stop.
    pub from: Nanos,
    /// When the answer was there, or the process surely dead.
    pub until: Nanos,
    /// How it ended.
    pub ending: Ending,
}

/// Everything that happened to the locks.
#[derive(Debug, Default)]
pub struct Story {
    /// In order of beginning.
    pub held: Vec<Held>,
    /// Thread by thread.
    pub waits: Vec<Wait>,
    /// Reason of each loss in its holder's hands.
    pub losses: Vec<(Nanos, String)>,
    /// Outcome of each release.
    pub releases: Vec<(Nanos, String)>,
    /// Refusals of holders whose lease was valid, by lock.
    pub refusals: Vec<(Nanos, usize)>,
    /// Grants that were lost before anyone relied on them.
    pub stale: usize,
    /// Error of each failed acquire.
    pub failures: Vec<(Nanos, String)>,
    /// Workers that nobody killed before they were told to end and that did not end in good order, with those of their
    /// threads that did not.
    pub hung: Vec<(usize, Vec<usize>)>,
}

impl Story {
    /// What all lives of a run tell that ended at `end`.
    pub fn of(lives: &[Life], end: Nanos) -> Story {
        let mut story = Story::default();
        for life in lives {
            let threads = life.records.iter().map(|record| record.thread).max().map_or(0, |last| last + 1);
            (0..threads).for_each(|thread| story.follow(life, thread, end));
            let is_done = |thread: &usize| {
                let mut its = life.records.iter().filter(|record| record.thread == *thread);
                its.any(|record| matches!(record.event, Event::Done { .. }))
            };
            let open: Vec<usize> = (0..threads).filter(|thread| !is_done(thread)).collect();
            if life.hung || (life.killed.is_none() && !open.is_empty()) {
                story.hung.push((life.worker, open));
            }
        }
        story.held.sort_by_key(|it| (it.from, it.until));
        story
    }

    /// Follows one thread through its journal.
    fn follow(&mut self, life: &Life, thread: usize, end: Nanos) {
        let death = life.killed.unwrap_or(end);
        let mut waiting: Option<(Nanos, usize)> = None;
        let mut holding: Option<(Held, Nanos)> = None;
        // The last one that has ended, for its release.
        let mut ended: Option<usize> = None;
        for Record { event, key, .. } in life.records.iter().filter(|record| record.thread == thread) {
            let key = *key;
            match event {
                Event::Waits { at } => waiting = Some((*at, key)),
                Event::Granted { at, deadline, fence } => {
                    let (at, fence) = (*at, *fence);
                    let asked = waiting.map_or(at, |(asked, _)| asked);
                    self.waited(life, thread, waiting.take(), at, Ending::Granted);
                    let worker = life.worker;
                    let held = Held { worker, thread, key, asked, from: at, until: at, released: None, fence };
                    holding = Some((held, *deadline));
                }
                Event::Stale { at } => {
                    self.stale += 1;
                    self.waited(life, thread, waiting.take(), *at, Ending::Stale);
                }
                Event::Holds { deadline: later, .. } => {
                    if let Some((_, deadline)) = &mut holding {
                        *deadline = (*deadline).max(*later);
                    }
                }
                Event::Refused { at } => self.refusals.push((*at, key)),
                Event::Ends { at, lost } => {
                    if let Some((span, _)) = holding.take() {
                        ended = Some(self.held.len());
                        self.held.push(Held { until: *at, ..span });
                    }
                    if lost != NOTHING {
                        self.losses.push((*at, lost.clone()));
                    }
                }
                Event::Released { at, outcome } => {
                    if let Some(index) = ended.take().filter(|_| outcome.eq_ignore_ascii_case("released")) {
                        self.held[index].released = Some(*at);
                    }
                    self.releases.push((*at, outcome.clone()));
                }
                Event::Busy { at } => self.waited(life, thread, waiting.take(), *at, Ending::Busy),
                Event::Failed { at, error } => {
                    self.waited(life, thread, waiting.take(), *at, Ending::Failed);
                    self.failures.push((*at, error.clone()));
                }
                Event::Done { .. } => waiting = None,
            }
        }
        let ending = if life.killed.is_some() { Ending::Killed } else { Ending::Open };
        self.waited(life, thread, waiting.take(), death, ending);
        if let Some((span, deadline)) = holding {
            self.held.push(Held { until: death.min(deadline), ..span });
        }
    }

    fn waited(&mut self, life: &Life, thread: usize, from: Option<(Nanos, usize)>, until: Nanos, ending: Ending) {
        let Some((from, key)) = from else { return };
        // A stopped process cannot take what it is given: its wait begins anew.
        let resumed = life.stops.iter().map(|(_, resumed)| (*resumed).min(until));
        let from = resumed.fold(from, Nanos::max);
        self.waits.push(Wait { worker: life.worker, thread, key, from, until, ending });
    }
}
