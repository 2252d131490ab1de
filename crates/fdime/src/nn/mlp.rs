//! A fully connected network over a chunk of rows.

use super::activation::{self, Activation, add_bias_and_activate, backward_and_column_sums};
use super::matrix::{Matrix, Write, multiply};
use crate::random::Rng;
use multiversion::multiversion;
use rand::RngExt;
use std::ops::Range;

/// The shape of a network: layer k maps `widths[k]` inputs to `widths[k+1]` outputs as
/// z = a W_k + b_k with W_k stored row-major (inputs x outputs), then its bias, layer after layer
/// in one flat parameter buffer. Only hidden layers apply the activation.
#[derive(Clone, Debug)]
pub(crate) struct Mlp {
    widths: Vec<usize>,
    activation: Activation,
    offsets: Vec<usize>,
    /// The share of hidden activations dropped while training.
    dropout: f64,
}

/// A transposed copy of the weights for the backward pass, where products with transposed weights
/// are 10 to 40% slower at 64 rows. Each thread has its own and updates it at its first use in a
/// pass.
pub(crate) struct Transposed {
    weights: Vec<f32>,
    pass: u64,
}

/// The memory of one thread for the forward and backward pass over a chunk of rows.
pub(crate) struct MlpScratch {
    /// `activations[k]` is the input of layer k; the last is the network's output.
    pub(crate) activations: Vec<Vec<f32>>,
    /// The gradient of the network's output, to be set before the backward pass.
    pub(crate) gradient: Vec<f32>,
    gradient_below: Vec<f32>,
    /// 1 for hidden activations that the last forward pass kept, 0 for others; empty without
    /// dropout.
    kept: Vec<Vec<u8>>,
}

/// Sets hidden activations to zero at random during training and scales the others by
/// 1 / (1 - rate), which keeps their mean. The rate is rounded to a multiple of 1/256.
struct Dropout {
    threshold: u8,
    random: u64,
}

impl Dropout {
    fn new(rate: f64, random: u64) -> Self {
        Dropout { threshold: (rate * 256.0).round().clamp(0.0, 255.0) as u8, random }
    }

    fn scale(&self) -> f32 {
        256.0 / (256.0 - f32::from(self.threshold))
    }

    /// Returns the next random number (SplitMix64); its bytes decide over eight activations.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn apply(&mut self, activations: &mut [f32], kept: &mut [u8]) {
        for kept in kept.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            kept.copy_from_slice(&random[..kept.len()]);
        }
        drop_out(activations, kept, self.threshold, self.scale());
    }
}

/// Turns random bytes into decisions, 1 to keep and 0 to drop, and applies them.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn drop_out(activations: &mut [f32], kept: &mut [u8], threshold: u8, scale: f32) {
    for (activation, kept) in activations.iter_mut().zip(kept) {
        *kept = u8::from(*kept >= threshold);
        *activation *= scale * f32::from(*kept);
    }
}

impl Mlp {
    pub(crate) fn new(
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
        activation: Activation,
    ) -> Self {
        let widths: Vec<usize> =
            [inputs].into_iter().chain(hidden.iter().copied()).chain([outputs]).collect();
        let mut offsets = vec![0];
        for pair in widths.windows(2) {
            offsets.push(offsets[offsets.len() - 1] + (pair[0] + 1) * pair[1]);
        }
        Mlp { widths, activation, offsets, dropout: 0.0 }
    }

    /// Returns the network with dropout after every hidden layer.
    pub(crate) fn with_dropout(mut self, rate: f64) -> Self {
        self.dropout = rate;
        self
    }

    pub(crate) fn parameter_count(&self) -> usize {
        self.offsets[self.layers()]
    }

    pub(crate) fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// Returns the number of inputs of layer k, which are the outputs of layer k-1.
    pub(crate) fn width(&self, k: usize) -> usize {
        self.widths[k]
    }

    pub(crate) fn activation(&self) -> Activation {
        self.activation
    }

    /// Returns the range of layer k's weights in the flat buffer.
    pub(crate) fn weights(&self, k: usize) -> Range<usize> {
        self.offsets[k]..self.offsets[k] + self.widths[k] * self.widths[k + 1]
    }

    /// Returns the range of layer k's bias in the flat buffer.
    pub(crate) fn bias(&self, k: usize) -> Range<usize> {
        self.weights(k).end..self.offsets[k + 1]
    }

    /// Returns the number of multiply-adds for one row in `layers`.
    pub(crate) fn multiply_adds(&self, layers: Range<usize>) -> usize {
        layers.map(|k| self.widths[k] * self.widths[k + 1]).sum()
    }

    /// Draws weights and biases uniformly from +-1/sqrt(inputs), as PyTorch's linear layers do, and
    /// multiplies the weights by `scale`.
    pub(crate) fn initialise(&self, parameters: &mut [f32], scale: f32, rng: &mut Rng) {
        for k in 0..self.layers() {
            let bound = 1.0 / (self.widths[k] as f32).sqrt();
            for parameter in &mut parameters[self.offsets[k]..self.offsets[k + 1]] {
                *parameter = rng.random_range(-bound..bound);
            }
            parameters[self.weights(k)].iter_mut().for_each(|weight| *weight *= scale);
        }
    }

    pub(crate) fn scratch(&self, rows: usize) -> MlpScratch {
        let widest = self.widths[1..].iter().copied().max().unwrap_or(0);
        MlpScratch {
            activations: self.widths.iter().map(|width| vec![0.0; rows * width]).collect(),
            gradient: vec![0.0; rows * widest],
            gradient_below: vec![0.0; rows * widest],
            kept: Vec::new(),
        }
    }

    pub(crate) fn transposed(&self) -> Transposed {
        Transposed { weights: vec![0.0; self.parameter_count()], pass: 0 }
    }

    /// Transposes the weights unless it was already done in this pass. Passes are counted from 1.
    pub(crate) fn update_transposed(
        &self,
        parameters: &[f32],
        pass: u64,
        transposed: &mut Transposed,
    ) {
        if transposed.pass == pass {
            return;
        }
        transposed.pass = pass;
        for k in 1..self.layers() {
            let (inputs, outputs) = (self.widths[k], self.widths[k + 1]);
            let to = &mut transposed.weights[self.weights(k)];
            transpose(&parameters[self.weights(k)], inputs, outputs, to);
        }
    }

    /// Computes the outputs of layers `first..` for `rows` rows of `activations[first]`. `noise`
    /// seeds dropout during training; with `None` no activation is dropped.
    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        first: usize,
        rows: usize,
        noise: Option<u64>,
        scratch: &mut MlpScratch,
    ) {
        let noise = noise.filter(|_| self.dropout > 0.0);
        let mut dropout = noise.map(|noise| Dropout::new(self.dropout, noise));
        scratch.kept.resize(if dropout.is_some() { self.layers() } else { 0 }, Vec::new());
        for k in first..self.layers() {
            let (inputs, outputs) = (self.widths[k], self.widths[k + 1]);
            let (weights, bias) = (&parameters[self.weights(k)], &parameters[self.bias(k)]);
            let (below, above) = scratch.activations.split_at_mut(k + 1);
            let input = &below[k][..rows * inputs];
            let output = &mut above[0][..rows * outputs];
            let last = k + 1 == self.layers();
            if last && outputs == 1 {
                dot_rows(input, weights, bias[0], output);
                continue;
            }
            multiply(
                output,
                Write::Replace,
                Matrix::new(input, rows, inputs),
                Matrix::new(weights, inputs, outputs),
            );
            if !last {
                add_bias_and_activate(output, bias, self.activation);
                if let Some(dropout) = &mut dropout {
                    scratch.kept[k + 1].resize(output.len(), 0);
                    dropout.apply(output, &mut scratch.kept[k + 1]);
                }
            } else {
                for row in output.chunks_exact_mut(outputs) {
                    row.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
                }
            }
        }
    }

    /// Propagates `scratch.gradient`, the gradient of the outputs of `rows` rows, back through
    /// layers `first..` and adds (or writes) the parameters' gradient. Returns the gradient of the
    /// outputs of layer `first - 1` before their activation. It is empty for `first` = 0: the
    /// gradient of the network's input is never needed.
    pub(crate) fn backward<'a>(
        &self,
        transposed: &Transposed,
        first: usize,
        rows: usize,
        write: Write,
        parameter_gradient: &mut [f32],
        scratch: &'a mut MlpScratch,
    ) -> &'a [f32] {
        let MlpScratch { activations, gradient, gradient_below, kept } = scratch;
        let last = self.layers() - 1;
        if write == Write::Replace {
            // The layer above adds to the bias gradients, so they start from zero.
            for k in first..=last {
                parameter_gradient[self.bias(k)].fill(0.0);
            }
        }
        let bias_gradient = &mut parameter_gradient[self.bias(last)];
        for row in gradient[..rows * self.widths[last + 1]].chunks_exact(self.widths[last + 1]) {
            bias_gradient.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
        }
        for k in (first..=last).rev() {
            let (inputs, outputs) = (self.widths[k], self.widths[k + 1]);
            let input = Matrix::new(&activations[k], rows, inputs);
            let above = Matrix::new(gradient, rows, outputs);
            add_weight_gradient(&mut parameter_gradient[self.weights(k)], write, input, above);
            if k == 0 {
                return &[];
            }
            let below = &mut gradient_below[..rows * inputs];
            let weights = Matrix::new(&transposed.weights[self.weights(k)], outputs, inputs);
            write_input_gradient(below, above, weights);
            if let Some(kept) = kept.get(k).filter(|kept| !kept.is_empty()) {
                let input = &mut activations[k][..rows * inputs];
                undo_dropout(below, input, kept, Dropout::new(self.dropout, 0).scale());
            }
            let input = &activations[k][..rows * inputs];
            if k > first {
                let sums = &mut parameter_gradient[self.bias(k - 1)];
                backward_and_column_sums(below, input, sums, self.activation);
            } else {
                // The caller owns layer k-1 and sums its bias gradient itself.
                activation::backward(below, input, self.activation);
            }
            std::mem::swap(gradient, gradient_below);
        }
        &gradient[..rows * self.widths[first]]
    }
}

/// Adds (or writes) input^T above, the gradient of a layer's weights.
fn add_weight_gradient(weight_gradient: &mut [f32], write: Write, input: Matrix, above: Matrix) {
    if above.columns > 1 {
        multiply(weight_gradient, write, input.transposed(), above);
        return;
    }
    if write == Write::Replace {
        weight_gradient.fill(0.0);
    }
    add_scaled_rows(weight_gradient, input.data, above.data);
}

/// Writes above W^T, the gradient of a layer's inputs, given the transposed weights W^T.
fn write_input_gradient(below: &mut [f32], above: Matrix, transposed: Matrix) {
    if above.columns > 1 {
        multiply(below, Write::Replace, above, transposed);
    } else {
        outer_product(below, above.data, transposed.data);
    }
}

/// Computes the gradient before dropout, and the activations before dropout where they were kept
/// (dropped ones have no gradient).
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn undo_dropout(gradient: &mut [f32], activations: &mut [f32], kept: &[u8], scale: f32) {
    for ((g, a), kept) in gradient.iter_mut().zip(activations).zip(kept) {
        *g *= scale * f32::from(*kept);
        *a *= 1.0 / scale;
    }
}

/// Transposes `from` (rows x columns) into `to`, in tiles of 4 x 4 that compile to register
/// shuffles.
fn transpose(from: &[f32], rows: usize, columns: usize, to: &mut [f32]) {
    const TILE: usize = 4;
    let (even_rows, even_columns) = (rows - rows % TILE, columns - columns % TILE);
    for left in (0..even_columns).step_by(TILE) {
        for top in (0..even_rows).step_by(TILE) {
            let mut tile = [[0f32; TILE]; TILE];
            for (r, line) in tile.iter_mut().enumerate() {
                line.copy_from_slice(&from[(top + r) * columns + left..][..TILE]);
            }
            for c in 0..TILE {
                let line = [tile[0][c], tile[1][c], tile[2][c], tile[3][c]];
                to[(left + c) * rows + top..][..TILE].copy_from_slice(&line);
            }
        }
    }
    for row in 0..rows {
        let done = if row < even_rows { even_columns } else { 0 };
        for column in done..columns {
            to[column * rows + row] = from[row * columns + column];
        }
    }
}

/// Computes `outputs[r] = rows[r] . weights + bias`.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn dot_rows(rows: &[f32], weights: &[f32], bias: f32, outputs: &mut [f32]) {
    for (row, output) in rows.chunks_exact(weights.len()).zip(outputs) {
        *output = bias + dot(row, weights);
    }
}

/// Returns the inner product, summed in 16 lanes that are added at the end.
#[inline(always)]
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let (left_full, left_rest) = left.as_chunks::<16>();
    let (right_full, right_rest) = right.as_chunks::<16>();
    for (l, r) in left_full.iter().zip(right_full) {
        for lane in 0..16 {
            lanes[lane] += l[lane] * r[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(l, r)| l * r).sum();
    lanes.iter().sum::<f32>() + rest
}

/// Computes `sums += sum over r of scale[r] * rows[r]`.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add_scaled_rows(sums: &mut [f32], rows: &[f32], scale: &[f32]) {
    for (row, &scale) in rows.chunks_exact(sums.len()).zip(scale) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += scale * value;
        }
    }
}

/// Computes `rows[r] = scale[r] * weights`.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn outer_product(rows: &mut [f32], scale: &[f32], weights: &[f32]) {
    for (row, &scale) in rows.chunks_exact_mut(weights.len()).zip(scale) {
        for (value, weight) in row.iter_mut().zip(weights) {
            *value = scale * weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    /// Returns the sum of the outputs and its gradient in the parameters.
    fn value_and_gradient(
        mlp: &Mlp,
        parameters: &[f32],
        rows: &[f32],
        noise: Option<u64>,
    ) -> (f64, Vec<f32>) {
        let count = rows.len() / mlp.width(0);
        let mut scratch = mlp.scratch(count);
        scratch.activations[0].copy_from_slice(rows);
        mlp.forward(parameters, 0, count, noise, &mut scratch);
        let value = scratch.activations[mlp.layers()].iter().map(|v| f64::from(*v)).sum();
        scratch.gradient[..count].fill(1.0);
        let mut transposed = mlp.transposed();
        mlp.update_transposed(parameters, 1, &mut transposed);
        let mut gradient = vec![0.0; mlp.parameter_count()];
        mlp.backward(&transposed, 0, count, Write::Replace, &mut gradient, &mut scratch);
        (value, gradient)
    }

    fn network(activation: Activation, dropout: f64) -> (Mlp, Vec<f32>, Vec<f32>) {
        let mlp = Mlp::new(3, &[20, 12], 1, activation).with_dropout(dropout);
        let mut rng = stream(4, Purpose::Parameters, 0, 0);
        let mut parameters = vec![0.0; mlp.parameter_count()];
        mlp.initialise(&mut parameters, 1.0, &mut rng);
        let rows = (0..30).map(|_| rng.random_range(-1.0..1.0f32)).collect();
        (mlp, parameters, rows)
    }

    /// With fixed random numbers dropout is a deterministic function, and its gradient agrees with
    /// finite differences.
    #[test]
    fn gradients_under_dropout_match_finite_differences() {
        for activation in Activation::ALL {
            let (mlp, mut parameters, rows) = network(activation, 0.3);
            let (_, gradient) = value_and_gradient(&mlp, &parameters, &rows, Some(9));
            let mut checked = 0;
            for k in (0..parameters.len()).step_by(7) {
                let (start, h) = (parameters[k], 5e-3);
                let mut at = |value: f32| {
                    parameters[k] = value;
                    value_and_gradient(&mlp, &parameters, &rows, Some(9)).0
                };
                let difference = (at(start + h) - at(start - h)) / (2.0 * f64::from(h));
                parameters[k] = start;
                let error = (difference - f64::from(gradient[k])).abs();
                // A kink of ReLU between the two points is not an error of the gradient.
                let allowed = if activation == Activation::Relu { 0.1 } else { 5e-3 };
                assert!(error < allowed * (1.0 + difference.abs()), "{activation}: {error}");
                checked += usize::from(difference != 0.0);
            }
            assert!(checked > 20);
        }
    }

    /// Kept activations are scaled up, so that the expectation over masks is the network without
    /// dropout: exactly so for one hidden layer, whose output is linear in the mask. The mean over
    /// 4,000 masks is within 5 standard errors (alpha of about 6e-7, fixed seeds).
    #[test]
    fn dropout_keeps_the_mean_output() {
        let mlp = Mlp::new(3, &[16], 1, Activation::Elu).with_dropout(0.25);
        let mut parameters = vec![0.0; mlp.parameter_count()];
        mlp.initialise(&mut parameters, 1.0, &mut stream(1, Purpose::Parameters, 0, 0));
        let rows = [0.3, -0.8, 0.5];
        let (exact, _) = value_and_gradient(&mlp, &parameters, &rows, None);
        let values: Vec<f64> = (0..4000)
            .map(|seed: u64| value_and_gradient(&mlp, &parameters, &rows, Some(seed << 20)).0)
            .collect();
        let mean = values.iter().sum::<f64>() / 4000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 3999.0;
        assert!(variance > 0.0);
        assert!((mean - exact).abs() < 5.0 * (variance / 4000.0).sqrt(), "{mean} {exact}");
    }
}
