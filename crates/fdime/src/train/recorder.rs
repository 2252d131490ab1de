use super::{Ending, Observer, RunPlan, StepRecord, Trace};
use crate::error::Result;
use crate::nats::Nats;
use std::ops::ControlFlow;

/// Makes a trace of a run's steps, shows them to its observer, and knows when the run is over.
pub(crate) struct Recorder {
    observer: Box<dyn Observer>,
    trace: Trace,
    over: bool,
}

impl Recorder {
    pub(crate) fn new(plan: &RunPlan, observer: Box<dyn Observer>) -> Result<Self> {
        let levels = &plan.schedule.levels;
        let true_mi = levels
            .iter()
            .map(|level| Ok(plan.scenario.at(*level)?.mutual_information()))
            .collect::<Result<_>>()?;
        let trace = Trace {
            true_mi,
            iterations: plan.schedule.iterations,
            steps: Vec::with_capacity(plan.iterations()),
            ending: Ending::Completed,
        };
        Ok(Recorder { observer, trace, over: false })
    }

    /// Whether the run has diverged or was stopped.
    pub(crate) fn over(&self) -> bool {
        self.over
    }

    /// The next step's value and estimate; nothing more is taken once the run is over.
    pub(crate) fn take(&mut self, value: f64, estimate: Nats) {
        if self.over {
            return;
        }
        let iteration = self.trace.steps.len();
        if !(value.is_finite() && estimate.is_finite()) {
            self.trace.ending = Ending::Diverged { iteration };
            self.over = true;
            return;
        }
        let level = iteration / self.trace.iterations;
        let record = StepRecord { iteration, level, value, estimate };
        self.trace.steps.push(record);
        if let ControlFlow::Break(()) = self.observer.on_step(&record) {
            self.trace.ending = Ending::Stopped;
            self.over = true;
        }
    }

    pub(crate) fn end(mut self) -> Trace {
        self.observer.on_end(&self.trace);
        self.trace
    }
}
