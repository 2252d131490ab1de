use super::{CurvePoint, Outcome, StepRecord};
use std::ops::ControlFlow;

/// An observer of a training. Progress bars, Ctrl-C and logs are observers.
pub trait Observer: Send {
    /// Called before the first step. `Break` ends the training, before its network is built on the
    /// CPU: thousands of trainings that wait are over at once.
    fn on_begin(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called after every step. `Break` ends the training.
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()>;

    /// Called whenever the held-out rows were scored. `Break` ends the training.
    fn on_check(&mut self, point: &CurvePoint) -> ControlFlow<()> {
        let _ = point;
        ControlFlow::Continue(())
    }

    /// Called once at the end of the training.
    fn on_end(&mut self, outcome: &Outcome) {
        let _ = outcome;
    }
}

impl<F: FnMut(&StepRecord) -> ControlFlow<()> + Send> Observer for F {
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()> {
        self(record)
    }
}

/// Returns the observer of the training with a given index. It is called on the thread that trains.
pub type Observers<'a> = dyn Fn(usize) -> Box<dyn Observer + 'a> + Sync + 'a;

/// Returns an observer that does nothing, for the training with any index.
pub fn silent(_index: usize) -> Box<dyn Observer> {
    Box::new(|_: &StepRecord| ControlFlow::Continue(()))
}
