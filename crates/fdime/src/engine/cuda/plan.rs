//! Trainings that the GPU can execute, and the data that it needs for them.

use super::abi::{self, MAX_HIDDEN_LAYERS, MAX_MAPS};
use super::program::{Needs, SampleShape, Shape, stores_pairs};
use super::table::TableShape;
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
use crate::train::{
    BatchSource, CriticLearner, LearnerPlan, LearningRateSchedule, NjeePlan, Staircase,
    TableSource, bin_count, classifiers,
};

/// The largest number of rows in a step: kernels index all pairs with 32 bits, and paired rows by
/// the threads of a warp for each.
const MAX_PAIRS: u64 = (1 << 31) - (1 << 20);
const MAX_PAIRED_ROWS: u64 = 1 << 26;
/// The largest number of weights in a layer.
const MAX_WEIGHTS: u64 = 1 << 30;
/// The smallest number of degrees of freedom of a Student distribution in single precision.
const MIN_DEGREES_OF_FREEDOM: f64 = 0.4;

/// A training on samples that the GPU draws itself. A critic is one run of a program, NJEE as many as
/// it has classifiers.
pub(super) struct GpuPlan<'a> {
    samples: Samples<'a>,
    learner: LearnerPlan,
    batch: usize,
    optimizer: AdamPlan,
    learning_rate_schedule: LearningRateSchedule,
    seed: u64,
}

enum Samples<'a> {
    Staircase(&'a Staircase),
    Images { drawn: DrawnImages<'a>, steps: usize },
    Table { source: &'a dyn TableSource, dims: (usize, usize), steps: usize },
}

impl<'a> GpuPlan<'a> {
    /// Returns the plan of a task, or the reason why the GPU cannot execute it.
    pub(super) fn new(task: &Task<'a>) -> std::result::Result<Self, String> {
        let training = task.training;
        training.check().map_err(|error| error.to_string())?;
        let (source, steps) = (task.source, task.steps);
        let samples = if let Some(staircase) = source.staircase() {
            Samples::Staircase(staircase)
        } else if let Some(drawn) = source.images() {
            Samples::Images { drawn, steps }
        } else if let Some(table) = source.table() {
            Samples::Table { source: table, dims: source.dims(), steps }
        } else {
            return Err("the samples are neither those of a scenario nor rows of a table".into());
        };
        let plan = GpuPlan {
            samples,
            learner: training.learner.clone(),
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
            Samples::Table { dims, .. } => *dims,
        }
    }

    /// Returns the table whose rows the samples are.
    pub(super) fn table(&self) -> Option<&'a dyn TableSource> {
        match self.samples {
            Samples::Table { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns the critic, its estimator and its pairing; `None` for NJEE.
    pub(super) fn critic(&self) -> Option<&CriticLearner> {
        self.learner.critic()
    }

    /// Returns the number of runs of a program that execute the plan.
    pub(super) fn runs(&self) -> usize {
        match &self.learner {
            LearnerPlan::Critic(_) => 1,
            LearnerPlan::Njee(_) => classifiers(self.dims().0).count(),
        }
    }

    /// Returns the dimensions of the program that executes the plan. All terms of a chain have the
    /// same, so that they run together; columns that a term does not have are zeros. Not so for
    /// images, because a network has as many channels as its images, and for networks whose inputs
    /// x and y share a matrix of weights.
    fn program_dims(&self) -> Result<(usize, usize)> {
        let (x_dim, y_dim) = self.dims();
        let Some(CriticLearner { critic, .. }) = self.critic() else {
            // Columns of x and y side by side.
            return Ok((x_dim - 1 + y_dim, 0));
        };
        let has_own_dims = critic.kind == CriticKind::Conv || stores_pairs(critic, false);
        match &self.samples {
            Samples::Staircase(staircase) if !has_own_dims => {
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
                let samples = match (staircase.term(), &plan.learner) {
                    (None, LearnerPlan::Critic(_)) => SampleShape::Scenario,
                    _ => SampleShape::Selected { from: staircase.sample_dims() },
                };
                (samples, schedule.levels.len(), schedule.iterations)
            }
            Samples::Images { drawn: DrawnImages { images, pixels, .. }, steps } => {
                let (address, count) = (images.as_ptr() as usize, images.len() / pixels);
                (SampleShape::Images { address, count, pixels: *pixels }, 1, *steps)
            }
            Samples::Table { steps, .. } => {
                let is_symmetric = |learner: &CriticLearner| {
                    learner.critic.kind == CriticKind::Separable
                        && *learner.estimator.cost() == Cost::SymmetricInfoNce
                };
                let blocks = plan.critic().is_some_and(is_symmetric);
                (SampleShape::Table(TableShape { blocks, ..TableShape::default() }), 1, *steps)
            }
        };
        let (critic, pairing, bins) = match &plan.learner {
            LearnerPlan::Critic(learner) => (learner.critic.clone(), learner.pairing, None),
            LearnerPlan::Njee(NjeePlan { hidden, activation }) => {
                let network = CriticPlan::new(CriticKind::Deranged, hidden);
                let network = CriticPlan { activation: *activation, ..network };
                (network, Pairing::Shift, Some(bin_count(plan.batch)))
            }
        };
        Ok(Shape {
            bins,
            critic,
            pairing,
            n: plan.batch,
            dims: plan.program_dims()?,
            samples,
            levels,
            per_level,
            optimizer: plan.optimizer,
            learning_rate_schedule: plan.learning_rate_schedule,
            custom_divergence: plan.critic().and_then(|c| custom_divergence(&c.estimator)),
        })
    }
}

impl Shape {
    /// Returns the shape of a program that only scores pairs of rows of tables.
    pub(super) fn for_scores(critic: &CriticPlan, dims: (usize, usize)) -> Self {
        // What only matters to trainings is the same for all.
        let defaults = CriticPlan::new(critic.kind, &critic.hidden);
        let critic = CriticPlan {
            dropout: defaults.dropout,
            initial_scale: defaults.initial_scale,
            zero_output: defaults.zero_output,
            ..critic.clone()
        };
        Shape {
            bins: None,
            pairing: critic.kind.default_pairing(),
            critic,
            n: 2,
            dims,
            samples: SampleShape::Table(TableShape::default()),
            levels: 1,
            per_level: 1,
            optimizer: AdamPlan::default(),
            learning_rate_schedule: LearningRateSchedule::Constant,
            custom_divergence: None,
        }
    }
}

impl Needs {
    /// Returns what any of the estimators needs.
    pub(super) fn of<'a>(estimators: impl IntoIterator<Item = &'a Estimator>) -> Self {
        let mut needs = Needs::default();
        for estimator in estimators {
            let (cost, readout) = (estimator.cost(), estimator.readout());
            needs.partition |= matches!(cost, Cost::MovingAverage | Cost::Clipped { .. })
                || matches!(
                    readout,
                    Readout::Nwj | Readout::DonskerVaradhan | Readout::Clipped { .. }
                );
            needs.rows |= matches!(cost, Cost::InfoNce | Cost::SymmetricInfoNce)
                || readout == Readout::InfoNce;
            needs.columns |= *cost == Cost::SymmetricInfoNce;
        }
        needs
    }
}

/// Returns the initial parameters of every run of a plan.
pub(super) fn initial_parameters(plan: &GpuPlan) -> Result<Vec<Vec<f32>>> {
    match &plan.learner {
        LearnerPlan::Critic(CriticLearner { critic, .. }) => {
            Ok(vec![critic.initial_parameters(plan.dims(), plan.seed)?])
        }
        LearnerPlan::Njee(njee) => Ok(njee.initial_parameters(plan.dims(), plan.batch, plan.seed)),
    }
}

/// Returns the reason why a plan cannot run on the GPU, or `None` if it can.
fn unsupported(plan: &GpuPlan) -> Option<String> {
    let of_learner = match &plan.learner {
        LearnerPlan::Critic(learner) => unsupported_estimator(&learner.estimator)
            .or_else(|| unsupported_critic(&learner.critic, plan.table().is_some())),
        LearnerPlan::Njee(njee) => unsupported_classifiers(plan, njee),
    };
    of_learner.or_else(|| unsupported_scenario(plan)).or_else(|| too_large(plan))
}

fn unsupported_classifiers(plan: &GpuPlan, njee: &NjeePlan) -> Option<String> {
    if !matches!(plan.samples, Samples::Staircase(staircase) if staircase.term().is_none()) {
        Some("njee's samples are not those of a scenario".into())
    } else if njee.hidden.len() > MAX_HIDDEN_LAYERS {
        Some(format!("the classifiers have more than {MAX_HIDDEN_LAYERS} hidden layers"))
    } else {
        None
    }
}

fn unsupported_estimator(estimator: &Estimator) -> Option<String> {
    let is_custom = matches!(estimator.cost(), Cost::FDivergence(Divergence::Custom(_)));
    (is_custom && custom_divergence(estimator).is_none())
        .then(|| format!("{} is no short expression in u", estimator.name()))
}

/// Returns the source of the estimator's divergence if that is a custom one that can be compiled.
fn custom_divergence(estimator: &Estimator) -> Option<String> {
    match estimator.cost() {
        Cost::FDivergence(Divergence::Custom(custom)) => custom.kernel_source(),
        _ => None,
    }
}

fn unsupported_critic(critic: &CriticPlan, is_table: bool) -> Option<String> {
    let layers = critic.hidden.len();
    let is_conv = critic.kind == CriticKind::Conv;
    if is_conv && is_table {
        Some("critic conv does not score rows of tables".into())
    } else if is_conv && critic.parts > 1 {
        Some("critic conv scores the parts of a pair one by one".into())
    } else if is_conv && critic.hidden.iter().rev().skip(1).any(|channels| channels % 4 != 0) {
        Some("a convolution's channels are not a multiple of 4".into())
    } else if is_conv && critic.dropout > 0.0 {
        Some("the convolutions have dropout".into())
    } else if layers < 2 && is_conv {
        Some("critic conv has a single hidden layer".into())
    } else if layers > MAX_HIDDEN_LAYERS {
        Some(format!("the critic has more than {MAX_HIDDEN_LAYERS} hidden layers"))
    } else {
        None
    }
}

fn unsupported_scenario(plan: &GpuPlan) -> Option<String> {
    let Samples::Staircase(Staircase { scenario: named, schedule, .. }) = &plan.samples else {
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
    let Shape { bins, critic, pairing, dims, .. } = Shape::from_plan(plan).ok()?;
    let weights = match critic.kind {
        CriticKind::Conv => conv_net(&critic, dims).parameter_count(),
        _ => {
            let outputs = bins.unwrap_or(critic.embedding);
            let max_hidden = critic.hidden.iter().copied().max()?;
            max_hidden * max_hidden.max(outputs).max(dims.0).max(dims.1)
        }
    };
    if weights as u64 > MAX_WEIGHTS {
        return Some("a layer may have more than 2^30 weights".into());
    }
    let n = plan.batch as u64;
    let (rows, limit) = match pairing {
        Pairing::AllPairs => (n * n, MAX_PAIRS),
        _ => (2 * n, MAX_PAIRED_ROWS),
    };
    let rows = match critic.kind {
        CriticKind::Conv => rows * conv_net(&critic, dims).largest_image() as u64,
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
    /// What a classifier predicts.
    pub(super) classifier: abi::ClassifierSpec,
}

impl RunSpec<'static> {
    /// Describes a run that only scores pairs.
    pub(super) fn for_scores(dims: (usize, usize)) -> Self {
        RunSpec::without_samples(dims, abi::ObjectiveSpec::default(), 0)
    }

    /// Describes the training of a plan on the rows of a table.
    pub(super) fn for_table(plan: &GpuPlan) -> Self {
        // The log-likelihood of classifiers is summed up like the objective of a plain readout.
        let objective = plan.critic().map(|critic| objective_spec(&critic.estimator));
        RunSpec::without_samples(plan.dims(), objective.unwrap_or_default(), plan.seed)
    }

    /// Describes a run whose samples are not drawn from a scenario or images.
    fn without_samples(dims: (usize, usize), objective: abi::ObjectiveSpec, seed: u64) -> Self {
        RunSpec {
            scenario: abi::ScenarioSpec { seed, ..Default::default() },
            objective,
            levels: vec![[0.0; 4]],
            dims,
            columns: Vec::new(),
            images: &[],
            classifier: abi::ClassifierSpec::default(),
        }
    }
}

impl<'a> RunSpec<'a> {
    /// Describes every run of a supported plan to the kernels.
    pub(super) fn of_plan(plan: &GpuPlan<'a>) -> Result<Vec<Self>> {
        match &plan.learner {
            LearnerPlan::Critic(_) => Ok(vec![RunSpec::from_plan(plan)?]),
            LearnerPlan::Njee(_) => {
                let of = |(component, uses_y)| RunSpec::of_classifier(plan, component, uses_y);
                classifiers(plan.dims().0).map(of).collect()
            }
        }
    }

    /// Describes the classifier that predicts a component of x from those before it.
    fn of_classifier(plan: &GpuPlan<'a>, component: usize, uses_y: bool) -> Result<Self> {
        let (x_dim, y_dim) = plan.dims();
        let mut columns: Vec<i32> = (0..component as i32).collect();
        if uses_y {
            columns.extend(x_dim as i32..(x_dim + y_dim) as i32);
        }
        let dims = (columns.len(), 0);
        columns.resize(plan.program_dims()?.0, -1);
        let classifier = abi::ClassifierSpec {
            component: component as i32,
            sign: if uses_y { 1.0 } else { -1.0 },
            adds_entropy: i32::from(component == 0),
            padding: 0,
        };
        Ok(RunSpec { dims, columns, classifier, ..RunSpec::from_plan(plan)? })
    }

    /// Describes a plan of one run.
    fn from_plan(plan: &GpuPlan<'a>) -> Result<Self> {
        let spec = RunSpec::for_table(plan);
        match &plan.samples {
            Samples::Table { .. } => Ok(spec),
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

/// Returns a divergence's case in `divergence_row` (objective.cu).
fn divergence_number(divergence: &Divergence) -> i32 {
    match divergence {
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
        Divergence::Custom(_) => 10,
    }
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

fn objective_spec(estimator: &Estimator) -> abi::ObjectiveSpec {
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
            spec.divergence = divergence_number(divergence);
            if let Divergence::Alpha(alpha) = divergence {
                spec.alpha = *alpha as f32;
            }
        }
        Cost::MovingAverage => spec.cost = 1,
        Cost::Clipped { tau } => (spec.cost, spec.tau) = (2, *tau as f32),
        Cost::InfoNce => spec.cost = 3,
        Cost::SymmetricInfoNce => spec.cost = 4,
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
