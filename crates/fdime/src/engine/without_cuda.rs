//! Replaces the CUDA engine in builds without the feature `cuda`.

pub use super::gpu::{DeviceInfo, Precision};

use super::{CpuEngine, Device, Engine, Task};
use crate::error::{Error, Result};
use crate::nn::Activation;
use crate::train::{Observers, Outcome};

/// An engine that does not exist in this build.
pub enum CudaEngine {}

impl CudaEngine {
    /// Fails: this build has no CUDA.
    pub fn new(
        _precision: Precision,
        _fallback: CpuEngine,
        _continues_on_cpu: bool,
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
    fn device(&self) -> Device {
        match *self {}
    }

    fn device_for(&self, _task: &Task) -> Device {
        match *self {}
    }

    fn threads(&self) -> usize {
        match *self {}
    }

    fn with_threads(&self, _threads: usize) -> Box<dyn Engine> {
        match *self {}
    }

    fn execute(&self, _tasks: &[Task], _observers: &Observers<'_>) -> Vec<Result<Outcome>> {
        match *self {}
    }
}

/// Returns false: this build has no CUDA.
pub fn is_present() -> bool {
    false
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
