//! The C ABI as C programs see it: `tests/c` is compiled against `include/redlatch.h` and run.

mod checkers;
mod exports;
mod faults;
mod processes;
mod relay;
mod scenarios;

use redlatch_tests::c::Recipe;

/// All scenarios in one program.
const SCENARIOS: Recipe<'static> = Recipe::c11(&[
    "main",
    "support",
    "arguments",
    "options",
    "lock",
    "lease",
    "callbacks",
    "cancel",
    "log",
    "fork",
    "forks",
    "faults",
    "check",
    "reopen",
]);
