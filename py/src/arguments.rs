//! Python's values as the core's, with errors that name the argument.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyFloat, PyInt, PyString};
use redlatch::options::{CountOption, DurationOption};

use crate::errors;

/// The time option `option`: seconds as `float` or `int`, or a `timedelta`, within its bounds.
pub(crate) fn span(option: &DurationOption, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let bounds = || format!("from {:?} to {:?}", option.min, option.max);
    let seconds = seconds(option.name, value, bounds)?;
    option.check_seconds(seconds).map_err(|error| errors::raise(value.py(), error))
}

/// As [`span`]; `None` is "not set".
pub(crate) fn optional_span(option: &DurationOption, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    value.map(|value| span(option, value)).transpose()
}

/// A time to wait: seconds from 0 up. `no_limit` is what stands for no limit, if anything does.
pub(crate) fn wait(name: &'static str, value: &Bound<'_, PyAny>, no_limit: Option<&str>) -> PyResult<Duration> {
    let given = seconds(name, value, || "from 0 up".to_owned())?;
    if !given.is_finite() || given < 0.0 {
        let otherwise = no_limit.map(|no_limit| format!("; {no_limit} for no limit")).unwrap_or_default();
        let expected = format!("a finite number of seconds from 0 up{otherwise}");
        return Err(errors::config(value.py(), name, &format!("{given} s"), &expected));
    }
    // Beyond what a span can say there is no difference any more.
    Ok(Duration::try_from_secs_f64(given).unwrap_or(Duration::MAX))
}

/// Whether it is the -1 that stands for no limit in `threading`.
pub(crate) fn is_no_limit(value: &Bound<'_, PyAny>) -> bool {
    let number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    number && !value.is_instance_of::<PyBool>() && value.extract::<f64>().is_ok_and(|number| number == -1.0)
}

fn seconds(name: &str, value: &Bound<'_, PyAny>, bounds: impl FnOnce() -> String) -> PyResult<f64> {
    if value.is_instance_of::<PyBool>() {
        return Err(not_seconds(name, value, &bounds()));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(number.value());
    }
    if value.is_instance_of::<PyInt>() {
        // An int beyond every float is beyond every bound too.
        return Ok(value.extract::<f64>().unwrap_or(f64::INFINITY));
    }
    if value.is_instance_of::<PyDelta>() {
        return value.call_method0("total_seconds")?.extract();
    }
    Err(not_seconds(name, value, &bounds()))
}

fn not_seconds(name: &str, value: &Bound<'_, PyAny>, bounds: &str) -> PyErr {
    let found = kind(value);
    PyTypeError::new_err(format!(
        "{name} must be seconds {bounds}, as float or int, or a datetime.timedelta, not {found}"
    ))
}

/// The count option `option`, within its bounds.
pub(crate) fn count(option: &CountOption, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(format!("{} must be an int, not {}", option.name, kind(value))));
    }
    let refuse = |_| {
        let expected = format!("from {} to {}", option.min, option.max);
        errors::config(value.py(), option.name, &value.to_string(), &expected)
    };
    let number: u32 = value.extract().map_err(refuse)?;
    option.check(number).map_err(|error| errors::raise(value.py(), error))
}

/// A text that can be sent; one with lone surrogates cannot.
pub(crate) fn text(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(value) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("{name} must be a str, not {}", kind(value))));
    };
    value.to_str().map(str::to_owned).map_err(|_| {
        errors::config(value.py(), name, "<text with lone surrogates>", "text that can be encoded as UTF-8")
    })
}

/// A flag; anything but a `bool` is refused, so that a time is not taken for one.
pub(crate) fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(value) = value.cast::<PyBool>() else {
        return Err(PyTypeError::new_err(format!("{name} must be a bool, not {}", kind(value))));
    };
    Ok(value.is_true())
}

/// A flag that may be the number 0 or 1, as in `threading`; other numbers are refused, so that a time is not taken for
/// one.
pub(crate) fn zero_or_one(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.extract::<u8>() {
        Ok(number @ 0..=1) if value.is_instance_of::<PyInt>() => Ok(number == 1),
        _ => flag(name, value),
    }
}

/// A name in `repr`, with what would break a line escaped.
pub(crate) fn shown(name: &str) -> String {
    format!("{name:?}")
}

/// The name of its type, for errors.
pub(crate) fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
