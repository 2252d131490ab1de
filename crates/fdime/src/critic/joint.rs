//! The joint critic: one network over all N^2 pairs of a batch.
//!
//! The first layer is linear in (x, y), so it is computed once for each x and for each y,
//! z_ij = x_i W_x + b + y_j W_y, instead of for all N^2 pairs. Its gradient is likewise summed over
//! j and over i before it is multiplied by the data.

use super::pair_network::{Group, GroupEvaluator, Scratch};
use super::{CHUNK, all_pairs_gradient};
use crate::nn::matrix::{Matrix, Write, multiply};
use crate::nn::{Activation, Mlp};
use crate::scores::ScoreBlock;
use multiversion::multiversion;
use std::ops::Range;

pub(super) struct Joint;

/// x W_x + b of the group's rows and y W_y of all rows, and the gradients of both.
pub(super) struct FirstLayer {
    x_part: Vec<f32>,
    y_part: Vec<f32>,
    x_gradient: Vec<f32>,
    y_gradient: Vec<f32>,
}

impl GroupEvaluator for Joint {
    type Buffers = FirstLayer;

    fn buffers(mlp: &Mlp, n: usize, rows: usize) -> FirstLayer {
        let width = mlp.width(1);
        FirstLayer {
            x_part: vec![0.0; rows * width],
            y_part: vec![0.0; n * width],
            x_gradient: vec![0.0; rows * width],
            y_gradient: vec![0.0; n * width],
        }
    }

    fn pairs_per_row(n: usize) -> usize {
        n
    }

    fn score_block(rows: &Range<usize>, n: usize) -> ScoreBlock {
        ScoreBlock::all_pairs(rows, n)
    }

    fn evaluate_group(
        group: &Group,
        scores: &mut ScoreBlock,
        gradient: &mut [f32],
        scratch: &mut Scratch<FirstLayer>,
    ) -> f64 {
        let ScoreBlock::AllPairs { matrix, .. } = scores else {
            unreachable!("`score_block` of the joint critic allocates all pairs");
        };
        let (n, rows, width) = (group.batch.n, group.rows.len(), group.mlp.width(1));
        group.first_layer(&mut scratch.buffers);
        scratch.buffers.x_gradient[..rows * width].fill(0.0);
        scratch.buffers.y_gradient.fill(0.0);
        // A chunk is a tile of the N x N matrix: consecutive columns with as many rows as fit. The
        // outer loop is over columns, so that their part of y_gradient stays in the cache.
        let (mut value, mut write) = (0.0, Write::Replace);
        for left in (0..n).step_by(CHUNK) {
            let columns = left..(left + CHUNK).min(n);
            let tile_rows = CHUNK / columns.len();
            for top in (0..rows).step_by(tile_rows) {
                let tile = top..(top + tile_rows).min(rows);
                value += group.tile(tile, columns.clone(), write, matrix, gradient, scratch);
                write = Write::Add;
            }
        }
        if group.objective.is_some() {
            group.first_layer_gradient(gradient, &scratch.buffers);
        }
        value
    }

    /// Counts n^2 rows, but in the first layer n rows of x and n rows of y, and there no gradient
    /// of the inputs.
    fn multiply_adds(mlp: &Mlp, n: f64) -> f64 {
        let (first, rest) = (mlp.multiply_adds(0..1), mlp.multiply_adds(1..mlp.layers()));
        n * n * 3.0 * rest as f64 + n * 2.0 * first as f64
    }
}

impl Group<'_> {
    /// Computes x W_x + b and y W_y.
    fn first_layer(&self, buffers: &mut FirstLayer) {
        let (n, width) = (self.batch.n, self.mlp.width(1));
        let (x_dim, y_dim) = self.batch.dims;
        let (x_weights, y_weights) = self.parameters[self.mlp.weights(0)].split_at(x_dim * width);
        let count = self.rows.len();
        let x = &self.batch.x[self.rows.start * x_dim..];
        let x_part = &mut buffers.x_part[..count * width];
        multiply(
            x_part,
            Write::Replace,
            Matrix::new(x, count, x_dim),
            Matrix::new(x_weights, x_dim, width),
        );
        for row in x_part.chunks_exact_mut(width) {
            row.iter_mut().zip(&self.parameters[self.mlp.bias(0)]).for_each(|(z, b)| *z += b);
        }
        multiply(
            &mut buffers.y_part,
            Write::Replace,
            Matrix::new(&self.batch.y, n, y_dim),
            Matrix::new(y_weights, y_dim, width),
        );
    }

    /// Writes the gradients of W_x, W_y and b, from the sums over the tiles.
    fn first_layer_gradient(&self, gradient: &mut [f32], buffers: &FirstLayer) {
        let (x_dim, y_dim) = self.batch.dims;
        let (n, width, count) = (self.batch.n, self.mlp.width(1), self.rows.len());
        let x_gradient = &buffers.x_gradient[..count * width];
        let x = &self.batch.x[self.rows.start * x_dim..];
        let (x_weights, y_weights) = gradient[self.mlp.weights(0)].split_at_mut(x_dim * width);
        multiply(
            x_weights,
            Write::Replace,
            Matrix::new(x, count, x_dim).transposed(),
            Matrix::new(x_gradient, count, width),
        );
        multiply(
            y_weights,
            Write::Replace,
            Matrix::new(&self.batch.y, n, y_dim).transposed(),
            Matrix::new(&buffers.y_gradient, n, width),
        );
        let bias = &mut gradient[self.mlp.bias(0)];
        bias.fill(0.0);
        for row in x_gradient.chunks_exact(width) {
            bias.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
        }
    }

    /// Evaluates one tile, with rows counted from the start of the group, and returns its value.
    fn tile(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        write: Write,
        scores: &mut [f32],
        gradient: &mut [f32],
        scratch: &mut Scratch<FirstLayer>,
    ) -> f64 {
        let Scratch { network, transposed, buffers } = scratch;
        let (n, width, layers) = (self.batch.n, self.mlp.width(1), self.mlp.layers());
        let (across, count) = (columns.len(), rows.len() * columns.len());
        let y_part = &buffers.y_part[columns.start * width..columns.end * width];
        for (index, row) in rows.clone().enumerate() {
            let x_row = &buffers.x_part[row * width..(row + 1) * width];
            let hidden =
                &mut network.activations[1][index * across * width..(index + 1) * across * width];
            sum_and_activate(hidden, x_row, y_part, self.mlp.activation());
        }
        self.mlp.forward(self.parameters, 1, count, None, network);
        let tile_scores = &mut network.activations[layers][..count];
        let mut value = 0.0;
        for (index, row) in rows.clone().enumerate() {
            let run = &mut tile_scores[index * across..(index + 1) * across];
            let i = self.rows.start + row;
            self.batch.add_reference(columns.clone().map(|j| (i, j)), run);
            scores[row * n + columns.start..row * n + columns.end].copy_from_slice(run);
            if let Some(objective) = self.objective {
                let score_gradient = &mut network.gradient[index * across..(index + 1) * across];
                let row = self.rows.start + row;
                value += all_pairs_gradient(objective, row, columns.start, run, score_gradient);
            }
        }
        if self.objective.is_none() {
            return value;
        }
        let hidden_gradient = self.mlp.backward(transposed, 1, count, write, gradient, network);
        for (index, row) in rows.enumerate() {
            add_to_sums(
                &hidden_gradient[index * across * width..(index + 1) * across * width],
                &mut buffers.x_gradient[row * width..(row + 1) * width],
                &mut buffers.y_gradient[columns.start * width..columns.end * width],
            );
        }
        value
    }
}

/// Computes `hidden[j] = activation(x_row + y_rows[j])`.
fn sum_and_activate(hidden: &mut [f32], x_row: &[f32], y_rows: &[f32], activation: Activation) {
    match activation {
        Activation::Relu => sum_and_relu(hidden, x_row, y_rows),
        _ => sum_and_smooth(hidden, x_row, y_rows, activation),
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn sum_and_relu(hidden: &mut [f32], x_row: &[f32], y_rows: &[f32]) {
    let width = x_row.len();
    for (hidden, y) in hidden.chunks_exact_mut(width).zip(y_rows.chunks_exact(width)) {
        for ((h, x), y) in hidden.iter_mut().zip(x_row).zip(y) {
            *h = Activation::Relu.value(x + y);
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn sum_and_smooth(hidden: &mut [f32], x_row: &[f32], y_rows: &[f32], activation: Activation) {
    let width = x_row.len();
    for (hidden, y) in hidden.chunks_exact_mut(width).zip(y_rows.chunks_exact(width)) {
        for ((h, x), y) in hidden.iter_mut().zip(x_row).zip(y) {
            *h = activation.value(x + y);
        }
    }
}

/// Computes `x_sum += sum over j of gradient[j]` and `y_sums[j] += gradient[j]`.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add_to_sums(gradient: &[f32], x_sum: &mut [f32], y_sums: &mut [f32]) {
    let width = x_sum.len();
    for (gradient, y_sum) in gradient.chunks_exact(width).zip(y_sums.chunks_exact_mut(width)) {
        for ((g, x), y) in gradient.iter().zip(x_sum.iter_mut()).zip(y_sum) {
            *x += g;
            *y += g;
        }
    }
}
