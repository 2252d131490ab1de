//! Engines execute plans.

mod cpu;
pub mod cuda;
mod workers;

pub use cpu::CpuEngine;
pub(crate) use cpu::side_by_side;
pub use cuda::CudaEngine;
pub use workers::Workers;

use crate::error::Result;
use crate::train::{Observer, RunPlan, Trace};

/// Something that executes plans. It is given all plans at once, so that it can run many of them
/// together.
pub trait Engine: Sync {
    /// The name of what would execute a plan, such as `cpu`: results repeat on the same device.
    fn device(&self, plan: &RunPlan) -> String;

    /// The traces of the plans, in their order. `observer` makes the observer of the plan with
    /// that index; it is called on the thread that runs the plan.
    fn execute(
        &self,
        plans: &[RunPlan],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<Result<Trace>>;
}
