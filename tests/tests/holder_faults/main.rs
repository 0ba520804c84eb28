//! Faults that befall the holder of a lock and its lease, against real servers.

mod ends;
mod forks;
mod load;
mod logs;
mod outages;
mod refusals;
mod stalls;
mod support;
