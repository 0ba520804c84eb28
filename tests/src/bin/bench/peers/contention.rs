//! Eight threads of four processes on one lock: how often it is granted, to whom, and what it costs the server.

use std::thread;
use std::time::Duration;

use redlatch_tests::bench::{Bars, Limit, Report};

use super::cast::Cast;
use super::commands::sent_by_clients;
use super::ours::now;
use super::player::Player;
use super::rounds::{Entry, entries, play_round};
use super::subjects::{OURS_IN_PYTHON, OURS_IN_RUST, Subject};
use crate::Stage;

const PROCESSES: usize = 4;
const THREADS: usize = 2;
/// Those that take part in a quick run.
const QUICK: [&str; 5] = [OURS_IN_RUST, OURS_IN_PYTHON, "redis_py", "python_redis_lock", "rslock"];
/// How long the players go on after what is counted.
const END: Duration = Duration::from_millis(100);

/// What was counted.
struct Shares {
    per_second: f64,
    /// The least of a thread, of the largest of one.
    least: f64,
    commands: f64,
}

pub(crate) fn run(stage: &Stage, report: &mut Report) {
    let mut cast = Cast::start(stage, report, PROCESSES);
    let mut subjects = cast.subjects();
    if stage.extent.is_quick() {
        subjects.retain(|subject| QUICK.contains(&subject.name));
        report.note("Shares and commands of less than half a second; the other locks take part in a full run.");
    }
    let mut all: Vec<Entry<Shares>> = entries(subjects);
    // One after the other, once: side by side they would share the core.
    play_round(&mut all, 0, |subject| {
        let shares = share(stage, cast.players(subject), subject);
        cast.keep(subject, shares, report)
    });
    let mut bars = Vec::new();
    for Entry { subject, values } in &all {
        for shares in values {
            let name = subject.name;
            report.value(format!("{name}_acquisitions_per_second"), shares.per_second, Limit::None);
            report.value(format!("{name}_least_share_per_largest"), shares.least, Limit::None);
            report.value(format!("{name}_commands_per_acquisition"), shares.commands, Limit::None);
            bars.push(subject.bar(shares.per_second));
        }
    }
    let title = "8 threads of 4 processes on one lock, held for 1 ms".to_owned();
    let [file, x] = ["peers-contention", "acquisitions per second"].map(str::to_owned);
    report.plot(Bars { file, title, x, bars });
}

fn share(stage: &Stage, players: &mut [Player], subject: &Subject) -> Result<Shares, String> {
    // Until all have connected and wait.
    let warm_up = stage.extent.pick(Duration::from_millis(200), Duration::from_secs(1));
    let span = stage.extent.pick(Duration::from_millis(400), Duration::from_secs(6));
    let whole = (warm_up + span + END).as_millis();
    players.iter_mut().for_each(|player| player.send(&format!("share {} {THREADS} {whole}", subject.name)));
    thread::sleep(warm_up);
    stage.server.reset_stats();
    let begin = now();
    thread::sleep(span);
    let end = now();
    let commands = sent_by_clients(subject, &stage.server.command_counts());
    let mut grants = Vec::new();
    for player in players {
        grants.extend(grants_between(&player.expect("shared")?, begin, end)?);
    }
    if grants.len() != PROCESSES * THREADS {
        return Err(format!("{} threads told of their grants", grants.len()));
    }
    Ok(summed(&grants, (end - begin) as f64 / 1e9, commands as f64))
}

/// How many grants each thread was given in this time, of a player's answer.
fn grants_between(answer: &str, begin: u64, end: u64) -> Result<Vec<usize>, String> {
    let of_thread = |list: &str| {
        let instants = list.split(',').filter(|it| *it != "-").map(|it| it.parse::<u64>());
        let instants = instants.collect::<Result<Vec<u64>, _>>().map_err(|error| format!("{error}: {list:?}"))?;
        Ok(instants.iter().filter(|instant| (begin..end).contains(instant)).count())
    };
    answer.split_whitespace().map(of_thread).collect()
}

fn summed(grants: &[usize], seconds: f64, commands: f64) -> Shares {
    let all = grants.iter().sum::<usize>() as f64;
    let least = grants.iter().min().copied().unwrap_or(0) as f64;
    let most = grants.iter().max().copied().unwrap_or(0) as f64;
    Shares { per_second: all / seconds, least: least / most, commands: commands / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_before_and_after_do_not_count() {
        assert_eq!(grants_between("9,10,19,20 - 15", 10, 20), Ok(vec![2, 0, 1]));
        assert!(grants_between("9,x", 10, 20).is_err());
    }

    #[test]
    fn shares_are_those_of_threads() {
        let shares = summed(&[100, 50, 50], 2.0, 400.0);
        assert_eq!((shares.per_second, shares.least, shares.commands), (100.0, 0.5, 2.0));
        assert!(summed(&[0, 0], 1.0, 8.0).least.is_nan(), "nobody had a share");
    }
}
