//! A convolutional network over a block of images, as matrix products with gathered windows.

use super::activation::{Activation, add_bias_and_activate, backward_and_column_sums};
use super::matrix::{Matrix, Write, multiply};
use crate::random::Rng;
use rand::RngExt;
use std::ops::Range;

/// The side of the square windows in pixels.
const KERNEL: usize = 5;
/// The distance from one window to the next.
const STRIDE: usize = 2;
/// The number of zero pixels around the image.
const PADDING: usize = 2;

/// The number of images whose windows are gathered together, so that products stay in the L2 cache.
const GATHERED: usize = 4;

/// Returns the side of a convolution's output for an image of `side` x `side` pixels.
fn convolved(side: usize) -> usize {
    (side + 2 * PADDING - KERNEL) / STRIDE + 1
}

/// The shape of a network: convolutions, then dense layers. Images and the outputs of convolutions
/// are stored pixel after pixel, with adjacent channels. Parameters are one flat buffer, layer
/// after layer, weights (inputs x outputs) before bias.
#[derive(Clone, Debug)]
pub(crate) struct ConvNet {
    layers: Vec<ConvLayer>,
    activation: Activation,
}

/// A layer: the product of an image's rows with the weights.
#[derive(Clone, Debug)]
pub(crate) struct ConvLayer {
    /// How rows are gathered; `None` for a dense layer, whose only row is the whole input.
    pub(crate) window: Option<Window>,
    /// The number of rows of an image.
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    offset: usize,
}

impl ConvLayer {
    fn weights(&self) -> Range<usize> {
        self.offset..self.offset + self.inputs * self.outputs
    }

    fn bias(&self) -> Range<usize> {
        self.weights().end..self.weights().end + self.outputs
    }

    /// Returns the number of outputs for one image.
    fn image(&self) -> usize {
        self.rows * self.outputs
    }
}

/// The memory of one thread for the forward and backward pass over a block of images.
pub(crate) struct ConvScratch {
    /// `activations[k]` is the input of layer k; the last is the network's output.
    pub(crate) activations: Vec<Vec<f32>>,
    /// The gradient of the network's output, to be set before the backward pass.
    pub(crate) gradient: Vec<f32>,
    gradient_below: Vec<f32>,
    gathered: Vec<f32>,
}

impl ConvNet {
    /// Returns a network for images of `side` x `side` pixels: convolutions whose numbers of
    /// channels are all but the last of `hidden`, a dense layer as wide as the last, and a single
    /// output.
    pub(crate) fn new(
        channels: usize,
        side: usize,
        hidden: &[usize],
        activation: Activation,
    ) -> Self {
        let (mut layers, mut offset): (Vec<ConvLayer>, usize) = (Vec::new(), 0);
        let (mut channels, mut side) = (channels, side);
        let dense = hidden.len().saturating_sub(1);
        for (k, &outputs) in hidden.iter().chain([&1]).enumerate() {
            let layer = if k < dense {
                let window = Window { channels, side };
                (side, channels) = (convolved(side), outputs);
                let (rows, inputs) = (side * side, KERNEL * KERNEL * window.channels);
                ConvLayer { window: Some(window), rows, inputs, outputs, offset }
            } else {
                let inputs = layers.last().map_or(side * side * channels, ConvLayer::image);
                ConvLayer { window: None, rows: 1, inputs, outputs, offset }
            };
            offset = layer.bias().end;
            layers.push(layer);
        }
        ConvNet { layers, activation }
    }

    /// Returns the largest number of values that an image becomes at once, as windows or outputs.
    #[cfg(feature = "cuda")]
    pub(crate) fn largest_image(&self) -> usize {
        let size = |layer: &ConvLayer| layer.rows * layer.inputs.max(layer.outputs);
        self.layers.iter().map(size).max().unwrap_or(0)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn layers(&self) -> &[ConvLayer] {
        &self.layers
    }

    pub(crate) fn parameter_count(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias().end)
    }

    /// Draws parameters uniformly from +-1/sqrt(inputs), as PyTorch's layers do, and multiplies the
    /// weights by `scale`.
    pub(crate) fn initialise(&self, parameters: &mut [f32], scale: f32, rng: &mut Rng) {
        for layer in &self.layers {
            let bound = 1.0 / (layer.inputs as f32).sqrt();
            for parameter in &mut parameters[layer.offset..layer.bias().end] {
                *parameter = rng.random_range(-bound..bound);
            }
            parameters[layer.weights()].iter_mut().for_each(|weight| *weight *= scale);
        }
    }

    /// Returns the number of multiply-adds of a training pass over one image, without the gradient
    /// of the input.
    pub(crate) fn multiply_adds(&self) -> f64 {
        let forward = |layer: &ConvLayer| (layer.rows * layer.inputs * layer.outputs) as f64;
        3.0 * self.layers.iter().map(forward).sum::<f64>()
            - self.layers.first().map_or(0.0, forward)
    }

    pub(crate) fn scratch(&self, images: usize) -> ConvScratch {
        let first = &self.layers[0];
        let input = first.window.map_or(first.inputs, |window| window.image());
        let sizes = || [input].into_iter().chain(self.layers.iter().map(ConvLayer::image));
        let widest = sizes().skip(1).max().unwrap_or(0);
        let windows = self.layers.iter().filter(|layer| layer.window.is_some());
        let gathered = windows.map(|layer| layer.rows * layer.inputs).max().unwrap_or(0);
        ConvScratch {
            activations: sizes().map(|size| vec![0.0; images * size]).collect(),
            gradient: vec![0.0; images * widest],
            gradient_below: vec![0.0; images * widest],
            gathered: vec![0.0; GATHERED * gathered],
        }
    }

    /// Computes the outputs of all layers for `images` images of `activations[0]`.
    pub(crate) fn forward(&self, parameters: &[f32], images: usize, scratch: &mut ConvScratch) {
        for (k, layer) in self.layers.iter().enumerate() {
            let (below, above) = scratch.activations.split_at_mut(k + 1);
            let (input, output) = (&below[k], &mut above[0][..images * layer.image()]);
            let weights = Matrix::new(&parameters[layer.weights()], layer.inputs, layer.outputs);
            match &layer.window {
                None => {
                    let rows = Matrix::new(input, images, layer.inputs);
                    multiply(output, Write::Replace, rows, weights);
                }
                Some(window) => {
                    let inputs = input[..images * window.image()].chunks(GATHERED * window.image());
                    for (input, output) in inputs.zip(output.chunks_mut(GATHERED * layer.image())) {
                        let rows = window.gather(input, &mut scratch.gathered);
                        let rows = Matrix::new(&scratch.gathered, rows, layer.inputs);
                        multiply(output, Write::Replace, rows, weights);
                    }
                }
            }
            let bias = &parameters[layer.bias()];
            if k + 1 < self.layers.len() {
                add_bias_and_activate(output, bias, self.activation);
            } else {
                output.iter_mut().for_each(|score| *score += bias[0]);
            }
        }
    }

    /// Propagates `scratch.gradient`, the gradient of the outputs of `images` images, back through
    /// all layers and adds (or writes) the parameters' gradient.
    pub(crate) fn backward(
        &self,
        parameters: &[f32],
        images: usize,
        write: Write,
        parameter_gradient: &mut [f32],
        scratch: &mut ConvScratch,
    ) {
        let ConvScratch { activations, gradient, gradient_below, gathered } = scratch;
        if write == Write::Replace {
            // The layer above adds to the bias gradients, so they start from zero.
            for layer in &self.layers {
                parameter_gradient[layer.bias()].fill(0.0);
            }
        }
        if let Some(last) = self.layers.last() {
            parameter_gradient[last.bias().start] += gradient[..images].iter().sum::<f32>();
        }
        for (k, layer) in self.layers.iter().enumerate().rev() {
            let weights = Matrix::new(&parameters[layer.weights()], layer.inputs, layer.outputs);
            let weight_gradient = &mut parameter_gradient[layer.weights()];
            let above = &gradient[..images * layer.image()];
            let input = &activations[k];
            match &layer.window {
                None => {
                    let rows = Matrix::new(input, images, layer.inputs);
                    let above = Matrix::new(above, images, layer.outputs);
                    multiply(weight_gradient, write, rows.transposed(), above);
                    if k > 0 {
                        multiply(gradient_below, Write::Replace, above, weights.transposed());
                    }
                }
                Some(window) => {
                    let below =
                        &mut gradient_below[..if k > 0 { images * window.image() } else { 0 }];
                    let input = &input[..images * window.image()];
                    window.backward(
                        input,
                        above,
                        weights,
                        gathered,
                        (weight_gradient, write),
                        below,
                    );
                }
            }
            if k > 0 {
                let below = &self.layers[k - 1];
                backward_and_column_sums(
                    &mut gradient_below[..images * below.image()],
                    &input[..images * below.image()],
                    &mut parameter_gradient[below.bias()],
                    self.activation,
                );
                std::mem::swap(gradient, gradient_below);
            }
        }
    }
}

/// The input of a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) channels: usize,
    pub(crate) side: usize,
}

impl Window {
    fn image(&self) -> usize {
        self.side * self.side * self.channels
    }

    /// Calls `f(row, index in the row, index in the image, length)` for every line of every window
    /// of one image, without the padding.
    fn for_each_line(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let (side, places) = (self.side, convolved(self.side));
        for (row, (top, left)) in
            (0..places).flat_map(|top| (0..places).map(move |left| (top, left))).enumerate()
        {
            // Coordinates include the padding: the image begins at PADDING.
            let columns =
                (left * STRIDE).max(PADDING)..(left * STRIDE + KERNEL).min(side + PADDING);
            for line in 0..KERNEL {
                let y = top * STRIDE + line;
                if (PADDING..side + PADDING).contains(&y) && !columns.is_empty() {
                    let in_row = line * KERNEL + columns.start - left * STRIDE;
                    let in_image = (y - PADDING) * side + columns.start - PADDING;
                    f(
                        row,
                        in_row * self.channels,
                        in_image * self.channels,
                        columns.len() * self.channels,
                    );
                }
            }
        }
    }

    /// Writes the windows of the images, one per row, and returns the number of rows.
    fn gather(&self, images: &[f32], rows: &mut [f32]) -> usize {
        let (places, width) = (convolved(self.side).pow(2), KERNEL * KERNEL * self.channels);
        let count = images.len() / self.image();
        rows[..count * places * width].fill(0.0);
        for (image, rows) in
            images.chunks_exact(self.image()).zip(rows.chunks_exact_mut(places * width))
        {
            self.for_each_line(|row, to, from, length| {
                rows[row * width + to..][..length].copy_from_slice(&image[from..from + length]);
            });
        }
        count * places
    }

    /// Adds (or writes) the gradient of the weights and, unless `below` is empty, writes the
    /// gradient of the input, for all images of `input` with the gradient `above` of the outputs.
    fn backward(
        &self,
        input: &[f32],
        above: &[f32],
        weights: Matrix,
        gathered: &mut [f32],
        (weight_gradient, mut write): (&mut [f32], Write),
        below: &mut [f32],
    ) {
        let images = input.len() / self.image();
        let (inputs, outputs) = (weights.rows, weights.columns);
        below.fill(0.0);
        for start in (0..images).step_by(GATHERED) {
            let block = start..images.min(start + GATHERED);
            let range = |size: usize| block.start * size..block.end * size;
            let rows = self.gather(&input[range(self.image())], gathered);
            let above = Matrix::new(&above[range(above.len() / images)], rows, outputs);
            let windows = Matrix::new(gathered, rows, inputs);
            multiply(weight_gradient, write, windows.transposed(), above);
            write = Write::Add;
            if !below.is_empty() {
                multiply(gathered, Write::Replace, above, weights.transposed());
                self.scatter(gathered, &mut below[range(self.image())]);
            }
        }
    }

    /// Adds windows to the images from which they were gathered.
    fn scatter(&self, rows: &[f32], images: &mut [f32]) {
        let (places, width) = (convolved(self.side).pow(2), KERNEL * KERNEL * self.channels);
        for (image, rows) in
            images.chunks_exact_mut(self.image()).zip(rows.chunks_exact(places * width))
        {
            self.for_each_line(|row, from, to, length| {
                let values = &rows[row * width + from..][..length];
                image[to..to + length].iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    /// Returns one output pixel of the first channel by the definition of a convolution.
    fn reference(net: &ConvNet, parameters: &[f32], image: &[f32], pixel: (usize, usize)) -> f32 {
        let layer = &net.layers[0];
        let Window { channels, side } = layer.window.unwrap();
        let mut sum = parameters[layer.bias().start];
        for line in 0..KERNEL {
            for column in 0..KERNEL {
                let y = (pixel.0 * STRIDE + line).checked_sub(PADDING).filter(|y| *y < side);
                let x = (pixel.1 * STRIDE + column).checked_sub(PADDING).filter(|x| *x < side);
                let (Some(y), Some(x)) = (y, x) else { continue };
                for channel in 0..channels {
                    let weight = ((line * KERNEL + column) * channels + channel) * layer.outputs;
                    sum += parameters[weight] * image[(y * side + x) * channels + channel];
                }
            }
        }
        sum.max(0.0)
    }

    fn random_numbers(count: usize) -> Vec<f32> {
        let mut rng = stream(5, Purpose::Data, 0, 0);
        (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    #[test]
    fn convolutions_match_their_definition() {
        for side in [3, 7, 8] {
            let net = ConvNet::new(2, side, &[3, 4], Activation::Relu);
            let parameters = random_numbers(net.parameter_count());
            let images = 6;
            let input = random_numbers(images * side * side * 2);
            let mut scratch = net.scratch(images);
            scratch.activations[0].copy_from_slice(&input);
            net.forward(&parameters, images, &mut scratch);
            let places = convolved(side);
            for image in 0..images {
                let pixels = &input[image * side * side * 2..][..side * side * 2];
                for (y, x) in [(0, 0), (places - 1, 0), (places / 2, places - 1)] {
                    let at = image * net.layers[0].image() + (y * places + x) * 3;
                    let expected = reference(&net, &parameters, pixels, (y, x));
                    let found = scratch.activations[1][at];
                    assert!((found - expected).abs() < 1e-4, "{side} {found} {expected}");
                }
            }
        }
    }

    /// With smooth activations the slope along a random direction matches a finite difference.
    #[test]
    fn gradients_match_finite_differences() {
        let net = ConvNet::new(2, 8, &[3, 4, 6], Activation::Softplus);
        let (parameters, direction) = (
            random_numbers(net.parameter_count()),
            random_numbers(net.parameter_count() + 1)[1..].to_vec(),
        );
        let images = 6;
        let input = random_numbers(images * 128);
        let sum_at = |step: f32, gradient: Option<&mut [f32]>| {
            let parameters: Vec<f32> =
                parameters.iter().zip(&direction).map(|(p, d)| 0.3 * p + step * d).collect();
            let mut scratch = net.scratch(images);
            scratch.activations[0].copy_from_slice(&input);
            net.forward(&parameters, images, &mut scratch);
            let scores = scratch.activations[net.layers.len()].clone();
            if let Some(gradient) = gradient {
                (0..images).for_each(|i| scratch.gradient[i] = 1.0 + i as f32);
                net.backward(&parameters, images, Write::Replace, gradient, &mut scratch);
                // A second pass that adds doubles the gradient.
                net.forward(&parameters, images, &mut scratch);
                (0..images).for_each(|i| scratch.gradient[i] = 1.0 + i as f32);
                net.backward(&parameters, images, Write::Add, gradient, &mut scratch);
            }
            scores.iter().enumerate().map(|(i, s)| (1.0 + i as f64) * f64::from(*s)).sum::<f64>()
        };
        let h = 1e-3;
        let difference = (sum_at(h, None) - sum_at(-h, None)) / (2.0 * f64::from(h));
        let mut gradient = vec![f32::NAN; net.parameter_count()];
        sum_at(0.0, Some(&mut gradient));
        let slope: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(0.5 * g * d)).sum();
        assert!(
            (slope - difference).abs() < 3e-3 * difference.abs().max(1.0),
            "{slope} {difference}"
        );
    }
}
