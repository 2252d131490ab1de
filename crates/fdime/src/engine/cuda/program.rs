//! Plans of equal shape as one program: where everything lies in the device's memory, and the
//! kernels of a step in their order.

use super::abi::{self, Buffer, Pairs, Task};
use super::kernels::Precision;
use super::network::{Network, PairNetwork, Separable, Step};
use crate::critic::{CriticKind, CriticPlan};
use crate::nn::AdamPlan;
use crate::pairing::Pairing;

/// What plans must have in common to run as one program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) critic: CriticPlan,
    pub(super) pairing: Pairing,
    pub(super) n: usize,
    pub(super) dims: (usize, usize),
    pub(super) levels: usize,
    pub(super) per_level: usize,
    pub(super) optimizer: AdamPlan,
}

/// What the objectives of a program's plans ask for beside the gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Needs {
    /// Partition functions over the whole batch.
    pub(super) partition: bool,
    /// Sums over the ys of every x.
    pub(super) rows: bool,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) precision: Precision,
    pub(super) runs: usize,
    pub(super) multiprocessors: usize,
    /// Bytes of shared memory that a block can have.
    pub(super) shared_limit: usize,
    /// Steps that are captured together.
    pub(super) steps: usize,
    /// Large tiles use Hopper's own instruction (wgmma.cuh).
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

    /// Blocks that a multiprocessor holds at once.
    fn resident(self) -> usize {
        match self {
            Tile::Large => 1,
            Tile::Small => 2,
        }
    }

    /// Bytes of shared memory: the stages of the operands, or the sums over a tile of pairs, 16 numbers
    /// of every column for each row of warps, which come after them.
    fn shared(self, cut: &Cut) -> u32 {
        let columns = self.columns(cut.precision);
        let sums = |warp_rows: usize| warp_rows * 16 * columns * 4;
        if self == Tile::Large && cut.wgmma {
            return sums(8) as u32;
        }
        let number = if cut.precision == Precision::Bf16 { 2 } else { 4 };
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
    pub(super) arguments: Vec<u64>,
}

impl Launch {
    pub(super) fn new<T: Copy>(
        kernel: impl Into<String>,
        grid: (usize, usize, usize),
        threads: u32,
        shared: u32,
        arguments: &T,
    ) -> Self {
        let mut words = vec![0u64; size_of::<T>().div_ceil(8)];
        // SAFETY: T is one of abi's plain structures, alignment at most 8, and the words hold it.
        unsafe {
            let from = std::ptr::from_ref(arguments).cast::<u8>();
            std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast(), size_of::<T>());
        }
        Launch { kernel: kernel.into(), grid, threads, shared, arguments: words }
    }
}

/// Hands out device memory. Begun at 0, it only counts.
pub(super) struct Arena {
    next: u64,
}

impl Arena {
    pub(super) fn bytes(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.div_ceil(256) * 256;
        at
    }

    /// So many numbers for each run.
    pub(super) fn floats(&mut self, each: usize, runs: usize) -> Buffer {
        let stride = (each as u64).div_ceil(64) * 64;
        Buffer { data: self.bytes(4 * stride * runs as u64), stride }
    }
}

/// A matrix of parameters on the device: rows padded, beginning at `at` in a run's piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) ld: usize,
    pub(super) at: usize,
    /// Its gradient, in pieces that add up.
    pub(super) gradient: Buffer,
    pub(super) pieces: usize,
    pub(super) piece_stride: usize,
    /// Packed copies for the products with its rows and with its columns (wgmma.cuh); or none.
    pub(super) forward: Buffer,
    pub(super) backward: Buffer,
}

/// Everything about a program but the memory itself.
pub(super) struct Program {
    pub(super) shape: Shape,
    pub(super) cut: Cut,
    needs: Needs,
    network: Network,
    /// The end of its memory.
    pub(super) end: u64,
    /// x and y of a step.
    pub(super) data: (Buffer, Buffer),
    pub(super) ld: (usize, usize),
    pub(super) parameters: Buffer,
    moments: Buffer,
    /// Iterations made so far.
    pub(super) base: u64,
    pub(super) partner: u64,
    pub(super) scenario_specs: u64,
    pub(super) levels: u64,
    pub(super) objective_specs: u64,
    pub(super) average: u64,
    broken: u64,
    pub(super) trace: u64,
    pub(super) bias_gradient: u64,
    objective: abi::ObjectiveTask,
}

/// Rounded up to what four numbers at a time can be read of.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(4)
}

const OBJECTIVE_THREADS: usize = 256;

impl Program {
    /// The program whose memory begins at `start`.
    pub(super) fn new(shape: &Shape, needs: Needs, cut: Cut, start: u64) -> Self {
        let mut arena = Arena { next: start };
        let (n, runs) = (shape.n, cut.runs);
        let ld = (padded(shape.dims.0), padded(shape.dims.1));
        let data = (arena.floats(n * ld.0, runs), arena.floats(n * ld.1, runs));
        let drawn = matches!(shape.pairing, Pairing::Derangement | Pairing::Permutation);
        let partner = if drawn { arena.bytes((cut.steps * runs * 2 * n * 4) as u64) } else { 0 };
        let network = match shape.critic.kind {
            CriticKind::Separable => {
                Network::Separable(Box::new(Separable::new(shape, &cut, ld, &mut arena)))
            }
            _ => Network::Pair(Box::new(PairNetwork::new(shape, &cut, ld, &mut arena))),
        };
        let parameters = arena.floats(network.parameter_size(), runs);
        let moments = arena.floats(2 * network.parameter_count(), runs);
        let row_log_sums = arena.floats(if needs.rows { n } else { 1 }, runs);
        let rows = network.score_rows();
        let blocks = (rows / (4 * OBJECTIVE_THREADS)).clamp(1, 2 * cut.multiprocessors);
        let doubles = |count: usize| 8 * (count * runs) as u64;
        let mut program = Program {
            base: arena.bytes(8),
            scenario_specs: arena.bytes((size_of::<abi::ScenarioSpec>() * runs) as u64),
            levels: arena.bytes((16 * shape.levels * runs) as u64),
            objective_specs: arena.bytes((size_of::<abi::ObjectiveSpec>() * runs) as u64),
            average: arena.bytes(doubles(1)),
            broken: arena.bytes(doubles(1)),
            trace: arena.bytes(doubles(2 * cut.steps)),
            bias_gradient: arena.bytes(doubles(1)),
            objective: abi::ObjectiveTask {
                scores: network.scores(),
                gradient: network.score_gradient(),
                score_parts: network.score_parts() as i32,
                row_log_sums,
                blocks: blocks as i32,
                partition: arena.bytes(doubles(4 * blocks)),
                sums: arena.bytes(doubles(4 * blocks)),
                ..Default::default()
            },
            end: 0,
            shape: shape.clone(),
            cut,
            needs,
            data,
            ld,
            parameters,
            moments,
            partner,
            network,
        };
        if let Some(at) = program.network.score_bias() {
            program.objective.score_bias = program.parameter(at);
        }
        program.objective.specs = program.objective_specs;
        program.objective.average = program.average;
        program.objective.broken = program.broken;
        program.objective.bias_gradient = program.bias_gradient;
        program.objective.trace = program.trace;
        program.end = arena.next;
        program
    }

    /// The parameters from `at` on.
    fn parameter(&self, at: usize) -> Buffer {
        Buffer { data: self.parameters.data + 4 * at as u64, stride: self.parameters.stride }
    }

    /// The parameter blocks, in the order of the flat buffer of [`Critic::parameters`].
    ///
    /// [`Critic::parameters`]: crate::critic::Critic::parameters
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.network.blocks()
    }

    /// Where the bias of the score lies, which stands last in the flat buffer.
    pub(super) fn score_bias(&self) -> Option<usize> {
        self.network.score_bias()
    }

    /// The number of parameters of a run, padding not counted.
    pub(super) fn parameter_count(&self) -> usize {
        self.network.parameter_count()
    }

    /// Multiply-adds of a step of all runs, roughly.
    pub(super) fn multiply_adds(&self) -> f64 {
        self.network.multiply_adds() * self.cut.runs as f64
    }

    /// Draws the partners of all captured steps.
    pub(super) fn draw_partners(&self) -> Option<Launch> {
        if self.partner == 0 {
            return None;
        }
        let n = self.shape.n;
        let in_shared = 4 * n <= self.cut.shared_limit;
        let task = abi::PartnerTask {
            partner: self.partner,
            specs: self.scenario_specs,
            base: self.base,
            n: n as i32,
            runs: self.cut.runs as i32,
            deranged: i32::from(self.shape.pairing == Pairing::Derangement),
            in_shared: i32::from(in_shared),
        };
        let shared = if in_shared { 4 * n } else { 0 };
        let grid = (self.cut.steps * self.cut.runs, 1, 1);
        Some(Launch::new("partners_of_steps", grid, 32, shared as u32, &task))
    }

    /// Draws the data of captured step `step`.
    pub(super) fn draw_data(&self, step: usize) -> Launch {
        let n = self.shape.n;
        let task = abi::SampleTask {
            x: self.data.0,
            y: self.data.1,
            specs: self.scenario_specs,
            levels: self.levels,
            base: self.base,
            step: step as u32,
            n: n as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
            level_count: self.shape.levels as i32,
            per_level: self.shape.per_level as i32,
        };
        Launch::new("sample", (n.div_ceil(4), 1, self.cut.runs), 128, 0, &task)
    }

    /// Forward, objective, backward and update of captured step `step`, on data that is there.
    pub(super) fn train(&self, step: usize) -> Vec<Launch> {
        let mut pairs = self.network.pairs();
        if self.partner != 0 {
            let stride = 2 * self.shape.n as u64;
            pairs.partner = self.partner + 4 * stride * (step * self.cut.runs) as u64;
            pairs.partner_stride = stride;
        }
        let mut launches = Vec::new();
        let parameter = |at: usize| self.parameter(at);
        let on = Step { data: self.data, pairs, parameter: &parameter };
        self.network.forward(on, &mut launches);
        let objective = abi::ObjectiveTask { pairs, ..self.objective };
        let (blocks, runs) = (objective.blocks as usize, self.cut.runs);
        let threads = OBJECTIVE_THREADS as u32;
        if self.needs.partition {
            let grid = (blocks, 1, runs);
            launches.push(Launch::new("observe_partition", grid, threads, 0, &objective));
        }
        if self.needs.rows {
            let grid = (self.shape.n.div_ceil(OBJECTIVE_THREADS / 32), 1, runs);
            launches.push(Launch::new("observe_rows", grid, threads, 0, &objective));
        }
        launches.push(Launch::new("score_gradients", (blocks, 1, runs), threads, 0, &objective));
        self.network.backward(on, &mut launches);
        let (grid, task) = self.update(step, objective);
        launches.push(Launch::new("adam", grid, 256, 0, &task));
        launches
    }

    /// Makes the packed copies of the parameters that training begins with.
    pub(super) fn pack(&self) -> Launch {
        let (grid, task) = self.update(0, self.objective);
        Launch::new("pack_parameters", grid, 256, 0, &task)
    }

    fn update(
        &self,
        step: usize,
        objective: abi::ObjectiveTask,
    ) -> ((usize, usize, usize), abi::AdamTask) {
        let AdamPlan { learning_rate, beta1, beta2, epsilon, decay } = self.shape.optimizer;
        let mut table = [abi::Section::default(); abi::MOST_SECTIONS];
        let blocks = self.blocks();
        let mut first = 0;
        for (section, block) in table.iter_mut().zip(&blocks) {
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
        let task = abi::AdamTask {
            parameters: self.parameters,
            moments: self.moments,
            count: self.parameter_count() as u64,
            sections: blocks.len() as i32,
            step: step as u32,
            bias_at: self.score_bias().unwrap_or(0) as u64,
            base: self.base,
            learning_rate: learning_rate as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            ln_beta1: beta1.ln() as f32,
            ln_beta2: beta2.ln() as f32,
            epsilon: epsilon as f32,
            decay: decay as f32,
            has_score_bias: i32::from(self.score_bias().is_some()),
            objective,
            table,
        };
        // The last block ends the step: the trace, and the bias of the score.
        (((first as usize).div_ceil(256) + 1, self.cut.runs, 1), task)
    }

    /// Counts the captured steps as made.
    pub(super) fn advance(&self) -> Launch {
        let task = abi::AdvanceTask { base: self.base, steps: self.cut.steps as u32 };
        Launch::new("advance", (1, 1, 1), 1, 0, &task)
    }
}

impl Cut {
    /// Large tiles where they fill the device, small ones elsewhere.
    pub(super) fn tile(&self, rows: usize, columns: usize, roles: usize) -> Tile {
        let large = Tile::Large;
        let blocks = rows.div_ceil(large.rows()) * columns.div_ceil(large.columns(self.precision));
        if 4 * blocks * roles * self.runs >= 3 * self.multiprocessors {
            Tile::Large
        } else {
            Tile::Small
        }
    }

    /// Pieces that a sum over `depth` rows is cut into, so that the product fills the device.
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

    /// A matrix kernel with rows x columns of output, for all runs and roles.
    pub(super) fn product<T: Copy>(
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

    /// A weight gradient: a product whose depth is cut into pieces.
    pub(super) fn weight_gradient(
        &self,
        kernel: &str,
        tile: Tile,
        (rows, columns): (usize, usize),
        task: &Task<abi::WeightGradient>,
    ) -> Launch {
        let mut launch = self.product(kernel, tile, (rows, columns), task.roles as usize, task);
        let pieces = task.of.iter().map(|role| role.pieces).max().unwrap_or(1);
        launch.grid = (launch.grid.0 * launch.grid.1, pieces as usize, launch.grid.2);
        launch
    }
}

/// One task, for a kernel that knows one role.
pub(super) fn single<T: Copy + Default>(pairs: Pairs, of: T) -> Task<T> {
    Task { roles: 1, pairs, of: [of, T::default()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of every critic and pairing, small and large, with and without Hopper's instruction.
    fn programs(start: u64) -> Vec<Program> {
        let mut programs = Vec::new();
        for kind in CriticKind::ALL.into_iter().filter(|kind| *kind != CriticKind::Conv) {
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
                    let shape = Shape {
                        critic: CriticPlan::new(kind, &[300, 40, 256]),
                        pairing,
                        n,
                        dims: (3, 5),
                        levels: 2,
                        per_level: 10,
                        optimizer: AdamPlan::default(),
                    };
                    let wgmma = precision == Precision::Tf32;
                    let (multiprocessors, shared_limit) = (132, 100_000);
                    let cut =
                        Cut { precision, runs, multiprocessors, shared_limit, steps: 3, wgmma };
                    let needs = Needs { partition: true, rows: pairing == Pairing::AllPairs };
                    programs.push(Program::new(&shape, needs, cut, start));
                }
            }
        }
        programs
    }

    fn launches(program: &Program) -> Vec<Launch> {
        let mut launches: Vec<Launch> = program.draw_partners().into_iter().collect();
        launches.extend([program.pack(), program.draw_data(2), program.advance()]);
        launches.extend(program.train(2));
        launches
    }

    /// A program laid out from 0 tells how much memory it takes; laid out anywhere, all its addresses
    /// lie within that.
    #[test]
    fn addresses_stay_within_the_memory() {
        // Too high for two numbers of 32 bits side by side to look like it.
        let start = 1u64 << 60;
        for (counted, laid_out) in programs(0).iter().zip(programs(start)) {
            assert_eq!(counted.end, laid_out.end - start);
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

    /// Every kernel that a program asks for is among the sources.
    #[test]
    fn kernels_exist() {
        for program in programs(0) {
            for launch in launches(&program) {
                let name = launch.kernel.trim_end_matches("large").trim_end_matches("small");
                assert!(super::super::kernels::source().contains(name), "{}", launch.kernel);
            }
        }
    }

    /// The blocks hold the critic's parameters, in its order, without overlap.
    #[test]
    fn blocks_hold_every_parameter() {
        for program in programs(0) {
            let critic = &program.shape.critic;
            let flat = critic.initial_parameters(program.shape.dims, 0).unwrap();
            assert_eq!(flat.len(), program.parameter_count());
            let mut next = 0;
            for block in program.blocks() {
                assert!(block.at >= next && block.ld >= block.columns);
                next = block.at + block.rows * block.ld;
            }
            assert!(program.score_bias().is_none_or(|at| at >= next));
        }
    }
}
