//! Training: the plan, the loop, and what comes out.

mod observer;
mod plan;
mod trace;
mod trainer;

pub use observer::{Observer, silent};
pub use plan::{RunPlan, Schedule};
pub use trace::{Ending, LevelSummary, RunsSummary, StepRecord, Trace, summarise_runs};
pub use trainer::Trainer;
