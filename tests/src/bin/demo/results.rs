//! The table at the end, and the claims that decide the exit code.

use std::time::Duration;

use crate::Scale;
use crate::crash::{Crash, WAITERS};
use crate::orders::Tally;
use crate::stall::STALLS;
use crate::timeline::{Timeline, Tone};

/// What a busy machine may add to a ttl before a waiter has the lock of a killed holder.
const LATENESS: Duration = Duration::from_secs(1);

const PLAIN_WIDTH: usize = 17;
const REDLATCH_WIDTH: usize = 10;

/// Shows what came of the runs, and what it means.
pub(crate) fn show(timeline: &Timeline, scale: Scale, plain: &Tally, redlatch: &Tally, crash: &Crash) {
    let orders = scale.orders as usize;
    timeline.text(&format!("{:<38}{:>PLAIN_WIDTH$}{:>REDLATCH_WIDTH$}", "", "SET NX EX + DEL", "redlatch"));
    let row = |label: &str, one: (Tone, String), two: (Tone, String)| {
        // Padded first: colour codes have no width.
        let one = timeline.painted(one.0, &format!("{:>PLAIN_WIDTH$}", one.1));
        let two = timeline.painted(two.0, &format!("{:>REDLATCH_WIDTH$}", two.1));
        timeline.text(&format!("{label:<38}{one}{two}"));
    };
    let number = |tone: Tone, count: usize| (if count == 0 { Tone::Plain } else { tone }, count.to_string());
    let none = || (Tone::Plain, "–".to_owned());
    let stock = |tally: &Tally| {
        let right = usize::try_from(tally.deducted) == Ok(orders);
        (if right { Tone::Plain } else { Tone::Bad }, tally.deducted.to_string())
    };
    row("orders", number(Tone::Plain, orders), number(Tone::Plain, orders));
    row("stalls longer than the lease", number(Tone::Plain, plain.stalls), number(Tone::Plain, redlatch.stalls));
    row("orders processed once", number(Tone::Plain, plain.once), number(Tone::Plain, redlatch.once));
    row("orders processed twice", number(Tone::Bad, plain.twice), number(Tone::Bad, redlatch.twice));
    row("pieces taken from the stock", stock(plain), stock(redlatch));
    row("locks deleted while another had them", number(Tone::Bad, plain.stolen), number(Tone::Bad, redlatch.stolen));
    row("lost leases noticed before the write", none(), number(Tone::Good, redlatch.noticed));
    row("late writes refused by fence", none(), number(Tone::Good, redlatch.refused));
    row("next holder after a kill -9, s", none(), (Tone::Plain, format!("{:.2}", crash.gap.as_secs_f64())));
    timeline.text(&format!(
        "(ttl {} s: the lock of a dead holder is free when its ttl runs out)",
        scale.lease.as_secs_f64()
    ));
    timeline.text("");

    let (plain_twice, stalls) = (plain.twice, plain.stalls);
    let twice = if redlatch.twice == 0 { "none".to_owned() } else { redlatch.twice.to_string() };
    let (noticed, refused) = (redlatch.noticed, redlatch.refused);
    timeline.text(&format!(
        "\
SET NX EX + DEL processed {plain_twice} of {orders} orders twice after {stalls} stalls, redlatch with the same stalls
{twice}: lost leases noticed before the write {noticed}, late writes refused by fence {refused}.
The lock alone cannot do the latter: a holder that stalls after its last check, or never checks,
writes late. What stops it is a resource that refuses lower fences."
    ));
}

/// Everything the demo says about itself, and whether it came true in this run.
pub(crate) fn claims(scale: Scale, plain: &Tally, redlatch: &Tally, crash: &Crash) -> Vec<(&'static str, bool)> {
    let orders = scale.orders as usize;
    let deducted = |tally: &Tally| usize::try_from(tally.deducted).unwrap_or(0);
    vec![
        ("each stall was longer than the lease", plain.stalls == STALLS && redlatch.stalls == STALLS),
        ("SET NX EX + DEL processed each stalled order twice", plain.twice >= STALLS && plain.never == 0),
        ("SET NX EX + DEL took too many pieces from the stock", deducted(plain) >= orders + STALLS),
        ("SET NX EX + DEL deleted a lock that another had", plain.stolen >= 1),
        ("redlatch processed each order once", redlatch.once == orders),
        ("redlatch took one piece from the stock for each order", deducted(redlatch) == orders),
        ("redlatch deleted no lock that another had", redlatch.stolen == 0),
        ("stalled holders that check noticed their lost lease", redlatch.noticed >= STALLS - 1),
        ("the stalled holder that does not check was refused by fence", redlatch.refused >= 1),
        ("a living holder kept its lock beyond the ttl", crash.still_held && crash.held > scale.lease),
        ("a dead holder's lock went on within its ttl and a second", crash.gap <= scale.lease + LATENESS),
        (
            "every waiter got the lock, with a higher fence each",
            crash.fences.len() == WAITERS + 1 && crash.fences_grow(),
        ),
    ]
}
