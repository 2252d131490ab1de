//! Training: the plan, the loop, and what comes out.

mod log;
mod njee;
mod observer;
mod plan;
mod recorder;
mod staircase;
mod trace;
mod trainer;

pub use log::{LoggedRun, RunLog};
pub use observer::{Observer, silent};
pub use plan::{RunPlan, Schedule};
pub(crate) use recorder::Recorder;
pub use staircase::{StaircaseOptions, StaircasePlan};
pub use trace::{Ending, LevelSummary, RunsSummary, StepRecord, Trace, summarise_runs};
pub use trainer::{Setup, Trainer};
