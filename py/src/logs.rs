//! The core's log as records of Python's `logging`, under the logger `redlatch`.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::dispatch;

/// Sends the core's log to Python, for the whole process.
pub(crate) fn install() {
    // Fails when the module is imported a second time in one process, where the first one serves.
    let _ = tracing::subscriber::set_global_default(Collector);
}

/// Takes in events; the core has no spans.
struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Which levels are wanted only Python knows, and may decide anew at any time; events are rare.
        metadata.is_event() && metadata.target().starts_with("redlatch")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        dispatch::post(dispatch::Event::Log(Record::new(event)));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// One record, with its own time and thread: it may be written a little later, on another thread.
pub(crate) struct Record {
    logger: String,
    level: u8,
    text: String,
    file: &'static str,
    line: u32,
    thread: String,
    at: Duration,
}

impl Record {
    #[allow(clippy::disallowed_methods, reason = "records carry the wall clock's time, as all of Python's do")]
    fn new(event: &Event<'_>) -> Record {
        let metadata = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let thread = std::thread::current();
        Record {
            logger: metadata.target().replace("::", "."),
            level: python_level(*metadata.level()),
            text: text.finish(),
            file: metadata.file().unwrap_or("redlatch"),
            line: metadata.line().unwrap_or(0),
            thread: thread.name().unwrap_or("").to_owned(),
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// Hands it to its logger. Fails only when Python code that this runs is interrupted.
    pub(crate) fn deliver(self, py: Python<'_>) -> PyResult<()> {
        let logging = py.import("logging")?;
        let logger = logging.call_method1("getLogger", (&self.logger,))?;
        if !logger.call_method1("isEnabledFor", (self.level,))?.is_truthy()? {
            return Ok(());
        }
        let fields = PyDict::new(py);
        fields.set_item("name", &self.logger)?;
        fields.set_item("levelno", self.level)?;
        fields.set_item("levelname", logging.call_method1("getLevelName", (self.level,))?)?;
        fields.set_item("msg", self.text)?;
        fields.set_item("pathname", self.file)?;
        fields.set_item("filename", self.file.rsplit('/').next().unwrap_or(self.file))?;
        fields.set_item("lineno", self.line)?;
        fields.set_item("created", self.at.as_secs_f64())?;
        fields.set_item("msecs", f64::from(self.at.subsec_millis()))?;
        if !self.thread.is_empty() {
            fields.set_item("threadName", self.thread)?;
        }
        let record = logging.call_method1("makeLogRecord", (fields,))?;
        logger.call_method1("handle", (record,))?;
        Ok(())
    }
}

fn python_level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG | Level::TRACE => 10,
    }
}

/// The message with its fields: `lease lost while held: lock="order:17" fence=12 reason="expired"`.
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
