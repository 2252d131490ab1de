use super::super::abi::{Dropout, MATRIX, PAIRED};
use super::{
    Activation, Arena, Buffer, Hidden, InputGradient, InputGradientTask, Launch, Layer, LayerTask,
    Pairing, Pairs, ParameterBlock, ParameterLayout, Score, Shape, Step, Tile, Tiling,
    WeightGradient, WeightGradientTask, hidden_layers, padded,
};

/// The network over pairs of the joint and the deranged critic, with the inputs x_i and y_j of every
/// pair side by side in a row. Unlike [`PairNetwork`](super::PairNetwork), which never stores its
/// first layer, it has dropout, may have a single hidden layer, and scores any list of pairs.
pub(in super::super) struct RowNetwork {
    tiling: Tiling,
    tile: Tile,
    pub(super) pairs: Pairs,
    /// The inputs of every row.
    pub(in super::super) inputs: Buffer,
    pub(in super::super) ld: usize,
    pub(super) blocks: Vec<ParameterBlock>,
    pub(super) parameter_size: usize,
    hidden: Vec<Hidden>,
    pub(super) score: Score,
    /// Whether a reference is a part of every score.
    pub(super) has_reference: bool,
}

impl RowNetwork {
    pub(super) fn new(shape: &Shape, tiling: &Tiling, arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let pairs = Pairs { n: n as i32, ..Pairs::default() };
        let pairs = match shape.pairing {
            Pairing::AllPairs => Pairs {
                layout: MATRIX,
                rows: (n * padded(n)).next_multiple_of(16) as i32,
                ..pairs.with_tiles(padded(n))
            },
            _ => Pairs {
                layout: PAIRED,
                rows: (n.div_ceil(8) * 16) as i32,
                shift: i32::from(shape.pairing == Pairing::Shift),
                ..pairs.with_tiles(1)
            },
        };
        let rows = pairs.rows as usize;
        let inputs = shape.dims.0 + shape.dims.1;
        let widths = [&[inputs], &shape.critic.hidden[..]].concat();
        let relu = shape.critic.activation == Activation::Relu;
        let tile = tiling.tile(rows, widths[1], 1);
        let mut layout = ParameterLayout::new(tiling, arena);
        let hidden = hidden_layers(&widths, relu, tile, tiling, rows, &mut layout);
        let has_reference = shape.reference_width() > 0;
        let last = &hidden[hidden.len() - 1];
        let extra = usize::from(has_reference);
        let score = Score::new(last, relu, tile, tiling, rows, extra, &mut layout);
        let ParameterLayout { blocks, size, .. } = layout;
        RowNetwork {
            tiling: *tiling,
            tile,
            pairs,
            inputs: arena.floats(rows * padded(inputs), runs),
            ld: padded(inputs),
            blocks,
            parameter_size: size + 4,
            hidden,
            score,
            has_reference,
        }
    }

    /// Returns a network with the same parameters and memory for the outputs, but not the gradients,
    /// of `rows` other rows.
    pub(in super::super) fn evaluation(&self, rows: usize, arena: &mut Arena) -> Self {
        let runs = self.tiling.runs;
        let tile = self.tiling.tile(rows, self.hidden[0].weights.columns, 1);
        let last = self.hidden.len() - 1;
        let hidden = self.hidden.iter().enumerate().map(|(k, layer)| Hidden {
            outputs: match k == last {
                true => Buffer::default(),
                false => arena.floats(rows * layer.weights.ld, runs),
            },
            gradient: Buffer::default(),
            ..*layer
        });
        let hidden: Vec<Hidden> = hidden.collect();
        RowNetwork {
            tiling: self.tiling,
            tile,
            pairs: Pairs { rows: rows as i32, ..self.pairs },
            inputs: arena.floats(rows * self.ld, runs),
            ld: self.ld,
            blocks: self.blocks.clone(),
            parameter_size: self.parameter_size,
            score: self.score.evaluation(tile, rows, &self.tiling, arena),
            hidden,
            has_reference: false,
        }
    }

    pub(in super::super) fn layout(&self) -> i32 {
        self.pairs.layout
    }

    pub(in super::super) fn scores(&self) -> Buffer {
        self.score.scores
    }

    /// Returns the number of parts that the network adds to a score.
    pub(in super::super) fn score_parts(&self) -> usize {
        self.score.parts
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        let weights = |layer: &Hidden| layer.weights.rows * layer.weights.columns;
        3.0 * f64::from(self.pairs.rows) * self.hidden.iter().map(weights).sum::<usize>() as f64
    }

    fn below(&self, k: usize) -> Buffer {
        if k == 0 { self.inputs } else { self.hidden[k - 1].outputs }
    }

    fn is_last(&self, k: usize) -> bool {
        k + 1 == self.hidden.len()
    }

    pub(in super::super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        launches.extend((0..self.hidden.len()).map(|k| self.layer(step, k)));
    }

    fn layer(&self, step: Step, k: usize) -> Launch {
        let (hidden, rows) = (&self.hidden[k], self.pairs.rows as usize);
        let mut layer = Layer {
            dropout: Dropout { layer: k as u32, ..step.dropout },
            ..hidden.layer(self.below(k), rows, &step)
        };
        if self.is_last(k) {
            self.score.add_to_layer(&mut layer, &step);
        }
        let task = LayerTask::single(step.pairs, layer);
        self.tiling.product("layer_of_matrix", self.tile, (rows, hidden.weights.ld), 1, &task)
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        for k in (0..self.hidden.len()).rev() {
            launches.push(self.weight_gradient(step, k));
            if k > 0 {
                launches.push(self.input_gradient(step, k));
            }
        }
    }

    fn weight_gradient(&self, step: Step, k: usize) -> Launch {
        let (hidden, rows) = (&self.hidden[k], self.pairs.rows as usize);
        let (kernel, gradient) = match self.is_last(k) {
            true => {
                let gradient = self.score.weight_gradient(hidden, self.below(k), rows, &step);
                ("weights_matrix_scores", gradient)
            }
            false => {
                let gradient = hidden.weight_gradient(self.below(k), hidden.gradient, rows);
                ("weights_matrix_matrix", gradient)
            }
        };
        let gradient = WeightGradient { scale: step.dropout.scale, ..gradient };
        let size = (gradient.inputs as usize, gradient.outputs as usize);
        let task = WeightGradientTask::single(step.pairs, gradient);
        self.tiling.weight_gradient(kernel, self.tile, size, &task)
    }

    fn input_gradient(&self, step: Step, k: usize) -> Launch {
        let (hidden, rows) = (&self.hidden[k], self.pairs.rows as usize);
        let below = (self.below(k), self.hidden[k - 1].gradient);
        let (kernel, gradient) = match self.is_last(k) {
            true => {
                let gradient = self.score.input_gradient(hidden, below, rows, &step);
                ("inputs_scores_stored", gradient)
            }
            false => {
                let gradient = hidden.input_gradient(hidden.gradient, below, rows, &step);
                ("inputs_matrix_stored", gradient)
            }
        };
        let gradient = InputGradient { scale: step.dropout.scale, ..gradient };
        let size = (rows, gradient.inputs as usize);
        let task = InputGradientTask::single(step.pairs, gradient);
        self.tiling.product(kernel, self.tile, size, 1, &task)
    }
}
