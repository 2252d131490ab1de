//! Engines execute trainings.

mod cpu;
#[cfg_attr(not(feature = "cuda"), path = "without_cuda.rs")]
pub mod cuda;
mod gpu;

pub use cpu::CpuEngine;
pub use cuda::{CudaEngine, Precision};

use crate::critic::{CriticPlan, Inputs, PairScorer};
use crate::error::{Error, Result, invalid};
use crate::message::Parameter;
use crate::nn::Activation;
use crate::parallel::{Tick, run_jobs};
use crate::train::{BatchSource, Observers, Outcome, RunPlan, Staircase, Trace, Training};
use std::{fmt, str::FromStr};

/// A training with the source of its samples.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The training.
    pub training: &'a Training,
    /// The source of the samples.
    pub source: &'a dyn BatchSource,
    /// The number of steps.
    pub steps: usize,
}

/// Pairs of rows that a trained critic scores.
#[derive(Clone, Copy)]
pub struct Scoring<'a> {
    /// The critic; not the conv critic.
    pub critic: &'a CriticPlan,
    /// Its parameters.
    pub parameters: &'a [f32],
    /// The rows.
    pub inputs: &'a Inputs,
    /// The positions of the rows of x and of y of every pair.
    pub pairs: &'a [(u32, u32)],
}

/// An executor of trainings. It gets all of them together, so that it can run many at a time.
pub trait Engine: Send + Sync {
    /// Returns the device of this engine.
    fn device(&self) -> Device;

    /// Returns the device that would execute a task. Results repeat to the bit on the same device.
    fn device_for(&self, task: &Task) -> Device;

    /// Returns the number of CPU threads for work around the trainings.
    fn threads(&self) -> usize;

    /// Returns an engine on the same device with this number of CPU threads.
    fn with_threads(&self, threads: usize) -> Box<dyn Engine>;

    /// Returns the number of estimates on this many rows that keep the device busy when they run at
    /// the same time.
    fn concurrent_estimates(&self, _rows: usize) -> usize {
        self.threads()
    }

    /// Executes trainings and returns their outcomes in order. `observers` returns the observer of
    /// the task with that index.
    fn execute(&self, tasks: &[Task], observers: &Observers<'_>) -> Vec<Result<Outcome>>;

    /// Returns the scores of pairs, including the reference. `tick` is called at intervals; its error
    /// ends the computation.
    fn scores(&self, scoring: &Scoring, tick: Tick) -> Result<Vec<f32>> {
        let Scoring { critic, parameters, inputs, pairs } = scoring;
        PairScorer::new(critic, inputs.dims).scores(parameters, inputs, pairs.iter().copied(), tick)
    }

    /// Returns the device that would execute a plan.
    fn device_of(&self, plan: &RunPlan) -> Result<Device> {
        let staircase = plan.staircase()?;
        Ok(self.device_for(&plan.task(&staircase)))
    }

    /// Executes plans and returns their traces in order. See [`execute`](Engine::execute).
    fn run(&self, plans: &[RunPlan], observers: &Observers<'_>) -> Vec<Result<Trace>> {
        let checked: Vec<Result<Staircase>> =
            plans.iter().map(|plan| plan.check().and_then(|()| plan.staircase())).collect();
        let (indices, tasks): (Vec<usize>, Vec<Task>) = checked
            .iter()
            .enumerate()
            .filter_map(|(index, checked)| Some((index, plans[index].task(checked.as_ref().ok()?))))
            .unzip();
        let mut outcomes = self.execute(&tasks, &|place| observers(indices[place])).into_iter();
        let trace = |(plan, staircase): (&RunPlan, &Result<Staircase>)| match staircase {
            Ok(_) => Trace::new(plan, &outcomes.next().expect("one outcome for each task")?),
            Err(error) => Err(error.clone()),
        };
        plans.iter().zip(&checked).map(trace).collect()
    }
}

/// Runs many estimates on tables of this many rows, several at a time, and returns their results in
/// order. `estimate` gets its index and its share of the engine.
pub fn run_estimates<T: Send>(
    engine: &dyn Engine,
    rows: usize,
    count: usize,
    estimate: impl Fn(usize, &dyn Engine) -> T + Sync,
) -> Vec<T> {
    run_jobs(engine.concurrent_estimates(rows), count, |index, threads| {
        estimate(index, &*engine.with_threads(threads))
    })
}

impl RunPlan {
    /// Returns the training of this plan on its staircase.
    pub fn task<'a>(&'a self, staircase: &'a Staircase) -> Task<'a> {
        Task { training: &self.training, source: staircase, steps: self.schedule.total() }
    }
}

/// A device that executes trainings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    Cpu,
    /// A GPU.
    Cuda {
        /// Its name.
        name: String,
        /// The precision of matrix products.
        precision: Precision,
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda { name, precision } => write!(f, "{name}, {}", precision.name()),
        }
    }
}

/// The device that a user requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one, otherwise the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A GPU, or an error.
    Cuda,
}

impl DeviceChoice {
    /// All choices.
    pub const ALL: [DeviceChoice; 3] = [DeviceChoice::Auto, DeviceChoice::Cpu, DeviceChoice::Cuda];

    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cpu => "cpu",
            DeviceChoice::Cuda => "cuda",
        }
    }

    /// Returns an engine on this device. `notice` receives messages for the user, such as why the
    /// processor is used. Kernels for `activation` are compiled here, so that a missing compiler is
    /// detected before anything runs.
    pub fn engine(
        self,
        precision: Option<Precision>,
        threads: usize,
        activation: Activation,
        notice: impl Fn(&str) + Send + Sync + Clone + 'static,
    ) -> Result<Box<dyn Engine>> {
        let cpu = CpuEngine::new(threads);
        if let (DeviceChoice::Cpu, Some(precision)) = (self, precision)
            && precision != Precision::Fp32
        {
            let expected = "it is for the GPU; the CPU computes in fp32";
            return Err(invalid(Parameter::Precision, precision.name(), expected));
        }
        let cuda = || {
            let precision = precision.unwrap_or(Precision::Tf32);
            let continues_on_cpu = self == DeviceChoice::Auto;
            let engine = CudaEngine::new(precision, cpu, continues_on_cpu, notice.clone())?;
            engine.prepare(activation).map(|()| engine)
        };
        Ok(match self {
            DeviceChoice::Cpu => Box::new(cpu),
            DeviceChoice::Cuda => Box::new(cuda()?),
            DeviceChoice::Auto if !cuda::is_present() => Box::new(cpu),
            DeviceChoice::Auto => match cuda() {
                Ok(engine) => Box::new(engine),
                Err(error) => {
                    notice(&format!("{error}; running on the CPU"));
                    Box::new(cpu)
                }
            },
        })
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        DeviceChoice::ALL
            .into_iter()
            .find(|choice| choice.name() == name)
            .ok_or_else(|| invalid(Parameter::Device, name, "write auto, cpu or cuda"))
    }
}
