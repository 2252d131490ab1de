//! Rows of tables as samples, and the scores of given pairs of rows.
//!
//! All rows of a run stay on the device. A step draws its rows there, every row once in an epoch.
//! At every check of a training the held-out rows are scored, and the parameters and these scores
//! are kept; the host computes the objective from the scores and selects the best parameters at the
//! end.

use super::abi::{self, Buffer, HeldOutTask, ListedScoresTask, SelectedTask, TableSpec, TableTask};
use super::memory::{Arena, DeviceSlice};
use super::network::{Network, RowNetwork, Separable, Step};
use super::program::{Launch, Program, offset, padded};
use crate::critic::Inputs;
use crate::train::SEPARABLE_BLOCK;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The number of held-out rows whose pairs the separable critic compares, as in the kernel.
pub(super) const HELD_OUT_BLOCK: usize = SEPARABLE_BLOCK;

/// The approximate number of rows, over all runs, that are evaluated together.
const EVALUATED_ROWS: usize = 1 << 18;
const MIN_EVALUATED_ROWS: usize = 1 << 10;

const THREADS: usize = 128;
/// The number of threads that work on a row (table.cu).
const LANES: usize = 8;

/// The properties of tables that run together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TableShape {
    /// Whether a check computes the objective on blocks of held-out rows, instead of the scores of
    /// listed pairs.
    pub(super) blocks: bool,
    /// The largest sizes of the tables; not a property that they must share.
    pub(super) capacity: Capacity,
}

/// Numbers for which there is memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    /// The width of the factors u and v of the reference u(x) . v(y).
    pub(super) reference_width: usize,
    /// Rows of a table.
    pub(super) rows: usize,
    /// Listed pairs of a run, and of all runs together; runs with the same pairs share them.
    pub(super) listed: usize,
    pub(super) all_listed: usize,
    /// Held-out rows.
    pub(super) held_out: usize,
    /// Checks of a training.
    pub(super) checks: usize,
}

/// Tables differ in size and still run together.
impl PartialEq for Capacity {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl TableShape {
    /// Returns the number of scores of a check: of listed pairs, or of blocks of held-out rows.
    fn scores(self) -> usize {
        let Capacity { listed, held_out, .. } = self.capacity;
        if self.blocks { held_out.div_ceil(HELD_OUT_BLOCK).max(1) } else { listed }
    }
}

/// The table of a run: rows for training, followed by those that are held out.
pub(super) struct RunTable<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) train: usize,
}

/// The listed pairs of all runs. Their positions are counted from the first held-out row.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) pairs: Vec<[u32; 2]>,
    /// The places of the pairs of each run.
    pub(super) places: Vec<Range<usize>>,
    /// The places of lists by their addresses.
    known: HashMap<*const [u32; 2], Range<usize>>,
}

/// A list of pairs that several runs may share.
pub(super) type PairList = Arc<[[u32; 2]]>;

/// The lists of pairs that were used last. Many runs have equal lists: the rows of folds are the same
/// for all columns of a table.
#[derive(Default)]
pub(super) struct KnownLists(Mutex<VecDeque<PairList>>);

impl KnownLists {
    const MAX: usize = 16;

    /// Returns these pairs as a list, one that is known if possible.
    pub(super) fn list(&self, pairs: &[(u32, u32)]) -> PairList {
        let lock = || self.0.lock().unwrap_or_else(|error| error.into_inner());
        let equal = |list: &PairList| {
            list.len() == pairs.len()
                && list.iter().zip(pairs).all(|([i, j], pair)| (*i, *j) == *pair)
        };
        let known: Vec<PairList> = lock().iter().cloned().collect();
        if let Some(list) = known.into_iter().find(equal) {
            return list;
        }
        let list: PairList = pairs.iter().map(|&(i, j)| [i, j]).collect();
        let mut known = lock();
        known.push_front(Arc::clone(&list));
        known.truncate(KnownLists::MAX);
        list
    }
}

impl Lists {
    /// Adds the pairs of the next run. Without any, it has the first held-out row with itself.
    pub(super) fn add(&mut self, pairs: &PairList) {
        // A list that an earlier run has is stored once.
        let place = self.known.entry(Arc::as_ptr(pairs).cast()).or_insert_with(|| {
            let first = self.pairs.len();
            self.pairs.extend_from_slice(pairs);
            if pairs.is_empty() {
                self.pairs.push([0, 0]);
            }
            first..self.pairs.len()
        });
        self.places.push(place.clone());
    }
}

/// The tables of all runs on the device, and the memory to score their rows.
pub(super) struct Tables {
    shape: TableShape,
    dims: (usize, usize),
    /// Rows of x, y, u and v.
    pub(super) table: Buffer,
    pub(super) specs: DeviceSlice<TableSpec>,
    /// The listed pairs of all runs.
    pub(super) listed: DeviceSlice<[u32; 2]>,
    evaluation: Evaluation,
    /// The number of rows or pairs that are evaluated together.
    chunk: usize,
    /// The scores of the listed pairs, or the values of blocks of held-out rows.
    pub(super) scores: Buffer,
    /// Checks x runs x scores, and checks x runs x parameters.
    pub(super) scores_of_checks: DeviceSlice<f32>,
    pub(super) parameters_of_checks: DeviceSlice<f32>,
    /// The check that each run selects.
    pub(super) selected: DeviceSlice<u32>,
    pub(super) selected_parameters: Buffer,
}

/// A network without gradients.
enum Evaluation {
    Rows(RowNetwork),
    Separable {
        towers: Separable,
        /// x and y of the rows that are evaluated together.
        data: (Buffer, Buffer),
        /// g(x) and h(y) of all rows.
        embeddings: (Buffer, Buffer),
    },
}

impl Tables {
    pub(super) fn new(
        shape: TableShape,
        dims: (usize, usize),
        network: &Network,
        runs: usize,
        arena: &mut Arena,
    ) -> Self {
        let Capacity { reference_width, rows, listed, all_listed, checks, .. } = shape.capacity;
        let chunk = (EVALUATED_ROWS / runs).max(MIN_EVALUATED_ROWS);
        let chunk = chunk.min(listed.max(rows)).max(1).next_multiple_of(128);
        let evaluation = match network {
            Network::Separable(network) => Evaluation::Separable {
                towers: network.evaluation(chunk, arena),
                data: (
                    arena.floats(chunk * padded(dims.0), runs),
                    arena.floats(chunk * padded(dims.1), runs),
                ),
                embeddings: {
                    // The last chunk may go beyond the last row.
                    let size = (rows + chunk) * network.embedding_size();
                    (arena.floats(size, runs), arena.floats(size, runs))
                },
            },
            Network::Rows(network) => Evaluation::Rows(network.evaluation(chunk, arena)),
            _ => unreachable!("tables train networks over rows of pairs, or separable ones"),
        };
        let parameters = network.parameter_size().next_multiple_of(64);
        let scores = arena.floats(shape.scores(), runs);
        Tables {
            shape,
            dims,
            table: arena.floats(rows * Self::row_size(dims, reference_width), runs),
            specs: arena.slice(runs),
            listed: arena.slice(all_listed),
            evaluation,
            chunk,
            scores,
            scores_of_checks: arena.slice(checks * runs * scores.stride as usize),
            parameters_of_checks: arena.slice(checks * runs * parameters),
            selected: arena.slice(runs),
            selected_parameters: arena.floats(network.parameter_size(), runs),
        }
    }

    /// Returns the width of the factors of the reference.
    pub(super) fn reference_width(&self) -> usize {
        self.shape.capacity.reference_width
    }

    /// Returns the length of a row, including padding.
    fn row_size(dims: (usize, usize), reference_width: usize) -> usize {
        padded(dims.0 + dims.1 + 2 * reference_width)
    }

    /// Writes the rows of a table as they lie on the device.
    pub(super) fn pack(&self, inputs: &Inputs, packed: &mut [f32]) {
        let Inputs { dims: (x_dim, y_dim), ref x, ref y, ref reference } = *inputs;
        let full_width = self.shape.capacity.reference_width;
        let row_size = Self::row_size(self.dims, full_width);
        let (rows, rest) = packed.split_at_mut(row_size * inputs.rows());
        rest.fill(0.0);
        for (row, to) in rows.chunks_exact_mut(row_size).enumerate() {
            to[x_dim + y_dim..].fill(0.0);
            let mut put = |at: usize, from: &[f32], width: usize| {
                to[at..at + width].copy_from_slice(&from[row * width..][..width]);
            };
            put(0, x, x_dim);
            put(x_dim, y, y_dim);
            put(x_dim + y_dim, &reference.x, reference.width);
            put(x_dim + y_dim + full_width, &reference.y, reference.width);
        }
    }
}

impl Program {
    /// Returns the kernels that draw the rows of captured step `step` from the tables.
    pub(super) fn draw_from_tables(&self, step: usize) -> Option<Launch> {
        let tables = self.tables.as_ref()?;
        let task = self.table_task(tables, step);
        let (kernel, rows, task) = match self.network() {
            Network::Separable(network) => {
                let reference = tables.shape.capacity.reference_width > 0;
                let (u, v) = network.reference;
                let task = TableTask {
                    x: self.data.0,
                    y: self.data.1,
                    u: if reference { u } else { Buffer::default() },
                    v,
                    ..task
                };
                ("draw_rows_of_table", self.shape.n, task)
            }
            network => {
                let task = TableTask { reference: network.reference_scores(), ..task };
                ("draw_pairs_of_table", network.score_rows(), task)
            }
        };
        Some(self.over_lanes(kernel, rows, &task))
    }

    /// Returns the kernel that writes the inputs of pairs of the samples of captured step `step`.
    pub(super) fn pairs_of_samples(&self, step: usize) -> Option<Launch> {
        let Network::Rows(network) = self.network() else { return None };
        let task = TableTask {
            pairs: self.pairs(step),
            inputs: network.inputs,
            x: self.data.0,
            y: self.data.1,
            x_dim: self.shape.dims.0 as i32,
            y_dim: self.shape.dims.1 as i32,
            ld_inputs: network.ld as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
            ..TableTask::default()
        };
        Some(self.over_lanes("pairs_of_samples", self.network().score_rows(), &task))
    }

    pub(super) fn table_task(&self, tables: &Tables, step: usize) -> TableTask {
        let reference_width = tables.shape.capacity.reference_width;
        let (inputs, ld_inputs) = match self.network() {
            Network::Rows(network) => (network.inputs, network.ld),
            _ => (Buffer::default(), 0),
        };
        TableTask {
            pairs: self.pairs(step),
            table: tables.table,
            inputs,
            tables: tables.specs.address(),
            specs: self.vectors.scenario_specs.address(),
            base: self.vectors.base.address(),
            listed: tables.listed.address(),
            step: step as u32,
            x_dim: tables.dims.0 as i32,
            y_dim: tables.dims.1 as i32,
            width: reference_width as i32,
            ld_table: Tables::row_size(tables.dims, reference_width) as i32,
            ld_inputs: ld_inputs as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
            ld_reference: padded(reference_width) as i32,
            ..TableTask::default()
        }
    }

    /// Returns the kernels that score the listed pairs of every run.
    pub(super) fn score_listed(&self) -> Vec<Launch> {
        let Some(tables) = &self.tables else { return Vec::new() };
        let Capacity { listed, rows, .. } = tables.shape.capacity;
        let mut launches = Vec::new();
        if let Evaluation::Separable { .. } = tables.evaluation {
            self.embed_rows(tables, 0, rows, &mut launches);
        }
        for first in (0..listed).step_by(tables.chunk) {
            let rows = tables.chunk.min(listed - first);
            self.score_chunk(tables, first, rows, &mut launches);
        }
        launches
    }

    /// Returns the kernels of a check. `first` is the smallest number of training rows of any run.
    pub(super) fn check(&self, first: usize) -> Vec<Launch> {
        let Some(tables) = &self.tables else { return Vec::new() };
        let Capacity { rows, held_out, .. } = tables.shape.capacity;
        let Evaluation::Separable { towers, embeddings, .. } = &tables.evaluation else {
            return self.score_listed();
        };
        if !tables.shape.blocks {
            return self.score_listed();
        }
        let mut launches = Vec::new();
        self.embed_rows(tables, first, rows, &mut launches);
        let task = HeldOutTask {
            table: self.table_task(tables, 0),
            g: embeddings.0,
            h: embeddings.1,
            values: tables.scores,
            embedding: towers.embedding_size() as i32,
            padding: 0,
        };
        let grid = (held_out.div_ceil(HELD_OUT_BLOCK).max(1), 1, self.tiling.runs);
        launches.push(Launch::new("held_out_blocks", grid, HELD_OUT_BLOCK as u32, 0, &task));
        launches
    }

    fn embed_rows(&self, tables: &Tables, from: usize, to: usize, launches: &mut Vec<Launch>) {
        let Evaluation::Separable { towers, data, embeddings } = &tables.evaluation else { return };
        let parameter = |at: usize| offset(self.parameters, at);
        for first in (from..to).step_by(tables.chunk) {
            let task = TableTask {
                x: data.0,
                y: data.1,
                rows: tables.chunk.min(to - first) as i32,
                first: first as i32,
                ..self.table_task(tables, 0)
            };
            launches.push(self.over_lanes("read_rows_of_table", tables.chunk, &task));
            let step = Step {
                data: *data,
                pairs: abi::Pairs::default(),
                parameter: &parameter,
                dropout: abi::Dropout::default(),
            };
            towers.embed(step, *embeddings, first, launches);
        }
    }

    fn score_chunk(&self, tables: &Tables, first: usize, rows: usize, launches: &mut Vec<Launch>) {
        let table =
            TableTask { rows: rows as i32, first: first as i32, ..self.table_task(tables, 0) };
        let scores = match &tables.evaluation {
            Evaluation::Rows(network) => {
                let task = TableTask { inputs: network.inputs, ..table };
                launches.push(self.over_lanes("read_pairs_of_table", rows, &task));
                let parameter = |at: usize| offset(self.parameters, at);
                let step = Step {
                    data: self.data,
                    pairs: abi::Pairs::default(),
                    parameter: &parameter,
                    dropout: abi::Dropout::default(),
                };
                network.forward(step, launches);
                ListedScoresTask {
                    table,
                    parts: network.scores(),
                    bias: self.score_bias().map_or(Buffer::default(), parameter),
                    scores: tables.scores,
                    part_count: network.score_parts() as i32,
                    part_stride: tables.chunk as i32,
                    ..ListedScoresTask::default()
                }
            }
            Evaluation::Separable { towers, embeddings, .. } => ListedScoresTask {
                table,
                g: embeddings.0,
                h: embeddings.1,
                scores: tables.scores,
                embedding: towers.embedding_size() as i32,
                ..ListedScoresTask::default()
            },
        };
        launches.push(self.over_lanes("listed_scores", rows, &scores));
    }

    /// Returns the kernel that copies each run's parameters from the check that it selected.
    pub(super) fn select_parameters(&self) -> Option<Launch> {
        let tables = self.tables.as_ref()?;
        let task = SelectedTask {
            to: tables.selected_parameters,
            checks: tables.parameters_of_checks.address(),
            selected: tables.selected.address(),
            check_stride: self.parameters.stride * self.tiling.runs as u64,
        };
        let blocks = (self.parameters.stride as usize).div_ceil(256).min(64);
        Some(Launch::new("selected_parameters", (blocks, 1, self.tiling.runs), 256, 0, &task))
    }

    fn over_lanes<T: bytemuck::NoUninit>(&self, kernel: &str, rows: usize, task: &T) -> Launch {
        let blocks = (rows * LANES).div_ceil(THREADS);
        Launch::new(kernel, (blocks, 1, self.tiling.runs), THREADS as u32, 0, task)
    }
}
