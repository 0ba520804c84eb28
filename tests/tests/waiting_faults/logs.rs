//! What the library logs, by the server that it is about.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use redlatch_tests::Server;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One log event.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) level: Level,
    /// Message and fields.
    pub(crate) text: String,
}

static EVENTS: Mutex<Vec<Logged>> = Mutex::new(Vec::new());

/// Records events of this process from now on.
pub(crate) fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Recorder).expect("nobody else records"));
}

/// The events recorded so far.
pub(crate) fn all() -> Vec<Logged> {
    events().clone()
}

/// The warnings and errors that name this server.
pub(crate) fn complaints_about(server: &Server) -> Vec<String> {
    let shown = format!("redis://{}/", server.addr());
    let complaint = |event: &&Logged| event.level <= Level::WARN && event.text.contains(&shown);
    events().iter().filter(complaint).map(|event| event.text.clone()).collect()
}

fn events() -> MutexGuard<'static, Vec<Logged>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorder;

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlatch") && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut logged = Logged { level: *event.metadata().level(), text: String::new() };
        event.record(&mut logged);
        events().push(logged);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.text, "{}={value:?} ", field.name());
    }
}
