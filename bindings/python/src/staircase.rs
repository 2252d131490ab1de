//! Training runs on distributions with known mutual information.

use crate::background::run_in_background;
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use fdime::estimate::Progress;
use fdime::train::StaircasePlan;
use fdime::{
    Activation, Device, DeviceChoice, Ending, Error, Observer, Precision, RunPlan,
    Trace as RunTrace, summarise_runs,
};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// Returns the plan with the settings of the options, all as JSON. Without a plan, the other settings
/// are the paper's.
#[pyfunction]
pub fn staircase_plan(plan: Option<&str>, options: &str) -> PyResult<String> {
    let fail = |error| PyValueError::new_err(format!("plan: {error}"));
    let plan = plan.map(StaircasePlan::from_json).transpose().map_err(fail)?;
    let options = parse_json(options, "staircase")?;
    to_json(&call_library(|| StaircasePlan::new(plan, &options))?)
}

/// Returns the plans of a staircase's runs, each as JSON.
#[pyfunction]
pub fn run_plans(plan: &str) -> PyResult<Vec<String>> {
    let plan: StaircasePlan = parse_json(plan, "plan")?;
    plan.run_plans().iter().map(to_json).collect()
}

/// Every step of a run.
#[pyclass(frozen, module = "fdime._native")]
pub struct Trace {
    trace: RunTrace,
}

#[pymethods]
impl Trace {
    /// Reads JSON.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Ok(Trace { trace: parse_json(text, "trace")? })
    }

    /// The exact mutual information of each level.
    #[getter]
    fn true_mi<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.trace.true_mi.iter().map(|mi| mi.0))
    }

    /// The estimate from the batch of each step.
    #[getter]
    fn estimates<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.trace.steps.iter().map(|step| step.estimate.0))
    }

    /// The objective at each step.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.trace.steps.iter().map(|step| step.value))
    }

    /// The iteration at which the run diverged, if it did.
    #[getter]
    fn diverged_at(&self) -> Option<usize> {
        match self.trace.ending {
            Ending::Diverged { iteration } => Some(iteration),
            _ => None,
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().into_any(), (to_json(&slf.get().trace)?,)))
    }
}

/// The notices of an engine, in order.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn push(&self, text: &str) {
        self.0.lock().unwrap_or_else(|error| error.into_inner()).push(text.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|error| error.into_inner()))
    }
}

/// Executes plans, given as JSON. Returns their traces, and sentences that the user should read.
#[pyfunction]
pub fn execute(
    py: Python<'_>,
    plans: Vec<String>,
    device: &str,
    precision: Option<&str>,
    threads: usize,
    callback: Option<Py<PyAny>>,
) -> PyResult<(Vec<Trace>, Vec<String>)> {
    let plans = plans.iter().map(|plan| parse_json(plan, "plan"));
    let plans: Vec<RunPlan> = plans.collect::<PyResult<_>>()?;
    let device: DeviceChoice = call_library(|| device.parse())?;
    let precision: Option<Precision> = call_library(|| precision.map(str::parse).transpose())?;
    let critic = plans.iter().find_map(|plan| plan.training.learner.critic());
    let activation = critic.map_or(Activation::Relu, |learner| learner.critic.activation);
    let notices = Notices::default();
    let heard = notices.clone();
    let traces = run_in_background(py, callback, |progress| {
        let notice = move |text: &str| heard.push(text);
        let engine = device.engine(precision, threads, activation, notice)?;
        for plan in &plans {
            plan.check()?;
            if engine.device_of(plan)? == Device::Cpu {
                plan.check_memory()?;
            }
        }
        progress.begin(plans.iter().map(|plan| plan.schedule.total() as u64).sum());
        let observer = |_: usize| -> Box<dyn Observer> { Box::new(progress.clone()) };
        let traces = engine.run(&plans, &observer).into_iter();
        let traces = traces.collect::<fdime::Result<Vec<RunTrace>>>()?;
        match traces.iter().any(|trace| trace.ending == Ending::Stopped) {
            true => Err(Error::Interrupted),
            false => Ok(traces),
        }
    })?;
    Ok((traces.into_iter().map(|trace| Trace { trace }).collect(), notices.take()))
}

/// Summarises the last iterations of each level over the runs that finished it. Returns JSON.
#[pyfunction]
pub fn summarise(traces: Vec<Bound<'_, Trace>>, last: usize) -> PyResult<String> {
    let traces: Vec<RunTrace> = traces.iter().map(|trace| trace.get().trace.clone()).collect();
    catch_panic(|| to_json(&summarise_runs(&traces, last)))
}
