//! What the benchmark programs share: placement, samples, limits and the report.
//!
//! | need | use |
//! |---|---|
//! | what the command line asks for | [`Arguments`], [`Extent`] |
//! | server and clients on cores of their own, which do not sleep | [`Placement`], [`Awake`] |
//! | medians, and subjects that take turns | [`Spread`], [`in_turns`], [`rounds_in_turns`], [`mean_of_block`] |
//! | a table, `RATIO` lines and a JSON file | [`Report`], [`Limit`], [`Unit`] |
//! | figures | [`Plot`] of [`Line`]s, [`Bars`] |
//! | a client that never sends a request twice | [`patient_client`] |

mod arguments;
mod awake;
mod bars;
mod document;
mod placement;
mod plot;
mod report;
mod samples;

use std::time::Duration;

use redlatch::Client;

use crate::Server;

pub use arguments::{Arguments, Extent};
pub use awake::Awake;
pub use bars::{Bar, Bars};
pub use placement::Placement;
pub use plot::{Figure, Line, Plot};
pub use report::{Limit, Report, Unit};
pub use samples::{Spread, in_turns, mean_of_block, nanos, quantile, rounds_in_turns};

/// A client whose calls outlast a stall of the machine: a request that is sent twice would count as two.
pub fn patient_client(server: &Server) -> Client {
    let limit = Duration::from_secs(60);
    let builder = Client::builder(&server.url()).connect_timeout(limit).io_timeout(limit);
    builder.build().expect("the options are valid")
}
