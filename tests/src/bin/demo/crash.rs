//! A holder dies without a word, and others wait for its lock.

use std::thread;
use std::time::{Duration, Instant};

use redlatch::Client;
use redlatch_tests::Process;

use crate::Outcome;
use crate::messages::{Event, GO};
use crate::table::Keys;
use crate::timeline::{Timeline, Tone};
use crate::worker::{Job, Task};

/// Name of the lock.
pub(crate) const LOCK: &str = "report";
/// Workers that wait while the holder dies.
pub(crate) const WAITERS: usize = 3;
const STEP: Duration = Duration::from_millis(2);
/// Limit of each wait for a worker; a ttl is usual.
const LIMIT: Duration = Duration::from_secs(10);

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    /// How long the holder had the lock before it was killed.
    pub(crate) held: Duration,
    /// It still had the lock then, by what the server said.
    pub(crate) still_held: bool,
    /// From the kill to the next grant.
    pub(crate) gap: Duration,
    /// In the order of the grants, the holder's first.
    pub(crate) fences: Vec<u64>,
}

impl Crash {
    pub(crate) fn run(timeline: &Timeline, url: &str, keys: &Keys, ttl: Duration) -> Outcome<Crash> {
        let start = |number: usize| -> Outcome<(String, Process)> {
            let job = Job { task: Task::Hold, keys: keys.clone(), number, lease: ttl };
            Ok((job.name(), job.start(url)?))
        };
        let (holder_name, mut holder) = start(1)?;
        let fence = next_fence(&mut holder, LIMIT)?.ok_or("the holder did not get the lock")?;
        let granted = Instant::now();
        let mut waiters: Vec<(String, Process)> = (2..2 + WAITERS).map(start).collect::<Outcome<_>>()?;
        let client = Client::builder(url).key_prefix(&keys.lock_prefix()).build()?;
        let mut queued = 0;
        while queued < WAITERS as u64 {
            if granted.elapsed() > LIMIT {
                return Err(format!("only {queued} of {WAITERS} workers wait after {LIMIT:?}").into());
            }
            queued = client.inspect(LOCK)?.map_or(0, |info| info.waiters());
            thread::sleep(STEP);
        }
        let text = format!("has the lock, ttl {} s; {queued} others wait for it", ttl.as_secs_f64());
        timeline.event(Tone::Plain, &holder_name, text);

        // Longer than a ttl, so that only renewal keeps the lock.
        thread::sleep(ttl.mul_f64(1.5).saturating_sub(granted.elapsed()));
        let seen = client.inspect(LOCK)?;
        let still_held = seen.is_some_and(|info| {
            info.fence() == Some(fence) && info.owner().is_some_and(|owner| owner.ends_with(&holder_name))
        });
        let held = granted.elapsed();
        let killed = Instant::now();
        holder.kill9();
        let text = if still_held { "still has the lock" } else { "no longer has the lock" };
        let text = format!("{text} after {:.2} s, by renewal; killed now (kill -9)", held.as_secs_f64());
        timeline.event(Tone::Plain, &holder_name, text);

        let mut crash = Crash { held, still_held, gap: Duration::ZERO, fences: vec![fence] };
        while !waiters.is_empty() {
            if killed.elapsed() > LIMIT {
                return Err(format!("{} workers still wait {LIMIT:?} after the kill", waiters.len()).into());
            }
            match next_holder(&mut waiters)? {
                Some((name, process, fence)) => {
                    let gap = killed.elapsed();
                    crash.handed_on(timeline, gap, &name, process, fence)?;
                }
                None => thread::sleep(STEP),
            }
        }
        Ok(crash)
    }

    /// A waiter has the lock: notes it, and lets the worker release it and end.
    fn handed_on(
        &mut self,
        timeline: &Timeline,
        gap: Duration,
        name: &str,
        mut process: Process,
        fence: u64,
    ) -> Outcome<()> {
        if self.fences.len() == 1 {
            self.gap = gap;
            timeline.event(Tone::Good, name, format!("has the lock {:.2} s after the kill", gap.as_secs_f64()));
        } else {
            timeline.event(Tone::Plain, name, "has the lock next");
        }
        self.fences.push(fence);
        process.send(GO);
        match process.try_expect(&Event::End.to_string(), LIMIT) {
            Some(_) => Ok(()),
            None => Err(format!("{name} did not end: {}", process.error_lines().join(" ")).into()),
        }
    }

    pub(crate) fn fences_grow(&self) -> bool {
        self.fences.is_sorted_by(|one, two| one < two)
    }
}

/// The waiter that has the lock now, out of the list, with its fence.
fn next_holder(waiters: &mut Vec<(String, Process)>) -> Outcome<Option<(String, Process, u64)>> {
    for index in 0..waiters.len() {
        if let Some(fence) = next_fence(&mut waiters[index].1, Duration::ZERO)? {
            let (name, process) = waiters.remove(index);
            return Ok(Some((name, process, fence)));
        }
    }
    Ok(None)
}

/// The fence of a worker that has the lock now; `None` when it has none within `wait`.
fn next_fence(process: &mut Process, wait: Duration) -> Outcome<Option<u64>> {
    let Some(line) = process.try_expect("holds", wait) else { return Ok(None) };
    match line.parse()? {
        Event::Holds { fence } => Ok(Some(fence)),
        other => Err(format!("a worker said {other}").into()),
    }
}
