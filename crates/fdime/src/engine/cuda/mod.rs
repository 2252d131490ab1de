//! Whole training runs on a GPU, plans of equal shape as one program.
//!
//! Data generation, pairing, forward pass, objective, backward pass, Adam and the trace all stay on
//! the device; a staircase is one captured graph of many steps, replayed, and the host only reads
//! the trace. Random numbers are a function of seed, step and row, and nothing is added in an order that
//! chance decides, so the same plans repeat to the bit on the same device. How many run together
//! decides how products are cut, so in other company a run differs by rounding. The numbers are not
//! those of the CPU engine, which draws from another generator. See NOTES.md beside this file for what
//! was measured.

mod abi;
mod device;
mod kernels;
mod network;
mod program;
mod session;

pub use super::gpu::{DeviceInfo, Precision};
pub use device::cuda_devices;
pub use kernels::compile_kernels;

use super::{CpuEngine, Engine};
use crate::critic::{Batch, CriticKind};
use crate::data::without_panic;
use crate::error::{Error, Result, invalid};
use crate::nats::Nats;
use crate::nn::Activation;
use crate::objective::{Cost, Readout};
use crate::pairing::Pairing;
use crate::scenario::{Generator, PairSource, Scenario};
use crate::train::{Observer, Recorder, RunPlan, Trace};
use device::Device;
use program::{Cut, Needs, Program, Shape};
use session::{Replay, Session, allocate, divergence_number};
use std::sync::Mutex;

fn failure(reason: impl Into<String>) -> Error {
    Error::Device { reason: reason.into() }
}

/// Whether NVRTC, which compiles the kernels, is found.
pub fn kernel_compiler_found() -> Result<()> {
    kernels::find_compiler()
}

/// Executes plans on the first GPU.
pub struct CudaEngine {
    device: Device,
    precision: Precision,
    fallback: CpuEngine,
    notice: Box<dyn Fn(&str) + Send + Sync>,
    /// Everything shares one stream: one caller at a time.
    busy: Mutex<()>,
}

/// The most runs at once: their traces, parameters and grids of blocks all stay within bounds.
const MOST_RUNS: usize = 4096;
/// How much work is captured as one graph: the host looks in about this often.
const SECONDS_CAPTURED: f64 = 0.1;
const MOST_STEPS_CAPTURED: usize = 200;
/// What a multiply-add and a step cost at best; only for the choice above.
const SECONDS_PER_MULTIPLY_ADD: f64 = 1e-14;
const SECONDS_PER_STEP: f64 = 3e-5;
/// Partners drawn in advance take no more memory than this.
const MOST_PARTNER_BYTES: usize = 1 << 28;
/// Rows of pairs are counted in 32 bits, by the threads of a warp where they are paired.
const MOST_PAIRS: u64 = (1 << 31) - (1 << 20);
const MOST_PAIRED: u64 = 1 << 26;
/// Of a Student distribution in single precision.
const LEAST_DF: f64 = 0.4;
/// Memory left alone, for the driver and others.
const SPARE_BYTES: u64 = 1 << 28;

/// What a step on a given batch gives.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The objective's value.
    pub value: f64,
    /// The estimate.
    pub estimate: Nats,
    /// The gradient, in the order of the critic's parameters.
    pub gradient: Vec<f32>,
}

impl CudaEngine {
    /// An engine on the first GPU. What cannot run there goes to `fallback`, and `notice` is told
    /// why, once for every kind of plan; it also hears of what takes long before it begins.
    pub fn new(
        precision: Precision,
        fallback: CpuEngine,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let (device, notice) = (Device::open()?, Box::new(notice));
        Ok(CudaEngine { device, precision, fallback, notice, busy: Mutex::new(()) })
    }

    /// Sees to it that the kernels for an activation are there, so that their lack shows now.
    pub fn prepare(&self, activation: Activation) -> Result<()> {
        kernels::load(&self.device, self.precision, activation, &*self.notice).map(drop)
    }

    /// One step on a given batch, from the plan's initial parameters: to compare with the CPU.
    pub fn pass(&self, plan: &RunPlan, batch: &Batch) -> Result<Pass> {
        plan.check()?;
        if let Some(reason) = unsupported(plan) {
            return Err(failure(reason));
        }
        let _busy = self.busy.lock().unwrap_or_else(|error| error.into_inner());
        let partners = if plan.pairing == Pairing::AllPairs { 0 } else { batch.n };
        if batch.x.len() != batch.n * batch.dims.0
            || batch.y.len() != batch.n * batch.dims.1
            || batch.partner.len() != partners
            || batch.partner.iter().any(|partner| *partner as usize >= batch.n)
            || batch.reference.width > 0
        {
            return Err(failure("a batch of other sizes than it says, or with a reference"));
        }
        let shape = Shape { dims: batch.dims, n: batch.n, ..shape_of(plan)? };
        let mut session = self.session(&shape, needs_of(&[plan]), 1, 1)?;
        session.load_plans(&[plan], &[plan.critic.initial_parameters(shape.dims, plan.seed)?])?;
        let ld = session.program().ld;
        let rows = |values: &[f32], width: usize, ld: usize| -> Vec<f32> {
            let padding = vec![0.0; ld - width];
            let rows = values.chunks_exact(width).map(|row| [row, &padding].concat());
            rows.flatten().collect()
        };
        session.write(session.program().data.0.data, &rows(&batch.x, batch.dims.0, ld.0))?;
        session.write(session.program().data.1.data, &rows(&batch.y, batch.dims.1, ld.1))?;
        if session.program().partner != 0 {
            let mut inverse = vec![0u32; batch.n];
            for (i, &j) in (0u32..).zip(&batch.partner) {
                inverse[j as usize] = i;
            }
            let partner = [&batch.partner[..], &inverse].concat();
            session.write(session.program().partner, &partner)?;
        }
        for launch in session.program().train(0) {
            session.launch(&launch)?;
        }
        let trace = session.trace()?;
        Ok(Pass { value: trace[0], estimate: Nats(trace[1]), gradient: session.gradient(0)? })
    }

    fn session(
        &self,
        shape: &Shape,
        needs: Needs,
        runs: usize,
        steps: usize,
    ) -> Result<Session<'_>> {
        let cut = self.cut(runs, steps);
        let size = Program::new(shape, needs, cut, 0).end;
        let allocated =
            allocate(&self.device, size, |start| Program::new(shape, needs, cut, start))?;
        let activation = shape.critic.activation;
        let module = kernels::load(&self.device, self.precision, activation, &*self.notice)?;
        Ok(Session::new(&self.device, module, allocated))
    }

    fn cut(&self, runs: usize, steps: usize) -> Cut {
        let multiprocessors = self.device.multiprocessors as usize;
        let shared_limit = self.device.shared_limit as usize;
        let wgmma = kernels::uses_wgmma(self.precision, self.device.architecture);
        Cut { precision: self.precision, runs, multiprocessors, shared_limit, steps, wgmma }
    }

    /// How many steps to capture for so many runs, and the memory the program then takes.
    fn plan_program(&self, shape: &Shape, needs: Needs, runs: usize) -> (usize, u64) {
        let sketch = Program::new(shape, needs, self.cut(runs, 1), 0);
        let step = SECONDS_PER_STEP + SECONDS_PER_MULTIPLY_ADD * sketch.multiply_adds();
        let wanted = (SECONDS_CAPTURED / step) as usize;
        let partners = MOST_PARTNER_BYTES / (8 * shape.n * runs);
        let most = MOST_STEPS_CAPTURED.min(shape.levels * shape.per_level);
        let steps = wanted.min(partners).clamp(1, most.max(1));
        (steps, Program::new(shape, needs, self.cut(runs, steps), 0).end)
    }

    /// Runs plans of one shape, as many at once as fit.
    fn execute_alike(
        &self,
        shape: &Shape,
        plans: &[(usize, &RunPlan)],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<(usize, Result<Trace>)> {
        let needs = needs_of(&plans.iter().map(|(_, plan)| *plan).collect::<Vec<_>>());
        let most = match self.most_runs(shape, needs, plans.len()) {
            Ok(most) => most,
            Err(error) => {
                return plans.iter().map(|(index, _)| (*index, Err(error.clone()))).collect();
            }
        };
        // Equal parts, rather than full ones and a small rest.
        let parts = plans.len().div_ceil(most);
        let mut finished = Vec::new();
        for part in plans.chunks(plans.len().div_ceil(parts)) {
            match self.execute_together(shape, needs, part, observer) {
                Ok(traces) => {
                    let indices = part.iter().map(|(index, _)| *index);
                    finished.extend(indices.zip(traces.into_iter().map(Ok)));
                }
                Err(error) => {
                    finished.extend(part.iter().map(|(index, _)| (*index, Err(error.clone()))));
                }
            }
        }
        finished
    }

    /// How many runs fit into the memory that is free.
    fn most_runs(&self, shape: &Shape, needs: Needs, wanted: usize) -> Result<usize> {
        let free = self.device.free_memory()?.saturating_sub(SPARE_BYTES);
        let one = self.plan_program(shape, needs, 1).1;
        if one > free {
            return Err(invalid(
                "batch",
                shape.n,
                format!(
                    "with this critic it takes {:.1} GB of {}'s memory, and {:.1} GB are free; \
                     use a smaller batch, critic deranged, or --device cpu",
                    one as f64 / 1e9,
                    self.device.name,
                    free as f64 / 1e9
                ),
            ));
        }
        let mut most = wanted.min(MOST_RUNS);
        while most > 1 && self.plan_program(shape, needs, most).1 > free {
            most = most.div_ceil(2);
        }
        Ok(most)
    }

    fn execute_together(
        &self,
        shape: &Shape,
        needs: Needs,
        plans: &[(usize, &RunPlan)],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Result<Vec<Trace>> {
        let runs = plans.len();
        let (steps, _) = self.plan_program(shape, needs, runs);
        let mut session = self.session(shape, needs, runs, steps)?;
        let of_runs: Vec<&RunPlan> = plans.iter().map(|(_, plan)| *plan).collect();
        let parameters = of_runs
            .iter()
            .map(|plan| plan.critic.initial_parameters(shape.dims, plan.seed))
            .collect::<Result<Vec<_>>>()?;
        session.load_plans(&of_runs, &parameters)?;
        let mut watched = plans
            .iter()
            .map(|(index, plan)| Recorder::new(plan, observer(*index)))
            .collect::<Result<Vec<_>>>()?;
        let graph = session.capture()?;
        let mut replay = Replay::new(&session, graph)?;
        let total = shape.levels * shape.per_level;
        let replays = total.div_ceil(steps);
        replay.begin()?;
        for number in 0..replays {
            if number + 1 < replays {
                replay.begin()?;
            }
            let trace = replay.finish(number)?;
            for (step, values) in trace.chunks_exact(2 * runs).enumerate() {
                let iteration = number * steps + step;
                if iteration < total {
                    for (run, value) in watched.iter_mut().zip(values.chunks_exact(2)) {
                        run.take(value[0], Nats(value[1]));
                    }
                }
            }
            if watched.iter().all(Recorder::over) {
                break;
            }
        }
        Ok(watched.into_iter().map(Recorder::end).collect())
    }
}

/// Why a plan cannot run on the GPU, if it cannot.
fn unsupported(plan: &RunPlan) -> Option<String> {
    let layers = plan.critic.hidden.len();
    if !plan.estimator.has_critic() {
        return Some("njee trains classifiers".into());
    }
    if plan.critic.kind == CriticKind::Conv {
        return Some("critic conv".into());
    }
    if let Cost::FDivergence(divergence) = plan.estimator.cost()
        && divergence_number(divergence).is_none()
    {
        return Some(format!("{} is a custom divergence", plan.estimator.name()));
    }
    if plan.critic.dropout > 0.0 {
        return Some("the critic has dropout".into());
    }
    if layers < 2 && plan.critic.kind != CriticKind::Separable {
        return Some(format!("critic {} has a single hidden layer", plan.critic.kind));
    }
    if layers > 8 {
        return Some("the critic has more than 8 hidden layers".into());
    }
    // The level with the heaviest tails, if that matters.
    let scenarios = plan.schedule.levels.iter().filter_map(|level| plan.scenario.at(*level).ok());
    let tails = |scenario: &Scenario| match scenario.generator().0 {
        Generator::Student { df } => df,
        _ => f64::INFINITY,
    };
    let maps = scenarios.min_by(|a, b| tails(a).total_cmp(&tails(b)))?;
    let (generator, _, x_maps, y_maps) = maps.generator();
    if matches!(generator, Generator::Student { df } if df < LEAST_DF) {
        return Some("single precision has no room for tails of so few degrees of freedom".into());
    }
    if x_maps.len().max(y_maps.len()) > abi::MOST_MAPS {
        return Some(format!("scenario {} has more than 8 maps", plan.scenario.name));
    }
    let dims = maps.dims();
    let hidden = &plan.critic.hidden;
    let widest = hidden.iter().copied().chain([plan.critic.embedding, dims.0, dims.1]).max()?;
    let widest_hidden = hidden.iter().copied().max()?;
    if widest as u64 * widest_hidden as u64 > 1 << 30 {
        return Some("a layer may have more than 2^30 weights".into());
    }
    let n = plan.batch as u64;
    let rows = if plan.pairing == Pairing::AllPairs { n * n } else { 2 * n };
    let most = if plan.pairing == Pairing::AllPairs { MOST_PAIRS } else { MOST_PAIRED };
    if rows > most {
        return Some("a step has too many pairs for its kernels".into());
    }
    None
}

fn shape_of(plan: &RunPlan) -> Result<Shape> {
    Ok(Shape {
        critic: plan.critic.clone(),
        pairing: plan.pairing,
        n: plan.batch,
        dims: plan.scenario.at(plan.schedule.levels[0])?.dims(),
        levels: plan.schedule.levels.len(),
        per_level: plan.schedule.iterations,
        optimizer: plan.optimizer,
    })
}

fn needs_of(plans: &[&RunPlan]) -> Needs {
    let mut needs = Needs::default();
    for plan in plans {
        let (cost, readout) = (plan.estimator.cost(), plan.estimator.readout());
        needs.partition |= matches!(cost, Cost::MovingAverage | Cost::Clipped { .. })
            || matches!(readout, Readout::Nwj | Readout::DonskerVaradhan | Readout::Clipped { .. });
        needs.rows |= *cost == Cost::InfoNce || readout == Readout::InfoNce;
    }
    needs
}

impl Engine for CudaEngine {
    fn device(&self, plan: &RunPlan) -> String {
        match unsupported(plan) {
            Some(_) => self.fallback.device(plan),
            None => format!("{}, {}", self.device.name, self.precision.name()),
        }
    }

    fn execute(
        &self,
        plans: &[RunPlan],
        observer: &(dyn Fn(usize) -> Box<dyn Observer> + Sync),
    ) -> Vec<Result<Trace>> {
        let mut finished: Vec<(usize, Result<Trace>)> = Vec::new();
        let mut alike: Vec<(Shape, Vec<(usize, &RunPlan)>)> = Vec::new();
        let mut elsewhere: Vec<usize> = Vec::new();
        let mut told: Vec<String> = Vec::new();
        let _busy = self.busy.lock().unwrap_or_else(|error| error.into_inner());
        for (index, plan) in plans.iter().enumerate() {
            match plan.check().and_then(|()| shape_of(plan)) {
                Err(error) => finished.push((index, Err(error))),
                Ok(_) if unsupported(plan).is_some() => {
                    elsewhere.push(index);
                    let reason = unsupported(plan).unwrap_or_default();
                    if !told.contains(&reason) {
                        (self.notice)(&format!("{reason}: on the CPU"));
                        told.push(reason);
                    }
                }
                Ok(shape) => match alike.iter_mut().find(|(known, _)| *known == shape) {
                    Some((_, group)) => group.push((index, plan)),
                    None => alike.push((shape, vec![(index, plan)])),
                },
            }
        }
        for (shape, group) in &alike {
            let together = without_panic(|| self.execute_alike(shape, group, observer));
            finished.extend(together.unwrap_or_else(|panic| {
                group.iter().map(|(index, _)| (*index, Err(failure(panic.clone())))).collect()
            }));
        }
        let rest: Vec<RunPlan> = elsewhere.iter().map(|index| plans[*index].clone()).collect();
        let traces = self.fallback.execute(&rest, &|index| observer(elsewhere[index]));
        finished.extend(elsewhere.iter().copied().zip(traces));
        finished.sort_by_key(|(index, _)| *index);
        finished.into_iter().map(|(_, trace)| trace).collect()
    }
}
