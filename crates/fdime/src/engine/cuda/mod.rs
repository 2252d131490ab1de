//! Training on a GPU: plans of equal shape run together as one program.
//!
//! Data generation, pairing, forward pass, objective, backward pass, Adam and the trace all stay on
//! the device; a staircase is one captured graph of many steps, replayed, and the host only reads
//! the trace. Random numbers are a function of seed, step and row, and no sum depends on the order
//! in which threads finish, so the same plans give the same bits on the same device. Results differ
//! by rounding when the number of plans that run together changes how products are tiled, and they
//! differ from those of the CPU engine, which uses another random generator. NOTES.md beside this
//! file holds the measurements.

mod abi;
mod device;
mod kernels;
mod memory;
mod network;
mod plan;
mod program;
mod session;
mod table;

pub use super::gpu::{DeviceInfo, Precision};
pub use device::cuda_devices;
pub use kernels::compile_kernels;

use super::{CpuEngine, Device as EngineDevice, Engine, Task};
use crate::critic::Batch;
use crate::data::without_panic;
use crate::error::{Error, Result, invalid};
use crate::message::{Message, Parameter};
use crate::nats::Nats;
use crate::nn::Activation;
use crate::pairing::Pairing;
use crate::train::{Observers, Outcome, Recorder, RunPlan};
use device::Device;
use plan::{GpuPlan, RunSpec, initial_parameters};
use program::{Needs, Program, Shape, Tiling};
use session::{Replay, Session};
use std::sync::Mutex;

fn device_error(reason: impl Into<Message>) -> Error {
    Error::Device { reason: reason.into() }
}

/// Checks that NVRTC, which compiles the kernels, can be loaded.
pub fn kernel_compiler_found() -> Result<()> {
    kernels::find_compiler()
}

/// Returns whether there is a GPU.
pub fn is_present() -> bool {
    cuda_devices().is_ok_and(|devices| !devices.is_empty())
}

/// Executes trainings on the first GPU.
pub struct CudaEngine {
    device: Device,
    precision: Precision,
    fallback: CpuEngine,
    notice: Box<dyn Fn(&str) + Send + Sync>,
    /// All calls share one stream, so they take turns.
    busy: Mutex<()>,
}

/// The largest number of runs in a program, which bounds its grids of thread blocks.
const MAX_RUNS: usize = 4096;
/// The approximate duration of a captured graph: the host reads the trace this often.
const SECONDS_CAPTURED: f64 = 0.1;
const MAX_STEPS_CAPTURED: usize = 200;
/// The shortest times of a multiply-add and of a step, to estimate that duration.
const SECONDS_PER_MULTIPLY_ADD: f64 = 1e-14;
const SECONDS_PER_STEP: f64 = 3e-5;
/// The largest amount of memory for partners that are drawn in advance.
const MAX_PARTNER_BYTES: usize = 1 << 28;
/// Memory left free for the driver and other programs.
const SPARE_BYTES: u64 = 1 << 28;

/// The results of a step on a given batch.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The objective's value.
    pub value: f64,
    /// The estimate.
    pub estimate: Nats,
    /// The gradient, in the order of the critic's parameters.
    pub gradient: Vec<f32>,
}

/// A plan and the index of its task.
type IndexedPlan<'a> = (usize, GpuPlan<'a>);
/// A result and the index of its task.
type IndexedOutcome = (usize, Result<Outcome>);

/// Tasks sorted by where they run.
#[derive(Default)]
struct Sorted<'a> {
    /// Plans for the GPU, grouped by shape.
    groups: Vec<(Shape, Vec<IndexedPlan<'a>>)>,
    /// Indices of the tasks for the CPU.
    on_cpu: Vec<usize>,
    invalid: Vec<(usize, Error)>,
}

impl CudaEngine {
    /// Creates an engine on the first GPU. Plans that it does not support run on `fallback`;
    /// `notice` receives the reason, once for every kind of plan, and announces what takes long.
    pub fn new(
        precision: Precision,
        fallback: CpuEngine,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let (device, notice) = (Device::open()?, Box::new(notice));
        Ok(CudaEngine { device, precision, fallback, notice, busy: Mutex::new(()) })
    }

    /// Compiles the kernels for an activation unless they are cached. Returns an error if that is
    /// not possible, before any plan is executed.
    pub fn prepare(&self, activation: Activation) -> Result<()> {
        kernels::load(&self.device, self.precision, activation, &*self.notice).map(drop)
    }

    /// Executes one step on a batch of the plan's sizes, from the plan's initial parameters. Tests
    /// compare it with the CPU.
    #[doc(hidden)]
    pub fn pass(&self, plan: &RunPlan, batch: &Batch) -> Result<Pass> {
        plan.check()?;
        let staircase = plan.staircase()?;
        let plan = &GpuPlan::new(&plan.task(&staircase)).map_err(device_error)?;
        let _busy = self.busy.lock().unwrap_or_else(|error| error.into_inner());
        let shape = Shape::from_plan(plan)?;
        check_batch(&shape, plan.dims(), batch)?;
        let mut session = self.session(&shape, Needs::from_plans(&[plan]), 1, 1)?;
        let parameters = initial_parameters(plan)?;
        session.load_runs(&[RunSpec::from_plan(plan)?], &[parameters])?;
        session.load_batch(batch)?;
        session.train()?;
        let trace = session.trace()?;
        Ok(Pass {
            value: trace[0],
            estimate: Nats(trace[1]),
            gradient: session.gradient(0, plan.dims())?,
        })
    }

    fn session(
        &self,
        shape: &Shape,
        needs: Needs,
        runs: usize,
        steps: usize,
    ) -> Result<Session<'_>> {
        let tiling = self.tiling(runs, steps);
        let activation = shape.critic.activation;
        let module = kernels::load(&self.device, self.precision, activation, &*self.notice)?;
        let size = Program::new(shape, needs, tiling, 0).end;
        Session::new(&self.device, module, size, |start| Program::new(shape, needs, tiling, start))
    }

    fn tiling(&self, runs: usize, steps: usize) -> Tiling {
        let multiprocessors = self.device.multiprocessors as usize;
        let shared_limit = self.device.shared_limit as usize;
        let wgmma = kernels::uses_wgmma(self.precision, self.device.architecture);
        Tiling { precision: self.precision, runs, multiprocessors, shared_limit, steps, wgmma }
    }

    /// Returns the number of steps to capture for `runs` runs, and the bytes of memory that the
    /// program then needs.
    fn plan_program(&self, shape: &Shape, needs: Needs, runs: usize) -> (usize, u64) {
        let single_step = Program::new(shape, needs, self.tiling(runs, 1), 0);
        let seconds = SECONDS_PER_STEP + SECONDS_PER_MULTIPLY_ADD * single_step.multiply_adds();
        let wanted = (SECONDS_CAPTURED / seconds) as usize;
        let partners = MAX_PARTNER_BYTES / (8 * shape.n * runs);
        let max_steps = MAX_STEPS_CAPTURED.min(shape.levels * shape.per_level);
        let steps = wanted.min(partners).clamp(1, max_steps.max(1));
        (steps, Program::new(shape, needs, self.tiling(runs, steps), 0).end)
    }

    /// Executes plans of one shape, as many together as fit into memory.
    fn execute_group(
        &self,
        shape: &Shape,
        plans: &[IndexedPlan],
        observers: &Observers<'_>,
    ) -> Vec<IndexedOutcome> {
        let needs = Needs::from_plans(&plans.iter().map(|(_, plan)| plan).collect::<Vec<_>>());
        let max_runs = match self.max_runs(shape, needs, plans.len()) {
            Ok(max_runs) => max_runs,
            Err(error) => return failed(plans, &error),
        };
        // Programs of equal size, instead of full ones and a small one at the end.
        let programs = plans.len().div_ceil(max_runs);
        let parts = plans.chunks(plans.len().div_ceil(programs));
        let execute = |part: &[IndexedPlan]| match self.run_program(shape, needs, part, observers) {
            Ok(traces) => {
                let indices = part.iter().map(|(index, _)| *index);
                indices.zip(traces.into_iter().map(Ok)).collect()
            }
            Err(error) => failed(part, &error),
        };
        parts.flat_map(execute).collect()
    }

    /// Returns the number of runs, at most `wanted`, that fit into the free memory.
    fn max_runs(&self, shape: &Shape, needs: Needs, wanted: usize) -> Result<usize> {
        let free = self.device.free_memory()?.saturating_sub(SPARE_BYTES);
        let single_run = self.plan_program(shape, needs, 1).1;
        if single_run > free {
            return Err(invalid(
                Parameter::Batch,
                shape.n,
                Message::from(format!(
                    "with this critic it takes {:.1} GB of {}'s memory, and {:.1} GB are free; \
                     use a smaller batch, critic deranged, or ",
                    single_run as f64 / 1e9,
                    self.device.name,
                    free as f64 / 1e9
                ))
                .setting(Parameter::Device, "cpu"),
            ));
        }
        let mut runs = wanted.min(MAX_RUNS);
        while runs > 1 && self.plan_program(shape, needs, runs).1 > free {
            runs = runs.div_ceil(2);
        }
        Ok(runs)
    }

    /// Executes plans of one shape together.
    fn run_program(
        &self,
        shape: &Shape,
        needs: Needs,
        plans: &[IndexedPlan],
        observers: &Observers<'_>,
    ) -> Result<Vec<Outcome>> {
        let runs = plans.len();
        let (steps, _) = self.plan_program(shape, needs, runs);
        let mut session = self.session(shape, needs, runs, steps)?;
        let specs = plans.iter().map(|(_, plan)| RunSpec::from_plan(plan));
        let parameters = plans.iter().map(|(_, plan)| initial_parameters(plan));
        let (specs, parameters) =
            (specs.collect::<Result<Vec<_>>>()?, parameters.collect::<Result<Vec<_>>>()?);
        session.load_runs(&specs, &parameters)?;
        let total = shape.levels * shape.per_level;
        let mut recorders: Vec<Recorder> =
            plans.iter().map(|(index, _)| Recorder::new(total, observers(*index))).collect();
        let graph = session.capture()?;
        let mut replay = Replay::new(&session, graph)?;
        let replays = total.div_ceil(steps);
        replay.start()?;
        for number in 0..replays {
            if number + 1 < replays {
                replay.start()?;
            }
            let trace = replay.finish(number)?;
            // The last replay may go beyond the end.
            for values in trace.chunks_exact(2 * runs).take(total - number * steps) {
                for (recorder, value) in recorders.iter_mut().zip(values.chunks_exact(2)) {
                    recorder.record_step(value[0], Nats(value[1]));
                }
            }
            if recorders.iter().all(Recorder::is_over) {
                break;
            }
        }
        Ok(recorders.into_iter().map(|recorder| recorder.finish(None)).collect())
    }

    /// Sorts the tasks by where they run, and reports why some run on the CPU.
    fn sort<'a>(&self, tasks: &[Task<'a>]) -> Sorted<'a> {
        let mut sorted = Sorted::default();
        let mut reported: Vec<String> = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            if let Err(error) = task.training.check() {
                sorted.invalid.push((index, error));
                continue;
            }
            let plan = match GpuPlan::new(task) {
                Ok(plan) => plan,
                Err(reason) => {
                    sorted.on_cpu.push(index);
                    if !reported.contains(&reason) {
                        (self.notice)(&format!("{reason}: running on the CPU"));
                        reported.push(reason);
                    }
                    continue;
                }
            };
            match Shape::from_plan(&plan) {
                Err(error) => sorted.invalid.push((index, error)),
                Ok(shape) => match sorted.groups.iter_mut().find(|(known, _)| *known == shape) {
                    Some((_, group)) => group.push((index, plan)),
                    None => sorted.groups.push((shape, vec![(index, plan)])),
                },
            }
        }
        sorted
    }
}

/// Returns an error unless the batch is consistent and has the sizes of the shape.
fn check_batch(shape: &Shape, dims: (usize, usize), batch: &Batch) -> Result<()> {
    let partners = if shape.pairing == Pairing::AllPairs { 0 } else { batch.n };
    let fits = (batch.n, batch.dims) == (shape.n, dims)
        && batch.x.len() == batch.n * batch.dims.0
        && batch.y.len() == batch.n * batch.dims.1
        && batch.partner.len() == partners
        && batch.partner.iter().all(|partner| (*partner as usize) < batch.n)
        && batch.reference.width == 0;
    if fits {
        Ok(())
    } else {
        Err(device_error("the batch has other sizes than its plan, or a reference"))
    }
}

/// Returns the same error for all plans.
fn failed(plans: &[IndexedPlan], error: &Error) -> Vec<IndexedOutcome> {
    plans.iter().map(|(index, _)| (*index, Err(error.clone()))).collect()
}

impl Engine for CudaEngine {
    fn device(&self, task: &Task) -> EngineDevice {
        match GpuPlan::new(task) {
            Ok(_) => {
                EngineDevice::Cuda { name: self.device.name.clone(), precision: self.precision }
            }
            Err(_) => self.fallback.device(task),
        }
    }

    fn threads(&self) -> usize {
        self.fallback.threads()
    }

    fn execute(&self, tasks: &[Task], observers: &Observers<'_>) -> Vec<Result<Outcome>> {
        let _busy = self.busy.lock().unwrap_or_else(|error| error.into_inner());
        let Sorted { groups, on_cpu, invalid } = self.sort(tasks);
        let mut finished: Vec<IndexedOutcome> =
            invalid.into_iter().map(|(index, error)| (index, Err(error))).collect();
        for (shape, group) in &groups {
            let outcomes = without_panic(|| self.execute_group(shape, group, observers));
            finished.extend(outcomes.unwrap_or_else(|panic| failed(group, &device_error(panic))));
        }
        let rest: Vec<Task> = on_cpu.iter().map(|index| tasks[*index]).collect();
        let outcomes = self.fallback.execute(&rest, &|place| observers(on_cpu[place]));
        finished.extend(on_cpu.iter().copied().zip(outcomes));
        finished.sort_by_key(|(index, _)| *index);
        finished.into_iter().map(|(_, outcome)| outcome).collect()
    }
}
