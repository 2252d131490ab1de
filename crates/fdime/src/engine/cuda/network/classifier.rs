use super::super::abi::{ClassifierSpec, ClassifierTask, PAIRED};
use super::super::memory::DeviceSlice;
use super::{
    Arena, Buffer, Hidden, InputGradientTask, Launch, Layer, LayerTask, Pairs, ParameterBlock,
    ParameterLayout, Shape, Step, Tile, Tiling, WeightGradientTask, padded,
};

/// The number of threads of a block, and of rows that its warps work on at a time (njee.cu).
const THREADS: usize = 256;
const ROWS: usize = THREADS / 32;

/// A classifier of NJEE: the inputs are columns of x and y, the outputs of the last layer scores of
/// the bins of another column of x.
pub(in super::super) struct Classifier {
    tiling: Tiling,
    tile: Tile,
    n: usize,
    bins: usize,
    pub(super) pairs: Pairs,
    /// The layers; the last one has no activation.
    layers: Vec<Hidden>,
    pub(super) blocks: Vec<ParameterBlock>,
    pub(super) parameter_size: usize,
    labels: Buffer,
    /// What each run predicts.
    pub(in super::super) specs: DeviceSlice<ClassifierSpec>,
}

impl Classifier {
    pub(super) fn new(shape: &Shape, bins: usize, tiling: &Tiling, arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let widths = [&[shape.dims.0], &shape.critic.hidden[..], &[bins]].concat();
        let tile = tiling.tile(n, shape.critic.hidden[0], 1);
        let mut layout = ParameterLayout::new(tiling, arena);
        let layer = |pair: &[usize]| {
            let pieces = tiling.pieces(tile, (padded(pair[0]), padded(pair[1])), n, 1);
            let weights = layout.matrix(pair[0], pair[1], pieces);
            Hidden {
                weights,
                bias: layout.row(pair[1], pieces),
                outputs: layout.arena.floats(n * weights.ld, runs),
                gradient: layout.arena.floats(n * weights.ld, runs),
            }
        };
        let mut layers: Vec<Hidden> = widths.windows(2).map(layer).collect();
        if let Some(last) = layers.last_mut() {
            // `classify` replaces the scores by their gradient.
            last.gradient = last.outputs;
        }
        let ParameterLayout { blocks, size, .. } = layout;
        Classifier {
            tiling: *tiling,
            tile,
            n,
            bins,
            pairs: Pairs {
                layout: PAIRED,
                n: n as i32,
                rows: n as i32,
                ..Pairs::default().with_tiles(1)
            },
            layers,
            blocks,
            parameter_size: size,
            labels: arena.floats(n, runs),
            specs: arena.slice(runs),
        }
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        let weights = |layer: &Hidden| layer.weights.rows * layer.weights.columns;
        3.0 * self.n as f64 * self.layers.iter().map(weights).sum::<usize>() as f64
    }

    /// Returns the number of thread blocks that `objective` uses for a run.
    pub(in super::super) fn objective_blocks(&self) -> usize {
        self.n.div_ceil(4 * ROWS)
    }

    fn below(&self, step: &Step, k: usize) -> Buffer {
        if k == 0 { step.data.0 } else { self.layers[k - 1].outputs }
    }

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        for (k, hidden) in self.layers.iter().enumerate() {
            let layer = Layer {
                activated: i32::from(k + 1 < self.layers.len()),
                ..hidden.layer(self.below(&step, k), self.n, &step)
            };
            let task = LayerTask::single(step.pairs, layer);
            let size = (self.n, hidden.weights.ld);
            launches.push(self.tiling.product("layer_of_matrix", self.tile, size, 1, &task));
        }
    }

    /// Returns the kernels that compute the log-likelihood, and its gradient with respect to the
    /// outputs of the last layer. `x` has all components, in rows of length `ld_x`.
    pub(in super::super) fn objective(&self, x: Buffer, ld_x: usize, sums: u64) -> [Launch; 2] {
        let last = &self.layers[self.layers.len() - 1];
        let task = ClassifierTask {
            x,
            labels: self.labels,
            logits: last.outputs,
            specs: self.specs.address(),
            sums,
            n: self.n as i32,
            bins: self.bins as i32,
            ld_x: ld_x as i32,
            ld: last.weights.ld as i32,
        };
        let launch = |kernel: &str, blocks: usize| {
            Launch::new(kernel, (blocks, 1, self.tiling.runs), THREADS as u32, 0, &task)
        };
        let blocks = self.n.div_ceil(THREADS);
        [launch("cut_bins", blocks), launch("classify", self.objective_blocks())]
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        for (k, layer) in self.layers.iter().enumerate().rev() {
            let gradient = layer.weight_gradient(self.below(&step, k), layer.gradient, self.n);
            let size = (gradient.inputs as usize, gradient.outputs as usize);
            let task = WeightGradientTask::single(step.pairs, gradient);
            launches.push(self.tiling.weight_gradient(
                "weights_matrix_matrix",
                self.tile,
                size,
                &task,
            ));
            if k > 0 {
                let below = (self.layers[k - 1].outputs, self.layers[k - 1].gradient);
                let gradient = layer.input_gradient(layer.gradient, below, self.n, &step);
                let size = (self.n, gradient.inputs as usize);
                let task = InputGradientTask::single(step.pairs, gradient);
                launches.push(self.tiling.product(
                    "inputs_matrix_stored",
                    self.tile,
                    size,
                    1,
                    &task,
                ));
            }
        }
    }
}
