//! Where a call computes, by the keyword arguments `device`, `precision` and `threads`.

use crate::background::{SharedProgress, run_in_background};
use crate::failure::call_library;
use fdime::estimate::CriticRecipe;
use fdime::{Activation, DeviceChoice, Engine, Precision};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard};

/// The keyword arguments of the same names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Execution {
    device: String,
    precision: Option<String>,
    threads: usize,
}

/// An engine that the calls of a process share, so that a GPU runs the work of all their threads
/// together.
struct SharedEngine {
    /// A fork of the process needs engines of its own.
    process: u32,
    settings: Settings,
    engine: Box<dyn Engine>,
}

#[derive(Clone, Copy, PartialEq)]
struct Settings {
    device: DeviceChoice,
    precision: Option<Precision>,
    activation: Activation,
}

static ENGINES: Mutex<Vec<SharedEngine>> = Mutex::new(Vec::new());

/// Sentences that the user should read, in order.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn locked<T>(list: &'static Mutex<T>) -> MutexGuard<'static, T> {
    list.lock().unwrap_or_else(|error| error.into_inner())
}

/// Warns of `text` at the end of the call.
pub fn add_notice(text: &str) {
    locked(&NOTICES).push(text.to_string());
}

impl Execution {
    fn settings(&self, activation: Activation) -> fdime::Result<Settings> {
        let precision = self.precision.as_deref().map(str::parse).transpose()?;
        Ok(Settings { device: self.device.parse()?, precision, activation })
    }

    fn engine(&self, activation: Activation) -> fdime::Result<Box<dyn Engine>> {
        let (settings, process) = (self.settings(activation)?, std::process::id());
        let mut engines = locked(&ENGINES);
        let is_wanted =
            |shared: &SharedEngine| shared.process == process && shared.settings == settings;
        if let Some(shared) = engines.iter().find(|shared| is_wanted(shared)) {
            return Ok(shared.engine.with_threads(self.threads));
        }
        let Settings { device, precision, activation } = settings;
        let engine = device.engine(precision, self.threads, activation, add_notice)?;
        let for_call = engine.with_threads(self.threads);
        engines.push(SharedEngine { process, settings, engine });
        Ok(for_call)
    }
}

/// Does long work on the engine for estimates, as [`run_in_background`].
pub fn run_on_engine<T: Send>(
    py: Python<'_>,
    execution: &Execution,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Engine, &SharedProgress) -> fdime::Result<T> + Send,
) -> PyResult<T> {
    run_on_engine_for(py, execution, CriticRecipe::ACTIVATION, callback, work)
}

/// Does long work on the engine for critics with an activation. Notices become warnings.
pub fn run_on_engine_for<T: Send>(
    py: Python<'_>,
    execution: &Execution,
    activation: Activation,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Engine, &SharedProgress) -> fdime::Result<T> + Send,
) -> PyResult<T> {
    call_library(|| execution.settings(activation).map(drop))?;
    let result =
        run_in_background(py, callback, |progress| work(&*execution.engine(activation)?, progress));
    warn_of_notices(py)?;
    result
}

/// Warns of all notices, at the line of the user's call: two frames above the package's function are
/// those of its decorator and of the user.
fn warn_of_notices(py: Python<'_>) -> PyResult<()> {
    let notices = std::mem::take(&mut *locked(&NOTICES));
    if notices.is_empty() {
        return Ok(());
    }
    let category = py.import("fdime")?.getattr("FdimeWarning")?.cast_into::<PyType>()?;
    for notice in notices {
        // The text of a notice has no zero bytes.
        let text = CString::new(notice).unwrap_or_default();
        PyErr::warn(py, &category, &text, 3)?;
    }
    Ok(())
}

/// Returns the number of estimates on this many rows that keep the device busy when they run at the
/// same time.
#[pyfunction]
pub fn concurrent_estimates(py: Python<'_>, execution: Execution, rows: usize) -> PyResult<usize> {
    run_on_engine(py, &execution, None, |engine, _| Ok(engine.concurrent_estimates(rows)))
}
