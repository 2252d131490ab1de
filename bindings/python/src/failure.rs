//! Errors and panics as Python's exceptions.

use crate::wording::KeywordArguments;
use fdime::{Error, Parameter, Wording};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the exception for an error of the library.
pub fn exception(error: Error) -> PyErr {
    let text = error.render(&KeywordArguments);
    let named = |parameter: Parameter| {
        format!("{}: {text}", KeywordArguments.parameter(parameter.set_through()))
    };
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(text),
        Error::Diverged { .. } | Error::Device { .. } => PyRuntimeError::new_err(text),
        Error::Read { .. } | Error::Write { .. } | Error::NotWritable { .. } => {
            PyOSError::new_err(text)
        }
        Error::UnknownName { parameter, .. } => {
            PyValueError::new_err(format!("{} (fdime.names() lists all names)", named(parameter)))
        }
        Error::InvalidDivergence { .. } => PyValueError::new_err(named(Parameter::Divergence)),
        _ => PyValueError::new_err(text),
    }
}

/// Parses JSON from Python. The error names `argument`.
pub fn parse_json<T: serde::de::DeserializeOwned>(json: &str, argument: &str) -> PyResult<T> {
    let fail = |error| PyValueError::new_err(format!("{argument}: not as expected: {error}"));
    serde_json::from_str(json).map_err(fail)
}

/// Returns a value as JSON.
pub fn to_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Returns the exception for a caught panic, which is a bug but must not end the interpreter.
pub fn panic_exception(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("internal error, please report it: {text}"))
}

/// Calls the library for short work. Errors and panics become exceptions.
pub fn call_library<T>(work: impl FnOnce() -> fdime::Result<T>) -> PyResult<T> {
    catch_panic(|| work().map_err(exception))
}

/// Does short work. A panic becomes a `RuntimeError`.
pub fn catch_panic<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(panic_exception(&*payload)))
}
