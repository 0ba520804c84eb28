//! Does what the schedule says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::crew::Crew;
use crate::plan::{Fault, Planned};

/// Does what is planned, when it is planned: what is done to the server takes its time, and holds up nothing that is done to
/// workers.
pub(crate) fn follow(schedule: &[Planned], length: Duration, arena: &mut Arena, crew: &mut Crew<'_>) {
    let (of_crew, of_server): (Vec<_>, Vec<_>) = schedule.iter().partition(|it| it.fault.is_of_worker());
    let end = Instant::now() + length;
    let mut log = arena.log();
    let happened = thread::scope(|scope| {
        let working = scope.spawn(move || {
            let mut happened: BTreeMap<Fault, usize> = BTreeMap::new();
            at_its_time(
                &of_crew,
                end,
                length,
                |_| {},
                |planned, is_end| match (planned.fault, is_end) {
                    (Fault::KillWorker, false) => {
                        log.note(format_args!("kill worker {}", planned.worker));
                        crew.kill(planned.worker);
                        *happened.entry(planned.fault).or_default() += 1;
                    }
                    (Fault::StopWorker, false) => {
                        log.note(format_args!("stop worker {} for {:?}", planned.worker, planned.span));
                        crew.stop(planned.worker);
                        *happened.entry(planned.fault).or_default() += 1;
                    }
                    (Fault::StopWorker, true) => crew.resume(planned.worker),
                    _ => {}
                },
            );
            happened
        });
        let arena = RefCell::new(&mut *arena);
        at_its_time(
            &of_server,
            end,
            length,
            |()| arena.borrow_mut().look(),
            |planned, is_end| {
                let mut arena = arena.borrow_mut();
                if is_end { arena.end(planned) } else { arena.begin(planned) }
            },
        );
        working.join().expect("the workers are looked after")
    });
    arena.happened.extend(happened);
}

/// From one look to the next, while nothing else is to be done.
const LOOK: Duration = Duration::from_millis(500);

/// Calls `act` at the begin and at the end of each fault, and `idle` now and then between, until `end`.
fn at_its_time(
    schedule: &[&Planned],
    end: Instant,
    length: Duration,
    idle: impl Fn(()),
    mut act: impl FnMut(&Planned, bool),
) {
    let mut instants: Vec<(Duration, bool, &Planned)> = Vec::new();
    for it in schedule {
        instants.push((it.at, false, it));
        let lasts = !matches!(it.fault, Fault::KillWorker | Fault::StepForward | Fault::StepBack);
        instants.push((if lasts { it.at + it.span } else { it.at }, true, it));
    }
    instants.sort_by_key(|(at, is_end, _)| (*at, *is_end));
    let begin = end - length;
    let wait = |until: Instant| {
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            thread::sleep(left.min(LOOK));
            idle(());
        }
    };
    for (at, is_end, planned) in instants {
        wait(begin + at);
        act(planned, is_end);
    }
    wait(end);
}
