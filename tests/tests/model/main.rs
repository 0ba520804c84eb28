#![allow(missing_docs)]
mod clients;
mod explorer;
mod index;
mod rules;
mod server;
mod state;
mod waits;

use explorer::Explored;
use rules::*;
use state::Budget;

fn run(name: &str, rules: Rules) {
    let began = std::time::Instant::now();
    match Explored::new(rules) {
        Ok(explored) => {
            println!(
                "{name}: {} states, {} transitions, {:?}, size {}",
                explored.states.len(),
                explored.transitions,
                began.elapsed(),
                size_of::<state::State>()
            );
            let all = waits::Waits { healthy: 250, killed: 250, stopped: 250, both: 250 };
            match waits::longest_waits(&explored, all) {
                Ok(waits) => println!("{waits:?} {:?}", began.elapsed()),
                Err(e) => show(&e),
            }
        }
        Err(e) => show(&e),
    }
}

fn show(e: &explorer::Counterexample) {
    println!("{:?} after {} steps", e.violation, e.steps.len());
    for (step, state) in &e.steps {
        let c: Vec<String> = state
            .clients
            .iter()
            .map(|c| format!("{:?} d{} s{} u{} {:?}", c.phase, c.deadline, c.sleep, c.unanswered as u8, c.reply))
            .collect();
        println!(
            "  {step:?}: key {:?}/{} turn {:?} queue {:?} | {}",
            state.key,
            state.key_left,
            state.turn,
            state.queue,
            c.join(" | ")
        );
    }
}

#[test]
fn explore() {
    let u: u8 = std::env::var("U").map_or(1, |v| v.parse().unwrap());
    let d: u8 = std::env::var("D").map_or(1, |v| v.parse().unwrap());
    let p: u8 = std::env::var("P").map_or(0, |v| v.parse().unwrap());
    let r: u8 = std::env::var("R").map_or(0, |v| v.parse().unwrap());
    let l: u8 = std::env::var("L").map_or(0, |v| v.parse().unwrap());
    let ttl: u8 = std::env::var("TTL").map_or(3, |v| v.parse().unwrap());
    let turn: u8 = std::env::var("TURN").map_or(2, |v| v.parse().unwrap());
    let shape = std::env::var("SHAPE").unwrap_or("mixed".into());
    let un = std::env::var("UN").unwrap_or("A".into());
    let die = std::env::var("DIE").unwrap_or("A".into());
    let st = std::env::var("STOP").unwrap_or("A".into());
    let c2 = std::env::var("C2").is_ok();
    let (i2, p2) = match shape.as_str() {
        "mixed" => (None, 2),
        "two" => (Some(1), 2),
        _ => (Some(0), 1),
    };
    let rules = Rules {
        clients: [
            Role { name: "H", unanswered: un.contains("H"), stops: st.contains("H"), dies: die.contains("H"), process: 0, ..WAITER },
            Role { name: "A", unanswered: un.contains("A"), stops: st.contains("A"), dies: die.contains("A"), process: 1, inbox: Some(0), cancels: true, ..WAITER },
            Role { name: "B", unanswered: un.contains("B"), stops: st.contains("B"), dies: die.contains("B"), process: p2, inbox: i2, cancels: c2, ..WAITER },
        ],
        first_holds: std::env::var("NOHOLD").is_err(),
        ttl,
        turn,
        inboxes_up: l == 0,
        budget: Budget { unanswered: u, deaths: d, renewals: r, inbox_losses: l, plain: p },
        fault: std::env::var("FAULT").ok().map(|f| { use Fault::*; *[DeadlineFromReply, LateGrantAccepted, ReleaseWithoutTokenCheck, CancelKeepsTurn, CancelDropsTurn, NoTombstone, ProbeDeletesTombstone, ScoreNotKept].iter().find(|x| format!("{x:?}") == f).unwrap() }),
    };
    run(&shape, rules);
}
