//! Stands in for the CUDA engine in builds without the feature `cuda`: there is no GPU to use.

pub use super::gpu::{DeviceInfo, Precision};

use super::{CpuEngine, Engine};
use crate::error::{Error, Result};
use crate::nn::Activation;
use crate::train::{Observer, RunPlan, Trace};

/// An engine that does not exist in this build.
pub enum CudaEngine {}

impl CudaEngine {
    /// Fails: this build has no CUDA.
    pub fn new(
        _precision: Precision,
        _fallback: CpuEngine,
        _notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        Err(absent())
    }

    /// Compiles the kernels for an activation.
    pub fn prepare(&self, _activation: Activation) -> Result<()> {
        match *self {}
    }
}

impl Engine for CudaEngine {
    fn device(&self, _plan: &RunPlan) -> String {
        match *self {}
    }

    fn execute(
        &self,
        _plans: &[RunPlan],
        _observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<Result<Trace>> {
        match *self {}
    }
}

/// Fails: this build has no CUDA.
pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
    Err(absent())
}

/// Fails: this build has no CUDA.
pub fn kernel_compiler_found() -> Result<()> {
    Err(absent())
}

fn absent() -> Error {
    let reason = "this build has no CUDA; build it with the feature `cuda`";
    Error::Device { reason: reason.into() }
}
