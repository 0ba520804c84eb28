//! The log for programs without `tracing`: bindings hand it to their language's own.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// How much a record matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// For those who look into redlatch itself.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is not as it should be, and redlatch goes on.
    Warn,
    /// A lease was lost, or a defect was found.
    Error,
}

/// One record of the log. Texts never contain tokens or passwords.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogRecord {
    /// How much it matters.
    pub level: LogLevel,
    /// Where it comes from, beginning with `redlatch`, in parts that `::` divides.
    pub target: &'static str,
    /// The message with its fields: `lease lost while held: lock="order:17" fence=12`.
    pub text: String,
    /// Source file, where known.
    pub file: Option<&'static str>,
    /// Line in the source file, where known.
    pub line: Option<u32>,
}

/// Has all records of this process passed to `sink`, on the thread that they come from. For bindings: a Rust program
/// installs a `tracing` subscriber, or a logger of the `log` crate, instead.
///
/// `sink` must not block, nor call redlatch. False when the process has a subscriber or a sink already.
pub fn log_to(sink: impl Fn(LogRecord) + Send + Sync + 'static) -> bool {
    tracing::subscriber::set_global_default(Sink(sink)).is_ok()
}

struct Sink<F>(F);

impl<F: Fn(LogRecord) + Send + Sync + 'static> Subscriber for Sink<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("redlatch")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        // There are none; an id may not be 0.
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        (self.0)(LogRecord {
            level: level(*metadata.level()),
            target: metadata.target(),
            text: text.finish(),
            file: metadata.file(),
            line: metadata.line(),
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG | Level::TRACE => LogLevel::Debug,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(mut self) -> String {
        if !self.fields.is_empty() {
            self.message.push(':');
            self.message.push_str(&self.fields);
        }
        self.message
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn records_carry_level_target_and_fields_and_others_are_left_alone() {
        let records = Arc::new(Mutex::new(Vec::new()));
        let noted = records.clone();
        let sink = Sink(move |record| noted.lock().unwrap().push(record));
        tracing::subscriber::with_default(sink, || {
            tracing::event!(target: "redlatch::test", Level::WARN, lock = "a \"b\"", fence = 7u64, "said");
            tracing::event!(target: "elsewhere", Level::ERROR, "not heard");
            tracing::event!(target: "redlatch::test", Level::DEBUG, "plain");
        });
        let records = records.lock().unwrap();
        let heard: Vec<_> = records.iter().map(|it| (it.level, it.target, it.text.as_str())).collect();
        assert_eq!(
            heard,
            [
                (LogLevel::Warn, "redlatch::test", r#"said: lock="a \"b\"" fence=7"#),
                (LogLevel::Debug, "redlatch::test", "plain"),
            ]
        );
    }
}
