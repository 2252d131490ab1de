//! A convolutional network over a block of images, as matrix products over gathered windows.

use super::activation::{Activation, add_bias_and_activate, backward_and_column_sums};
use super::matrix::{Matrix, Write, multiply};
use crate::random::Rng;
use rand::RngExt;
use std::ops::Range;

/// Windows are squares of this many pixels on each side,
const KERNEL: usize = 5;
/// every second pixel has one,
const STRIDE: usize = 2;
/// and around the image there are so many pixels of zeros.
const PADDING: usize = 2;

/// Images whose windows are gathered together: their products stay in the L2 cache.
const GATHERED: usize = 4;

/// Pixels on each side of what a convolution makes of an image.
fn convolved(side: usize) -> usize {
    (side + 2 * PADDING - KERNEL) / STRIDE + 1
}

/// The shape of a network: convolutions, then dense layers. An image is stored pixel after pixel, the
/// channels of a pixel side by side; what a convolution makes of it likewise. Parameters are those of
/// layer after layer, weights (inputs x outputs) before bias, in one flat buffer.
#[derive(Clone, Debug)]
pub(crate) struct ConvNet {
    layers: Vec<Layer>,
    activation: Activation,
}

/// A product of the rows that an image has in this layer with the weights.
#[derive(Clone, Debug)]
struct Layer {
    /// How rows are gathered; nothing for a dense layer, whose row is the image as it is.
    window: Option<Window>,
    /// Rows of an image.
    rows: usize,
    inputs: usize,
    outputs: usize,
    offset: usize,
}

impl Layer {
    fn weights(&self) -> Range<usize> {
        self.offset..self.offset + self.inputs * self.outputs
    }

    fn bias(&self) -> Range<usize> {
        self.weights().end..self.weights().end + self.outputs
    }

    /// What an image has become behind this layer.
    fn image(&self) -> usize {
        self.rows * self.outputs
    }
}

/// The memory one thread needs to take a block of images forward and backward.
pub(crate) struct ConvScratch {
    /// `activations[k]` is the input of layer k; the last is the network's output.
    pub(crate) activations: Vec<Vec<f32>>,
    /// The gradient of the network's output, to be filled in before the way back.
    pub(crate) gradient: Vec<f32>,
    gradient_below: Vec<f32>,
    gathered: Vec<f32>,
}

impl ConvNet {
    /// Images with so many channels and pixels on each side go through convolutions with `hidden`
    /// channels, but for the last of `hidden`, a dense layer; then comes a single output.
    pub(crate) fn new(
        channels: usize,
        side: usize,
        hidden: &[usize],
        activation: Activation,
    ) -> Self {
        let (mut layers, mut offset): (Vec<Layer>, usize) = (Vec::new(), 0);
        let (mut channels, mut side) = (channels, side);
        let dense = hidden.len().saturating_sub(1);
        for (k, &outputs) in hidden.iter().chain([&1]).enumerate() {
            let layer = if k < dense {
                let window = Window { channels, side };
                (side, channels) = (convolved(side), outputs);
                let (rows, inputs) = (side * side, KERNEL * KERNEL * window.channels);
                Layer { window: Some(window), rows, inputs, outputs, offset }
            } else {
                let inputs = layers.last().map_or(side * side * channels, Layer::image);
                Layer { window: None, rows: 1, inputs, outputs, offset }
            };
            offset = layer.bias().end;
            layers.push(layer);
        }
        ConvNet { layers, activation }
    }

    pub(crate) fn parameter_count(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias().end)
    }

    /// Uniform in +-1/sqrt(inputs), as PyTorch's layers start; weights times `scale`.
    pub(crate) fn initialise(&self, parameters: &mut [f32], scale: f32, rng: &mut Rng) {
        for layer in &self.layers {
            let bound = 1.0 / (layer.inputs as f32).sqrt();
            for parameter in &mut parameters[layer.offset..layer.bias().end] {
                *parameter = rng.random_range(-bound..bound);
            }
            parameters[layer.weights()].iter_mut().for_each(|weight| *weight *= scale);
        }
    }

    /// Multiply-adds of a training pass over one image; the input's gradient is not needed.
    pub(crate) fn multiply_adds(&self) -> f64 {
        let forward = |layer: &Layer| (layer.rows * layer.inputs * layer.outputs) as f64;
        3.0 * self.layers.iter().map(forward).sum::<f64>()
            - self.layers.first().map_or(0.0, forward)
    }

    pub(crate) fn scratch(&self, images: usize) -> ConvScratch {
        let first = &self.layers[0];
        let input = first.window.map_or(first.inputs, |window| window.image());
        let sizes = || [input].into_iter().chain(self.layers.iter().map(Layer::image));
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

    /// Takes `images` images of `activations[0]` through all layers.
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

    /// Takes `scratch.gradient` of the outputs of `images` images back and adds (or writes) the
    /// parameters' gradient.
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
            // Bias gradients are summed up by the layer above, so they start from zero here.
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
                    let size = window.image();
                    let mut write = write;
                    gradient_below[..if k > 0 { images * size } else { 0 }].fill(0.0);
                    for start in (0..images).step_by(GATHERED) {
                        let block = start..images.min(start + GATHERED);
                        let of = |size: usize| block.start * size..block.end * size;
                        let rows = window.gather(&input[of(size)], gathered);
                        let above = Matrix::new(&above[of(layer.image())], rows, layer.outputs);
                        let windows = Matrix::new(gathered, rows, layer.inputs);
                        multiply(weight_gradient, write, windows.transposed(), above);
                        write = Write::Add;
                        if k > 0 {
                            multiply(gathered, Write::Replace, above, weights.transposed());
                            window.scatter(gathered, &mut gradient_below[of(size)]);
                        }
                    }
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

/// What a convolution looks at.
#[derive(Clone, Copy, Debug)]
struct Window {
    channels: usize,
    side: usize,
}

impl Window {
    fn image(&self) -> usize {
        self.side * self.side * self.channels
    }

    /// Calls `f(row, place in the row, place in the image, length)` for every run of pixels that a
    /// window of one image shares with a line of it.
    fn runs(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let (side, places) = (self.side, convolved(self.side));
        for (row, (top, left)) in
            (0..places).flat_map(|top| (0..places).map(move |left| (top, left))).enumerate()
        {
            // Coordinates with the padding; the image begins at PADDING.
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

    /// Writes the windows of some images, one a row; returns the number of rows.
    fn gather(&self, images: &[f32], rows: &mut [f32]) -> usize {
        let (places, width) = (convolved(self.side).pow(2), KERNEL * KERNEL * self.channels);
        let count = images.len() / self.image();
        rows[..count * places * width].fill(0.0);
        for (image, rows) in
            images.chunks_exact(self.image()).zip(rows.chunks_exact_mut(places * width))
        {
            self.runs(|row, to, from, length| {
                rows[row * width + to..][..length].copy_from_slice(&image[from..from + length]);
            });
        }
        count * places
    }

    /// Adds windows to the images they were taken from.
    fn scatter(&self, rows: &[f32], images: &mut [f32]) {
        let (places, width) = (convolved(self.side).pow(2), KERNEL * KERNEL * self.channels);
        for (image, rows) in
            images.chunks_exact_mut(self.image()).zip(rows.chunks_exact(places * width))
        {
            self.runs(|row, from, to, length| {
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

    /// One output pixel of one channel, by the definition of a convolution.
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

    fn numbers(count: usize) -> Vec<f32> {
        let mut rng = stream(5, Purpose::Data, 0, 0);
        (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    #[test]
    fn a_convolution_is_one_by_its_definition() {
        for side in [3, 7, 8] {
            let net = ConvNet::new(2, side, &[3, 4], Activation::Relu);
            let parameters = numbers(net.parameter_count());
            let images = 6;
            let input = numbers(images * side * side * 2);
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

    /// With smooth activations the slope along a random direction is the difference of the values.
    #[test]
    fn gradients_against_differences() {
        let net = ConvNet::new(2, 8, &[3, 4, 6], Activation::Softplus);
        let (parameters, direction) =
            (numbers(net.parameter_count()), numbers(net.parameter_count() + 1)[1..].to_vec());
        let images = 6;
        let input = numbers(images * 128);
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
                // Adding the same again doubles it.
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
