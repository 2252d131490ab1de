use super::{
    Activation, Arena, Buffer, Hidden, InputGradient, InputGradientTask, Launch, Layer, LayerTask,
    Pairing, Pairs, ParameterBlock, ParameterLayout, Score, Shape, Step, Tile, Tiling,
    WeightGradient, WeightGradientTask, padded, tiled_pairs,
};

/// The network over pairs of the joint and the deranged critic. Its first layer is
/// act(x W_x + y W_y + b): P = x W_x + b and Q = y W_y are computed once for every row, and kernels
/// of the second layer add them for every pair.
pub(in super::super) struct PairNetwork {
    tiling: Tiling,
    tile: Tile,
    n: usize,
    pub(super) pairs: Pairs,
    ld: (usize, usize),
    pub(super) blocks: Vec<ParameterBlock>,
    pub(super) parameter_size: usize,
    /// W_x, W_y and b of the first layer.
    first: (ParameterBlock, ParameterBlock, ParameterBlock),
    p: Buffer,
    q: Buffer,
    /// Parts that add up to dJ/dP and dJ/dQ, and their numbers.
    p_gradient: (Buffer, usize),
    q_gradient: (Buffer, usize),
    part_stride: usize,
    /// The layers after the first.
    hidden: Vec<Hidden>,
    pub(super) score: Score,
}

impl PairNetwork {
    pub(super) fn new(shape: &Shape, tiling: &Tiling, arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let ld = (padded(shape.dims.0), padded(shape.dims.1));
        let widths = &shape.critic.hidden;
        let relu = shape.critic.activation == Activation::Relu;
        let all = shape.pairing == Pairing::AllPairs;
        let tile = tiling.tile(if all { n * n } else { 2 * n }, widths[1], 1);
        let (pairs, tiles) = tiled_pairs(shape, tile);
        let rows = pairs.rows as usize;

        let h0 = padded(widths[0]);
        let first_pieces = tiling.pieces(Tile::Small, (ld.0.max(ld.1), h0), n, 2);
        let mut layout = ParameterLayout::new(tiling, arena);
        let first = (
            layout.matrix(shape.dims.0, widths[0], first_pieces),
            layout.matrix(shape.dims.1, widths[0], first_pieces),
            layout.row(widths[0], first_pieces),
        );
        let hidden = hidden_layers(widths, relu, tile, tiling, rows, &mut layout);
        let last = &hidden[hidden.len() - 1];
        let score = Score::new(last, relu, tile, tiling, rows, 0, &mut layout);
        let ParameterLayout { blocks, size, .. } = layout;
        let (p_parts, q_parts) = if all { (tiles.1, tiles.0) } else { (1, 2) };
        PairNetwork {
            tiling: *tiling,
            tile,
            n,
            pairs,
            ld,
            blocks,
            first,
            p: arena.floats(n * h0, runs),
            q: arena.floats(n * h0, runs),
            p_gradient: (arena.floats(p_parts * n * h0, runs), p_parts),
            q_gradient: (arena.floats(q_parts * n * h0, runs), q_parts),
            part_stride: n * h0,
            hidden,
            score,
            parameter_size: size + 4,
        }
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        let rows = f64::from(self.pairs.rows);
        let hidden: usize = self.hidden.iter().map(|h| h.weights.rows * h.weights.columns).sum();
        3.0 * rows * hidden as f64
    }

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        launches.push(self.first_layer(step));
        launches.extend((0..self.hidden.len()).map(|k| self.hidden_layer(step, k)));
    }

    /// Returns the kernel that computes P and Q.
    fn first_layer(&self, Step { data, pairs, parameter, .. }: Step) -> Launch {
        let (wx, wy, b) = self.first;
        let half = |input: Buffer, weights: ParameterBlock, ld: usize, output: Buffer| Layer {
            input,
            weights: parameter(weights.at),
            packed: weights.forward,
            output,
            rows: self.n as i32,
            inputs: ld as i32,
            outputs: weights.ld as i32,
            ld_input: ld as i32,
            ld_output: weights.ld as i32,
            ..Layer::default()
        };
        let mut x_half = half(data.0, wx, self.ld.0, self.p);
        x_half.bias = parameter(b.at);
        let y_half = half(data.1, wy, self.ld.1, self.q);
        let task = LayerTask::double(pairs, [x_half, y_half]);
        let tile = self.tiling.tile(self.n, wx.ld, 2);
        self.tiling.product("layer_of_matrix", tile, (self.n, wx.ld), 2, &task)
    }

    /// Returns the kernel of hidden layer `k` after the first; the last also makes the scores.
    fn hidden_layer(&self, step: Step, k: usize) -> Launch {
        let hidden = &self.hidden[k];
        let rows = step.pairs.rows as usize;
        let mut layer = Layer { q: self.q, ..hidden.layer(self.below(k), rows, &step) };
        if k + 1 == self.hidden.len() {
            self.score.add_to_layer(&mut layer, &step);
        }
        let kernel = if k == 0 { "layer_of_pairs" } else { "layer_of_matrix" };
        let task = LayerTask::single(step.pairs, layer);
        self.tiling.product(kernel, self.tile, (rows, hidden.weights.ld), 1, &task)
    }

    /// Returns the input of hidden layer `k`: P, or the outputs of the layer below.
    fn below(&self, k: usize) -> Buffer {
        if k == 0 { self.p } else { self.hidden[k - 1].outputs }
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        for k in (0..self.hidden.len()).rev() {
            launches.push(self.weight_gradient(step, k));
            launches.push(self.input_gradient(step, k));
        }
        launches.push(self.first_weight_gradient(step));
    }

    /// Returns whether hidden layer `k` is below the scores, and the name of the gradient that it
    /// receives in the kernels' names.
    fn above(&self, k: usize) -> (bool, &'static str) {
        if k + 1 == self.hidden.len() { (true, "scores") } else { (false, "matrix") }
    }

    fn weight_gradient(&self, step: Step, k: usize) -> Launch {
        let (hidden, rows) = (&self.hidden[k], step.pairs.rows as usize);
        let (is_last, above) = self.above(k);
        let gradient = if is_last {
            self.score.weight_gradient(hidden, self.below(k), rows, &step)
        } else {
            hidden.weight_gradient(self.below(k), hidden.gradient, rows)
        };
        let gradient = WeightGradient { q: self.q, ..gradient };
        let kernel = format!("weights_{}_{above}", if k == 0 { "pairs" } else { "matrix" });
        let size = (gradient.inputs as usize, gradient.outputs as usize);
        let task = WeightGradientTask::single(step.pairs, gradient);
        self.tiling.weight_gradient(&kernel, self.tile, size, &task)
    }

    fn input_gradient(&self, step: Step, k: usize) -> Launch {
        let (hidden, rows) = (&self.hidden[k], step.pairs.rows as usize);
        let (is_last, above) = self.above(k);
        let result = if k == 0 { self.p_gradient.0 } else { self.hidden[k - 1].gradient };
        let below = (self.below(k), result);
        let gradient = if is_last {
            self.score.input_gradient(hidden, below, rows, &step)
        } else {
            hidden.input_gradient(hidden.gradient, below, rows, &step)
        };
        let gradient = InputGradient {
            q: self.q,
            q_result: self.q_gradient.0,
            part_stride: self.part_stride as u64,
            ..gradient
        };
        let kernel = format!("inputs_{above}_{}", if k == 0 { "pairs" } else { "stored" });
        let size = (rows, gradient.inputs as usize);
        let task = InputGradientTask::single(step.pairs, gradient);
        self.tiling.product(&kernel, self.tile, size, 1, &task)
    }

    /// Returns the kernel for the gradients of W_x, W_y and b from the parts of dJ/dP and dJ/dQ.
    fn first_weight_gradient(&self, Step { data, pairs, .. }: Step) -> Launch {
        let (wx, wy, b) = self.first;
        let half = |input: Buffer,
                    weights: ParameterBlock,
                    ld: usize,
                    (gradient, parts): (Buffer, usize)| WeightGradient {
            input,
            gradient,
            result: weights.gradient,
            rows: self.n as i32,
            inputs: ld as i32,
            outputs: weights.ld as i32,
            ld_input: ld as i32,
            ld_output: weights.ld as i32,
            pieces: weights.pieces as i32,
            parts: parts as i32,
            part_stride: self.part_stride as u64,
            ..WeightGradient::default()
        };
        let mut x_half = half(data.0, wx, self.ld.0, self.p_gradient);
        x_half.bias_result = b.gradient;
        let y_half = half(data.1, wy, self.ld.1, self.q_gradient);
        let task = WeightGradientTask::double(pairs, [x_half, y_half]);
        let size = (self.ld.0.max(self.ld.1), wx.ld);
        self.tiling.weight_gradient("weights_matrix_parts", Tile::Small, size, &task)
    }
}

/// Lays out layers with these numbers of inputs and outputs.
pub(super) fn hidden_layers(
    widths: &[usize],
    relu: bool,
    tile: Tile,
    tiling: &Tiling,
    rows: usize,
    layout: &mut ParameterLayout,
) -> Vec<Hidden> {
    let runs = tiling.runs;
    let layer = |(k, pair): (usize, &[usize])| {
        let pieces = tiling.pieces(tile, (padded(pair[0]), padded(pair[1])), rows, 1);
        let weights = layout.matrix(pair[0], pair[1], pieces);
        let bias = layout.row(pair[1], pieces);
        let last = k + 2 == widths.len();
        let stored = Score::stored_outputs(last && relu, weights.ld);
        let outputs = layout.arena.floats(rows * stored, runs);
        let gradient =
            if last { Buffer::default() } else { layout.arena.floats(rows * weights.ld, runs) };
        Hidden { weights, bias, outputs, gradient }
    };
    widths.windows(2).enumerate().map(layer).collect()
}
