//! Test harness of redlatch: real servers, a fault proxy, command capture and helper processes.
//!
//! | need | use |
//! |---|---|
//! | a server of each kind that is installed | [`each_server`], [`Server`], [`ServerKind`] |
//! | a primary with replicas and sentinels | [`SentinelGroup`] |
//! | a cluster | [`ServerCluster`] |
//! | lost, late, cut or reordered traffic | [`Proxy`] |
//! | what reached the server, and in which order | [`Monitor`], [`Server::command_counts`] |
//! | another process that waits, holds, stalls or dies | [`Process`] |
//! | wait without a hopeful sleep | [`eventually`], [`assert_eventually`], [`Monitor::wait_idle`] |
//! | measure, and say what is over its limit | [`mod@bench`] |
//! | what worker processes did, and what that says about the locks | [`mod@history`] |
//! | a Python that has the package | [`Interpreter`] |
//! | programs in C against libredlatch | [`c`] |
//! | the tests that the documentation names, and patches that they must notice | [`TestName`], [`mod@mutations`] |
//! | threads and memory of this process | [`thread_names`], [`thread_count`], [`rss_bytes`] |
//! | memory and CPU time of another | [`rss_bytes_of`], [`cpu_time_of`] |
//!
//! Everything started here ends when its handle is dropped, and is killed by the kernel when the test
//! process dies first. The harness panics, with the server's log or the process's output, where a test
//! could not go on.
//!
//! ```no_run
//! use redlatch_tests::{Monitor, Proxy, each_server};
//!
//! each_server(|server| {
//!     let proxy = Proxy::in_front_of(server);
//!     let monitor = Monitor::start(server);
//!     proxy.swallow_next_reply_to(b"EVALSHA");
//!     // … run the client under test against `proxy.url()` …
//!     monitor.wait_idle();
//!     assert_eq!(monitor.count(|line| line.is("evalsha")), 2);
//! });
//! ```

#![forbid(unsafe_code)]

pub mod bench;
pub mod c;
pub mod history;
mod interpreter;
mod launch;
mod monitor;
pub mod mutations;
mod observe;
mod ports;
mod process;
mod proxy;
mod rules;
mod servers;
mod test_name;
mod wire;

pub use interpreter::Interpreter;
pub use monitor::{Monitor, MonitorLine};
pub use observe::{assert_eventually, cpu_time_of, eventually, rss_bytes, rss_bytes_of, thread_count, thread_names};
pub use process::Process;
pub use proxy::{ConnectionState, HeldRequest, Proxy, ReplyFault, Traffic};
pub use rules::{DOCUMENTED_PASSWORD, DOCUMENTED_USER, documented_rules, documented_user};
pub use rustix::process::Signal;
pub use servers::{
    Certificates, SentinelGroup, Server, ServerBuilder, ServerCluster, ServerKind, any_server, available, each_cluster,
    each_server, each_server_with, percent_encoded, tls_server, tls_server_with,
};
pub use test_name::{Suite, TestName};
pub use wire::RawConnection;
