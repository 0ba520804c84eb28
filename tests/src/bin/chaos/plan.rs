//! Which fault comes when: drawn from the seed before the run begins, and nothing else.

use std::time::Duration;

use fastrand::Rng;

/// What a part of the run may do to its server, and so what the checker can demand of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server keeps what it has confirmed: nothing is forgiven.
    Faithful,
    /// The server comes back without its data.
    Forgetful,
    /// The server's clock is stepped.
    Stepping,
    /// Sentinels put a replica in the place of the server.
    Failover,
}

impl Phase {
    pub(crate) const ALL: [Phase; 4] = [Phase::Faithful, Phase::Forgetful, Phase::Stepping, Phase::Failover];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Faithful => "faithful",
            Phase::Forgetful => "forgetful",
            Phase::Stepping => "stepping",
            Phase::Failover => "failover",
        }
    }

    /// What happens to the server and the connections, each once before any happens again.
    pub(crate) fn deck(self) -> &'static [Fault] {
        match self {
            Phase::Faithful => &[
                Fault::RestartFromLog,
                Fault::StopServer,
                Fault::PauseClients,
                Fault::DelayReplies,
                Fault::DelayRequests,
                Fault::CutReply,
                Fault::SwallowReply,
                Fault::SwallowReplies,
                Fault::BlackHole,
                Fault::Reset,
                Fault::KillPubSub,
                Fault::FlushScripts,
            ],
            Phase::Forgetful => {
                &[Fault::RestartEmpty, Fault::RestartFromSnapshot, Fault::SwallowReply, Fault::KillPubSub]
            }
            Phase::Stepping => &[Fault::StepForward, Fault::StepBack],
            Phase::Failover => &[Fault::KillPrimary],
        }
    }

    /// A length in which every kind of fault of this phase comes up, whatever the seed.
    pub(crate) fn full_round(self) -> Duration {
        let server: Duration = self.deck().iter().map(|fault| Duration::from_millis(fault.span_ms().1) + GAP.1).sum();
        let crew = CREW.len() as u32 * CREW_GAP.1 + Duration::from_millis(Fault::StopWorker.span_ms().1);
        server.max(crew)
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A worker is killed with SIGKILL and another one started.
    KillWorker,
    /// A worker is stopped for longer than the ttl.
    StopWorker,
    /// The server is killed and starts again with its append-only file.
    RestartFromLog,
    /// The server is shut down with a snapshot, and starts again with that.
    RestartFromSnapshot,
    /// The server is killed and starts again with nothing.
    RestartEmpty,
    /// The server is stopped with SIGSTOP.
    StopServer,
    /// `CLIENT PAUSE`.
    PauseClients,
    /// Replies come late.
    DelayReplies,
    /// Requests arrive late.
    DelayRequests,
    /// Replies end in the middle, and their connections with them.
    CutReply,
    /// A few replies get lost.
    SwallowReply,
    /// All replies get lost.
    SwallowReplies,
    /// Nothing passes.
    BlackHole,
    /// All connections are reset.
    Reset,
    /// `CLIENT KILL TYPE pubsub`.
    KillPubSub,
    /// `SCRIPT FLUSH`.
    FlushScripts,
    /// The server's clock jumps forward.
    StepForward,
    /// The server's clock jumps back.
    StepBack,
    /// The primary is killed, and comes back as a replica of the one that took over.
    KillPrimary,
}

impl Fault {
    /// Whether requests or messages may be late or lost for longer than one of them takes to be repeated. A fault that is
    /// none costs a waiter no more than a moment.
    pub(crate) fn is_outage(self) -> bool {
        !matches!(self, Fault::CutReply | Fault::SwallowReply | Fault::Reset | Fault::KillPubSub | Fault::FlushScripts)
    }

    /// Whether it is done to a worker.
    pub(crate) fn is_of_worker(self) -> bool {
        matches!(self, Fault::KillWorker | Fault::StopWorker)
    }

    /// Shortest and longest time that it lasts, in ms; of a step of the clock: how far it goes.
    fn span_ms(self) -> (u64, u64) {
        match self {
            Fault::StopWorker => (1_100, 2_400),
            Fault::StopServer => (300, 1_500),
            Fault::PauseClients | Fault::SwallowReplies | Fault::BlackHole => (200, 900),
            Fault::DelayReplies | Fault::DelayRequests => (400, 900),
            Fault::CutReply | Fault::SwallowReply => (300, 301),
            Fault::StepForward | Fault::StepBack => (200, 2_500),
            Fault::KillPrimary => (8_000, 10_000),
            _ => (0, 1),
        }
    }
}

/// One fault of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the begin of the phase.
    pub(crate) at: Duration,
    /// How long it lasts; of a step of the clock: how far it goes.
    pub(crate) span: Duration,
    pub(crate) fault: Fault,
    /// The worker that it meets, for faults of workers.
    pub(crate) worker: usize,
    /// A number for whatever else there is to choose.
    pub(crate) dice: u64,
}

/// Time between two faults of server or connections, from the end of one to the begin of the next.
const GAP: (Duration, Duration) = (Duration::from_millis(700), Duration::from_millis(1_300));
/// Time between two faults of workers, which come beside the others.
const CREW_GAP: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(1_100));
/// After each of them has come once: time in which nobody but workers fails, so that what is left undone is seen.
const QUIET: Duration = Duration::from_secs(5);
const CREW: [Fault; 4] = [Fault::KillWorker, Fault::KillWorker, Fault::KillWorker, Fault::StopWorker];

/// The schedule of a phase of `length` with `workers` workers, in order of time.
pub(crate) fn draw(phase: Phase, length: Duration, workers: usize, seed: u64) -> Vec<Planned> {
    let mut dice = Rng::with_seed(seed);
    let mut planned = Vec::new();
    let mut at = between(&mut dice, GAP);
    'server: loop {
        let mut deck = phase.deck().to_vec();
        // Steps take turns, so that the clock is never far off.
        if phase != Phase::Stepping {
            dice.shuffle(&mut deck);
        }
        for fault in deck {
            let span = length_of(&mut dice, fault);
            if at + span > length {
                break 'server;
            }
            planned.push(Planned { at, span, fault, worker: 0, dice: dice.u64(..) });
            at += span + between(&mut dice, GAP);
        }
        at += QUIET;
    }
    let mut at = between(&mut dice, CREW_GAP);
    let mut stopped_until = vec![Duration::ZERO; workers];
    'crew: loop {
        let mut deck = CREW;
        dice.shuffle(&mut deck);
        for fault in deck {
            let span = length_of(&mut dice, fault);
            let awake: Vec<usize> = (0..workers).filter(|worker| stopped_until[*worker] <= at).collect();
            let Some(worker) = dice.choice(awake) else { break };
            if at + span > length {
                break 'crew;
            }
            stopped_until[worker] = at + span;
            planned.push(Planned { at, span, fault, worker, dice: dice.u64(..) });
            at += between(&mut dice, CREW_GAP);
        }
    }
    planned.sort_by_key(|it| it.at);
    planned
}

fn length_of(dice: &mut Rng, fault: Fault) -> Duration {
    let (least, most) = fault.span_ms();
    Duration::from_millis(dice.u64(least..most))
}

fn between(dice: &mut Rng, (least, most): (Duration, Duration)) -> Duration {
    Duration::from_micros(dice.u64(least.as_micros() as u64..most.as_micros() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_one_another() {
        for phase in Phase::ALL {
            let draw = |seed| draw(phase, Duration::from_secs(60), 4, seed);
            assert_eq!(draw(7), draw(7));
            assert_ne!(draw(7), draw(8));
        }
    }

    #[test]
    fn a_full_round_holds_every_kind_of_fault_whatever_the_seed() {
        for (phase, seed) in Phase::ALL.into_iter().flat_map(|phase| (0..200).map(move |seed| (phase, seed))) {
            let planned = draw(phase, phase.full_round(), 4, seed);
            for fault in phase.deck().iter().chain(&CREW) {
                assert!(planned.iter().any(|it| it.fault == *fault), "{phase:?} {fault:?} {seed}");
            }
        }
    }

    #[test]
    fn every_fault_ends_within_the_phase_and_faults_of_the_server_never_meet() {
        for (phase, seed) in Phase::ALL.into_iter().flat_map(|phase| (0..200).map(move |seed| (phase, seed))) {
            let length = Duration::from_secs(40);
            let planned = draw(phase, length, 3, seed);
            assert!(planned.iter().all(|it| it.at + it.span <= length));
            let of_server: Vec<_> = planned.iter().filter(|it| phase.deck().contains(&it.fault)).collect();
            assert!(of_server.windows(2).all(|two| two[0].at + two[0].span < two[1].at));
            for worker in 0..3 {
                let faults = planned.iter().filter(|it| CREW.contains(&it.fault) && it.worker == worker);
                let of_worker: Vec<_> = faults.collect();
                let mut pairs = of_worker.windows(2);
                assert!(pairs.all(|two| two[0].at + two[0].span <= two[1].at), "{phase:?} {seed}");
            }
        }
    }
}
