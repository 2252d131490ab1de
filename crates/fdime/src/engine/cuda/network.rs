//! The networks of the critics as kernels: the forward pass over layers, and their gradients.

use super::abi::{
    self, ALL_PAIRS, Buffer, InputGradient, InputGradientTask, Layer, LayerTask, MATRIX, PAIRED,
    Pairs, PlainProduct, WeightGradient, WeightGradientTask,
};
use super::memory::Arena;
use super::program::{Launch, ParameterBlock, Shape, Tile, Tiling, padded};
use crate::nn::Activation;
use crate::pairing::Pairing;

/// The network of a critic.
pub(super) enum Network {
    Pair(Box<PairNetwork>),
    Separable(Box<Separable>),
}

/// The inputs of a step.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// x and y.
    pub(super) data: (Buffer, Buffer),
    pub(super) pairs: Pairs,
    /// Returns the place of a parameter from its index among a run's parameters.
    pub(super) parameter: &'a dyn Fn(usize) -> Buffer,
}

/// Evaluates an expression for the network of either kind.
macro_rules! dispatch {
    ($network:expr, $one:ident => $body:expr) => {
        match $network {
            Network::Pair($one) => $body,
            Network::Separable($one) => $body,
        }
    };
}

impl Network {
    pub(super) fn pairs(&self) -> Pairs {
        dispatch!(self, network => network.pairs)
    }

    /// Returns the number of pairs in a batch, including padding.
    pub(super) fn score_rows(&self) -> usize {
        self.pairs().rows as usize
    }

    pub(super) fn scores(&self) -> Buffer {
        dispatch!(self, network => network.scores)
    }

    /// Returns the number of parts that add up to a score.
    pub(super) fn score_parts(&self) -> usize {
        match self {
            Network::Pair(network) => network.score_parts,
            Network::Separable(_) => 1,
        }
    }

    pub(super) fn score_gradient(&self) -> Buffer {
        dispatch!(self, network => network.score_gradient)
    }

    /// Returns the index of the score's bias, or `None` if it has no bias.
    pub(super) fn score_bias(&self) -> Option<usize> {
        match self {
            Network::Pair(network) => Some(network.score_bias),
            Network::Separable(_) => None,
        }
    }

    pub(super) fn blocks(&self) -> &[ParameterBlock] {
        dispatch!(self, network => &network.blocks)
    }

    /// Returns the indices of the blocks of weights that the inputs x and y are multiplied by.
    pub(super) fn input_blocks(&self) -> (usize, usize) {
        match self {
            Network::Pair(_) => (0, 1),
            // Two networks of equal depth, one after the other.
            Network::Separable(network) => (0, network.blocks.len() / 2),
        }
    }

    pub(super) fn parameter_count(&self) -> usize {
        let blocks: usize = self.blocks().iter().map(|block| block.rows * block.columns).sum();
        blocks + usize::from(self.score_bias().is_some())
    }

    /// Returns the length of a run's parameters, including padding.
    pub(super) fn parameter_size(&self) -> usize {
        dispatch!(self, network => network.parameter_size)
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        dispatch!(self, network => network.multiply_adds())
    }

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        dispatch!(self, network => network.forward(step, launches));
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        dispatch!(self, network => network.backward(step, launches));
    }
}

/// Lays out parameters one after the other, each with memory for the pieces of its gradient.
struct ParameterLayout<'a> {
    blocks: Vec<ParameterBlock>,
    size: usize,
    runs: usize,
    wgmma: bool,
    arena: &'a mut Arena,
}

impl<'a> ParameterLayout<'a> {
    fn new(tiling: &Tiling, arena: &'a mut Arena) -> Self {
        let (runs, wgmma) = (tiling.runs, tiling.wgmma);
        ParameterLayout { blocks: Vec::new(), size: 0, runs, wgmma, arena }
    }

    /// Adds a matrix with padded rows and columns.
    fn matrix(&mut self, rows: usize, columns: usize, pieces: usize) -> ParameterBlock {
        let (stored_rows, ld) = (padded(rows), padded(columns));
        let mut block = self.block((rows, columns), stored_rows, pieces);
        if self.wgmma {
            // 16 depths of 256 rows take B_STAGE bytes (common.cuh), here in numbers.
            let packed = |rows: usize, depths: usize| {
                rows.div_ceil(256) * depths.div_ceil(16) * (4 * (256 * 16 + 32) / 4)
            };
            block.forward = self.arena.floats(packed(ld, stored_rows), self.runs);
            block.backward = self.arena.floats(packed(stored_rows, ld), self.runs);
        }
        self.blocks.push(block);
        block
    }

    /// Adds a single row with padded columns.
    fn row(&mut self, columns: usize, pieces: usize) -> ParameterBlock {
        let block = self.block((1, columns), 1, pieces);
        self.blocks.push(block);
        block
    }

    fn block(
        &mut self,
        (rows, columns): (usize, usize),
        stored_rows: usize,
        pieces: usize,
    ) -> ParameterBlock {
        let (ld, at) = (padded(columns), self.size);
        let piece_stride = stored_rows * ld;
        let gradient = self.arena.floats(pieces * piece_stride, self.runs);
        self.size += piece_stride;
        let (forward, backward) = (Buffer::default(), Buffer::default());
        ParameterBlock { rows, columns, ld, at, gradient, pieces, piece_stride, forward, backward }
    }
}

/// A hidden layer: weights, bias, and its outputs on all rows.
#[derive(Clone, Copy)]
struct Hidden {
    weights: ParameterBlock,
    bias: ParameterBlock,
    /// For the last layer of a network of ReLUs only a bit for each output: whether it is
    /// positive.
    outputs: Buffer,
    /// The gradient of its outputs before the activation. The last layer of a pair network stores
    /// none: kernels derive it from the gradient of the scores.
    gradient: Buffer,
}

/// The network over pairs of the joint and the deranged critic. Its first layer is
/// act(x W_x + y W_y + b): P = x W_x + b and Q = y W_y are computed once for every row, and kernels
/// of the second layer add them for every pair.
pub(super) struct PairNetwork {
    tiling: Tiling,
    tile: Tile,
    n: usize,
    relu: bool,
    pairs: Pairs,
    ld: (usize, usize),
    blocks: Vec<ParameterBlock>,
    parameter_size: usize,
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
    score_weights: ParameterBlock,
    score_bias: usize,
    scores: Buffer,
    score_parts: usize,
    score_gradient: Buffer,
}

/// Returns the pairs of a network over pairs, and the number of tiles of xs and of ys.
fn tiled_pairs(shape: &Shape, tile: Tile) -> (Pairs, (usize, usize)) {
    let n = shape.n;
    let all = shape.pairing == Pairing::AllPairs;
    let block = tile.rows() / 16;
    let tiles = (n.div_ceil(block), n.div_ceil(16));
    let rows = if all { tiles.0 * tiles.1 * tile.rows() } else { n.div_ceil(8) * 16 };
    let pairs = Pairs {
        layout: if all { ALL_PAIRS } else { PAIRED },
        n: n as i32,
        block_bits: block.ilog2() as i32,
        rows: rows as i32,
        shift: i32::from(shape.pairing == Pairing::Shift),
        ..Pairs::default().with_tiles(tiles.1)
    };
    (pairs, tiles)
}

impl PairNetwork {
    pub(super) fn new(
        shape: &Shape,
        tiling: &Tiling,
        ld: (usize, usize),
        arena: &mut Arena,
    ) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
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
        let (last, pieces) = (widths.len() - 1, hidden[hidden.len() - 1].weights.pieces);
        // The score's weights are a column, stored as a row. In a network of ReLUs every tile of
        // the weights below makes a piece of its gradient.
        let tiles_below = padded(widths[last - 1]).div_ceil(tile.rows());
        let score_pieces = if relu { pieces * tiles_below } else { pieces };
        let score_weights = layout.row(widths[last], score_pieces);
        let ParameterLayout { blocks, size, .. } = layout;
        let score_parts = padded(widths[last]).div_ceil(tile.columns(tiling.precision));
        let (p_parts, q_parts) = if all { (tiles.1, tiles.0) } else { (1, 2) };
        PairNetwork {
            tiling: *tiling,
            tile,
            n,
            relu,
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
            score_weights,
            score_bias: size,
            parameter_size: size + 4,
            scores: arena.floats(score_parts * rows, runs),
            score_parts,
            score_gradient: arena.floats(rows, runs),
        }
    }

    fn multiply_adds(&self) -> f64 {
        let rows = f64::from(self.pairs.rows);
        let hidden: usize = self.hidden.iter().map(|h| h.weights.rows * h.weights.columns).sum();
        3.0 * rows * hidden as f64
    }

    fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        launches.push(self.first_layer(step));
        launches.extend((0..self.hidden.len()).map(|k| self.hidden_layer(step, k)));
    }

    /// Returns the kernel that computes P and Q.
    fn first_layer(&self, Step { data, pairs, parameter }: Step) -> Launch {
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
    fn hidden_layer(&self, Step { pairs, parameter, .. }: Step, k: usize) -> Launch {
        let hidden = &self.hidden[k];
        let (rows, weights) = (pairs.rows as usize, hidden.weights);
        let mut layer = Layer {
            input: self.below(k),
            q: self.q,
            weights: parameter(weights.at),
            packed: weights.forward,
            bias: parameter(hidden.bias.at),
            output: hidden.outputs,
            rows: rows as i32,
            inputs: padded(weights.rows) as i32,
            outputs: weights.ld as i32,
            ld_input: padded(weights.rows) as i32,
            ld_output: weights.ld as i32,
            activated: 1,
            ..Layer::default()
        };
        if k + 1 == self.hidden.len() {
            layer.score_weights = parameter(self.score_weights.at);
            layer.scores = self.scores;
            if self.relu {
                (layer.on, layer.output) = (hidden.outputs, Buffer::default());
            }
        }
        let kernel = if k == 0 { "layer_of_pairs" } else { "layer_of_matrix" };
        let task = LayerTask::single(pairs, layer);
        self.tiling.product(kernel, self.tile, (rows, weights.ld), 1, &task)
    }

    /// Returns the input of hidden layer `k`: P, or the outputs of the layer below.
    fn below(&self, k: usize) -> Buffer {
        if k == 0 { self.p } else { self.hidden[k - 1].outputs }
    }

    /// Returns the gradient that hidden layer `k` receives, and its name in the kernels' names.
    fn above(&self, k: usize) -> (Buffer, &'static str) {
        if k + 1 == self.hidden.len() {
            (self.score_gradient, "scores")
        } else {
            (self.hidden[k].gradient, "matrix")
        }
    }

    fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        for k in (0..self.hidden.len()).rev() {
            launches.push(self.weight_gradient(step, k));
            launches.push(self.input_gradient(step, k));
        }
        launches.push(self.first_weight_gradient(step));
    }

    fn weight_gradient(&self, Step { pairs, parameter, .. }: Step, k: usize) -> Launch {
        let hidden = &self.hidden[k];
        let weights = hidden.weights;
        let inputs = padded(weights.rows);
        let (gradient, above) = self.above(k);
        let mut gradient = WeightGradient {
            input: self.below(k),
            q: self.q,
            gradient,
            score_weights: parameter(self.score_weights.at),
            last_outputs: hidden.outputs,
            weights: parameter(weights.at),
            bias: parameter(hidden.bias.at),
            result: weights.gradient,
            bias_result: hidden.bias.gradient,
            rows: pairs.rows,
            inputs: inputs as i32,
            outputs: weights.ld as i32,
            ld_input: inputs as i32,
            ld_output: weights.ld as i32,
            pieces: weights.pieces as i32,
            ..WeightGradient::default()
        };
        if k + 1 == self.hidden.len() {
            gradient.score_result = self.score_weights.gradient;
        }
        let kernel = format!("weights_{}_{above}", if k == 0 { "pairs" } else { "matrix" });
        let task = WeightGradientTask::single(pairs, gradient);
        self.tiling.weight_gradient(&kernel, self.tile, (inputs, weights.ld), &task)
    }

    fn input_gradient(&self, Step { pairs, parameter, .. }: Step, k: usize) -> Launch {
        let hidden = &self.hidden[k];
        let weights = hidden.weights;
        let (rows, inputs) = (pairs.rows as usize, padded(weights.rows));
        let (gradient, above) = self.above(k);
        let gradient = InputGradient {
            gradient,
            score_weights: parameter(self.score_weights.at),
            outputs: hidden.outputs,
            weights: parameter(weights.at),
            packed: weights.backward,
            below: self.below(k),
            q: self.q,
            result: if k == 0 { self.p_gradient.0 } else { self.hidden[k - 1].gradient },
            q_result: self.q_gradient.0,
            rows: rows as i32,
            inputs: inputs as i32,
            columns: weights.ld as i32,
            ld_input: inputs as i32,
            ld_output: weights.ld as i32,
            padding: 0,
            part_stride: self.part_stride as u64,
        };
        let kernel = format!("inputs_{above}_{}", if k == 0 { "pairs" } else { "stored" });
        let task = InputGradientTask::single(pairs, gradient);
        self.tiling.product(&kernel, self.tile, (rows, inputs), 1, &task)
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

/// Lays out the hidden layers of a pair network after the first.
fn hidden_layers(
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
        let stored = if last && relu { weights.ld.div_ceil(32) } else { weights.ld };
        let outputs = layout.arena.floats(rows * stored, runs);
        let gradient =
            if last { Buffer::default() } else { layout.arena.floats(rows * weights.ld, runs) };
        Hidden { weights, bias, outputs, gradient }
    };
    widths.windows(2).enumerate().map(layer).collect()
}

/// One of the two networks of the separable critic.
struct Tower {
    /// The leading dimension of its input.
    ld: usize,
    /// All layers; the outputs of the last are the embedding.
    layers: Vec<Hidden>,
}

/// The separable critic: score = g(x) . h(y).
pub(super) struct Separable {
    tiling: Tiling,
    tile: Tile,
    n: usize,
    embedding: usize,
    all_pairs: bool,
    pairs: Pairs,
    towers: [Tower; 2],
    blocks: Vec<ParameterBlock>,
    parameter_size: usize,
    scores: Buffer,
    score_gradient: Buffer,
}

impl Separable {
    pub(super) fn new(
        shape: &Shape,
        tiling: &Tiling,
        ld: (usize, usize),
        arena: &mut Arena,
    ) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let all_pairs = shape.pairing == Pairing::AllPairs;
        let embedding = padded(shape.critic.embedding);
        let tile = tiling.tile(n, shape.critic.hidden[0], 2);
        // The products over all ys also read the padding rows, which stay zero.
        let stored_rows = padded(n);
        let mut layout = ParameterLayout::new(tiling, arena);
        let sides = [(shape.dims.0, ld.0), (shape.dims.1, ld.1)];
        let towers = sides.map(|(dim, ld)| {
            let mut inputs = dim;
            let widths = shape.critic.hidden.iter().chain([&shape.critic.embedding]);
            let layers = widths
                .map(|&width| {
                    let pieces = tiling.pieces(tile, (padded(inputs), padded(width)), n, 2);
                    let weights = layout.matrix(inputs, width, pieces);
                    inputs = width;
                    Hidden {
                        weights,
                        bias: layout.row(width, pieces),
                        outputs: layout.arena.floats(stored_rows * weights.ld, runs),
                        gradient: layout.arena.floats(stored_rows * weights.ld, runs),
                    }
                })
                .collect();
            Tower { ld, layers }
        });
        let ParameterLayout { blocks, size, .. } = layout;
        let rows = if all_pairs { n * padded(n) } else { n.div_ceil(8) * 16 };
        Separable {
            tiling: *tiling,
            tile,
            n,
            embedding,
            all_pairs,
            pairs: Pairs {
                layout: if all_pairs { MATRIX } else { PAIRED },
                n: n as i32,
                rows: rows as i32,
                shift: i32::from(shape.pairing == Pairing::Shift),
                ..Pairs::default().with_tiles(padded(n))
            },
            towers,
            blocks,
            parameter_size: size,
            scores: arena.floats(rows, runs),
            score_gradient: arena.floats(rows, runs),
        }
    }

    fn multiply_adds(&self) -> f64 {
        let layers = self.towers.iter().flat_map(|tower| &tower.layers);
        let weights: usize = layers.map(|layer| layer.weights.rows * layer.weights.columns).sum();
        let pairs = f64::from(self.pairs.rows) * self.embedding as f64;
        3.0 * (self.n as f64 * weights as f64 + pairs)
    }

    fn depth(&self) -> usize {
        self.towers[0].layers.len()
    }

    /// Returns the last layers of the two networks, g and h.
    fn embeddings(&self) -> (&Hidden, &Hidden) {
        let last = self.depth() - 1;
        (&self.towers[0].layers[last], &self.towers[1].layers[last])
    }

    /// Returns the input of layer `k` of a tower and its leading dimension.
    fn below(&self, data: (Buffer, Buffer), side: usize, k: usize) -> (Buffer, usize) {
        let tower = &self.towers[side];
        match k {
            0 => (if side == 0 { data.0 } else { data.1 }, tower.ld),
            _ => (tower.layers[k - 1].outputs, tower.layers[k - 1].weights.ld),
        }
    }

    fn paired(&self, pairs: Pairs) -> abi::PairedEmbeddings {
        let (g, h) = self.embeddings();
        abi::PairedEmbeddings {
            pairs,
            g: g.outputs,
            h: h.outputs,
            scores: self.scores,
            gradient: self.score_gradient,
            g_result: g.gradient,
            h_result: h.gradient,
            width: self.embedding as i32,
            ld: self.embedding as i32,
        }
    }

    fn plain(&self, kernel: &str, product: PlainProduct) -> Launch {
        let size = (product.rows as usize, product.columns as usize);
        let tile = self.tiling.tile(size.0, size.1, 1);
        let roles = [product, PlainProduct::default()];
        let task = abi::PlainTask { grid: abi::Grid { roles: 1 }, padding: 0, roles };
        self.tiling.product(kernel, tile, size, 1, &task)
    }

    fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        launches.extend((0..self.depth()).map(|k| self.layer(step, k)));
        launches.push(self.score(step.pairs));
    }

    /// Returns the kernel of layer `k` of both networks.
    fn layer(&self, Step { data, pairs, parameter }: Step, k: usize) -> Launch {
        let role = |side: usize| {
            let (input, ld) = self.below(data, side, k);
            let layer = self.towers[side].layers[k];
            Layer {
                input,
                weights: parameter(layer.weights.at),
                packed: layer.weights.forward,
                bias: parameter(layer.bias.at),
                output: layer.outputs,
                rows: self.n as i32,
                inputs: ld as i32,
                outputs: layer.weights.ld as i32,
                ld_input: ld as i32,
                ld_output: layer.weights.ld as i32,
                activated: i32::from(k + 1 < self.depth()),
                ..Layer::default()
            }
        };
        let task = LayerTask::double(pairs, [role(0), role(1)]);
        let size = (self.n, self.towers[0].layers[k].weights.ld);
        self.tiling.product("layer_of_matrix", self.tile, size, 2, &task)
    }

    /// Returns the kernel that multiplies the embeddings.
    fn score(&self, pairs: Pairs) -> Launch {
        let (n, e) = (self.n as i32, self.embedding as i32);
        if !self.all_pairs {
            let grid = (pairs.rows as usize / 4, 1, self.tiling.runs);
            return Launch::new("paired_scores", grid, 128, 0, &self.paired(pairs));
        }
        let (g, h) = self.embeddings();
        let product = PlainProduct {
            a: g.outputs,
            b: h.outputs,
            result: self.scores,
            rows: n,
            columns: n,
            depth: e,
            ld_a: e,
            ld_b: e,
            ld_result: padded(self.n) as i32,
        };
        self.plain("product_along_along", product)
    }

    fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        self.embedding_gradients(step.pairs, launches);
        for k in (0..self.depth()).rev() {
            launches.push(self.weight_gradients(step, k));
            if k > 0 {
                launches.push(self.input_gradients(step, k));
            }
        }
    }

    /// Adds the kernels for dJ/dg and dJ/dh.
    fn embedding_gradients(&self, pairs: Pairs, launches: &mut Vec<Launch>) {
        let (n, e) = (self.n as i32, self.embedding as i32);
        if !self.all_pairs {
            let grid = (self.n.div_ceil(4), 1, self.tiling.runs);
            let task = self.paired(pairs);
            launches.push(Launch::new("paired_embedding_gradient", grid, 128, 0, &task));
            return;
        }
        // dJ/dg = S h and dJ/dh = S^T g, S = dJ/ds
        let product = |depth: usize, b: &Hidden, result: &Hidden| PlainProduct {
            a: self.score_gradient,
            b: b.outputs,
            result: result.gradient,
            rows: n,
            columns: e,
            depth: depth as i32,
            ld_a: padded(self.n) as i32,
            ld_b: e,
            ld_result: e,
        };
        let (g, h) = self.embeddings();
        launches.push(self.plain("product_along_across", product(padded(self.n), h, g)));
        launches.push(self.plain("product_across_across", product(self.n, g, h)));
    }

    fn weight_gradients(&self, Step { data, pairs, .. }: Step, k: usize) -> Launch {
        let role = |side: usize| {
            let (input, ld) = self.below(data, side, k);
            let layer = self.towers[side].layers[k];
            WeightGradient {
                input,
                gradient: layer.gradient,
                result: layer.weights.gradient,
                bias_result: layer.bias.gradient,
                rows: self.n as i32,
                inputs: ld as i32,
                outputs: layer.weights.ld as i32,
                ld_input: ld as i32,
                ld_output: layer.weights.ld as i32,
                pieces: layer.weights.pieces as i32,
                ..WeightGradient::default()
            }
        };
        let roles = [role(0), role(1)];
        let inputs = roles[0].inputs.max(roles[1].inputs) as usize;
        let size = (inputs, roles[0].outputs as usize);
        let task = WeightGradientTask::double(pairs, roles);
        self.tiling.weight_gradient("weights_matrix_matrix", self.tile, size, &task)
    }

    fn input_gradients(&self, Step { pairs, parameter, .. }: Step, k: usize) -> Launch {
        let role = |side: usize| {
            let layers = &self.towers[side].layers;
            let (layer, below) = (layers[k], layers[k - 1]);
            InputGradient {
                gradient: layer.gradient,
                weights: parameter(layer.weights.at),
                packed: layer.weights.backward,
                below: below.outputs,
                result: below.gradient,
                rows: self.n as i32,
                inputs: below.weights.ld as i32,
                columns: layer.weights.ld as i32,
                ld_input: below.weights.ld as i32,
                ld_output: layer.weights.ld as i32,
                ..InputGradient::default()
            }
        };
        let roles = [role(0), role(1)];
        let size = (self.n, roles[0].inputs as usize);
        let task = InputGradientTask::double(pairs, roles);
        self.tiling.product("inputs_matrix_stored", self.tile, size, 2, &task)
    }
}
