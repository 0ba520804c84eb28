//! What the library logs, by the name of the lock.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One log event.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) level: Level,
    /// Value of the field `lock`.
    pub(crate) lock: Option<String>,
    /// Message and the other fields.
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

/// The events about one lock.
pub(crate) fn about(lock: &str) -> Vec<Logged> {
    events().iter().filter(|event| event.lock.as_deref() == Some(lock)).cloned().collect()
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
        let mut logged = Logged { level: *event.metadata().level(), lock: None, text: String::new() };
        event.record(&mut logged);
        events().push(logged);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Logged {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "lock" {
            self.lock = Some(value.to_owned());
        }
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.text, "{}={value:?} ", field.name());
    }
}
