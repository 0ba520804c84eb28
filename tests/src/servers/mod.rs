//! Real servers, one process each, on free ports.

mod builder;
mod certificates;
mod cluster;
mod each;
mod kind;
mod queries;
mod sentinels;
mod server;
mod urls;

pub use builder::ServerBuilder;
pub use certificates::{Certificates, tls_server, tls_server_with};
pub use cluster::{ServerCluster, each_cluster};
pub use each::{any_server, each_server, each_server_with};
pub use kind::{ServerKind, available};
pub use sentinels::SentinelGroup;
pub use server::Server;
pub use urls::percent_encoded;

/// User with all rights that every server has beside the default user.
pub(crate) const ADMIN_USER: &str = "harness";
/// Password of [`ADMIN_USER`].
pub(crate) const ADMIN_PASSWORD: &str = "harness-admin";
