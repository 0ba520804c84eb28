//! What a lock does, against the store in this process and every installed server.
//!
//! One body a behaviour; [`store`] says how it meets the stores. Bodies that mostly wait run on all stores at
//! once, so that their time passes only once; bodies that measure short times or load the machine take turns.

mod alone;
mod logs;
mod store;

mod acquiring;
mod bad_input;
mod closing;
mod fences;
mod foreign_data;
mod leaks;
mod lease_handles;
mod leases;
mod losing;
mod manual_clock;
mod many;
mod model;
mod names;
mod operators;
mod plain_clients;
mod reentry;
mod releasing;
mod statistics;
mod stepping;
mod threads;
mod waiting;
mod wire;
