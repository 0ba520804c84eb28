//! The core's log as records of Python's `logging`, under the logger `redlatch`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlatch::{LogLevel, LogRecord};

use crate::dispatch;

/// Sends the core's log to Python, for the whole process. Which levels are wanted only Python knows, and may decide
/// anew at any time; records are rare.
pub(crate) fn install() {
    // False when the module is imported a second time in one process, where the first one serves.
    redlatch::log_to(|record| dispatch::post(dispatch::Event::Log(Record::new(record))));
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
    fn new(record: LogRecord) -> Record {
        let thread = std::thread::current();
        Record {
            logger: record.target.replace("::", "."),
            level: python_level(record.level),
            text: record.text,
            file: record.file.unwrap_or("redlatch"),
            line: record.line.unwrap_or(0),
            thread: thread.name().unwrap_or("").to_owned(),
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// The fields of a `LogRecord`.
    pub(crate) fn into_arguments(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fields = PyDict::new(py);
        fields.set_item("name", self.logger)?;
        fields.set_item("levelno", self.level)?;
        fields.set_item("msg", self.text)?;
        fields.set_item("pathname", self.file)?;
        fields.set_item("filename", self.file.rsplit('/').next().unwrap_or(self.file))?;
        fields.set_item("lineno", self.line)?;
        fields.set_item("created", self.at.as_secs_f64())?;
        fields.set_item("msecs", f64::from(self.at.subsec_millis()))?;
        if !self.thread.is_empty() {
            fields.set_item("threadName", self.thread)?;
        }
        Ok(fields.into_any().unbind())
    }
}

fn python_level(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 40,
        LogLevel::Warn => 30,
        LogLevel::Info => 20,
        _ => 10,
    }
}
