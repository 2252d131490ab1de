//! The critics' networks as kernels: layers forwards, gradients backwards.

use super::abi::{
    self, ALL_PAIRS, Buffer, InputGradient, Layer, MATRIX, PAIRED, Pairs, PlainProduct, Task,
    WeightGradient,
};
use super::program::{Arena, Block, Cut, Launch, Shape, Tile, padded, single};
use crate::nn::Activation;
use crate::pairing::Pairing;

/// The network of a critic.
pub(super) enum Network {
    Pair(Box<PairNetwork>),
    Separable(Box<Separable>),
}

/// What a step works on.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// x and y.
    pub(super) data: (Buffer, Buffer),
    pub(super) pairs: Pairs,
    /// Where a parameter is, by its place in a run's piece.
    pub(super) parameter: &'a dyn Fn(usize) -> Buffer,
}

macro_rules! each {
    ($network:expr, $one:ident => $body:expr) => {
        match $network {
            Network::Pair($one) => $body,
            Network::Separable($one) => $body,
        }
    };
}

impl Network {
    pub(super) fn pairs(&self) -> Pairs {
        each!(self, network => network.pairs)
    }

    /// Pairs of a batch, padding included.
    pub(super) fn score_rows(&self) -> usize {
        self.pairs().rows as usize
    }

    pub(super) fn scores(&self) -> Buffer {
        each!(self, network => network.scores)
    }

    /// Parts that a score is the sum of.
    pub(super) fn score_parts(&self) -> usize {
        match self {
            Network::Pair(network) => network.score_parts,
            Network::Separable(_) => 1,
        }
    }

    pub(super) fn score_gradient(&self) -> Buffer {
        each!(self, network => network.score_gradient)
    }

    /// Where the score's bias lies, if it has one.
    pub(super) fn score_bias(&self) -> Option<usize> {
        match self {
            Network::Pair(network) => Some(network.score_bias),
            Network::Separable(_) => None,
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        each!(self, network => network.blocks.clone())
    }

    pub(super) fn parameter_count(&self) -> usize {
        let blocks: usize = self.blocks().iter().map(|block| block.rows * block.columns).sum();
        blocks + usize::from(self.score_bias().is_some())
    }

    /// Numbers that a run's parameters take, padding included.
    pub(super) fn parameter_size(&self) -> usize {
        each!(self, network => network.parameter_size)
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        each!(self, network => network.multiply_adds())
    }

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        each!(self, network => network.forward(step, launches));
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        each!(self, network => network.backward(step, launches));
    }
}

/// Lays out parameters one after the other, each with memory for the pieces of its gradient.
struct Blocks<'a> {
    blocks: Vec<Block>,
    size: usize,
    runs: usize,
    wgmma: bool,
    arena: &'a mut Arena,
}

impl Blocks<'_> {
    /// The next block, without gradient.
    fn block(&self, rows: usize, columns: usize) -> Block {
        let none = Buffer::default();
        Block {
            rows,
            columns,
            ld: padded(columns),
            at: self.size,
            gradient: none,
            pieces: 0,
            piece_stride: 0,
            forward: none,
            backward: none,
        }
    }

    /// A matrix with rows and columns padded.
    fn matrix(&mut self, rows: usize, columns: usize, pieces: usize) -> Block {
        let (padded_rows, ld) = (padded(rows), padded(columns));
        let each = padded_rows * ld;
        let gradient = self.arena.floats(pieces * each, self.runs);
        let mut block = Block { gradient, pieces, piece_stride: each, ..self.block(rows, columns) };
        if self.wgmma {
            // 16 depths of 256 rows take this many numbers' places (B_STAGE).
            let packed = |rows: usize, depths: usize| {
                rows.div_ceil(256) * depths.div_ceil(16) * (4 * (256 * 16 + 32) / 4)
            };
            block.forward = self.arena.floats(packed(ld, padded_rows), self.runs);
            block.backward = self.arena.floats(packed(padded_rows, ld), self.runs);
        }
        self.size += each;
        self.blocks.push(block);
        block
    }

    fn row(&mut self, columns: usize, pieces: usize) -> Block {
        let ld = padded(columns);
        let gradient = self.arena.floats(pieces * ld, self.runs);
        let block = Block { gradient, pieces, piece_stride: ld, ..self.block(1, columns) };
        self.size += ld;
        self.blocks.push(block);
        block
    }
}

/// A hidden layer: weights, bias, and its outputs on all rows.
#[derive(Clone, Copy)]
struct Hidden {
    weights: Block,
    bias: Block,
    /// Behind the last layer of ReLUs only which of them are on, 32 in a number's place.
    outputs: Buffer,
    /// The gradient of its outputs before the activation; the last one's is made on the way.
    gradient: Buffer,
}

/// The joint and the deranged critic: one network over pairs. Its first layer is
/// act(x W_x + y W_y + b): P = x W_x + b and Q = y W_y are made once for every row, their sum for
/// every pair on the way into the second layer.
pub(super) struct PairNetwork {
    cut: Cut,
    tile: Tile,
    n: usize,
    relu: bool,
    pairs: Pairs,
    ld: (usize, usize),
    blocks: Vec<Block>,
    parameter_size: usize,
    /// W_x, W_y and b of the first layer.
    first: (Block, Block, Block),
    p: Buffer,
    q: Buffer,
    /// Parts of dJ/dP and dJ/dQ, and how many each is the sum of.
    p_gradient: (Buffer, usize),
    q_gradient: (Buffer, usize),
    part_stride: usize,
    /// The layers after the first.
    hidden: Vec<Hidden>,
    score_weights: Block,
    score_bias: usize,
    scores: Buffer,
    score_parts: usize,
    score_gradient: Buffer,
}

impl PairNetwork {
    pub(super) fn new(shape: &Shape, cut: &Cut, ld: (usize, usize), arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, cut.runs);
        let widths = &shape.critic.hidden;
        let relu = shape.critic.activation == Activation::Relu;
        let all = shape.pairing == Pairing::AllPairs;
        let pair_count = if all { n * n } else { 2 * n };
        let tile = cut.tile(pair_count, widths[1], 1);
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

        let h0 = padded(widths[0]);
        let first_pieces = cut.pieces(Tile::Small, (ld.0.max(ld.1), h0), n, 2);
        let mut layout = Blocks { blocks: Vec::new(), size: 0, runs, wgmma: cut.wgmma, arena };
        let first = (
            layout.matrix(shape.dims.0, widths[0], first_pieces),
            layout.matrix(shape.dims.1, widths[0], first_pieces),
            layout.row(widths[0], first_pieces),
        );
        let mut pieces = 1;
        let mut hidden = Vec::new();
        for (k, pair) in widths.windows(2).enumerate() {
            pieces = cut.pieces(tile, (padded(pair[0]), padded(pair[1])), rows, 1);
            let (weights, bias) =
                (layout.matrix(pair[0], pair[1], pieces), layout.row(pair[1], pieces));
            let last = k + 2 == widths.len();
            let kept = if last && relu { weights.ld.div_ceil(32) } else { weights.ld };
            let outputs = layout.arena.floats(rows * kept, runs);
            let gradient =
                if last { Buffer::default() } else { layout.arena.floats(rows * weights.ld, runs) };
            hidden.push(Hidden { weights, bias, outputs, gradient });
        }
        let last_width = widths[widths.len() - 1];
        // A column of numbers, stored as a row. Behind ReLUs every tile of the weights before it
        // makes a piece of its gradient.
        let before = padded(widths[widths.len() - 2]).div_ceil(tile.rows());
        let score_weights = layout.row(last_width, if relu { pieces * before } else { pieces });
        let Blocks { blocks, size, .. } = layout;
        let score_parts = padded(last_width).div_ceil(tile.columns(cut.precision));
        let (p_parts, q_parts) = if all { (tiles.1, tiles.0) } else { (1, 2) };
        PairNetwork {
            cut: *cut,
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
        let Step { data, pairs, parameter } = step;
        let (wx, wy, b) = self.first;
        let half = |input: Buffer, weights: Block, ld: usize, output: Buffer| Layer {
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
        let task = Task { roles: 2, pairs, of: [x_half, y_half] };
        let tile = self.cut.tile(self.n, wx.ld, 2);
        launches.push(self.cut.product("layer_of_matrix", tile, (self.n, wx.ld), 2, &task));

        for (k, hidden) in self.hidden.iter().enumerate() {
            let (rows, weights) = (pairs.rows as usize, hidden.weights);
            let mut layer = Layer {
                input: if k == 0 { self.p } else { self.hidden[k - 1].outputs },
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
            let task = single(pairs, layer);
            launches.push(self.cut.product(kernel, self.tile, (rows, weights.ld), 1, &task));
        }
    }

    fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        let Step { data, pairs, parameter } = step;
        let rows = pairs.rows as usize;
        for (k, hidden) in self.hidden.iter().enumerate().rev() {
            let weights = hidden.weights;
            let inputs = padded(weights.rows);
            let last = k + 1 == self.hidden.len();
            let (gradient, above) =
                if last { (self.score_gradient, "scores") } else { (hidden.gradient, "matrix") };
            let from = if k == 0 { "pairs" } else { "matrix" };
            let below = if k == 0 { self.p } else { self.hidden[k - 1].outputs };
            let mut task = WeightGradient {
                input: below,
                q: self.q,
                gradient,
                score_weights: parameter(self.score_weights.at),
                last_outputs: hidden.outputs,
                weights: parameter(weights.at),
                bias: parameter(hidden.bias.at),
                result: weights.gradient,
                bias_result: hidden.bias.gradient,
                rows: rows as i32,
                inputs: inputs as i32,
                outputs: weights.ld as i32,
                ld_input: inputs as i32,
                ld_output: weights.ld as i32,
                pieces: weights.pieces as i32,
                ..WeightGradient::default()
            };
            if last {
                task.score_result = self.score_weights.gradient;
            }
            let kernel = format!("weights_{from}_{above}");
            let size = (inputs, weights.ld);
            launches.push(self.cut.weight_gradient(&kernel, self.tile, size, &single(pairs, task)));

            let task = InputGradient {
                gradient,
                score_weights: parameter(self.score_weights.at),
                outputs: hidden.outputs,
                weights: parameter(weights.at),
                packed: weights.backward,
                below,
                q: self.q,
                result: if k == 0 { self.p_gradient.0 } else { self.hidden[k - 1].gradient },
                q_result: self.q_gradient.0,
                rows: rows as i32,
                inputs: inputs as i32,
                columns: weights.ld as i32,
                ld_input: inputs as i32,
                ld_output: weights.ld as i32,
                part_stride: self.part_stride as u64,
            };
            let to = if k == 0 { "pairs" } else { "stored" };
            let kernel = format!("inputs_{above}_{to}");
            let task = single(pairs, task);
            launches.push(self.cut.product(&kernel, self.tile, (rows, inputs), 1, &task));
        }
        let (wx, wy, b) = self.first;
        let half =
            |input: Buffer, weights: Block, ld: usize, (gradient, parts): (Buffer, usize)| {
                WeightGradient {
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
                }
            };
        let mut x_half = half(data.0, wx, self.ld.0, self.p_gradient);
        x_half.bias_result = b.gradient;
        let y_half = half(data.1, wy, self.ld.1, self.q_gradient);
        let task = Task { roles: 2, pairs, of: [x_half, y_half] };
        let size = (self.ld.0.max(self.ld.1), wx.ld);
        launches.push(self.cut.weight_gradient("weights_matrix_parts", Tile::Small, size, &task));
    }
}

/// One of the separable critic's two networks.
struct Tower {
    ld: usize,
    /// Every layer's weights, bias, outputs and gradient; the last one's outputs are the embedding.
    layers: Vec<Hidden>,
}

/// The separable critic: score = g(x) . h(y).
pub(super) struct Separable {
    cut: Cut,
    tile: Tile,
    n: usize,
    embedding: usize,
    all: bool,
    pairs: Pairs,
    towers: [Tower; 2],
    blocks: Vec<Block>,
    parameter_size: usize,
    scores: Buffer,
    score_gradient: Buffer,
}

impl Separable {
    pub(super) fn new(shape: &Shape, cut: &Cut, ld: (usize, usize), arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, cut.runs);
        let all = shape.pairing == Pairing::AllPairs;
        let embedding = padded(shape.critic.embedding);
        let tile = cut.tile(n, shape.critic.hidden[0], 2);
        // Rows beyond the last are read by the products over all ys, as zeros.
        let stored_rows = padded(n);
        let mut layout = Blocks { blocks: Vec::new(), size: 0, runs, wgmma: cut.wgmma, arena };
        let sides = [(shape.dims.0, ld.0), (shape.dims.1, ld.1)];
        let towers = sides.map(|(dim, ld)| {
            let mut inputs = dim;
            let widths = shape.critic.hidden.iter().chain([&shape.critic.embedding]);
            let layers = widths
                .map(|&width| {
                    let pieces = cut.pieces(tile, (padded(inputs), padded(width)), n, 2);
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
        let Blocks { blocks, size, .. } = layout;
        let rows = if all { n * padded(n) } else { n.div_ceil(8) * 16 };
        Separable {
            cut: *cut,
            tile,
            n,
            embedding,
            all,
            pairs: Pairs {
                layout: if all { MATRIX } else { PAIRED },
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

    fn embedding_of(&self, tower: usize) -> &Hidden {
        &self.towers[tower].layers[self.depth() - 1]
    }

    /// The rows that layer `k` of a tower reads, and how many numbers apart they are.
    fn below(&self, data: (Buffer, Buffer), side: usize, k: usize) -> (Buffer, usize) {
        let tower = &self.towers[side];
        match k {
            0 => (if side == 0 { data.0 } else { data.1 }, tower.ld),
            _ => (tower.layers[k - 1].outputs, tower.layers[k - 1].weights.ld),
        }
    }

    fn paired(&self, pairs: Pairs) -> abi::PairedEmbeddings {
        let (g, h) = (self.embedding_of(0), self.embedding_of(1));
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

    fn plain(&self, kernel: &str, (rows, columns): (usize, usize), of: PlainProduct) -> Launch {
        let tile = self.cut.tile(rows, columns, 1);
        let task = abi::PlainTask { roles: 1, of: [of, PlainProduct::default()] };
        self.cut.product(kernel, tile, (rows, columns), 1, &task)
    }

    fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        let Step { data, pairs, parameter } = step;
        let (n, e) = (self.n, self.embedding);
        for k in 0..self.depth() {
            let layer = |side: usize| {
                let (input, ld) = self.below(data, side, k);
                let layer = self.towers[side].layers[k];
                Layer {
                    input,
                    weights: parameter(layer.weights.at),
                    packed: layer.weights.forward,
                    bias: parameter(layer.bias.at),
                    output: layer.outputs,
                    rows: n as i32,
                    inputs: ld as i32,
                    outputs: layer.weights.ld as i32,
                    ld_input: ld as i32,
                    ld_output: layer.weights.ld as i32,
                    activated: i32::from(k + 1 < self.depth()),
                    ..Layer::default()
                }
            };
            let task = Task { roles: 2, pairs, of: [0, 1].map(layer) };
            let size = (n, self.towers[0].layers[k].weights.ld);
            launches.push(self.cut.product("layer_of_matrix", self.tile, size, 2, &task));
        }
        if self.all {
            let of = PlainProduct {
                a: self.embedding_of(0).outputs,
                b: self.embedding_of(1).outputs,
                result: self.scores,
                rows: n as i32,
                columns: n as i32,
                depth: e as i32,
                ld_a: e as i32,
                ld_b: e as i32,
                ld_result: padded(n) as i32,
            };
            launches.push(self.plain("product_along_along", (n, n), of));
        } else {
            let grid = (pairs.rows as usize / 4, 1, self.cut.runs);
            launches.push(Launch::new("paired_scores", grid, 128, 0, &self.paired(pairs)));
        }
    }

    fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        let Step { data, pairs, parameter } = step;
        let (n, e) = (self.n, self.embedding);
        if self.all {
            // dJ/dg = S h and dJ/dh = S^T g, S = dJ/ds
            let of = |b: Buffer, result: Buffer| PlainProduct {
                a: self.score_gradient,
                b,
                result,
                rows: n as i32,
                columns: e as i32,
                depth: padded(n) as i32,
                ld_a: padded(n) as i32,
                ld_b: e as i32,
                ld_result: e as i32,
            };
            let (g, h) = (self.embedding_of(0), self.embedding_of(1));
            launches.push(self.plain("product_along_across", (n, e), of(h.outputs, g.gradient)));
            let turned = PlainProduct { depth: n as i32, ..of(g.outputs, h.gradient) };
            launches.push(self.plain("product_across_across", (n, e), turned));
        } else {
            let grid = (n.div_ceil(4), 1, self.cut.runs);
            let task = self.paired(pairs);
            launches.push(Launch::new("paired_embedding_gradient", grid, 128, 0, &task));
        }
        for k in (0..self.depth()).rev() {
            let weight_gradient = |side: usize| {
                let (input, ld) = self.below(data, side, k);
                let layer = self.towers[side].layers[k];
                WeightGradient {
                    input,
                    gradient: layer.gradient,
                    result: layer.weights.gradient,
                    bias_result: layer.bias.gradient,
                    rows: n as i32,
                    inputs: ld as i32,
                    outputs: layer.weights.ld as i32,
                    ld_input: ld as i32,
                    ld_output: layer.weights.ld as i32,
                    pieces: layer.weights.pieces as i32,
                    ..WeightGradient::default()
                }
            };
            let of = [0, 1].map(weight_gradient);
            let inputs = of.iter().map(|role| role.inputs as usize).max().unwrap_or(0);
            let size = (inputs, of[0].outputs as usize);
            let task = Task { roles: 2, pairs, of };
            let kernel = "weights_matrix_matrix";
            launches.push(self.cut.weight_gradient(kernel, self.tile, size, &task));
            if k == 0 {
                break;
            }
            let input_gradient = |tower: &Tower| {
                let (layer, below) = (tower.layers[k], tower.layers[k - 1]);
                InputGradient {
                    gradient: layer.gradient,
                    weights: parameter(layer.weights.at),
                    packed: layer.weights.backward,
                    below: below.outputs,
                    result: below.gradient,
                    rows: n as i32,
                    inputs: below.weights.ld as i32,
                    columns: layer.weights.ld as i32,
                    ld_input: below.weights.ld as i32,
                    ld_output: layer.weights.ld as i32,
                    ..InputGradient::default()
                }
            };
            let of = [0, 1].map(|side| input_gradient(&self.towers[side]));
            let size = (n, of[0].inputs as usize);
            let task = Task { roles: 2, pairs, of };
            launches.push(self.cut.product("inputs_matrix_stored", self.tile, size, 2, &task));
        }
    }
}
