//! The C ABI as C programs see it: `tests/c` is compiled against `include/redlatch.h` and run.

mod checkers;
mod exports;
mod faults;
mod library;
mod processes;
mod programs;
mod scenarios;
