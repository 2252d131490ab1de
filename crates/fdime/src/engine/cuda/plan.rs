//! Trainings that the GPU can execute, and the data that it needs for them.

use super::abi::{self, MAX_HIDDEN_LAYERS, MAX_MAPS};
use super::program::{Needs, SampleShape, Shape};
use crate::chain::ColumnSelection;
use crate::critic::{CriticKind, CriticPlan};
use crate::divergence::Divergence;
use crate::engine::Task;
use crate::error::Result;
use crate::link::Link;
use crate::nn::{AdamPlan, ConvNet};
use crate::objective::{Cost, Estimator, Readout};
use crate::pairing::Pairing;
use crate::scenario::{DrawnImages, Generator, Level, Map, Scenario};
use crate::train::{BatchSource, LearningRateSchedule, Staircase};

/// The largest number of rows in a step: kernels index all pairs with 32 bits, and paired rows by
/// the threads of a warp for each.
const MAX_PAIRS: u64 = (1 << 31) - (1 << 20);
const MAX_PAIRED_ROWS: u64 = 1 << 26;
/// The largest number of weights in a layer.
const MAX_WEIGHTS: u64 = 1 << 30;
/// The smallest number of degrees of freedom of a Student distribution in single precision.
const MIN_DEGREES_OF_FREEDOM: f64 = 0.4;

/// The training of a critic on samples that the GPU draws itself.
pub(super) struct GpuPlan<'a> {
    samples: Samples<'a>,
    estimator: Estimator,
    critic: CriticPlan,
    pairing: Pairing,
    batch: usize,
    optimizer: AdamPlan,
    learning_rate_schedule: LearningRateSchedule,
    seed: u64,
}

enum Samples<'a> {
    Staircase(&'a Staircase),
    Images { drawn: DrawnImages<'a>, steps: usize },
}

impl<'a> GpuPlan<'a> {
    /// Returns the plan of a task, or the reason why the GPU cannot execute it.
    pub(super) fn new(task: &Task<'a>) -> std::result::Result<Self, String> {
        let training = task.training;
        training.check().map_err(|error| error.to_string())?;
        let Some(learner) = training.learner.critic() else {
            return Err("njee trains classifiers".into());
        };
        let samples = match (task.source.staircase(), task.source.images()) {
            (Some(staircase), _) => Samples::Staircase(staircase),
            (None, Some(drawn)) => Samples::Images { drawn, steps: task.steps },
            (None, None) => return Err("the samples are not those of a scenario".into()),
        };
        let plan = GpuPlan {
            samples,
            estimator: learner.estimator.clone(),
            critic: learner.critic.clone(),
            pairing: learner.pairing,
            batch: training.batch,
            optimizer: training.optimizer,
            learning_rate_schedule: training.learning_rate_schedule,
            seed: training.seed,
        };
        match unsupported(&plan) {
            Some(reason) => Err(reason),
            None => Ok(plan),
        }
    }

    /// Returns the dimensions of the critic's inputs.
    pub(super) fn dims(&self) -> (usize, usize) {
        match &self.samples {
            Samples::Staircase(staircase) => staircase.dims(),
            Samples::Images { drawn, .. } => (drawn.x.len(), drawn.y.len()),
        }
    }

    /// Returns the dimensions of the program that executes the plan. All terms of a chain have the
    /// same, so that they run together; columns that a term does not have are zeros. Not so for
    /// images, because a network has as many channels as its images.
    fn program_dims(&self) -> Result<(usize, usize)> {
        match &self.samples {
            Samples::Staircase(staircase) if self.critic.kind != CriticKind::Conv => {
                let dims = staircase.sample_dims();
                staircase.term().map_or(Ok(dims), |(term, _)| term.largest_dims(dims))
            }
            _ => Ok(self.dims()),
        }
    }
}

impl Shape {
    /// Returns the shape of a valid plan.
    pub(super) fn from_plan(plan: &GpuPlan) -> Result<Self> {
        let (samples, levels, per_level) = match &plan.samples {
            Samples::Staircase(staircase) => {
                let schedule = &staircase.schedule;
                let samples = match staircase.term() {
                    Some(_) => SampleShape::Selected { from: staircase.sample_dims() },
                    None => SampleShape::Scenario,
                };
                (samples, schedule.levels.len(), schedule.iterations)
            }
            Samples::Images { drawn: DrawnImages { images, pixels, .. }, steps } => {
                let (address, count) = (images.as_ptr() as usize, images.len() / pixels);
                (SampleShape::Images { address, count, pixels: *pixels }, 1, *steps)
            }
        };
        Ok(Shape {
            critic: plan.critic.clone(),
            pairing: plan.pairing,
            n: plan.batch,
            dims: plan.program_dims()?,
            samples,
            levels,
            per_level,
            optimizer: plan.optimizer,
            learning_rate_schedule: plan.learning_rate_schedule,
        })
    }
}

impl Needs {
    /// Returns what any of the plans needs.
    pub(super) fn from_plans(plans: &[&GpuPlan]) -> Self {
        let mut needs = Needs::default();
        for plan in plans {
            let (cost, readout) = (plan.estimator.cost(), plan.estimator.readout());
            needs.partition |= matches!(cost, Cost::MovingAverage | Cost::Clipped { .. })
                || matches!(
                    readout,
                    Readout::Nwj | Readout::DonskerVaradhan | Readout::Clipped { .. }
                );
            needs.rows |= *cost == Cost::InfoNce || readout == Readout::InfoNce;
        }
        needs
    }
}

/// Returns the critic's initial parameters as one flat buffer.
pub(super) fn initial_parameters(plan: &GpuPlan) -> Result<Vec<f32>> {
    plan.critic.initial_parameters(plan.dims(), plan.seed)
}

/// Returns the reason why a plan cannot run on the GPU, or `None` if it can.
fn unsupported(plan: &GpuPlan) -> Option<String> {
    unsupported_estimator(plan)
        .or_else(|| unsupported_critic(plan))
        .or_else(|| unsupported_scenario(plan))
        .or_else(|| too_large(plan))
}

fn unsupported_estimator(plan: &GpuPlan) -> Option<String> {
    match plan.estimator.cost() {
        Cost::FDivergence(divergence) if divergence_number(divergence).is_none() => {
            Some(format!("{} has no kernel", plan.estimator.name()))
        }
        Cost::SymmetricInfoNce => Some(format!("{} has no kernel", plan.estimator.name())),
        _ => None,
    }
}

fn unsupported_critic(plan: &GpuPlan) -> Option<String> {
    let critic = &plan.critic;
    let layers = critic.hidden.len();
    let is_conv = critic.kind == CriticKind::Conv;
    if is_conv && critic.parts > 1 {
        Some("critic conv scores the parts of a pair one by one".into())
    } else if is_conv && critic.hidden.iter().rev().skip(1).any(|channels| channels % 4 != 0) {
        Some("a convolution's channels are not a multiple of 4".into())
    } else if critic.dropout > 0.0 {
        Some("the critic has dropout".into())
    } else if layers < 2 && critic.kind != CriticKind::Separable {
        Some(format!("critic {} has a single hidden layer", critic.kind))
    } else if layers > MAX_HIDDEN_LAYERS {
        Some(format!("the critic has more than {MAX_HIDDEN_LAYERS} hidden layers"))
    } else {
        None
    }
}

fn unsupported_scenario(plan: &GpuPlan) -> Option<String> {
    let Samples::Staircase(Staircase { scenario: named, schedule, .. }) = plan.samples else {
        return None;
    };
    let levels = schedule.levels.iter().filter_map(|level| named.at(*level).ok());
    for scenario in levels {
        let Some((generator, _, x_maps, y_maps)) = scenario.generator() else {
            return Some(format!("scenario {} is drawn on the CPU", named.name));
        };
        if matches!(generator, Generator::Student { df } if df < MIN_DEGREES_OF_FREEDOM) {
            return Some(
                "tails of so few degrees of freedom do not fit into single precision".into(),
            );
        }
        if x_maps.iter().chain(y_maps).any(|map| map_number(*map).is_none()) {
            return Some(format!("scenario {} is mapped on the CPU", named.name));
        }
        if x_maps.len().max(y_maps.len()) > MAX_MAPS {
            return Some(format!("scenario {} has more than {MAX_MAPS} maps", named.name));
        }
    }
    None
}

fn too_large(plan: &GpuPlan) -> Option<String> {
    let dims = plan.program_dims().ok()?;
    let weights = match plan.critic.kind {
        CriticKind::Conv => conv_net(&plan.critic, dims).parameter_count(),
        _ => {
            let max_hidden = plan.critic.hidden.iter().copied().max()?;
            max_hidden * max_hidden.max(plan.critic.embedding).max(dims.0).max(dims.1)
        }
    };
    if weights as u64 > MAX_WEIGHTS {
        return Some("a layer may have more than 2^30 weights".into());
    }
    let n = plan.batch as u64;
    let (rows, limit) = match plan.pairing {
        Pairing::AllPairs => (n * n, MAX_PAIRS),
        _ => (2 * n, MAX_PAIRED_ROWS),
    };
    let rows = match plan.critic.kind {
        CriticKind::Conv => rows * conv_net(&plan.critic, dims).largest_image() as u64,
        _ => rows,
    };
    (rows > limit).then(|| "a step has too many pairs for its kernels".into())
}

/// Returns the network of a conv critic for inputs of these dimensions.
pub(super) fn conv_net(critic: &CriticPlan, dims: (usize, usize)) -> ConvNet {
    let channels = (dims.0 + dims.1) / (critic.side * critic.side);
    ConvNet::new(channels, critic.side, &critic.hidden, critic.activation)
}

/// The samples and the objective of a run.
pub(super) struct RunSpec<'a> {
    /// The scenario, if there is one, and the seed.
    pub(super) scenario: abi::ScenarioSpec,
    pub(super) objective: abi::ObjectiveSpec,
    /// The scenario's parameters at every level.
    pub(super) levels: Vec<[f32; 4]>,
    /// The dimensions of the critic's inputs, at most those of the program.
    pub(super) dims: (usize, usize),
    /// The columns of a term's inputs or the pixels of images, -1 for zeros; empty if inputs are
    /// the samples of a scenario.
    pub(super) columns: Vec<i32>,
    /// The images that inputs are pixels of.
    pub(super) images: &'a [u8],
}

impl<'a> RunSpec<'a> {
    /// Describes a supported plan to the kernels.
    pub(super) fn from_plan(plan: &GpuPlan<'a>) -> Result<Self> {
        let spec = RunSpec {
            scenario: abi::ScenarioSpec { seed: plan.seed, ..Default::default() },
            objective: objective_spec(plan),
            levels: vec![[0.0; 4]],
            dims: plan.dims(),
            columns: Vec::new(),
            images: &[],
        };
        match &plan.samples {
            Samples::Images { drawn, .. } => {
                let pixel = |pixel: &Option<usize>| pixel.map_or(-1, |pixel| pixel as i32);
                let columns = drawn.x.iter().chain(&drawn.y).map(pixel).collect();
                Ok(RunSpec { columns, images: drawn.images, ..spec })
            }
            Samples::Staircase(staircase) => {
                let Staircase { scenario, schedule, .. } = staircase;
                let at = |level: &Level| scenario.at(*level);
                let scenarios = schedule.levels.iter().map(at).collect::<Result<Vec<_>>>()?;
                let last = scenarios.last();
                let scenario = last.and_then(|scenario| scenario_spec(scenario, plan.seed));
                Ok(RunSpec {
                    scenario: scenario.unwrap_or(spec.scenario),
                    levels: scenarios.iter().filter_map(level_parameters).collect(),
                    columns: match staircase.term() {
                        Some((_, columns)) => padded_columns(columns, plan.program_dims()?),
                        None => Vec::new(),
                    },
                    ..spec
                })
            }
        }
    }
}

/// Returns the columns of x and y, each filled up with -1 to the dimensions of the program.
fn padded_columns(columns: &ColumnSelection, dims: (usize, usize)) -> Vec<i32> {
    let padded = |columns: &[usize], width: usize| {
        let mut padded: Vec<i32> = columns.iter().map(|column| *column as i32).collect();
        padded.resize(width, -1);
        padded
    };
    [padded(&columns.x, dims.0), padded(&columns.y, dims.1)].concat()
}

/// Returns a divergence's case in `divergence_row` (objective.cu), or `None` for a custom one.
fn divergence_number(divergence: &Divergence) -> Option<i32> {
    Some(match divergence {
        Divergence::Kl => 0,
        Divergence::Gan => 1,
        Divergence::Hellinger => 2,
        Divergence::ReverseKl => 3,
        Divergence::JensenShannon => 4,
        Divergence::Pearson => 5,
        Divergence::Neyman => 6,
        Divergence::Jeffreys => 7,
        Divergence::Alpha(_) => 8,
        Divergence::ShiftedLog => 9,
        Divergence::Custom(_) => return None,
    })
}

/// Returns a map's case in `apply_maps` and `mapped` (sample.cu), or `None` for one without a case.
fn map_number(map: Map) -> Option<i32> {
    Some(match map {
        Map::Cube => 0,
        Map::HalfCube => 1,
        Map::Asinh => 2,
        Map::NormalCdf => 3,
        Map::SwissRoll => 4,
        Map::Wiggle1 => 5,
        Map::Wiggle2 => 6,
        Map::Bimodal1 => 7,
        Map::Bimodal2 => 8,
        Map::Spiral12 => 9,
        Map::Spiral23 => 10,
        Map::Wave => return None,
    })
}

fn objective_spec(plan: &GpuPlan) -> abi::ObjectiveSpec {
    let estimator = &plan.estimator;
    let mut spec = abi::ObjectiveSpec {
        link: match estimator.link() {
            Link::Identity => 0,
            Link::LogSoftplus => 1,
            Link::InverseSquareSoftplus => 2,
        },
        tau: f32::INFINITY,
        readout_tau: f32::INFINITY,
        ..Default::default()
    };
    match estimator.cost() {
        Cost::FDivergence(divergence) => {
            // `unsupported` refuses those without a number.
            spec.divergence = divergence_number(divergence).unwrap_or_default();
            if let Divergence::Alpha(alpha) = divergence {
                spec.alpha = *alpha as f32;
            }
        }
        Cost::MovingAverage => spec.cost = 1,
        Cost::Clipped { tau } => (spec.cost, spec.tau) = (2, *tau as f32),
        // `unsupported_estimator` refuses the symmetric one.
        Cost::InfoNce | Cost::SymmetricInfoNce => spec.cost = 3,
    }
    match estimator.readout() {
        Readout::Plain => {}
        Readout::Nwj => spec.readout = 1,
        Readout::DonskerVaradhan => spec.readout = 2,
        Readout::Clipped { tau } => (spec.readout, spec.readout_tau) = (2, tau as f32),
        Readout::InfoNce => spec.readout = 3,
    }
    spec
}

fn scenario_spec(scenario: &Scenario, seed: u64) -> Option<abi::ScenarioSpec> {
    let (generator, dim, x_maps, y_maps) = scenario.generator()?;
    let numbers = |maps: &[Map]| {
        let mut numbers = [0; MAX_MAPS];
        assert!(maps.len() <= MAX_MAPS, "{} maps", maps.len());
        // `unsupported` refuses those without a number.
        let known = |map: &Map| map_number(*map).unwrap_or_default();
        numbers.iter_mut().zip(maps).for_each(|(number, map)| *number = known(map));
        numbers
    };
    let (base, pairs) = match generator {
        Generator::Gaussian { pairs, .. } => (0, pairs),
        Generator::Uniform { .. } => (1, 0),
        Generator::Student { .. } => (2, 0),
        Generator::Dense { .. } => (3, 0),
    };
    Some(abi::ScenarioSpec {
        seed,
        base,
        dim: dim as i32,
        pairs: pairs as i32,
        x_maps: x_maps.len() as i32,
        y_maps: y_maps.len() as i32,
        x_map: numbers(x_maps),
        y_map: numbers(y_maps),
        padding: 0,
    })
}

/// Returns the distribution's parameters at one level, as `sample` (sample.cu) reads them.
fn level_parameters(scenario: &Scenario) -> Option<[f32; 4]> {
    let parameters = match scenario.generator()?.0 {
        Generator::Gaussian { rho, noise, scale, .. } => [rho, noise, scale, 0.0],
        Generator::Uniform { epsilon } => [epsilon, 0.0, 0.0, 0.0],
        Generator::Student { df } => [df, 0.0, 0.0, 0.0],
        Generator::Dense { rho } => [rho.sqrt(), (1.0 - rho).sqrt(), 0.0, 0.0],
    };
    Some(parameters.map(|parameter| parameter as f32))
}
