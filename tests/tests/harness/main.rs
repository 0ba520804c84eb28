//! The harness itself, against every installed server.

mod proxy;
mod servers;
