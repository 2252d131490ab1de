//! What is wrong, as Python's own kinds of exception.

use crate::words::for_python;
use fdime::Error;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The argument that sets a parameter or takes a kind of name.
fn argument(parameter: &str) -> &str {
    match parameter {
        "tau" | "alpha" | "divergence" => "estimator",
        "map" => "scenario",
        "kind of level" => "levels",
        other => other,
    }
}

/// The library's error as an exception, in the words of the command line.
pub fn exception(error: Error) -> PyErr {
    let text = match &error {
        Error::InvalidParameter { parameter, value, expected } => {
            format!("{}={value}: {expected}", argument(parameter))
        }
        Error::Incompatible { parameter, value, other, reason } => {
            format!("{}={value} does not go with {other}: {reason}", argument(parameter))
        }
        Error::UnknownName { kind, .. } => {
            format!("{}: {error} (fdime.names() lists all names)", argument(kind))
        }
        Error::InvalidDivergence { .. } => format!("estimator: {error}"),
        error => error.to_string(),
    };
    let text = for_python(&text);
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        Error::Diverged { .. } | Error::Device { .. } => PyRuntimeError::new_err(text),
        Error::Write { .. } => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// A plan that Python gave as text.
pub fn parsed<T: serde::de::DeserializeOwned>(json: &str, what: &str) -> PyResult<T> {
    serde_json::from_str(json)
        .map_err(|error| PyValueError::new_err(for_python(&format!("{what}: {error}"))))
}

/// A value as text for Python.
pub fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// What a caught panic becomes: a bug, but not the end of the interpreter.
pub fn bug(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason");
    PyRuntimeError::new_err(format!("internal error, please report it: {text}"))
}

/// Runs something short of the library; a panic becomes a `RuntimeError`.
pub fn guarded<T>(work: impl FnOnce() -> fdime::Result<T>) -> PyResult<T> {
    caught(|| work().map_err(exception))
}

/// Runs something short; a panic becomes a `RuntimeError`.
pub fn caught<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(bug(&*payload)))
}
