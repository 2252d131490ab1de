use super::Observer;
use crate::nats::Nats;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// One training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRecord {
    /// The number of the step, from 0.
    pub iteration: usize,
    /// The objective on the batch, before the update.
    pub value: f64,
    /// The estimate from the batch, before the update.
    pub estimate: Nats,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All steps were made.
    Completed,
    /// An observer stopped it.
    Stopped,
    /// The objective or the estimate became infinite or NaN.
    Diverged {
        /// The step at which this happened. It is not recorded.
        iteration: usize,
    },
}

/// A point on a learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// The number of training steps made.
    pub step: usize,
    /// The mean objective over the training batches since the previous point; `None` at the first, and
    /// if it is not finite.
    pub train: Option<f64>,
    /// The objective on the held-out rows.
    pub validation: f64,
}

/// The parameters that were best on the held-out rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The parameters.
    pub parameters: Vec<f32>,
    /// The step that they are from.
    pub step: usize,
    /// The objective on the held-out rows at that step.
    pub validation: f64,
    /// The learning curve of the whole training, without points whose objective is not finite.
    pub curve: Vec<CurvePoint>,
}

/// The result of a training.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Every step made.
    pub steps: Vec<StepRecord>,
    /// How the training ended.
    pub ending: Ending,
    /// The best parameters, if the source has held-out rows and the objective on them was ever
    /// finite.
    pub best: Option<Checkpoint>,
}

/// Records the steps of a training, passes them to its observer and determines when it is over.
pub(crate) struct Recorder<'a> {
    observer: Box<dyn Observer + 'a>,
    outcome: Outcome,
    planned: usize,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(planned: usize, mut observer: Box<dyn Observer + 'a>) -> Self {
        let (ending, expected) = match observer.on_begin() {
            // Memory for a long training is taken as it proceeds.
            ControlFlow::Continue(()) => (Ending::Completed, planned.min(1 << 20)),
            ControlFlow::Break(()) => (Ending::Stopped, 0),
        };
        let outcome = Outcome { steps: Vec::with_capacity(expected), ending, best: None };
        Recorder { observer, outcome, planned }
    }

    /// Returns whether the observer has stopped the training.
    pub(crate) fn is_stopped(&self) -> bool {
        self.outcome.ending == Ending::Stopped
    }

    /// Returns whether all steps were made, or the training diverged or was stopped.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.ending != Ending::Completed || self.outcome.steps.len() >= self.planned
    }

    /// Records the next step, unless the training is over.
    pub(crate) fn record_step(&mut self, value: f64, estimate: Nats) {
        if self.is_over() {
            return;
        }
        let iteration = self.outcome.steps.len();
        if !(value.is_finite() && estimate.is_finite()) {
            self.outcome.ending = Ending::Diverged { iteration };
            return;
        }
        let record = StepRecord { iteration, value, estimate };
        self.outcome.steps.push(record);
        let flow = self.observer.on_step(&record);
        self.stop_on_break(flow);
    }

    /// Passes a check of the held-out rows to the observer.
    pub(crate) fn record_check(&mut self, point: &CurvePoint) {
        let flow = self.observer.on_check(point);
        self.stop_on_break(flow);
    }

    fn stop_on_break(&mut self, flow: ControlFlow<()>) {
        if flow.is_break() {
            self.outcome.ending = Ending::Stopped;
        }
    }

    /// Passes the outcome to the observer and returns it.
    pub(crate) fn finish(mut self, best: Option<Checkpoint>) -> Outcome {
        self.outcome.best = best;
        self.observer.on_end(&self.outcome);
        self.outcome
    }
}
