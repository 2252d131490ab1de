//! Where programs run: a stream of a GPU, with the compiled kernels.

use super::device::Device;
use super::device_error;
use super::kernels::{self, Precision, Variant};
use super::program::{Needs, Program, Shape, Tiling};
use super::session::Session;
use crate::error::Result;
use cudarc::driver::CudaModule;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The largest number of runs in a program, which bounds its grids of thread blocks.
pub(super) const MAX_RUNS: usize = 4096;
/// Memory left free for the driver and other programs.
const SPARE_BYTES: u64 = 1 << 28;
/// The largest amount of memory for partners that are drawn in advance.
const MAX_PARTNER_BYTES: usize = 1 << 28;
const MAX_STEPS_CAPTURED: usize = 200;

type Notice = dyn Fn(&str) + Send + Sync;

pub(super) struct Launcher {
    pub(super) device: Device,
    pub(super) precision: Precision,
    modules: Arc<Mutex<HashMap<Variant, Arc<CudaModule>>>>,
    pub(super) notice: Arc<Notice>,
    /// Held while a program is measured and its memory is allocated.
    allocation: Arc<Mutex<()>>,
    /// The number of launchers that share the memory.
    sharing: u64,
}

impl Launcher {
    pub(super) fn new(precision: Precision, notice: Arc<Notice>) -> Result<Self> {
        let (modules, allocation) = (Arc::default(), Arc::default());
        let device = Device::open()?;
        Ok(Launcher { device, precision, modules, notice, allocation, sharing: 1 })
    }

    /// Returns a launcher with a stream of its own, one of `sharing` that use the memory together.
    pub(super) fn with_new_stream(&self, sharing: u64) -> Result<Self> {
        Ok(Launcher {
            device: Device::open()?,
            precision: self.precision,
            modules: Arc::clone(&self.modules),
            notice: Arc::clone(&self.notice),
            allocation: Arc::clone(&self.allocation),
            sharing,
        })
    }

    /// Returns the kernels of a variant, compiled unless they are cached.
    pub(super) fn kernels(&self, variant: &Variant) -> Result<Arc<CudaModule>> {
        let mut modules = self.modules.lock().unwrap_or_else(|error| error.into_inner());
        if let Some(module) = modules.get(variant) {
            return Ok(Arc::clone(module));
        }
        let module = kernels::load(&self.device, self.precision, variant, &*self.notice)?;
        modules.insert(variant.clone(), Arc::clone(&module));
        Ok(module)
    }

    pub(super) fn tiling(&self, runs: usize, steps: usize) -> Tiling {
        let multiprocessors = self.device.multiprocessors as usize;
        let shared_limit = self.device.shared_limit as usize;
        let wgmma = kernels::uses_wgmma(self.precision, self.device.architecture);
        Tiling { precision: self.precision, runs, multiprocessors, shared_limit, steps, wgmma }
    }

    /// Returns the number of bytes of a program.
    pub(super) fn bytes(&self, shape: &Shape, needs: Needs, runs: usize, steps: usize) -> u64 {
        Program::new(shape, needs, self.tiling(runs, steps), 0).end
    }

    /// Returns a program in the device's memory.
    pub(super) fn session(
        &self,
        shape: &Shape,
        needs: Needs,
        runs: usize,
        steps: usize,
    ) -> Result<Session<'_>> {
        let module = self.kernels(&shape.variant())?;
        let (tiling, size) = (self.tiling(runs, steps), self.bytes(shape, needs, runs, steps));
        Session::new(&self.device, module, size, |start| Program::new(shape, needs, tiling, start))
    }

    /// Returns the number of bytes for a program, and keeps other launchers from allocating memory as
    /// long as the guard lives.
    pub(super) fn free_memory(&self) -> Result<(u64, MutexGuard<'_, ()>)> {
        let guard = self.allocation.lock().unwrap_or_else(|error| error.into_inner());
        let (free, total) = self.device.memory()?;
        Ok((free.min(total / self.sharing).saturating_sub(SPARE_BYTES), guard))
    }

    /// Returns an error for a program that does not fit into the memory.
    pub(super) fn too_large(&self, bytes: u64, free: u64) -> crate::Error {
        device_error(format!(
            "{} has too little memory: {:.1} GB are needed, {:.1} GB are free",
            self.device.name,
            bytes as f64 / 1e9,
            free as f64 / 1e9
        ))
    }
}

/// Returns how many of `wanted` steps to capture for `runs` runs.
pub(super) fn captured_steps(shape: &Shape, runs: usize, wanted: usize) -> usize {
    let partners = MAX_PARTNER_BYTES / (8 * shape.n * runs);
    let max_steps = MAX_STEPS_CAPTURED.min(shape.levels * shape.per_level);
    wanted.min(partners).clamp(1, max_steps.max(1))
}

/// Returns the number of runs, at most `wanted`, for which `bytes` fits into the free memory, or
/// `None` if that is not even so for one.
pub(super) fn runs_that_fit(
    wanted: usize,
    free: u64,
    bytes: impl Fn(usize) -> u64,
) -> Option<usize> {
    let mut runs = wanted.min(MAX_RUNS);
    while runs > 1 && bytes(runs) > free {
        runs = runs.div_ceil(2);
    }
    (runs > 1 || bytes(1) <= free).then_some(runs)
}
