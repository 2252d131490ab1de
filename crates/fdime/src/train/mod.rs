//! Training: learners, sources of samples, and the records of a training.
//!
//! A [`Training`] describes what is trained, a [`BatchSource`] supplies the samples. The
//! [`Trainer`] has the only training loop; an [`Observer`] follows it. A [`RunPlan`] is a training
//! on the fresh samples of a scenario.

mod held_out;
mod learner;
mod observer;
mod outcome;
mod plan;
mod run_log;
mod source;
mod staircase;
mod trace;
mod trainer;
mod training;

#[cfg(feature = "cuda")]
pub(crate) use held_out::{HeldOutPairs, SEPARABLE_BLOCK};
#[doc(hidden)]
pub use learner::Pass;
pub use learner::{AnyEstimator, CriticLearner, LearnerPlan, NjeePlan};
#[cfg(feature = "cuda")]
pub(crate) use learner::{bin_count, classifiers};
pub use observer::{Observer, Observers, silent};
pub(crate) use outcome::Recorder;
pub use outcome::{Checkpoint, CurvePoint, Ending, Outcome, StepRecord};
pub use plan::{RunPlan, Schedule};
pub use run_log::{LoggedRun, RunLog, Runs};
pub use source::{BatchSource, Batches, HeldOut, SelectedColumns, Staircase, TableSource};
pub use staircase::{
    StaircaseOptions, StaircasePlan, StaircaseRun, TermSummary, TermTrace, summarise_terms,
};
pub use trace::{LevelSummary, RunsSummary, Trace, summarise_runs};
pub use trainer::Trainer;
#[cfg(feature = "cuda")]
pub(crate) use trainer::Validation;
pub use training::{LearningRateSchedule, Training};
