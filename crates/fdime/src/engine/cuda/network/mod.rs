//! The networks of the critics as kernels: the forward pass over layers, and their gradients.

mod classifier;
mod conv;
mod pair;
mod rows;
mod separable;

use super::abi::{
    ALL_PAIRS, Buffer, Dropout, InputGradient, InputGradientTask, Layer, LayerTask, PAIRED, Pairs,
    WeightGradient, WeightGradientTask,
};
use super::memory::Arena;
use super::program::{Launch, ParameterBlock, Shape, Tile, Tiling, padded};
use crate::critic::CriticKind;
use crate::nn::Activation;
use crate::pairing::Pairing;
pub(super) use classifier::Classifier;
use conv::ConvNetwork;
use pair::{PairNetwork, hidden_layers};
pub(super) use rows::RowNetwork;
pub(super) use separable::Separable;

/// The network of a critic, or a classifier.
pub(super) enum Network {
    Pair(Box<PairNetwork>),
    Rows(Box<RowNetwork>),
    Separable(Box<Separable>),
    Conv(Box<ConvNetwork>),
    Classifier(Box<Classifier>),
}

/// The inputs of a step.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// x and y.
    pub(super) data: (Buffer, Buffer),
    pub(super) pairs: Pairs,
    /// Returns the place of a parameter from its index among a run's parameters.
    pub(super) parameter: &'a dyn Fn(usize) -> Buffer,
    /// Dropout of the hidden layers; its scale is 0 if there is none.
    pub(super) dropout: Dropout,
}

/// Evaluates an expression for the network of any kind.
macro_rules! dispatch {
    ($network:expr, $one:ident => $body:expr) => {
        match $network {
            Network::Pair($one) => $body,
            Network::Rows($one) => $body,
            Network::Separable($one) => $body,
            Network::Conv($one) => $body,
            Network::Classifier($one) => $body,
        }
    };
}

impl Network {
    /// Lays out the network of a shape.
    pub(super) fn new(shape: &Shape, tiling: &Tiling, arena: &mut Arena) -> Self {
        if let Some(bins) = shape.bins {
            return Network::Classifier(Box::new(Classifier::new(shape, bins, tiling, arena)));
        }
        match shape.critic.kind {
            CriticKind::Separable => {
                Network::Separable(Box::new(Separable::new(shape, tiling, arena)))
            }
            CriticKind::Conv => Network::Conv(Box::new(ConvNetwork::new(shape, tiling, arena))),
            _ if shape.stores_pairs() => {
                Network::Rows(Box::new(RowNetwork::new(shape, tiling, arena)))
            }
            CriticKind::Joint | CriticKind::Deranged => {
                Network::Pair(Box::new(PairNetwork::new(shape, tiling, arena)))
            }
        }
    }

    pub(super) fn pairs(&self) -> Pairs {
        dispatch!(self, network => network.pairs)
    }

    /// Returns the number of pairs in a batch, including padding.
    pub(super) fn score_rows(&self) -> usize {
        self.pairs().rows as usize
    }

    pub(super) fn scores(&self) -> Buffer {
        match self {
            Network::Pair(network) => network.score.scores,
            Network::Rows(network) => network.score.scores,
            Network::Separable(network) => network.scores,
            Network::Conv(network) => network.score.scores,
            Network::Classifier(_) => Buffer::default(),
        }
    }

    /// Returns the number of parts that add up to a score.
    pub(super) fn score_parts(&self) -> usize {
        match self {
            Network::Pair(network) => network.score.parts,
            Network::Rows(network) => network.score_parts() + usize::from(network.has_reference),
            Network::Separable(network) => network.score_parts(),
            Network::Conv(network) => network.score.parts,
            Network::Classifier(_) => 0,
        }
    }

    pub(super) fn score_gradient(&self) -> Buffer {
        match self {
            Network::Pair(network) => network.score.gradient,
            Network::Rows(network) => network.score.gradient,
            Network::Separable(network) => network.score_gradient,
            Network::Conv(network) => network.score.gradient,
            Network::Classifier(_) => Buffer::default(),
        }
    }

    /// Returns the index of the score's bias, or `None` if it has no bias.
    pub(super) fn score_bias(&self) -> Option<usize> {
        match self {
            Network::Pair(network) => Some(network.score.bias),
            Network::Rows(network) => Some(network.score.bias),
            Network::Separable(_) | Network::Classifier(_) => None,
            Network::Conv(network) => Some(network.score.bias),
        }
    }

    pub(super) fn blocks(&self) -> &[ParameterBlock] {
        dispatch!(self, network => &network.blocks)
    }

    /// Returns the number of rows that block `index` has for inputs of these dimensions: the weights
    /// of inputs that a run does not have are zeros.
    pub(super) fn rows_of(&self, index: usize, dims: (usize, usize)) -> usize {
        let (of_x, of_y) = match self {
            Network::Pair(_) => (Some(0), Some(1)),
            // Two networks of equal depth, one after the other.
            Network::Separable(network) => (Some(0), Some(network.blocks.len() / 2)),
            Network::Classifier(_) => (Some(0), None),
            // Programs of rows of pairs have the dimensions of all their runs.
            Network::Rows(_) | Network::Conv(_) => (None, None),
        };
        match Some(index) {
            index if index == of_x => dims.0,
            index if index == of_y => dims.1,
            _ => self.blocks()[index].rows,
        }
    }

    /// Returns the part of the scores that a reference takes, after those of the network.
    pub(super) fn reference_scores(&self) -> Buffer {
        let part = (self.score_parts() - 1) * self.score_rows();
        let scores = self.scores();
        Buffer { data: scores.data + 4 * part as u64, ..scores }
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
    /// The gradient of its outputs before the activation. The last layer before a score stores
    /// none: kernels derive it from the gradient of the scores.
    gradient: Buffer,
}

impl Hidden {
    /// Returns the layer on the rows of a stored input.
    fn layer(&self, input: Buffer, rows: usize, step: &Step) -> Layer {
        let inputs = padded(self.weights.rows) as i32;
        Layer {
            input,
            weights: (step.parameter)(self.weights.at),
            packed: self.weights.forward,
            bias: (step.parameter)(self.bias.at),
            output: self.outputs,
            rows: rows as i32,
            inputs,
            outputs: self.weights.ld as i32,
            ld_input: inputs,
            ld_output: self.weights.ld as i32,
            activated: 1,
            ..Layer::default()
        }
    }

    /// Returns the gradients of weights and bias from that of the outputs.
    fn weight_gradient(&self, input: Buffer, gradient: Buffer, rows: usize) -> WeightGradient {
        let inputs = padded(self.weights.rows) as i32;
        WeightGradient {
            input,
            gradient,
            result: self.weights.gradient,
            bias_result: self.bias.gradient,
            rows: rows as i32,
            inputs,
            outputs: self.weights.ld as i32,
            ld_input: inputs,
            ld_output: self.weights.ld as i32,
            pieces: self.weights.pieces as i32,
            ..WeightGradient::default()
        }
    }

    /// Returns the gradient of the layer below, whose outputs are `below`, from that of the outputs.
    fn input_gradient(
        &self,
        gradient: Buffer,
        (below, result): (Buffer, Buffer),
        rows: usize,
        step: &Step,
    ) -> InputGradient {
        let inputs = padded(self.weights.rows) as i32;
        InputGradient {
            gradient,
            weights: (step.parameter)(self.weights.at),
            packed: self.weights.backward,
            below,
            result,
            rows: rows as i32,
            inputs,
            columns: self.weights.ld as i32,
            ld_input: inputs,
            ld_output: self.weights.ld as i32,
            ..InputGradient::default()
        }
    }
}

/// The last layer of a network over pairs: a score for each row of the last hidden layer. The
/// kernels of that layer compute it too, and derive the layer's gradient from dJ/ds.
struct Score {
    /// A column, stored as a row.
    weights: ParameterBlock,
    /// The index of the bias among the parameters.
    bias: usize,
    scores: Buffer,
    /// The number of parts that add up to a score.
    parts: usize,
    gradient: Buffer,
    relu: bool,
}

impl Score {
    /// Lays out the score after the last hidden layer, whose products have this tile. `extra_parts`
    /// is the number of further parts of a score that are not of this network.
    fn new(
        last: &Hidden,
        relu: bool,
        tile: Tile,
        tiling: &Tiling,
        rows: usize,
        extra_parts: usize,
        layout: &mut ParameterLayout,
    ) -> Self {
        // In a network of ReLUs every tile of the weights below makes a piece of the gradient.
        let tiles_below = padded(last.weights.rows).div_ceil(tile.rows());
        let pieces = last.weights.pieces * if relu { tiles_below } else { 1 };
        let weights = layout.row(last.weights.columns, pieces);
        let parts = weights.ld.div_ceil(tile.columns(tiling.precision));
        Score {
            weights,
            bias: layout.size,
            scores: layout.arena.floats((parts + extra_parts) * rows, tiling.runs),
            parts,
            gradient: layout.arena.floats(rows, tiling.runs),
            relu,
        }
    }

    /// Returns the same layer with memory for the scores, but not the gradients, of other rows.
    fn evaluation(&self, tile: Tile, rows: usize, tiling: &Tiling, arena: &mut Arena) -> Self {
        let parts = self.weights.ld.div_ceil(tile.columns(tiling.precision));
        let scores = arena.floats(parts * rows, tiling.runs);
        Score { scores, parts, gradient: Buffer::default(), ..*self }
    }

    /// Returns the number of outputs that the last hidden layer stores for a row.
    fn stored_outputs(relu: bool, width: usize) -> usize {
        if relu { width.div_ceil(32) } else { width }
    }

    /// Lets the last hidden layer compute the scores.
    fn add_to_layer(&self, layer: &mut Layer, step: &Step) {
        layer.score_weights = (step.parameter)(self.weights.at);
        layer.scores = self.scores;
        if self.relu {
            (layer.on, layer.output) = (layer.output, Buffer::default());
        }
    }

    /// Returns the gradients of the last hidden layer and of the score's weights.
    fn weight_gradient(
        &self,
        last: &Hidden,
        input: Buffer,
        rows: usize,
        step: &Step,
    ) -> WeightGradient {
        WeightGradient {
            score_weights: (step.parameter)(self.weights.at),
            last_outputs: last.outputs,
            weights: (step.parameter)(last.weights.at),
            bias: (step.parameter)(last.bias.at),
            score_result: self.weights.gradient,
            ..last.weight_gradient(input, self.gradient, rows)
        }
    }

    /// Returns the gradient of the layer below the last hidden layer.
    fn input_gradient(
        &self,
        last: &Hidden,
        below: (Buffer, Buffer),
        rows: usize,
        step: &Step,
    ) -> InputGradient {
        InputGradient {
            score_weights: (step.parameter)(self.weights.at),
            outputs: last.outputs,
            ..last.input_gradient(self.gradient, below, rows, step)
        }
    }
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
