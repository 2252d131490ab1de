use super::super::abi::{Grid, PlainProduct, PlainTask, WindowTask};
use super::super::plan::conv_net;
use super::{
    Activation, Arena, Buffer, Hidden, InputGradientTask, Launch, LayerTask, Pairing, Pairs,
    ParameterBlock, ParameterLayout, Score, Shape, Step, Tile, Tiling, WeightGradientTask, padded,
    tiled_pairs,
};
use crate::nn::{ConvLayer, Window};

/// The network of the conv critic: convolutions, a dense layer and a score. A convolution is the
/// product of its windows, each gathered into a row, with its weights.
pub(in super::super) struct ConvNetwork {
    tiling: Tiling,
    pub(super) pairs: Pairs,
    /// The leading dimensions of x and y, and the channels of x.
    ld: (usize, usize),
    x_channels: usize,
    pub(super) blocks: Vec<ParameterBlock>,
    pub(super) parameter_size: usize,
    convolutions: Vec<Convolution>,
    dense: Hidden,
    dense_tile: Tile,
    pub(super) score: Score,
}

struct Convolution {
    layer: Hidden,
    /// The images that it is applied to.
    images: Window,
    /// The number of windows of an image.
    places: usize,
    /// The windows of all images, one in each row. Their gradient takes the same place.
    windows: Buffer,
    tile: Tile,
}

impl ConvNetwork {
    pub(super) fn new(shape: &Shape, tiling: &Tiling, arena: &mut Arena) -> Self {
        let (n, runs) = (shape.n, tiling.runs);
        let critic = &shape.critic;
        let net = conv_net(critic, shape.dims);
        let relu = critic.activation == Activation::Relu;
        let pair_count = if shape.pairing == Pairing::AllPairs { n * n } else { 2 * n };
        let [.., dense, _] = net.layers() else { unreachable!("a network with a score") };
        let dense_tile = tiling.tile(pair_count, dense.outputs, 1);
        let (pairs, _) = tiled_pairs(shape, dense_tile);
        let rows = pairs.rows as usize;

        let mut layout = ParameterLayout::new(tiling, arena);
        let mut convolutions: Vec<Convolution> = Vec::new();
        for layer in net.layers() {
            let Some(images) = layer.window else { break };
            let rows = rows * layer.rows;
            let tile = convolution_tile(tiling, rows, layer.outputs);
            let hidden = hidden(layer, rows, tile, tiling, &mut layout);
            convolutions.push(Convolution {
                layer: hidden,
                images,
                places: layer.rows,
                windows: layout.arena.floats(rows * padded(layer.inputs), runs),
                tile,
            });
        }
        let pieces =
            tiling.pieces(dense_tile, (padded(dense.inputs), padded(dense.outputs)), rows, 1);
        let weights = layout.matrix(dense.inputs, dense.outputs, pieces);
        let dense = Hidden {
            weights,
            bias: layout.row(dense.outputs, pieces),
            outputs: layout.arena.floats(rows * Score::stored_outputs(relu, weights.ld), runs),
            gradient: Buffer::default(),
        };
        let score = Score::new(&dense, relu, dense_tile, tiling, rows, 0, &mut layout);
        let ParameterLayout { blocks, size, .. } = layout;
        ConvNetwork {
            tiling: *tiling,
            pairs,
            ld: (padded(shape.dims.0), padded(shape.dims.1)),
            x_channels: shape.dims.0 / (critic.side * critic.side),
            blocks,
            parameter_size: size + 4,
            convolutions,
            dense,
            dense_tile,
            score,
        }
    }

    pub(super) fn multiply_adds(&self) -> f64 {
        let size = |layer: &Hidden| (layer.weights.rows * layer.weights.columns) as f64;
        let convolutions = self.convolutions.iter().map(|c| c.places as f64 * size(&c.layer));
        3.0 * f64::from(self.pairs.rows) * (convolutions.sum::<f64>() + size(&self.dense))
    }

    pub(super) fn forward(&self, step: Step, launches: &mut Vec<Launch>) {
        for (k, convolution) in self.convolutions.iter().enumerate() {
            let kernel = if k == 0 { "windows_of_pairs" } else { "windows_of_images" };
            let windows = self.rows(convolution);
            launches.push(self.over_windows(kernel, step, k, windows.div_ceil(4)));
            let layer = convolution.layer.layer(convolution.windows, windows, &step);
            let size = (windows, convolution.layer.weights.ld);
            let task = LayerTask::single(step.pairs, layer);
            launches.push(self.tiling.product("layer_of_matrix", convolution.tile, size, 1, &task));
        }
        let rows = step.pairs.rows as usize;
        let mut layer = self.dense.layer(self.last_images(), rows, &step);
        self.score.add_to_layer(&mut layer, &step);
        let (size, task) = ((rows, self.dense.weights.ld), LayerTask::single(step.pairs, layer));
        launches.push(self.tiling.product("layer_of_matrix", self.dense_tile, size, 1, &task));
    }

    pub(super) fn backward(&self, step: Step, launches: &mut Vec<Launch>) {
        self.dense_gradients(step, launches);
        for k in (0..self.convolutions.len()).rev() {
            launches.push(self.weight_gradient(step, k));
            if k > 0 {
                launches.push(self.window_gradient(step, k));
                let Window { side, channels } = self.convolutions[k].images;
                let threads = step.pairs.rows as usize * side * side * channels / 4;
                launches.push(self.over_windows("images_gradient", step, k, threads.div_ceil(128)));
            }
        }
    }

    /// Returns the number of windows of all pairs.
    fn rows(&self, convolution: &Convolution) -> usize {
        self.pairs.rows as usize * convolution.places
    }

    /// Returns the outputs of the last convolution.
    fn last_images(&self) -> Buffer {
        self.convolutions.last().map_or(Buffer::default(), |last| last.layer.outputs)
    }

    /// Returns a kernel that gathers the windows of convolution `k` or adds them up.
    fn over_windows(&self, kernel: &str, step: Step, k: usize, blocks: usize) -> Launch {
        let convolution = &self.convolutions[k];
        let below = k.checked_sub(1).map(|below| &self.convolutions[below].layer);
        let Window { side, channels } = convolution.images;
        let task = WindowTask {
            pairs: step.pairs,
            x: below.map_or(step.data.0, |below| below.outputs),
            y: step.data.1,
            windows: convolution.windows,
            gradient: below.map_or(Buffer::default(), |below| below.gradient),
            side: side as i32,
            places: convolution.places.isqrt() as i32,
            channels: channels as i32,
            x_channels: self.x_channels as i32,
            ld_x: self.ld.0 as i32,
            ld_y: self.ld.1 as i32,
            ld_windows: padded(convolution.layer.weights.rows) as i32,
            padding: 0,
        };
        Launch::new(kernel, (blocks, 1, self.tiling.runs), 128, 0, &task)
    }

    /// Adds the kernels for the gradients of the dense layer's weights and of its input.
    fn dense_gradients(&self, step: Step, launches: &mut Vec<Launch>) {
        let (rows, tile) = (step.pairs.rows as usize, self.dense_tile);
        let below = self.last_images();
        let gradient = self.score.weight_gradient(&self.dense, below, rows, &step);
        let size = (gradient.inputs as usize, gradient.outputs as usize);
        let task = WeightGradientTask::single(step.pairs, gradient);
        launches.push(self.tiling.weight_gradient("weights_matrix_scores", tile, size, &task));
        let result = self.convolutions.last().map_or(Buffer::default(), |c| c.layer.gradient);
        let gradient = self.score.input_gradient(&self.dense, (below, result), rows, &step);
        let size = (rows, gradient.inputs as usize);
        let task = InputGradientTask::single(step.pairs, gradient);
        launches.push(self.tiling.product("inputs_scores_stored", tile, size, 1, &task));
    }

    fn weight_gradient(&self, step: Step, k: usize) -> Launch {
        let convolution = &self.convolutions[k];
        let layer = &convolution.layer;
        let windows = self.rows(convolution);
        let gradient = layer.weight_gradient(convolution.windows, layer.gradient, windows);
        let size = (gradient.inputs as usize, gradient.outputs as usize);
        let task = WeightGradientTask::single(step.pairs, gradient);
        self.tiling.weight_gradient("weights_matrix_matrix", convolution.tile, size, &task)
    }

    /// Returns the product of the outputs' gradient with the transposed weights.
    fn window_gradient(&self, step: Step, k: usize) -> Launch {
        let convolution = &self.convolutions[k];
        let weights = convolution.layer.weights;
        let (rows, columns) = (self.rows(convolution), padded(weights.rows));
        let product = PlainProduct {
            a: convolution.layer.gradient,
            b: (step.parameter)(weights.at),
            result: convolution.windows,
            rows: rows as i32,
            columns: columns as i32,
            depth: weights.ld as i32,
            ld_a: weights.ld as i32,
            ld_b: weights.ld as i32,
            ld_result: columns as i32,
        };
        let tile = self.tiling.tile(rows, columns, 1);
        let roles = [product, PlainProduct::default()];
        let task = PlainTask { grid: Grid { roles: 1 }, padding: 0, roles };
        self.tiling.product("product_along_along", tile, (rows, columns), 1, &task)
    }
}

/// Returns the tile of a convolution. Large tiles would be mostly empty with few channels.
fn convolution_tile(tiling: &Tiling, rows: usize, channels: usize) -> Tile {
    if channels <= Tile::Small.columns(tiling.precision) {
        Tile::Small
    } else {
        tiling.tile(rows, channels, 1)
    }
}

/// Lays out the weights and outputs of a convolution over `rows` windows.
fn hidden(
    layer: &ConvLayer,
    rows: usize,
    tile: Tile,
    tiling: &Tiling,
    layout: &mut ParameterLayout,
) -> Hidden {
    let size = (padded(layer.inputs), padded(layer.outputs));
    let pieces = tiling.pieces(tile, size, rows, 1);
    let weights = layout.matrix(layer.inputs, layer.outputs, pieces);
    Hidden {
        weights,
        bias: layout.row(layer.outputs, pieces),
        outputs: layout.arena.floats(rows * weights.ld, tiling.runs),
        gradient: layout.arena.floats(rows * weights.ld, tiling.runs),
    }
}
