//! Training runs on distributions with known mutual information.

use crate::failure::{caught, guarded, json, parsed};
use crate::watch::watched;
use fdime::engine::engine_named;
use fdime::estimate::Progress;
use fdime::train::StaircasePlan;
use fdime::{CpuEngine, Ending, Error, Observer, RunPlan, Trace as RunTrace, summarise_runs};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// The plan, or the paper's where there is none, with what the options ask for; all JSON.
#[pyfunction]
pub fn staircase_plan(plan: Option<&str>, options: &str) -> PyResult<String> {
    let fail = |reason| PyValueError::new_err(format!("plan: {reason}"));
    let plan = plan.map(StaircasePlan::from_json).transpose().map_err(fail)?;
    let options = parsed(options, "staircase")?;
    json(&guarded(|| StaircasePlan::new(plan, &options))?)
}

/// The plans of a staircase's runs, each as JSON.
#[pyfunction]
pub fn run_plans(plan: &str) -> PyResult<Vec<String>> {
    let plan: StaircasePlan = parsed(plan, "plan")?;
    plan.run_plans().iter().map(json).collect()
}

/// What happened in a run.
#[pyclass(frozen, module = "fdime._native")]
pub struct Trace {
    trace: RunTrace,
}

#[pymethods]
impl Trace {
    /// From JSON.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Ok(Trace { trace: parsed(text, "trace")? })
    }

    /// The exact mutual information of each level.
    #[getter]
    fn true_mi<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.trace.true_mi.iter().map(|mi| mi.0))
    }

    /// The estimate read off every step's batch.
    #[getter]
    fn estimates<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.trace.steps.iter().map(|step| step.estimate.0))
    }

    /// The objective's value at every step.
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
        Ok((slf.get_type().into_any(), (json(&slf.get().trace)?,)))
    }
}

/// Executes plans together. Also gives back what the user should know, in sentences.
#[pyfunction]
pub fn execute(
    py: Python<'_>,
    plans: Vec<String>,
    device: &str,
    precision: Option<&str>,
    threads: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<(Vec<Trace>, Vec<String>)> {
    let plans: Vec<RunPlan> = plans.iter().map(|p| parsed(p, "plan")).collect::<PyResult<_>>()?;
    let Some(first) = plans.first() else { return Ok(Default::default()) };
    let activation = first.critic.activation;
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let notice = move |text: &str| {
        heard.lock().unwrap_or_else(|error| error.into_inner()).push(text.to_string());
    };
    let traces = watched(py, threads, watch, |watch| {
        let engine = engine_named(device, precision, threads, activation, notice)?;
        for plan in &plans {
            plan.check()?;
            if engine.device(plan) == CpuEngine::DEVICE {
                plan.check_memory()?;
            }
        }
        watch.begin(plans.iter().map(|plan| plan.iterations() as u64).sum());
        let observer = |_: usize| -> Box<dyn Observer> { Box::new(watch.clone()) };
        let traces = engine.execute(&plans, &observer).into_iter();
        let traces = traces.collect::<fdime::Result<Vec<RunTrace>>>()?;
        match traces.iter().any(|trace| trace.ending == Ending::Stopped) {
            true => Err(Error::Interrupted),
            false => Ok(traces),
        }
    })?;
    let notices = notices.lock().unwrap_or_else(|error| error.into_inner()).clone();
    Ok((traces.into_iter().map(|trace| Trace { trace }).collect(), notices))
}

/// Each level over the runs that finished it, by the last iterations, as JSON.
#[pyfunction]
pub fn summarise(traces: Vec<Bound<'_, Trace>>, last: usize) -> PyResult<String> {
    let traces: Vec<RunTrace> = traces.iter().map(|trace| trace.get().trace.clone()).collect();
    caught(|| json(&summarise_runs(&traces, last)))
}
