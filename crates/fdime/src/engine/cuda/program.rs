//! Plans of equal shape as one program: the layout of the device's memory, and the kernels of a
//! step in their order.

use super::abi::{self, Buffer, MAX_SECTIONS};
use super::kernels::{Precision, Variant};
use super::memory::{Arena, DeviceSlice};
use super::network::{Network, Step};
use super::table::{TableShape, Tables};
use crate::critic::{CriticKind, CriticPlan};
use crate::nn::{Activation, AdamPlan};
use crate::pairing::Pairing;
use crate::train::LearningRateSchedule;
use bytemuck::NoUninit;

/// The properties that plans must share to run as one program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// The number of bins that classifiers predict; `None` for critics. Of `critic`, they have only
    /// the hidden layers.
    pub(super) bins: Option<usize>,
    pub(super) critic: CriticPlan,
    pub(super) pairing: Pairing,
    pub(super) n: usize,
    /// The largest dimensions of the critics' inputs.
    pub(super) dims: (usize, usize),
    pub(super) samples: SampleShape,
    pub(super) levels: usize,
    pub(super) per_level: usize,
    pub(super) optimizer: AdamPlan,
    pub(super) learning_rate_schedule: LearningRateSchedule,
    /// The source of a custom divergence, which is compiled into the kernels.
    pub(super) custom_divergence: Option<String>,
}

/// Where the inputs of a step come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SampleShape {
    /// Samples of a scenario.
    Scenario,
    /// Columns of samples of these dimensions.
    Selected { from: (usize, usize) },
    /// Pixels of images: where these lie in the host's memory, their number and their pixels.
    Images { address: usize, count: usize, pixels: usize },
    /// Rows of tables.
    Table(TableShape),
}

impl Shape {
    /// Returns the variant of the kernels that executes programs of this shape.
    pub(super) fn variant(&self) -> Variant {
        let custom_divergence = self.custom_divergence.clone();
        Variant { activation: self.critic.activation, custom_divergence }
    }

    /// Returns the width of the factors of the reference.
    pub(super) fn reference_width(&self) -> usize {
        match self.samples {
            SampleShape::Table(table) => table.capacity.reference_width,
            _ => 0,
        }
    }

    /// Returns whether the inputs of every pair are stored.
    pub(super) fn stores_pairs(&self) -> bool {
        stores_pairs(&self.critic, matches!(self.samples, SampleShape::Table(_)))
    }
}

/// Returns whether a critic is a network over pairs for which the inputs of every pair are stored.
pub(super) fn stores_pairs(critic: &CriticPlan, is_table: bool) -> bool {
    let CriticPlan { kind, ref hidden, dropout, .. } = *critic;
    matches!(kind, CriticKind::Joint | CriticKind::Deranged)
        && (is_table || dropout > 0.0 || hidden.len() == 1)
}

/// The sums that the objectives of a program's plans need before the gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Needs {
    /// Partition functions over the whole batch.
    pub(super) partition: bool,
    /// Sums over all ys for every x.
    pub(super) rows: bool,
    /// Sums over all xs for every y.
    pub(super) columns: bool,
}

/// How the work is divided among the multiprocessors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub(super) precision: Precision,
    pub(super) runs: usize,
    pub(super) multiprocessors: usize,
    /// The maximum size of a thread block's shared memory, in bytes.
    pub(super) shared_limit: usize,
    /// The number of steps captured in one graph.
    pub(super) steps: usize,
    /// Whether large tiles use Hopper's `wgmma` instruction (wgmma.cuh).
    pub(super) wgmma: bool,
}

/// The two tile sizes of the matrix kernels (product.cuh).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tile {
    Large,
    Small,
}

impl Tile {
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Tile::Large => "large",
            Tile::Small => "small",
        }
    }

    pub(super) fn rows(self) -> usize {
        match self {
            Tile::Large => 128,
            Tile::Small => 32,
        }
    }

    pub(super) fn columns(self, precision: Precision) -> usize {
        match (self, precision) {
            (Tile::Large, Precision::Fp32) => 128,
            (Tile::Large, _) => 256,
            (Tile::Small, _) => 64,
        }
    }

    pub(super) fn depth(self) -> usize {
        match self {
            Tile::Large => 16,
            Tile::Small => 64,
        }
    }

    fn threads(self) -> u32 {
        match self {
            Tile::Large => 256,
            Tile::Small => 128,
        }
    }

    /// Returns the number of thread blocks that a multiprocessor runs at the same time.
    fn resident(self) -> usize {
        match self {
            Tile::Large => 1,
            Tile::Small => 2,
        }
    }

    /// Returns the bytes of shared memory. It holds first the stages of the operands and then, in
    /// the same place, the sums over a tile of pairs: 16 numbers for every column and row of warps.
    fn shared(self, tiling: &Tiling) -> u32 {
        let columns = self.columns(tiling.precision);
        let sums = |warp_rows: usize| warp_rows * 16 * columns * 4;
        if self == Tile::Large && tiling.wgmma {
            return sums(8) as u32;
        }
        let number = if tiling.precision == Precision::Bf16 { 2 } else { 4 };
        let stage = 16 * number * (self.rows() + columns) + 2 * 64;
        (2 * self.depth() / 16 * stage).max(sums(2)) as u32
    }
}

/// A kernel with its arguments.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) kernel: String,
    pub(super) grid: (usize, usize, usize),
    pub(super) threads: u32,
    pub(super) shared: u32,
    /// The bytes of the kernel's only parameter, aligned to 8 bytes.
    pub(super) arguments: Vec<u64>,
}

impl Launch {
    pub(super) fn new<T: NoUninit>(
        kernel: impl Into<String>,
        grid: (usize, usize, usize),
        threads: u32,
        shared: u32,
        arguments: &T,
    ) -> Self {
        const { assert!(align_of::<T>() <= 8) };
        let mut words = vec![0u64; size_of::<T>().div_ceil(8)];
        let bytes = bytemuck::bytes_of(arguments);
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Launch { kernel: kernel.into(), grid, threads, shared, arguments: words }
    }
}

/// A matrix of parameters on the device with padded rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParameterBlock {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The leading dimension: the distance from one row to the next.
    pub(super) ld: usize,
    /// The index of its first parameter among a run's parameters.
    pub(super) at: usize,
    /// Its gradient, as pieces that are added up.
    pub(super) gradient: Buffer,
    pub(super) pieces: usize,
    pub(super) piece_stride: usize,
    /// Packed copies for the products with its rows and with its columns, if the program uses
    /// `wgmma` (wgmma.cuh).
    pub(super) forward: Buffer,
    pub(super) backward: Buffer,
}

/// The layout and the kernels of a program, without the memory itself.
pub(super) struct Program {
    pub(super) shape: Shape,
    pub(super) tiling: Tiling,
    pub(super) needs: Needs,
    network: Network,
    /// The end of its memory.
    pub(super) end: u64,
    /// x and y of a step.
    pub(super) data: (Buffer, Buffer),
    pub(super) ld: (usize, usize),
    samples: Samples,
    pub(super) parameters: Buffer,
    pub(super) moments: Buffer,
    /// The tables that samples are rows of.
    pub(super) tables: Option<Tables>,
    /// Partners of all captured steps and runs, where they are drawn at random.
    pub(super) partner: Option<DeviceSlice<u32>>,
    pub(super) vectors: Vectors,
    pub(super) objective: abi::ObjectiveTask,
}

/// What the inputs of a step are selected from. `columns` are runs x columns of the program's x and
/// y.
#[derive(Clone, Copy)]
enum Samples {
    /// The inputs are the samples of a scenario.
    Scenario,
    Selected {
        dims: (usize, usize),
        data: (Buffer, Buffer),
        columns: DeviceSlice<i32>,
    },
    Images {
        images: DeviceSlice<u8>,
        pixels: usize,
        columns: DeviceSlice<i32>,
    },
    Table,
}

impl Samples {
    fn new(shape: &Shape, runs: usize, arena: &mut Arena) -> Self {
        let (n, columns) = (shape.n, runs * (shape.dims.0 + shape.dims.1));
        match shape.samples {
            SampleShape::Scenario => Samples::Scenario,
            SampleShape::Selected { from } => Samples::Selected {
                dims: from,
                data: (
                    arena.floats(n * padded(from.0), runs),
                    arena.floats(n * padded(from.1), runs),
                ),
                columns: arena.slice(columns),
            },
            SampleShape::Images { count, pixels, .. } => Samples::Images {
                images: arena.slice(count * pixels),
                pixels,
                columns: arena.slice(columns),
            },
            SampleShape::Table(_) => Samples::Table,
        }
    }
}

/// Values for every run, and the number of steps made.
pub(super) struct Vectors {
    /// The number of iterations before the captured ones.
    pub(super) base: DeviceSlice<u64>,
    pub(super) scenario_specs: DeviceSlice<abi::ScenarioSpec>,
    /// Runs x levels.
    pub(super) levels: DeviceSlice<[f32; 4]>,
    pub(super) objective_specs: DeviceSlice<abi::ObjectiveSpec>,
    /// MINE's moving average.
    pub(super) average: DeviceSlice<f64>,
    /// Runs x 2: whether a parameter was not finite after an even or odd step.
    broken: DeviceSlice<u32>,
    /// Steps x runs x 2: value and estimate.
    pub(super) trace: DeviceSlice<f64>,
    pub(super) bias_gradient: DeviceSlice<f64>,
}

impl Vectors {
    fn new(levels: usize, tiling: &Tiling, arena: &mut Arena) -> Self {
        let runs = tiling.runs;
        Vectors {
            base: arena.slice(1),
            scenario_specs: arena.slice(runs),
            levels: arena.slice(levels * runs),
            objective_specs: arena.slice(runs),
            average: arena.slice(runs),
            broken: arena.slice(2 * runs),
            trace: arena.slice(2 * tiling.steps * runs),
            bias_gradient: arena.slice(runs),
        }
    }
}

/// Rounds up to a multiple of 4, so that rows can be read four numbers at a time.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(4)
}

const OBJECTIVE_THREADS: usize = 256;

impl Program {
    /// Lays out the program in memory that begins at `start`.
    pub(super) fn new(shape: &Shape, needs: Needs, tiling: Tiling, start: u64) -> Self {
        let arena = &mut Arena { next: start };
        let (n, runs) = (shape.n, tiling.runs);
        let ld = (padded(shape.dims.0), padded(shape.dims.1));
        let data = (arena.floats(n * ld.0, runs), arena.floats(n * ld.1, runs));
        let samples = Samples::new(shape, runs, arena);
        let random = matches!(shape.pairing, Pairing::Derangement | Pairing::Permutation);
        let partner = random.then(|| arena.slice(tiling.steps * runs * 2 * n));
        let network = Network::new(shape, &tiling, arena);
        let parameters = arena.floats(network.parameter_size(), runs);
        let moments = arena.floats(2 * network.parameter_count(), runs);
        let row_log_sums = arena.floats(if needs.rows { n } else { 1 }, runs);
        let column_log_sums = arena.floats(if needs.columns { n } else { 1 }, runs);
        let vectors = Vectors::new(shape.levels, &tiling, arena);
        let rows = network.score_rows();
        let blocks = match &network {
            Network::Classifier(network) => network.objective_blocks(),
            _ => (rows / (4 * OBJECTIVE_THREADS)).clamp(1, 2 * tiling.multiprocessors),
        };
        let score_bias = network.score_bias().map(|at| offset(parameters, at));
        let objective = abi::ObjectiveTask {
            pairs: network.pairs(),
            scores: network.scores(),
            score_bias: score_bias.unwrap_or_default(),
            gradient: network.score_gradient(),
            row_log_sums,
            column_log_sums,
            specs: vectors.objective_specs.address(),
            partition: arena.slice::<f64>(4 * blocks * runs).address(),
            sums: arena.slice::<f64>(4 * blocks * runs).address(),
            average: vectors.average.address(),
            broken: vectors.broken.address(),
            bias_gradient: vectors.bias_gradient.address(),
            trace: vectors.trace.address(),
            score_parts: network.score_parts() as i32,
            blocks: blocks as i32,
            gradient_scale: match shape.critic.activation {
                Activation::Relu if shape.critic.dropout > 0.0 => dropped_and_scale(shape).1,
                _ => 1.0,
            },
            padding: 0,
        };
        let tables = match shape.samples {
            SampleShape::Table(table) => {
                Some(Tables::new(table, shape.dims, &network, runs, arena))
            }
            _ => None,
        };
        let (shape, end) = (shape.clone(), arena.next);
        Program {
            shape,
            tiling,
            needs,
            network,
            end,
            data,
            ld,
            samples,
            tables,
            parameters,
            moments,
            partner,
            vectors,
            objective,
        }
    }

    /// Returns the parameter blocks in the order of the flat buffer of [`Critic::parameters`].
    ///
    /// [`Critic::parameters`]: crate::critic::Critic::parameters
    pub(super) fn blocks(&self) -> &[ParameterBlock] {
        self.network.blocks()
    }

    /// Returns the columns of the runs' inputs, if they are selected.
    pub(super) fn columns(&self) -> Option<DeviceSlice<i32>> {
        match self.samples {
            Samples::Scenario | Samples::Table => None,
            Samples::Selected { columns, .. } | Samples::Images { columns, .. } => Some(columns),
        }
    }

    /// Returns the images that inputs are pixels of.
    pub(super) fn images(&self) -> Option<DeviceSlice<u8>> {
        match self.samples {
            Samples::Images { images, .. } => Some(images),
            _ => None,
        }
    }

    /// Returns the index of the score's bias, the last parameter of the flat buffer, if the critic
    /// has one.
    pub(super) fn score_bias(&self) -> Option<usize> {
        self.network.score_bias()
    }

    /// Returns the number of parameters of a run, without padding.
    pub(super) fn parameter_count(&self) -> usize {
        self.network.parameter_count()
    }

    /// Returns the approximate number of multiply-adds in a step of all runs.
    pub(super) fn multiply_adds(&self) -> f64 {
        self.network.multiply_adds() * self.tiling.runs as f64
    }

    /// Draws the partners of all captured steps. Returns `None` if they are not random.
    pub(super) fn draw_partners(&self) -> Option<Launch> {
        let partner = self.partner?;
        let n = self.shape.n;
        let in_shared = 4 * n <= self.tiling.shared_limit;
        let task = abi::PartnerTask {
            partner: partner.address(),
            specs: self.vectors.scenario_specs.address(),
            base: self.vectors.base.address(),
            n: n as i32,
            runs: self.tiling.runs as i32,
            deranged: i32::from(self.shape.pairing == Pairing::Derangement),
            in_shared: i32::from(in_shared),
        };
        let shared = if in_shared { 4 * n } else { 0 };
        let grid = (self.tiling.steps * self.tiling.runs, 1, 1);
        Some(Launch::new("partners_of_steps", grid, 32, shared as u32, &task))
    }

    /// Returns the kernels that draw the data of captured step `step`.
    pub(super) fn draw_data(&self, step: usize) -> Vec<Launch> {
        let mut launches = self.draw_rows(step);
        if self.tables.is_none() {
            launches.extend(self.pairs_of_samples(step));
        }
        launches
    }

    fn draw_rows(&self, step: usize) -> Vec<Launch> {
        match self.samples {
            Samples::Table => self.draw_from_tables(step).into_iter().collect(),
            Samples::Scenario => vec![self.draw_samples(step, self.data, self.ld)],
            Samples::Selected { dims, data, columns } => {
                let ld = (padded(dims.0), padded(dims.1));
                let select = self.select_columns(dims, data, columns);
                vec![self.draw_samples(step, data, ld), select]
            }
            Samples::Images { images, pixels, columns } => {
                vec![self.draw_images(step, images, pixels, columns)]
            }
        }
    }

    fn draw_images(
        &self,
        step: usize,
        images: DeviceSlice<u8>,
        pixels: usize,
        columns: DeviceSlice<i32>,
    ) -> Launch {
        let task = abi::ImageTask {
            x: self.data.0,
            y: self.data.1,
            specs: self.vectors.scenario_specs.address(),
            base: self.vectors.base.address(),
            images: images.address(),
            columns: columns.address(),
            step: step as u32,
            n: self.shape.n as i32,
            count: (images.len() / pixels) as i32,
            pixels: pixels as i32,
            x_dim: self.shape.dims.0 as i32,
            y_dim: self.shape.dims.1 as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
        };
        self.over_rows("draw_images", &task)
    }

    /// Returns a kernel with a warp for each row of the data.
    fn over_rows<T: NoUninit>(&self, kernel: &str, task: &T) -> Launch {
        Launch::new(kernel, (self.shape.n.div_ceil(4), 1, self.tiling.runs), 128, 0, task)
    }

    fn select_columns(
        &self,
        dims: (usize, usize),
        data: (Buffer, Buffer),
        columns: DeviceSlice<i32>,
    ) -> Launch {
        let ld = (padded(dims.0), padded(dims.1));
        let select = abi::SelectTask {
            all_x: data.0,
            all_y: data.1,
            x: self.data.0,
            y: self.data.1,
            columns: columns.address(),
            n: self.shape.n as i32,
            all_x_dim: dims.0 as i32,
            all_ld_x: ld.0 as i32,
            all_ld_y: ld.1 as i32,
            x_dim: self.shape.dims.0 as i32,
            y_dim: self.shape.dims.1 as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
        };
        self.over_rows("select_columns", &select)
    }

    fn draw_samples(&self, step: usize, data: (Buffer, Buffer), ld: (usize, usize)) -> Launch {
        let n = self.shape.n;
        let task = abi::SampleTask {
            x: data.0,
            y: data.1,
            specs: self.vectors.scenario_specs.address(),
            levels: self.vectors.levels.address(),
            base: self.vectors.base.address(),
            step: step as u32,
            n: n as i32,
            ld_x: ld.0 as i32,
            ld_y: ld.1 as i32,
            level_count: self.shape.levels as i32,
            per_level: self.shape.per_level as i32,
        };
        self.over_rows("sample", &task)
    }

    /// Returns the kernels of captured step `step`, which work on the data in memory: forward
    /// pass, objective, backward pass and update.
    pub(super) fn train(&self, step: usize) -> Vec<Launch> {
        let pairs = self.pairs(step);
        let mut launches = Vec::new();
        let parameter = |at: usize| offset(self.parameters, at);
        let dropout = self.dropout(step);
        let inputs = Step { data: self.data, pairs, parameter: &parameter, dropout };
        self.network.forward(inputs, &mut launches);
        let objective = abi::ObjectiveTask { pairs, ..self.objective };
        match &self.network {
            Network::Classifier(network) => {
                let (x, ld_x) = self.samples_of_x();
                launches.extend(network.objective(x, ld_x, objective.sums));
            }
            _ => self.critic_objective(objective, &mut launches),
        }
        self.network.backward(inputs, &mut launches);
        launches.push(self.update("adam", step, objective));
        launches
    }

    /// Adds the kernels that compute a critic's objective and the gradient of its scores.
    fn critic_objective(&self, objective: abi::ObjectiveTask, launches: &mut Vec<Launch>) {
        let (n, blocks) = (self.shape.n, objective.blocks as usize);
        let mut observe = |kernel: &str, blocks: usize| {
            let grid = (blocks, 1, self.tiling.runs);
            launches.push(Launch::new(kernel, grid, OBJECTIVE_THREADS as u32, 0, &objective));
        };
        if self.needs.partition {
            observe("observe_partition", blocks);
        }
        if self.needs.rows {
            observe("observe_rows", n.div_ceil(OBJECTIVE_THREADS / 32));
        }
        if self.needs.columns {
            observe("observe_columns", n.div_ceil(32));
        }
        observe("score_gradients", blocks);
    }

    /// Returns where the samples are that inputs are selected from, and the kernel that selects them.
    pub(super) fn selected_samples(&self) -> Option<((Buffer, Buffer), Launch)> {
        match self.samples {
            Samples::Selected { dims, data, columns } => {
                Some((data, self.select_columns(dims, data, columns)))
            }
            _ => None,
        }
    }

    /// Returns all components of x, of which the inputs may be a part, and the length of their rows.
    fn samples_of_x(&self) -> (Buffer, usize) {
        match self.samples {
            Samples::Selected { dims, data, .. } => (data.0, padded(dims.0)),
            _ => (self.data.0, self.ld.0),
        }
    }

    /// Returns the pairs of captured step `step`.
    pub(super) fn pairs(&self, step: usize) -> abi::Pairs {
        let (n, runs) = (self.shape.n, self.tiling.runs);
        let mut pairs = self.network.pairs();
        if let Some(partner) = self.partner {
            pairs.partner = partner.part(2 * n * step * runs..partner.len()).address();
            pairs.partner_stride = 2 * n as u64;
        }
        pairs
    }

    pub(super) fn dropout(&self, step: usize) -> abi::Dropout {
        if self.shape.critic.dropout == 0.0 {
            return abi::Dropout::default();
        }
        let (dropped, scale) = dropped_and_scale(&self.shape);
        abi::Dropout {
            specs: self.vectors.scenario_specs.address(),
            base: self.vectors.base.address(),
            step: step as u32,
            layer: 0,
            dropped,
            scale,
        }
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Makes the packed copies of the initial parameters.
    pub(super) fn pack(&self) -> Launch {
        self.update("pack_parameters", 0, self.objective)
    }

    fn update(&self, kernel: &str, step: usize, objective: abi::ObjectiveTask) -> Launch {
        let task = abi::AdamTask {
            parameters: self.parameters,
            moments: self.moments,
            count: self.parameter_count() as u64,
            sections: self.blocks().len() as i32,
            step: step as u32,
            bias_at: self.score_bias().unwrap_or(0) as u64,
            base: self.vectors.base.address(),
            rates: self.adam_rates(),
            has_score_bias: i32::from(self.score_bias().is_some()),
            padding: 0,
            objective,
            table: self.sections(),
        };
        let count = self.parameter_count() - usize::from(self.score_bias().is_some());
        // The last block ends the step: it writes the trace and updates the score's bias.
        Launch::new(kernel, (count.div_ceil(256) + 1, self.tiling.runs, 1), 256, 0, &task)
    }

    pub(super) fn adam_rates(&self) -> abi::AdamRates {
        let AdamPlan { learning_rate, beta1, beta2, epsilon, decay } = self.shape.optimizer;
        let total = match self.shape.learning_rate_schedule {
            LearningRateSchedule::Constant => 0.0,
            LearningRateSchedule::WarmUpAndCosine => {
                (self.shape.levels * self.shape.per_level) as f64
            }
        };
        abi::AdamRates {
            learning_rate: learning_rate as f32,
            total_steps: total as f32,
            warm_up_steps: (LearningRateSchedule::WARM_UP * total) as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            ln_beta1: beta1.ln() as f32,
            ln_beta2: beta2.ln() as f32,
            epsilon: epsilon as f32,
            decay: decay as f32,
            padding: 0,
        }
    }

    /// Returns the parameter blocks as the kernels read them.
    fn sections(&self) -> [abi::Section; MAX_SECTIONS] {
        let blocks = self.blocks();
        assert!(blocks.len() <= MAX_SECTIONS, "{} parameter blocks", blocks.len());
        let mut table = [abi::Section::default(); MAX_SECTIONS];
        let mut first = 0;
        for (section, block) in table.iter_mut().zip(blocks) {
            *section = abi::Section {
                first,
                parameters: block.at as u64,
                gradient: block.gradient,
                forward: block.forward,
                backward: block.backward,
                rows: block.rows as i32,
                columns: block.columns as i32,
                ld: block.ld as i32,
                pieces: block.pieces as i32,
                piece_stride: block.piece_stride as u64,
            };
            first += (block.rows * block.columns) as u64;
        }
        table
    }

    /// Adds `steps` to the number of iterations made.
    pub(super) fn advance(&self, steps: usize) -> Launch {
        let base = self.vectors.base.address();
        let task = abi::AdvanceTask { base, steps: steps as u32, padding: 0 };
        Launch::new("advance", (1, 1, 1), 1, 0, &task)
    }
}

/// Returns how many of 256 activations are dropped, and the factor of the others.
fn dropped_and_scale(shape: &Shape) -> (u32, f32) {
    let dropped = (256.0 * shape.critic.dropout).round().clamp(0.0, 255.0) as u32;
    (dropped, 256.0 / (256 - dropped) as f32)
}

/// Returns every run's numbers from `at` on. A buffer without memory stays one.
pub(super) fn offset(buffer: Buffer, at: usize) -> Buffer {
    Buffer { data: buffer.data + 4 * at as u64, ..buffer }
}

impl Tiling {
    /// Returns large tiles if they fill the device, and small ones otherwise.
    pub(super) fn tile(&self, rows: usize, columns: usize, roles: usize) -> Tile {
        let large = Tile::Large;
        let blocks = rows.div_ceil(large.rows()) * columns.div_ceil(large.columns(self.precision));
        if 4 * blocks * roles * self.runs >= 3 * self.multiprocessors {
            Tile::Large
        } else {
            Tile::Small
        }
    }

    /// Returns the number of pieces into which a sum over `depth` rows is split, so that the
    /// product fills the device.
    pub(super) fn pieces(
        &self,
        tile: Tile,
        (rows, columns): (usize, usize),
        depth: usize,
        roles: usize,
    ) -> usize {
        let blocks = rows.div_ceil(tile.rows()) * columns.div_ceil(tile.columns(self.precision));
        let wanted = self.multiprocessors * tile.resident() / (blocks * roles * self.runs);
        wanted.clamp(1, depth.div_ceil(tile.depth()))
    }

    /// Returns the launch of a matrix kernel with rows x columns of output, for all runs and roles.
    pub(super) fn product<T: NoUninit>(
        &self,
        kernel: &str,
        tile: Tile,
        (rows, columns): (usize, usize),
        roles: usize,
        task: &T,
    ) -> Launch {
        let grid = (
            rows.div_ceil(tile.rows()),
            columns.div_ceil(tile.columns(self.precision)),
            self.runs * roles,
        );
        let (threads, shared) = (tile.threads(), tile.shared(self));
        Launch::new(format!("{kernel}_{}", tile.suffix()), grid, threads, shared, task)
    }

    /// Returns the launch of a weight gradient: a product whose depth is split into pieces.
    pub(super) fn weight_gradient(
        &self,
        kernel: &str,
        tile: Tile,
        (rows, columns): (usize, usize),
        task: &abi::WeightGradientTask,
    ) -> Launch {
        let roles = task.grid.roles as usize;
        let mut launch = self.product(kernel, tile, (rows, columns), roles, task);
        let pieces = task.roles.iter().map(|role| role.pieces).max().unwrap_or(1);
        launch.grid = (launch.grid.0 * launch.grid.1, pieces as usize, launch.grid.2);
        launch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critic::CriticKind;
    use crate::engine::cuda::table::Capacity;
    use crate::nn::Mlp;

    /// Returns programs of every critic and pairing, small and large, with and without `wgmma`.
    fn programs(start: u64) -> Vec<Program> {
        let mut programs = Vec::new();
        for kind in CriticKind::ALL {
            for pairing in Pairing::ALL {
                if kind.check_pairing(pairing).is_err() {
                    continue;
                }
                for (n, runs, precision) in [
                    (2, 1, Precision::Fp32),
                    (37, 5, Precision::Bf16),
                    (700, 3, Precision::Tf32),
                    (5000, 1, Precision::Tf32),
                ] {
                    let samples = match n {
                        2 if kind != CriticKind::Conv => table(kind),
                        37 => SampleShape::Selected { from: (4, 4) },
                        700 => SampleShape::Images { address: 0, count: 9, pixels: 25 },
                        _ => SampleShape::Scenario,
                    };
                    let is_pair_network = matches!(kind, CriticKind::Joint | CriticKind::Deranged);
                    let mut critic = CriticPlan::new(kind, &[300, 40, 256]);
                    critic.side = 5;
                    match n {
                        2 if is_pair_network => critic.hidden.truncate(1),
                        37 if matches!(kind, CriticKind::Deranged | CriticKind::Separable) => {
                            critic.dropout = 0.1;
                        }
                        _ => {}
                    }
                    let shape = Shape {
                        bins: None,
                        critic,
                        pairing,
                        n,
                        dims: (50, 25),
                        samples,
                        levels: 2,
                        per_level: 10,
                        optimizer: AdamPlan::default(),
                        learning_rate_schedule: LearningRateSchedule::Constant,
                        custom_divergence: None,
                    };
                    let wgmma = precision == Precision::Tf32;
                    let (multiprocessors, shared_limit) = (132, 100_000);
                    let tiling =
                        Tiling { precision, runs, multiprocessors, shared_limit, steps: 3, wgmma };
                    let all_pairs = pairing == Pairing::AllPairs;
                    let needs = Needs { partition: true, rows: all_pairs, columns: all_pairs };
                    programs.push(Program::new(&shape, needs, tiling, start));
                    if pairing == Pairing::Shift && kind == CriticKind::Deranged {
                        let samples = SampleShape::Selected { from: (30, 25) };
                        let critic = CriticPlan::new(kind, &[300, 40]);
                        let shape =
                            Shape { bins: Some(n - 1), critic, dims: (54, 0), samples, ..shape };
                        programs.push(Program::new(&shape, Needs::default(), tiling, start));
                    }
                }
            }
        }
        programs
    }

    /// Returns tables of 40 rows. Those of the separable critic have checks by blocks.
    fn table(kind: CriticKind) -> SampleShape {
        let capacity = Capacity {
            reference_width: 3,
            rows: 40,
            listed: 17,
            all_listed: 20,
            held_out: 8,
            checks: 2,
        };
        SampleShape::Table(TableShape { blocks: kind == CriticKind::Separable, capacity })
    }

    fn launches(program: &Program) -> Vec<Launch> {
        let mut launches: Vec<Launch> = program.draw_partners().into_iter().collect();
        launches.extend([program.pack(), program.advance(3)]);
        launches.extend(program.draw_data(2));
        launches.extend(program.train(2));
        launches.extend(program.check(30));
        launches.extend(program.score_listed());
        launches.extend(program.select_parameters());
        launches
    }

    /// A program laid out from 0 measures the memory it needs; laid out anywhere else, all its
    /// addresses lie within that much memory.
    #[test]
    fn addresses_stay_within_the_memory() {
        // So high that no two adjacent 32-bit numbers look like an address.
        let start = 1u64 << 60;
        for (measured, laid_out) in programs(0).iter().zip(programs(start)) {
            assert_eq!(measured.end, laid_out.end - start);
            for launch in launches(&laid_out) {
                let addresses = launch.arguments.iter().filter(|word| **word >> 60 == 1);
                for address in addresses {
                    assert!(*address < laid_out.end, "{}", launch.kernel);
                }
                let (x, y, z) = launch.grid;
                assert!(x > 0 && (1..65_536).contains(&y) && (1..65_536).contains(&z));
                assert!(launch.shared as usize <= 8 * 16 * 256 * 4, "{}", launch.kernel);
            }
        }
    }

    /// Every kernel that a program launches is in the sources.
    #[test]
    fn kernels_exist() {
        for program in programs(0) {
            for launch in launches(&program) {
                let name = launch.kernel.trim_end_matches("large").trim_end_matches("small");
                assert!(Variant::default().source().contains(name), "{}", launch.kernel);
            }
        }
    }

    /// The blocks hold the critic's parameters in its order and do not overlap.
    #[test]
    fn blocks_hold_every_parameter() {
        for program in programs(0) {
            let Shape { bins, ref critic, dims, .. } = program.shape;
            let count = match bins {
                Some(bins) => {
                    Mlp::new(dims.0, &critic.hidden, bins, critic.activation).parameter_count()
                }
                None => critic.initial_parameters(dims, 0).unwrap().len(),
            };
            assert_eq!(count, program.parameter_count());
            let mut next = 0;
            for block in program.blocks() {
                assert!(block.at >= next && block.ld >= block.columns);
                next = block.at + block.rows * block.ld;
            }
            assert!(program.score_bias().is_none_or(|at| at >= next));
        }
    }

    /// A separable critic with the maximum number of hidden layers fills the table.
    #[test]
    fn the_deepest_critic_fills_the_sections() {
        let critic = CriticPlan::new(CriticKind::Separable, &[8; abi::MAX_HIDDEN_LAYERS]);
        let program = &programs(0)[0];
        let shape = Shape { critic, pairing: Pairing::AllPairs, ..program.shape.clone() };
        let program = Program::new(&shape, program.needs, program.tiling, 0);
        assert_eq!(program.blocks().len(), MAX_SECTIONS);
        assert!(program.sections().iter().all(|section| section.rows > 0));
    }
}
