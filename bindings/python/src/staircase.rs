//! Training runs on distributions with known mutual information.

use crate::background::SharedProgress;
use crate::execution::{Execution, add_notice, run_on_engine_for};
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use fdime::estimate::Progress;
use fdime::train::{Outcome, RunLog, StaircasePlan, StaircaseRun, TermSummary, summarise_terms};
use fdime::{
    Activation, Device, Ending, Engine, Error, Observer, RunPlan, RunsSummary, StepRecord,
    Trace as RunTrace, summarise_runs,
};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

/// Returns the plan with the settings of the options, all as JSON. Without a plan, the other settings
/// are the paper's.
#[pyfunction]
pub fn staircase_plan(plan: Option<&str>, options: &str) -> PyResult<String> {
    let fail = |error| PyValueError::new_err(format!("plan: {error}"));
    let plan = plan.map(StaircasePlan::from_json).transpose().map_err(fail)?;
    let options = parse_json(options, "staircase")?;
    to_json(&call_library(|| StaircasePlan::new(plan, &options))?)
}

/// Returns the plans of a staircase's trainings, each as JSON: one for each run, or one for each term
/// of a chain and run.
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

/// The log of finished runs, in the format of the command line's `--log`.
type Log = RunLog<RunPlan, RunTrace>;

/// Counts the steps of a run, and writes its trace to the log at its end.
struct RunObserver<'a> {
    progress: SharedProgress,
    plan: &'a RunPlan,
    device: String,
    log: Option<&'a Mutex<Log>>,
}

impl Observer for RunObserver<'_> {
    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.progress.advance(1)
    }

    fn on_end(&mut self, outcome: &Outcome) {
        let Some(log) = self.log.filter(|_| outcome.ending != Ending::Stopped) else { return };
        let mut log = log.lock().unwrap_or_else(|error| error.into_inner());
        let appended = RunTrace::new(self.plan, outcome)
            .and_then(|trace| log.append(self.plan.clone(), &self.device, trace));
        if let Err(error) = appended {
            add_notice(&format!("{error}; this run is not in the log"));
        }
    }
}

/// Executes the plans that are not in the log. Returns the traces of all plans.
fn execute_open(
    plans: &[RunPlan],
    engine: &dyn Engine,
    log: Option<Log>,
    progress: &SharedProgress,
) -> fdime::Result<Vec<RunTrace>> {
    let mut traces: Vec<Option<RunTrace>> = Vec::new();
    for plan in plans {
        plan.check()?;
        let device = engine.device_of(plan)?;
        if device == Device::Cpu {
            plan.check_memory()?;
        }
        let logged = log.as_ref().and_then(|log| log.find(plan, &device.to_string()));
        traces.push(logged.cloned());
    }
    let open = plans.iter().zip(&traces).filter(|(_, trace)| trace.is_none());
    let open: Vec<RunPlan> = open.map(|(plan, _)| plan.clone()).collect();
    progress.begin(open.iter().map(|plan| plan.schedule.total() as u64).sum());
    let log = log.map(Mutex::new);
    let observer = |index: usize| -> Box<dyn Observer + '_> {
        let plan = &open[index];
        // The plan was checked above.
        let device = engine.device_of(plan).map_or(String::new(), |device| device.to_string());
        Box::new(RunObserver { progress: progress.clone(), plan, device, log: log.as_ref() })
    };
    let executed = engine.run(&open, &observer).into_iter().collect::<fdime::Result<Vec<_>>>()?;
    if executed.iter().any(|trace| trace.ending == Ending::Stopped) {
        return Err(Error::Interrupted);
    }
    let mut executed = executed.into_iter();
    Ok(traces.into_iter().filter_map(|trace| trace.or_else(|| executed.next())).collect())
}

/// Executes plans, given as JSON, and returns their traces. Runs that are in the file `log` are not repeated; each finished run is appended to it.
#[pyfunction]
pub fn execute(
    py: Python<'_>,
    plans: Vec<String>,
    execution: Execution,
    log: Option<PathBuf>,
    callback: Option<Py<PyAny>>,
) -> PyResult<Vec<Trace>> {
    let plans = plans.iter().map(|plan| parse_json(plan, "plan"));
    let plans: Vec<RunPlan> = plans.collect::<PyResult<_>>()?;
    let critic = plans.iter().find_map(|plan| plan.training.learner.critic());
    let activation = critic.map_or(Activation::Relu, |learner| learner.critic.activation);
    let log = call_library(|| log.as_deref().map(Log::open).transpose())?;
    let traces = run_on_engine_for(py, &execution, activation, callback, |engine, progress| {
        execute_open(&plans, engine, log, progress)
    })?;
    Ok(traces.into_iter().map(|trace| Trace { trace }).collect())
}

/// A run of a staircase.
#[pyclass(frozen, module = "fdime._native")]
pub struct Run {
    run: StaircaseRun,
}

#[pymethods]
impl Run {
    /// Every step; for a chain, the sum of its terms.
    #[getter]
    fn trace(&self) -> Trace {
        Trace { trace: self.run.trace.clone() }
    }

    /// The terms of a chain as formulas, with their traces; none for a direct run.
    #[getter]
    fn terms(&self) -> Vec<(String, Trace)> {
        let terms = self.run.terms.iter();
        terms.map(|t| (t.term.to_string(), Trace { trace: t.trace.clone() })).collect()
    }
}

/// Combines the traces of a staircase's trainings into those of its runs.
#[pyfunction]
pub fn combine(plan: &str, traces: Vec<Bound<'_, Trace>>) -> PyResult<Vec<Run>> {
    let plan: StaircasePlan = parse_json(plan, "plan")?;
    let traces = traces.iter().map(|trace| trace.get().trace.clone()).collect();
    catch_panic(|| Ok(plan.combine(traces).into_iter().map(|run| Run { run }).collect()))
}

/// A level of a staircase, with the keys of the command line's JSON.
#[derive(Serialize)]
struct Level {
    #[serde(flatten)]
    summary: RunsSummary,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<TermSummary>,
}

/// Summarises the last iterations of each level over the runs that finished it. Returns JSON.
#[pyfunction]
pub fn summarise(runs: Vec<Bound<'_, Run>>, last: usize) -> PyResult<String> {
    let runs: Vec<StaircaseRun> = runs.iter().map(|run| run.get().run.clone()).collect();
    let traces: Vec<RunTrace> = runs.iter().map(|run| run.trace.clone()).collect();
    catch_panic(|| {
        let levels = summarise_runs(&traces, last).into_iter().zip(summarise_terms(&runs, last));
        to_json(&levels.map(|(summary, terms)| Level { summary, terms }).collect::<Vec<_>>())
    })
}
