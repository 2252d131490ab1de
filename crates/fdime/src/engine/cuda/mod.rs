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
mod jobs;
mod kernels;
mod launcher;
mod memory;
mod network;
mod plan;
mod program;
mod queue;
mod session;
mod small;
mod table;

pub use super::gpu::{DeviceInfo, Precision};
pub use device::cuda_devices;
pub use kernels::compile_kernels;

use super::{CpuEngine, Device as EngineDevice, Engine, Scoring, Task};
use crate::critic::Batch;
use crate::data::without_panic;
use crate::error::{Error, Result, invalid};
use crate::message::{Message, Parameter};
use crate::nats::Nats;
use crate::nn::Activation;
use crate::pairing::Pairing;
use crate::parallel::{Tick, run_jobs};
use crate::train::{Checkpoint, Observers, Outcome, Pass, Recorder, RunPlan};
use jobs::{Event, Reply, ScoringJob, TrainingJob};
use kernels::Variant;
use launcher::{Launcher, MAX_RUNS, captured_steps, runs_that_fit};
use plan::{GpuPlan, RunSpec, initial_parameters};
use program::{Needs, Program, Shape};
use queue::Queue;
use session::Replay;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use table::KnownLists;

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
#[derive(Clone)]
pub struct CudaEngine {
    gpu: Arc<Gpu>,
    fallback: CpuEngine,
}

/// What all clones of an engine share.
struct Gpu {
    /// For trainings on samples that the GPU draws itself.
    launcher: Launcher,
    /// All these trainings share one stream, so they take turns.
    busy: Mutex<()>,
    /// For work on tables.
    queue: Queue,
    known_lists: KnownLists,
    /// Whether the CPU does what the GPU fails to do.
    continues_on_cpu: bool,
    /// What was already reported.
    reported: Mutex<Vec<String>>,
}

/// The approximate duration of a captured graph: the host reads the trace this often.
const SECONDS_CAPTURED: f64 = 0.1;
/// The shortest times of a multiply-add and of a step, to estimate that duration.
const SECONDS_PER_MULTIPLY_ADD: f64 = 1e-14;
const SECONDS_PER_STEP: f64 = 3e-5;
/// The time between two checks of whether a computation is still wanted.
const TICK: Duration = Duration::from_millis(50);
/// The number of estimates whose trainings together keep the GPU busy. Each is a thread of the host,
/// whose memory grows with the rows of its table.
const MAX_CONCURRENT_ESTIMATES: usize = 512;
const MIN_CONCURRENT_ESTIMATES: usize = 8;
const CONCURRENT_ROWS: usize = 2_000_000;

/// A plan and the index of its task.
type IndexedPlan<'a> = (usize, GpuPlan<'a>);
/// A result and the index of its task.
type IndexedOutcome = (usize, Result<Outcome>);

/// Tasks sorted by where they run.
#[derive(Default)]
struct Sorted<'a> {
    /// Plans on samples that the GPU draws itself, grouped by shape.
    groups: Vec<(Shape, Vec<IndexedPlan<'a>>)>,
    /// Plans on the rows of tables.
    tables: Vec<IndexedPlan<'a>>,
    /// Indices of the tasks for the CPU.
    on_cpu: Vec<usize>,
    invalid: Vec<(usize, Error)>,
}

impl CudaEngine {
    /// Creates an engine on the first GPU. Plans that it does not support run on `fallback`;
    /// `notice` receives the reason, once for every kind of plan, and announces what takes long. If
    /// `continues_on_cpu`, work that fails on the GPU is also done there.
    pub fn new(
        precision: Precision,
        fallback: CpuEngine,
        continues_on_cpu: bool,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let launcher = Launcher::new(precision, Arc::new(notice))?;
        let gpu = Gpu {
            queue: Queue::new(&launcher)?,
            known_lists: KnownLists::default(),
            launcher,
            busy: Mutex::default(),
            continues_on_cpu,
            reported: Mutex::default(),
        };
        Ok(CudaEngine { gpu: Arc::new(gpu), fallback })
    }

    /// Compiles the kernels for an activation unless they are cached. Returns an error if that is
    /// not possible, before any plan is executed.
    pub fn prepare(&self, activation: Activation) -> Result<()> {
        let variant = Variant { activation, ..Variant::default() };
        self.gpu.launcher.kernels(&variant).map(drop)
    }

    /// Passes a text to the user once.
    fn report(&self, text: String) {
        let mut reported = self.gpu.reported.lock().unwrap_or_else(|error| error.into_inner());
        if !reported.contains(&text) {
            (self.gpu.launcher.notice)(&text);
            reported.push(text);
        }
    }

    /// Executes one step on a batch of the plan's sizes, from the plan's initial parameters. Tests
    /// compare it with the CPU.
    #[doc(hidden)]
    pub fn pass(&self, plan: &RunPlan, batch: &Batch) -> Result<Pass> {
        plan.check()?;
        let staircase = plan.staircase()?;
        let plan = &GpuPlan::new(&plan.task(&staircase)).map_err(device_error)?;
        let _busy = self.gpu.busy.lock().unwrap_or_else(|error| error.into_inner());
        let shape = Shape::from_plan(plan)?;
        check_batch(&shape, plan.dims(), batch)?;
        let runs = plan.runs();
        let session = self.gpu.launcher.session(&shape, needs_of([plan]), runs, 1)?;
        let (specs, parameters) = (RunSpec::of_plan(plan)?, initial_parameters(plan)?);
        session.load_runs(&references(&specs), &slices(&parameters))?;
        session.load_batch(batch)?;
        session.train()?;
        let (value, estimate) = sums_over_runs(&session.trace()?);
        let mut gradient = Vec::new();
        for (run, spec) in specs.iter().enumerate() {
            gradient.extend(session.gradient(run, spec.dims)?);
        }
        Ok(Pass { value, estimate: Nats(estimate), gradient })
    }

    /// Returns the number of steps to capture for `runs` runs, and the bytes of memory that the
    /// program then needs.
    fn plan_program(&self, shape: &Shape, needs: Needs, runs: usize) -> (usize, u64) {
        let launcher = &self.gpu.launcher;
        let single_step = Program::new(shape, needs, launcher.tiling(runs, 1), 0);
        let seconds = SECONDS_PER_STEP + SECONDS_PER_MULTIPLY_ADD * single_step.multiply_adds();
        let steps = captured_steps(shape, runs, (SECONDS_CAPTURED / seconds) as usize);
        (steps, launcher.bytes(shape, needs, runs, steps))
    }

    /// Executes plans of one shape, as many together as fit into memory.
    fn execute_group(
        &self,
        shape: &Shape,
        plans: &[IndexedPlan],
        observers: &Observers<'_>,
    ) -> Vec<IndexedOutcome> {
        let needs = needs_of(plans.iter().map(|(_, plan)| plan));
        // Plans of one shape have equal numbers of runs.
        let runs_of_plan = plans.first().map_or(1, |(_, plan)| plan.runs());
        let max_plans = match self.max_plans(shape, needs, plans.len(), runs_of_plan) {
            Ok(max_plans) => max_plans,
            Err(error) => return failed(plans, &error),
        };
        // Programs of equal size, instead of full ones and a small one at the end.
        let programs = plans.len().div_ceil(max_plans);
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

    /// Returns the number of plans, at most `wanted`, that fit into the free memory.
    fn max_plans(
        &self,
        shape: &Shape,
        needs: Needs,
        wanted: usize,
        runs_of_plan: usize,
    ) -> Result<usize> {
        let bytes = |plans: usize| self.plan_program(shape, needs, plans * runs_of_plan).1;
        let (free, _guard) = self.gpu.launcher.free_memory()?;
        let wanted = wanted.min((MAX_RUNS / runs_of_plan).max(1));
        runs_that_fit(wanted, free, bytes).ok_or_else(|| {
            let single_run = bytes(1);
            invalid(
                Parameter::Batch,
                shape.n,
                Message::from(format!(
                    "with this critic it takes {:.1} GB of {}'s memory, and {:.1} GB are free; \
                     use a smaller batch, critic deranged, or ",
                    single_run as f64 / 1e9,
                    self.gpu.launcher.device.name,
                    free as f64 / 1e9
                ))
                .setting(Parameter::Device, "cpu"),
            )
        })
    }

    /// Executes plans of one shape together.
    fn run_program(
        &self,
        shape: &Shape,
        needs: Needs,
        plans: &[IndexedPlan],
        observers: &Observers<'_>,
    ) -> Result<Vec<Outcome>> {
        let (mut specs, mut parameters) = (Vec::new(), Vec::new());
        for (_, plan) in plans {
            specs.extend(RunSpec::of_plan(plan)?);
            parameters.extend(initial_parameters(plan)?);
        }
        let (runs, runs_of_plan) = (specs.len(), specs.len() / plans.len());
        let (steps, _) = self.plan_program(shape, needs, runs);
        let session = self.gpu.launcher.session(shape, needs, runs, steps)?;
        session.load_runs(&references(&specs), &slices(&parameters))?;
        let total = shape.levels * shape.per_level;
        let mut recorders: Vec<Recorder> =
            plans.iter().map(|(index, _)| Recorder::new(total, observers(*index))).collect();
        let graph = session.capture(steps)?;
        let mut replay = Replay::new(&session)?;
        let replays = total.div_ceil(steps);
        replay.start(&graph)?;
        for number in 0..replays {
            if number + 1 < replays {
                replay.start(&graph)?;
            }
            let trace = replay.finish(number)?;
            // The last replay may go beyond the end.
            for values in trace.chunks_exact(2 * runs).take(total - number * steps) {
                let of_plans = values.chunks_exact(2 * runs_of_plan).map(sums_over_runs);
                for (recorder, (value, estimate)) in recorders.iter_mut().zip(of_plans) {
                    recorder.record_step(value, Nats(estimate));
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
        for (index, task) in tasks.iter().enumerate() {
            if let Err(error) = task.training.check() {
                sorted.invalid.push((index, error));
                continue;
            }
            if task.steps == 0 {
                sorted.on_cpu.push(index);
                continue;
            }
            let plan = match GpuPlan::new(task) {
                Ok(plan) => plan,
                Err(reason) => {
                    sorted.on_cpu.push(index);
                    self.report(format!("{reason}: running on the CPU"));
                    continue;
                }
            };
            if plan.table().is_some() {
                sorted.tables.push((index, plan));
                continue;
            }
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

    /// Executes trainings on tables, together with those of other threads.
    fn execute_tables(
        &self,
        plans: &[IndexedPlan],
        tasks: &[Task],
        observers: &Observers<'_>,
    ) -> Vec<IndexedOutcome> {
        let (sender, events) = mpsc::channel();
        let mut recorders: Vec<Option<Recorder>> = plans
            .iter()
            .map(|(index, _)| Some(Recorder::new(tasks[*index].steps, observers(*index))))
            .collect();
        let is_stopped = |recorder: &Option<Recorder>| {
            Arc::new(AtomicBool::new(recorder.as_ref().is_some_and(Recorder::is_over)))
        };
        let stops: Vec<Arc<AtomicBool>> = recorders.iter().map(is_stopped).collect();
        let jobs = run_jobs(self.threads(), plans.len(), |place, _| {
            let is_stopped = Arc::clone(&stops[place]);
            let reply = Reply { index: place, sender: sender.clone(), is_stopped };
            TrainingJob::new(&plans[place].1, &self.gpu.known_lists, reply)
        });
        drop(sender);
        let mut failures: Vec<Option<Error>> = vec![None; plans.len()];
        let mut prepared = Vec::new();
        for (place, job) in jobs.into_iter().enumerate() {
            match job {
                Ok(job) => prepared.push(job),
                Err(error) => failures[place] = Some(error),
            }
        }
        self.gpu.queue.train(prepared);
        let mut checkpoints: Vec<Option<Checkpoint>> = vec![None; plans.len()];
        // The channel closes when all trainings have ended.
        for (place, event) in events {
            let Some(recorder) = &mut recorders[place] else { continue };
            match event {
                Event::Steps(steps) => {
                    steps.into_iter().for_each(|(value, mi)| recorder.record_step(value, mi));
                    if recorder.is_over() {
                        stops[place].store(true, Ordering::Relaxed);
                    }
                }
                Event::Finished(Err(error)) => failures[place] = Some(error),
                Event::Finished(Ok((points, best))) => {
                    points.iter().for_each(|point| recorder.record_check(point));
                    checkpoints[place] = best;
                }
            }
        }
        let results = recorders.into_iter().zip(failures.into_iter().zip(checkpoints));
        let outcomes = results.map(|(recorder, (failure, best))| match (failure, recorder) {
            (None, Some(recorder)) if recorder.is_over() => Ok(recorder.finish(best)),
            (failure, _) => Err(failure.unwrap_or_else(|| device_error("its thread has ended"))),
        });
        plans.iter().map(|(index, _)| *index).zip(outcomes).collect()
    }

    /// Executes tasks on the CPU instead of the GPU, which has failed, if that is wanted.
    fn or_on_cpu(
        &self,
        tasks: &[Task],
        finished: Vec<IndexedOutcome>,
        observers: &Observers<'_>,
    ) -> Vec<IndexedOutcome> {
        let has_failed = |result: &Result<Outcome>| {
            self.gpu.continues_on_cpu && !matches!(result, Ok(_) | Err(Error::Interrupted))
        };
        let (failed, mut done): (Vec<_>, Vec<_>) =
            finished.into_iter().partition(|(_, result)| has_failed(result));
        if let Some((_, Err(error))) = failed.first() {
            self.report(format!("{error}; continuing on the CPU"));
        }
        let indices: Vec<usize> = failed.into_iter().map(|(index, _)| index).collect();
        done.extend(self.on_cpu(tasks, indices, observers));
        done
    }

    fn on_cpu(
        &self,
        tasks: &[Task],
        indices: Vec<usize>,
        observers: &Observers<'_>,
    ) -> Vec<IndexedOutcome> {
        let chosen: Vec<Task> = indices.iter().map(|index| tasks[*index]).collect();
        let outcomes = self.fallback.execute(&chosen, &|place| observers(indices[place]));
        indices.iter().copied().zip(outcomes).collect()
    }

    /// Returns the scores of pairs of a table, computed together with those of other threads.
    fn scores_of_table(&self, scoring: &Scoring, tick: Tick) -> Result<Vec<f32>> {
        let (reply, scores) = mpsc::channel();
        self.gpu.queue.score(ScoringJob::new(scoring, &self.gpu.known_lists, reply));
        loop {
            match scores.recv_timeout(TICK) {
                Ok(scores) => return scores,
                Err(RecvTimeoutError::Timeout) => tick()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(device_error("its thread has ended"));
                }
            }
        }
    }
}

/// Returns what the objectives of any of the plans need.
fn needs_of<'a, 'b: 'a>(plans: impl IntoIterator<Item = &'a GpuPlan<'b>>) -> Needs {
    Needs::of(plans.into_iter().filter_map(|plan| Some(&plan.critic()?.estimator)))
}

/// Returns the sums of the values and of the estimates of runs, which alternate.
fn sums_over_runs(trace: &[f64]) -> (f64, f64) {
    let runs = trace.chunks_exact(2);
    runs.fold((0.0, 0.0), |(value, estimate), run| (value + run[0], estimate + run[1]))
}

fn references<T>(values: &[T]) -> Vec<&T> {
    values.iter().collect()
}

fn slices<T>(values: &[Vec<T>]) -> Vec<&[T]> {
    values.iter().map(Vec::as_slice).collect()
}

/// Returns an error unless the batch is consistent and has the sizes of the shape.
fn check_batch(shape: &Shape, dims: (usize, usize), batch: &Batch) -> Result<()> {
    let is_paired = shape.pairing != Pairing::AllPairs && shape.bins.is_none();
    let partners = if is_paired { batch.n } else { 0 };
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
    fn device(&self) -> EngineDevice {
        let Launcher { device, precision, .. } = &self.gpu.launcher;
        EngineDevice::Cuda { name: device.name.clone(), precision: *precision }
    }

    fn device_for(&self, task: &Task) -> EngineDevice {
        GpuPlan::new(task).map_or_else(|_| self.fallback.device(), |_| self.device())
    }

    fn threads(&self) -> usize {
        self.fallback.threads()
    }

    fn with_threads(&self, threads: usize) -> Box<dyn Engine> {
        Box::new(CudaEngine { gpu: Arc::clone(&self.gpu), fallback: CpuEngine::new(threads) })
    }

    fn concurrent_estimates(&self, rows: usize) -> usize {
        (CONCURRENT_ROWS / rows.max(1)).clamp(MIN_CONCURRENT_ESTIMATES, MAX_CONCURRENT_ESTIMATES)
    }

    fn execute(&self, tasks: &[Task], observers: &Observers<'_>) -> Vec<Result<Outcome>> {
        let Sorted { groups, tables, on_cpu, invalid } = self.sort(tasks);
        let mut finished = Vec::new();
        if !groups.is_empty() {
            let _busy = self.gpu.busy.lock().unwrap_or_else(|error| error.into_inner());
            for (shape, group) in &groups {
                let outcomes = without_panic(|| self.execute_group(shape, group, observers));
                finished
                    .extend(outcomes.unwrap_or_else(|panic| failed(group, &device_error(panic))));
            }
        }
        if !tables.is_empty() {
            finished.extend(self.execute_tables(&tables, tasks, observers));
        }
        let mut finished = self.or_on_cpu(tasks, finished, observers);
        finished.extend(self.on_cpu(tasks, on_cpu, observers));
        finished.extend(invalid.into_iter().map(|(index, error)| (index, Err(error))));
        finished.sort_by_key(|(index, _)| *index);
        finished.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn scores(&self, scoring: &Scoring, tick: Tick) -> Result<Vec<f32>> {
        match self.scores_of_table(scoring, tick) {
            Err(error @ Error::Device { .. }) if self.gpu.continues_on_cpu => {
                self.report(format!("{error}; continuing on the CPU"));
                self.fallback.scores(scoring, tick)
            }
            result => result,
        }
    }
}
