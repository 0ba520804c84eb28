//! A run of the workers: it plays the payment service, stops three workers, and counts what came of it.

use std::thread;
use std::time::{Duration, Instant};

use redlatch_tests::Process;

use crate::messages::{Event, GO, Unlocked};
use crate::stall::{STALLS, Stall, is_careful};
use crate::table::{Keys, Table};
use crate::timeline::{Timeline, Tone};
use crate::worker::{Job, Task};
use crate::{Outcome, Scale};

/// Pause between two looks at what the workers say.
const STEP: Duration = Duration::from_millis(2);
/// Limit of one run; some seconds are usual.
const LIMIT: Duration = Duration::from_secs(20);

/// How workers keep others from their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `SET NX EX`, `DEL`.
    Plain,
    Redlatch,
}

/// What came of a run. The first four are read from the table at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) never: usize,
    pub(crate) once: usize,
    pub(crate) twice: usize,
    pub(crate) deducted: i64,
    /// Stalls that lasted longer than the lease.
    pub(crate) stalls: usize,
    /// Locks that a worker deleted while another had them.
    pub(crate) stolen: usize,
    /// Leases whose holder found them lost before it wrote.
    pub(crate) noticed: usize,
    /// Writes that the table refused.
    pub(crate) refused: usize,
}

struct Worker {
    name: String,
    process: Process,
    /// The order in work, and when its payment is due.
    paying: Option<(u32, Instant)>,
    /// Has had an order.
    began: bool,
    ended: bool,
}

/// One run.
pub(crate) struct Orders<'a> {
    timeline: &'a Timeline,
    url: &'a str,
    keys: &'a Keys,
    kind: Kind,
    scale: Scale,
    workers: Vec<Worker>,
    stalls: Vec<Stall>,
    /// Orders without a stall that are written.
    undisturbed: usize,
    tally: Tally,
}

impl<'a> Orders<'a> {
    pub(crate) fn new(timeline: &'a Timeline, url: &'a str, keys: &'a Keys, kind: Kind, scale: Scale) -> Orders<'a> {
        let (workers, stalls) = (Vec::new(), Vec::new());
        Orders { timeline, url, keys, kind, scale, workers, stalls, undisturbed: 0, tally: Tally::default() }
    }

    /// Runs until every worker has ended, and counts. On an error the processes are killed.
    pub(crate) fn run(mut self) -> Outcome<Tally> {
        let end = Instant::now() + LIMIT;
        self.start_workers()?;
        while !self.workers.iter().all(|worker| worker.ended) {
            if Instant::now() > end {
                return Err(format!("the workers were not done after {LIMIT:?}").into());
            }
            let events = self.hear()?;
            for (worker, event) in events {
                self.handle(worker, event);
            }
            self.pay();
            self.let_go_on();
            thread::sleep(STEP);
        }
        self.count()
    }

    fn start_workers(&mut self) -> Outcome<()> {
        for number in 1..=self.scale.workers {
            let task = match self.kind {
                Kind::Plain => Task::Plain,
                Kind::Redlatch if is_careful(number - 1) => Task::Careful,
                Kind::Redlatch => Task::Careless,
            };
            let job = Job { task, keys: self.keys.clone(), number, lease: self.scale.lease };
            let (name, process) = (job.name(), job.start(self.url)?);
            self.workers.push(Worker { name, process, paying: None, began: false, ended: false });
        }
        for worker in &mut self.workers {
            if worker.process.try_expect(&Event::Ready.to_string(), LIMIT).is_none() {
                return Err(worker.complaint("did not start").into());
            }
        }
        for worker in &mut self.workers {
            worker.process.send(GO);
        }
        Ok(())
    }

    fn hear(&mut self) -> Outcome<Vec<(usize, Event)>> {
        let mut events = Vec::new();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            // Asked before the last lines are read, so that none is missed.
            let exited = !worker.ended && worker.process.wait_exit(Duration::ZERO).is_some();
            while let Some(line) = worker.process.try_expect("", Duration::ZERO) {
                let event: Event = line.parse()?;
                worker.ended |= event == Event::End;
                events.push((index, event));
            }
            if exited && !worker.ended {
                return Err(worker.complaint("ended too early").into());
            }
        }
        Ok(events)
    }

    fn handle(&mut self, worker: usize, event: Event) {
        match event {
            Event::Took { order, fence } => self.took(worker, order, fence),
            Event::Wrote { order, times, unlocked } => self.wrote(worker, order, times, unlocked),
            Event::Lost { order, reason } => self.lost(worker, order, &reason),
            Event::Refused { order, fence, highest } => self.refused(worker, order, fence, highest),
            Event::Ready | Event::Waits | Event::Holds { .. } | Event::End => {}
        }
    }

    fn took(&mut self, worker: usize, order: u32, fence: Option<u64>) {
        let fence = fence.map(|fence| format!(" with fence {fence}")).unwrap_or_default();
        let first = !std::mem::replace(&mut self.workers[worker].began, true);
        if let Some(stall) = Stall::planned(worker, order).filter(|_| first) {
            self.workers[worker].process.pause();
            self.stalls.push(stall);
            let lease = self.scale.lease.as_secs_f64();
            let text = format!("took order {order}{fence}, then stalled (SIGSTOP), lease {lease} s");
            self.say(worker, Tone::Plain, &text);
            return;
        }
        self.workers[worker].paying = Some((order, Instant::now() + self.scale.payment));
        if let Some(stall) = self.stalls.iter_mut().find(|stall| stall.order == order && !stall.over) {
            stall.taken = true;
            let holder = &self.workers[stall.worker].name;
            let text = format!("took order {order}{fence}: the lease of {holder} has run out");
            self.say(worker, Tone::Plain, &text);
        }
    }

    fn wrote(&mut self, worker: usize, order: u32, times: u64, unlocked: Unlocked) {
        // A worker that deletes another's lock knows so in the plain run only; whose lock is gone knows it in both.
        self.tally.stolen += match self.kind {
            Kind::Plain => usize::from(unlocked == Unlocked::Others),
            Kind::Redlatch => usize::from(unlocked == Unlocked::Stolen),
        };
        let went_on = self.end_stall(worker, order);
        let well = times == 1 && unlocked == Unlocked::Own;
        if let Some(stall) = self.stalls.iter_mut().find(|stall| stall.order == order) {
            stall.finished = true;
        } else if well {
            self.undisturbed += 1;
            if self.undisturbed + STALLS == self.scale.orders as usize {
                let text = format!("wrote the {} other orders", self.undisturbed);
                self.timeline.event(Tone::Plain, "together", text);
            }
            return;
        }
        let went_on = went_on.map(|text| text + " and ").unwrap_or_default();
        let times = if times > 1 { format!(" again, write number {times}") } else { String::new() };
        let unlocked = match unlocked {
            Unlocked::Own => "",
            Unlocked::Others => "; then its DEL deleted another's lock",
            Unlocked::Stolen => "; its lock had been deleted by another",
        };
        let tone = if well { Tone::Plain } else { Tone::Bad };
        self.say(worker, tone, &format!("{went_on}wrote order {order}{times}{unlocked}"));
    }

    fn lost(&mut self, worker: usize, order: u32, reason: &str) {
        self.tally.noticed += 1;
        let went_on = self.end_stall(worker, order).map(|text| text + ": ").unwrap_or_default();
        let text = format!("{went_on}check() said lost ({reason}), so it left order {order} alone");
        self.say(worker, Tone::Good, &text);
    }

    fn refused(&mut self, worker: usize, order: u32, fence: u64, highest: u64) {
        self.tally.refused += 1;
        let went_on = self.end_stall(worker, order).map(|text| text + ", ").unwrap_or_default();
        self.say(worker, Tone::Good, &format!("{went_on}did not check, and its write of order {order} was REFUSED:"));
        self.say(worker, Tone::Good, &format!("its fence {fence} is lower than {highest}"));
    }

    /// Marks the stall of this worker at this order, if there was one, as dealt with; what it was, in words.
    fn end_stall(&mut self, worker: usize, order: u32) -> Option<String> {
        let matches = |stall: &&mut Stall| stall.worker == worker && stall.order == order && !stall.over;
        let stall = self.stalls.iter_mut().find(matches)?;
        stall.over = true;
        stall.lasted.map(|lasted| format!("went on after {:.2} s", lasted.as_secs_f64()))
    }

    /// Answers the payments that are due.
    fn pay(&mut self) {
        // The first orders are paid when each worker has one, so that the plan meets every worker.
        if !self.workers.iter().all(|worker| worker.began) {
            return;
        }
        let (now, stalls) = (Instant::now(), &self.stalls);
        for worker in &mut self.workers {
            let Some((order, due)) = worker.paying else { continue };
            let awaited = stalls.iter().any(|stall| stall.order == order && stall.is_awaited());
            if now >= due && !awaited {
                worker.paying = None;
                worker.process.send(GO);
            }
        }
    }

    /// Lets stalled workers go on whose time has come.
    fn let_go_on(&mut self) {
        let lease = self.scale.lease;
        for stall in self.stalls.iter_mut().filter(|stall| stall.is_due(lease)) {
            let process = &mut self.workers[stall.worker].process;
            // The payment has come while the worker was stopped.
            process.send(GO);
            self.tally.stalls += usize::from(stall.end() > lease);
            process.resume();
        }
    }

    fn count(mut self) -> Outcome<Tally> {
        let mut table = Table::open(self.url, self.keys)?;
        for order in 1..=self.scale.orders {
            match table.writes(order)? {
                0 => self.tally.never += 1,
                1 => self.tally.once += 1,
                _ => self.tally.twice += 1,
            }
        }
        self.tally.deducted = table.deducted()?;
        Ok(self.tally)
    }

    fn say(&self, worker: usize, tone: Tone, text: &str) {
        self.timeline.event(tone, &self.workers[worker].name, text);
    }
}

impl Worker {
    fn complaint(&self, what: &str) -> String {
        format!("{} {what}: {}", self.name, self.process.error_lines().join(" "))
    }
}
