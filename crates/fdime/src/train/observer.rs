use super::{StepRecord, Trace};
use std::ops::ControlFlow;

/// Looks on while a plan is executed. Progress bars, early stopping and Ctrl-C are observers.
pub trait Observer: Send {
    /// Called after every step; `Break` ends the run.
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()>;

    /// Called once, when the run is over, however it ended.
    fn on_end(&mut self, trace: &Trace) {
        let _ = trace;
    }
}

impl<F: FnMut(&StepRecord) -> ControlFlow<()> + Send> Observer for F {
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()> {
        self(record)
    }
}

/// An observer for every plan of a list that says and stops nothing.
pub fn silent(_plan: usize) -> Box<dyn Observer> {
    Box::new(|_: &StepRecord| ControlFlow::Continue(()))
}
