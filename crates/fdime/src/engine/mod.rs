//! Engines execute plans.

mod cpu;
#[cfg_attr(not(feature = "cuda"), path = "without_cuda.rs")]
pub mod cuda;
mod gpu;
mod workers;

pub use cpu::CpuEngine;
pub(crate) use cpu::side_by_side;
pub use cuda::CudaEngine;
pub use workers::Workers;

use crate::error::{Result, invalid};
use crate::nn::Activation;
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

/// What a device and a precision stand for on this machine, as users write them: `cpu`, `cuda`, or
/// `auto` for a GPU where there is one. `notice` is told what the user should know.
pub fn engine_named(
    device: &str,
    precision: Option<&str>,
    threads: usize,
    activation: Activation,
    notice: impl Fn(&str) + Send + Sync + Clone + 'static,
) -> Result<Box<dyn Engine>> {
    let cpu = CpuEngine::new(threads);
    let asked = precision.map(str::parse::<cuda::Precision>).transpose()?;
    if device == "cpu" && asked.is_some_and(|precision| precision != cuda::Precision::Fp32) {
        let expected = "it is of the GPU; the CPU computes in fp32";
        return Err(invalid("precision", precision.unwrap_or_default(), expected));
    }
    let cuda = || {
        let precision = asked.unwrap_or(cuda::Precision::Tf32);
        let engine = CudaEngine::new(precision, cpu, notice.clone())?;
        engine.prepare(activation).map(|()| engine)
    };
    Ok(match device {
        "cpu" => Box::new(cpu),
        "cuda" => Box::new(cuda()?),
        // Without any GPU there is nothing to say.
        "auto" if cuda::cuda_devices().map_or(true, |devices| devices.is_empty()) => Box::new(cpu),
        "auto" => match cuda() {
            Ok(engine) => Box::new(engine),
            Err(error) => {
                notice(&format!("{error}; running on the CPU"));
                Box::new(cpu)
            }
        },
        other => return Err(invalid("device", other, "write cpu, cuda or auto")),
    })
}
