//! The joint critic: one network over all N^2 pairs of a batch.
//!
//! The first layer is linear in (x, y), so it is computed once for each x and once for each y,
//! z_ij = x_i W_x + b + y_j W_y, instead of on all N^2 rows; its gradient likewise is gathered
//! into sums over j and over i before it meets the data.

use super::{Batch, CHUNK, Critic, CriticPlan, GradientParts, all_pairs_gradient, groups};
use crate::engine::Workers;
use crate::nn::matrix::{Matrix, Write, multiply};
use crate::nn::{Activation, Mlp, MlpScratch, Part, Transposed};
use crate::objective::Objective;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use multiversion::multiversion;
use std::ops::Range;

pub(super) struct Joint {
    mlp: Mlp,
    x_dim: usize,
    parameters: Vec<f32>,
    groups: Vec<Range<usize>>,
    blocks: Vec<ScoreBlock>,
    parts: Vec<Part>,
    scratch: Vec<Scratch>,
    passes: u64,
}

struct Scratch {
    network: MlpScratch,
    transposed: Transposed,
    /// x W_x + b of the group's rows and y W_y of all rows, and the gradients of both.
    x_part: Vec<f32>,
    y_part: Vec<f32>,
    x_gradient: Vec<f32>,
    y_gradient: Vec<f32>,
}

impl Joint {
    pub(super) fn new(
        plan: &CriticPlan,
        (x_dim, y_dim): (usize, usize),
        n: usize,
        rng: &mut Rng,
        threads: usize,
    ) -> Self {
        let mlp = Mlp::new(x_dim + y_dim, &plan.hidden, 1, plan.activation);
        let mut parameters = vec![0.0; mlp.parameter_count()];
        mlp.initialise(&mut parameters, rng);
        let groups = groups(n, n);
        let largest = groups.iter().map(Range::len).max().unwrap_or(0);
        let width = mlp.width(1);
        let block = |rows: &Range<usize>| ScoreBlock::AllPairs {
            first: rows.start,
            n,
            matrix: vec![0.0; rows.len() * n],
        };
        Joint {
            blocks: groups.iter().map(block).collect(),
            parts: groups.iter().map(|_| Part::new(0, parameters.len())).collect(),
            scratch: (0..threads)
                .map(|_| Scratch {
                    network: mlp.scratch(CHUNK),
                    transposed: mlp.transposed(),
                    x_part: vec![0.0; largest * width],
                    y_part: vec![0.0; n * width],
                    x_gradient: vec![0.0; largest * width],
                    y_gradient: vec![0.0; n * width],
                })
                .collect(),
            mlp,
            x_dim,
            parameters,
            groups,
            passes: 0,
        }
    }

    /// Forward through all groups; with an objective, gradients and backward too.
    fn sweep(&mut self, batch: &Batch, objective: Option<&dyn Objective>, workers: &mut Workers) {
        let Joint { mlp, x_dim, parameters, groups, blocks, parts, scratch, passes } = self;
        workers.for_each(blocks, parts, scratch, |group, block, part, scratch| {
            let ScoreBlock::AllPairs { matrix, .. } = block else { return };
            mlp.update_transposed(parameters, *passes, &mut scratch.transposed);
            let task = GroupPass {
                mlp,
                parameters,
                batch,
                x_dim: *x_dim,
                y_dim: mlp.width(0) - *x_dim,
                rows: groups[group].clone(),
                objective,
            };
            part.value = task.run(matrix, &mut part.gradient, scratch);
        });
    }
}

/// The pass over one group of x rows, each with every y.
struct GroupPass<'a> {
    mlp: &'a Mlp,
    parameters: &'a [f32],
    batch: &'a Batch,
    x_dim: usize,
    y_dim: usize,
    rows: Range<usize>,
    /// Nothing: scores alone are wanted.
    objective: Option<&'a dyn Objective>,
}

impl GroupPass<'_> {
    fn run(&self, scores: &mut [f32], gradient: &mut [f32], scratch: &mut Scratch) -> f64 {
        let (n, width) = (self.batch.n, self.mlp.width(1));
        self.first_layer(scratch);
        scratch.x_gradient[..self.rows.len() * width].fill(0.0);
        scratch.y_gradient.fill(0.0);
        // A chunk is a tile of the N x N matrix: a run of columns with as many rows as fit. Runs
        // of columns are the outer loop, so that their part of y_gradient stays in cache.
        let columns = n.min(CHUNK);
        let tile_rows = (CHUNK / columns).max(1);
        let (mut value, mut write) = (0.0, Write::Replace);
        for left in (0..n).step_by(columns) {
            let columns = left..(left + columns).min(n);
            for top in (0..self.rows.len()).step_by(tile_rows) {
                let rows = top..(top + tile_rows).min(self.rows.len());
                value += self.tile(rows, columns.clone(), write, scores, gradient, scratch);
                write = Write::Add;
            }
        }
        if self.objective.is_some() {
            self.first_layer_gradient(gradient, scratch);
        }
        value
    }

    /// x W_x + b and y W_y.
    fn first_layer(&self, scratch: &mut Scratch) {
        let (n, width) = (self.batch.n, self.mlp.width(1));
        let (x_weights, y_weights) =
            self.parameters[self.mlp.weights(0)].split_at(self.x_dim * width);
        let count = self.rows.len();
        let x = &self.batch.x[self.rows.start * self.x_dim..];
        let x_part = &mut scratch.x_part[..count * width];
        multiply(
            x_part,
            Write::Replace,
            Matrix::new(x, count, self.x_dim),
            Matrix::new(x_weights, self.x_dim, width),
        );
        for row in x_part.chunks_exact_mut(width) {
            row.iter_mut().zip(&self.parameters[self.mlp.bias(0)]).for_each(|(z, b)| *z += b);
        }
        multiply(
            &mut scratch.y_part,
            Write::Replace,
            Matrix::new(&self.batch.y, n, self.y_dim),
            Matrix::new(y_weights, self.y_dim, width),
        );
    }

    /// Gradients of W_x, W_y and b from the sums gathered over the tiles.
    fn first_layer_gradient(&self, gradient: &mut [f32], scratch: &Scratch) {
        let (n, width, count) = (self.batch.n, self.mlp.width(1), self.rows.len());
        let x_gradient = &scratch.x_gradient[..count * width];
        let x = &self.batch.x[self.rows.start * self.x_dim..];
        let (x_weights, y_weights) = gradient[self.mlp.weights(0)].split_at_mut(self.x_dim * width);
        multiply(
            x_weights,
            Write::Replace,
            Matrix::new(x, count, self.x_dim).transposed(),
            Matrix::new(x_gradient, count, width),
        );
        multiply(
            y_weights,
            Write::Replace,
            Matrix::new(&self.batch.y, n, self.y_dim).transposed(),
            Matrix::new(&scratch.y_gradient, n, width),
        );
        let bias = &mut gradient[self.mlp.bias(0)];
        bias.fill(0.0);
        for row in x_gradient.chunks_exact(width) {
            bias.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
        }
    }

    /// One tile: rows (of the group) x columns.
    fn tile(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        write: Write,
        scores: &mut [f32],
        gradient: &mut [f32],
        scratch: &mut Scratch,
    ) -> f64 {
        let (n, width, layers) = (self.batch.n, self.mlp.width(1), self.mlp.layers());
        let (across, count) = (columns.len(), rows.len() * columns.len());
        let y_part = &scratch.y_part[columns.start * width..columns.end * width];
        for (index, row) in rows.clone().enumerate() {
            let x_row = &scratch.x_part[row * width..(row + 1) * width];
            let hidden = &mut scratch.network.activations[1]
                [index * across * width..(index + 1) * across * width];
            sum_and_activate(hidden, x_row, y_part, self.mlp.activation());
        }
        self.mlp.forward(self.parameters, 1, count, &mut scratch.network);
        let tile_scores = &scratch.network.activations[layers][..count];
        let mut value = 0.0;
        for (index, row) in rows.clone().enumerate() {
            let run = &tile_scores[index * across..(index + 1) * across];
            scores[row * n + columns.start..row * n + columns.end].copy_from_slice(run);
            if let Some(objective) = self.objective {
                let score_gradient =
                    &mut scratch.network.gradient[index * across..(index + 1) * across];
                let row = self.rows.start + row;
                value += all_pairs_gradient(objective, row, columns.start, run, score_gradient);
            }
        }
        if self.objective.is_none() {
            return value;
        }
        let hidden_gradient =
            self.mlp.backward(&scratch.transposed, 1, count, write, gradient, &mut scratch.network);
        for (index, row) in rows.enumerate() {
            add_to_sums(
                &hidden_gradient[index * across * width..(index + 1) * across * width],
                &mut scratch.x_gradient[row * width..(row + 1) * width],
                &mut scratch.y_gradient[columns.start * width..columns.end * width],
            );
        }
        value
    }
}

/// `hidden[j] = activation(x_row + y_rows[j])`
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

/// `x_sum += sum over j of gradient[j]; y_sums[j] += gradient[j]`
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

impl Critic for Joint {
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64 {
        self.passes += 1;
        if objective.needs_whole_batch() {
            self.sweep(batch, None, workers);
            objective.observe(Scores(&self.blocks));
        }
        self.sweep(batch, Some(objective), workers);
        objective.constant() + self.parts.iter().map(|part| part.value).sum::<f64>()
    }

    fn scores(&self) -> Scores<'_> {
        Scores(&self.blocks)
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        (&mut self.parameters, GradientParts(&self.parts))
    }

    fn operations(&self) -> f64 {
        let n = self.groups.iter().map(Range::len).sum::<usize>() as f64;
        let layers = self.mlp.layers();
        let (first, rest) = (self.mlp.multiply_adds(0..1), self.mlp.multiply_adds(1..layers));
        2.0 * (n * n * 3.0 * rest as f64 + n * 2.0 * first as f64)
    }
}
