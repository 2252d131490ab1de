use super::super::abi::{self, Dropout, MATRIX, PAIRED, PlainProduct};
use super::super::program::offset;
use super::{
    Arena, Buffer, Hidden, InputGradient, InputGradientTask, Launch, Layer, LayerTask, Pairing,
    Pairs, ParameterBlock, ParameterLayout, Shape, Step, Tile, Tiling, WeightGradientTask, padded,
};

/// The separable critic: score = g(x) . h(y).
pub(in super::super) struct Separable {
    tiling: Tiling,
    tile: Tile,
    n: usize,
    embedding: usize,
    all_pairs: bool,
    pub(super) pairs: Pairs,
    /// The layers of g and of h; the outputs of the last are the embeddings.
    towers: [Vec<Hidden>; 2],
    pub(super) blocks: Vec<ParameterBlock>,
    pub(super) parameter_size: usize,
    pub(super) scores: Buffer,
    pub(super) score_gradient: Buffer,
    /// The factors u and v of the reference of a step's rows, and their padded width, which may be 0.
    pub(in super::super) reference: (Buffer, Buffer),
    reference_width: usize,
}

impl Separable {
    pub(super) fn new(shape: &Shape, tiling: &Tiling, arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let all_pairs = shape.pairing == Pairing::AllPairs;
        let embedding = padded(shape.critic.embedding);
        let reference_width = padded(shape.reference_width());
        let tile = tiling.tile(n, shape.critic.hidden[0], 2);
        // The products over all ys also read the padding rows, which stay zero.
        let stored_rows = padded(n);
        let mut layout = ParameterLayout::new(tiling, arena);
        let towers = [shape.dims.0, shape.dims.1].map(|dim| {
            let mut inputs = dim;
            let widths = shape.critic.hidden.iter().chain([&shape.critic.embedding]);
            let layer = |&width: &usize| {
                let pieces = tiling.pieces(tile, (padded(inputs), padded(width)), n, 2);
                let weights = layout.matrix(inputs, width, pieces);
                inputs = width;
                Hidden {
                    weights,
                    bias: layout.row(width, pieces),
                    outputs: layout.arena.floats(stored_rows * weights.ld, runs),
                    gradient: layout.arena.floats(stored_rows * weights.ld, runs),
                }
            };
            widths.map(layer).collect()
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
            scores: arena.floats((1 + usize::from(reference_width > 0)) * rows, runs),
            score_gradient: arena.floats(rows, runs),
            reference: (
                arena.floats(stored_rows * reference_width, runs),
                arena.floats(stored_rows * reference_width, runs),
            ),
            reference_width,
        }
    }

    pub(super) fn score_parts(&self) -> usize {
        1 + usize::from(self.reference_width > 0)
    }

    /// Returns networks with the same parameters and memory for the outputs, but not the gradients,
    /// of `rows` other rows at a time.
    pub(in super::super) fn evaluation(&self, rows: usize, arena: &mut Arena) -> Self {
        let runs = self.tiling.runs;
        let towers = [0, 1].map(|side| {
            let layers = self.towers[side].iter();
            let layer = |hidden: &Hidden| Hidden {
                outputs: arena.floats(rows * hidden.weights.ld, runs),
                gradient: Buffer::default(),
                ..*hidden
            };
            layers.map(layer).collect()
        });
        Separable {
            tiling: self.tiling,
            tile: self.tiling.tile(rows, self.towers[0][0].weights.columns, 2),
            n: rows,
            embedding: self.embedding,
            all_pairs: self.all_pairs,
            pairs: self.pairs,
            towers,
            blocks: self.blocks.clone(),
            parameter_size: self.parameter_size,
            scores: Buffer::default(),
            score_gradient: Buffer::default(),
            reference: (Buffer::default(), Buffer::default()),
            reference_width: 0,
        }
    }

    /// Returns the number of outputs of the networks, including padding.
    pub(in super::super) fn embedding_size(&self) -> usize {
        self.embedding
    }

    /// Adds the kernels that write the embeddings of the rows in `step.data` to rows `first` and on
    /// of `embeddings`.
    pub(in super::super) fn embed(
        &self,
        step: Step,
        embeddings: (Buffer, Buffer),
        first: usize,
        launches: &mut Vec<Launch>,
    ) {
        for k in 0..self.depth() {
            let outputs = (k + 1 == self.depth()).then(|| {
                let at = first * self.embedding;
                [offset(embeddings.0, at), offset(embeddings.1, at)]
            });
            launches.push(self.layer(step, k, outputs));
        }
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        let layers = self.towers.iter().flatten();
        let weights: usize = layers.map(|layer| layer.weights.rows * layer.weights.columns).sum();
        let pairs = f64::from(self.pairs.rows) * self.embedding as f64;
        3.0 * (self.n as f64 * weights as f64 + pairs)
    }

    fn depth(&self) -> usize {
        self.towers[0].len()
    }

    /// Returns the last layers of the two networks, g and h.
    fn embeddings(&self) -> (&Hidden, &Hidden) {
        let last = self.depth() - 1;
        (&self.towers[0][last], &self.towers[1][last])
    }

    /// Returns the input of layer `k` of a tower.
    fn below(&self, data: (Buffer, Buffer), side: usize, k: usize) -> Buffer {
        match k {
            0 => [data.0, data.1][side],
            _ => self.towers[side][k - 1].outputs,
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

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        launches.extend((0..self.depth()).map(|k| self.layer(step, k, None)));
        launches.push(self.score(step.pairs));
        if self.reference_width > 0 {
            launches.push(self.reference_score());
        }
    }

    /// Returns the kernel that multiplies the factors of the reference of all pairs.
    fn reference_score(&self) -> Launch {
        let width = self.reference_width as i32;
        let product = PlainProduct {
            a: self.reference.0,
            b: self.reference.1,
            result: offset(self.scores, self.pairs.rows as usize),
            rows: self.n as i32,
            columns: self.n as i32,
            depth: width,
            ld_a: width,
            ld_b: width,
            ld_result: padded(self.n) as i32,
        };
        self.plain("product_along_along", product)
    }

    /// Returns the kernel of layer `k` of both networks, which writes to `outputs` if given.
    fn layer(&self, step: Step, k: usize, outputs: Option<[Buffer; 2]>) -> Launch {
        let is_hidden = k + 1 < self.depth();
        let role = |side: usize| {
            let layer = &self.towers[side][k];
            Layer {
                activated: i32::from(is_hidden),
                output: outputs.map_or(layer.outputs, |outputs| outputs[side]),
                dropout: match is_hidden {
                    true => Dropout { layer: (2 * k + side) as u32, ..step.dropout },
                    false => Dropout::default(),
                },
                ..layer.layer(self.below(step.data, side, k), self.n, &step)
            }
        };
        let task = LayerTask::double(step.pairs, [role(0), role(1)]);
        let size = (self.n, self.towers[0][k].weights.ld);
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

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
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
            let layer = &self.towers[side][k];
            layer.weight_gradient(self.below(data, side, k), layer.gradient, self.n)
        };
        let roles = [role(0), role(1)];
        let inputs = roles[0].inputs.max(roles[1].inputs) as usize;
        let size = (inputs, roles[0].outputs as usize);
        let task = WeightGradientTask::double(pairs, roles);
        self.tiling.weight_gradient("weights_matrix_matrix", self.tile, size, &task)
    }

    fn input_gradients(&self, step: Step, k: usize) -> Launch {
        let role = |side: usize| {
            let layers = &self.towers[side];
            let below = (layers[k - 1].outputs, layers[k - 1].gradient);
            InputGradient {
                scale: step.dropout.scale,
                ..layers[k].input_gradient(layers[k].gradient, below, self.n, &step)
            }
        };
        let roles = [role(0), role(1)];
        let size = (self.n, roles[0].inputs as usize);
        let task = InputGradientTask::double(step.pairs, roles);
        self.tiling.product("inputs_matrix_stored", self.tile, size, 2, &task)
    }
}
