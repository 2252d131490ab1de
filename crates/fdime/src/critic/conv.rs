//! The conv critic: one convolutional network over pairs of images, which become the channels of
//! one image. It scores all pairs, or the joint pairs and one partner for each x. If x and y
//! consist of independent parts, l(x, y) is a sum over the parts, and the score can be such a sum
//! too.

use super::{
    Batch, Critic, CriticPlan, Evaluate, GradientParts, all_pairs_gradient, evaluate_pass,
};
use crate::nn::{ConvNet, ConvScratch, Part, Write};
use crate::objective::Objective;
use crate::pairing::Pairing;
use crate::parallel::Workers;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use std::ops::Range;

/// The number of pairs that pass through the network together: large enough to outweigh the cost of
/// reading the dense layer's weights, which are tens of megabytes.
const BLOCK: usize = 128;

/// The number of groups of rows. Each has its own gradient, which is tens of megabytes as well.
const GROUPS: usize = 2;

pub(super) struct Conv {
    net: ConvNet,
    /// The number of pixels of an image.
    pixels: usize,
    /// The number of parts of a pair; the score of the pair is the sum of theirs.
    parts_of_pair: usize,
    parameters: Vec<f32>,
    groups: Vec<Range<usize>>,
    blocks: Vec<ScoreBlock>,
    parts: Vec<Part>,
    scratch: Vec<ConvScratch>,
}

impl Conv {
    pub(super) fn new(
        plan: &CriticPlan,
        (x_dim, y_dim): (usize, usize),
        n: usize,
        pairing: Pairing,
        rng: &mut Rng,
        threads: usize,
    ) -> Self {
        let pixels = plan.side * plan.side;
        let channels = (x_dim + y_dim) / pixels / plan.parts;
        let net = ConvNet::new(channels, plan.side, &plan.hidden, plan.activation);
        let mut parameters = vec![0.0; net.parameter_count()];
        net.initialise(&mut parameters, plan.initial_scale as f32, rng);
        let count = GROUPS.min(n);
        let groups: Vec<Range<usize>> =
            (0..count).map(|g| n * g / count..n * (g + 1) / count).collect();
        let block = |rows: &Range<usize>| match pairing {
            Pairing::AllPairs => ScoreBlock::all_pairs(rows, n),
            _ => ScoreBlock::paired(rows),
        };
        Conv {
            blocks: groups.iter().map(block).collect(),
            parts: groups.iter().map(|_| Part::new(0, parameters.len())).collect(),
            scratch: (0..threads).map(|_| net.scratch(BLOCK)).collect(),
            net,
            pixels,
            parts_of_pair: plan.parts,
            parameters,
            groups,
        }
    }
}

impl Evaluate for Conv {
    fn evaluate(
        &mut self,
        batch: &Batch,
        objective: Option<&dyn Objective>,
        workers: &mut Workers,
    ) {
        let Conv { net, pixels, parts_of_pair, parameters, groups, blocks, parts, scratch } = self;
        workers.for_each(blocks, parts, scratch, |index, scores, part, scratch| {
            let (pixels, parts) = (*pixels, *parts_of_pair);
            let evaluation = Evaluation { net, parameters, batch, objective, pixels, parts };
            let rows = groups[index].clone();
            part.value = match scores {
                ScoreBlock::AllPairs { matrix, .. } => {
                    evaluation.all_pairs(rows, matrix, &mut part.gradient, scratch)
                }
                ScoreBlock::Paired { joint, marginal, .. } => {
                    evaluation.paired(rows, joint, marginal, &mut part.gradient, scratch)
                }
            };
        });
    }

    fn last_evaluation(&self) -> (&[ScoreBlock], &[Part]) {
        (&self.blocks, &self.parts)
    }
}

/// The inputs of the evaluation of a group of rows.
struct Evaluation<'a> {
    net: &'a ConvNet,
    parameters: &'a [f32],
    batch: &'a Batch,
    objective: Option<&'a dyn Objective>,
    pixels: usize,
    parts: usize,
}

impl Evaluation<'_> {
    /// Scores pairs. Returns their number and their scores, which are the last activations in
    /// `scratch`.
    fn score<'a>(
        &self,
        pairs: impl Iterator<Item = (usize, usize)>,
        scratch: &'a mut ConvScratch,
    ) -> (usize, &'a mut [f32]) {
        let (x_dim, y_dim) = self.batch.dims;
        let (x_channels, y_channels) = (x_dim / self.pixels, y_dim / self.pixels);
        let (x_part, y_part) = (x_channels / self.parts, y_channels / self.parts);
        let mut count = 0;
        let mut images = scratch.activations[0].chunks_exact_mut(self.pixels * (x_part + y_part));
        for (i, j) in pairs {
            for (part, image) in images.by_ref().take(self.parts).enumerate() {
                let x = self.batch.x_row(i).chunks_exact(x_channels);
                let y = self.batch.y_row(j).chunks_exact(y_channels);
                for ((pixel, x), y) in image.chunks_exact_mut(x_part + y_part).zip(x).zip(y) {
                    pixel[..x_part].copy_from_slice(&x[part * x_part..][..x_part]);
                    pixel[x_part..].copy_from_slice(&y[part * y_part..][..y_part]);
                }
            }
            count += 1;
        }
        self.net.forward(self.parameters, count * self.parts, scratch);
        let last = scratch.activations.len() - 1;
        let outputs = &mut scratch.activations[last];
        for pair in 0..count {
            outputs[pair] = outputs[pair * self.parts..][..self.parts].iter().sum();
        }
        (count, &mut outputs[..count])
    }

    /// Propagates the gradient of the scores of `count` pairs back through the network; each part
    /// of a pair has the gradient of the pair.
    fn backward(
        &self,
        count: usize,
        write: Write,
        gradient: &mut [f32],
        scratch: &mut ConvScratch,
    ) {
        for pair in (0..count).rev() {
            let value = scratch.gradient[pair];
            scratch.gradient[pair * self.parts..][..self.parts].fill(value);
        }
        self.net.backward(self.parameters, count * self.parts, write, gradient, scratch);
    }

    /// Evaluates the joint pairs and one marginal pair of each row, and returns their value.
    fn paired(
        &self,
        all: Range<usize>,
        joint: &mut [f32],
        marginal: &mut [f32],
        gradient: &mut [f32],
        scratch: &mut ConvScratch,
    ) -> f64 {
        let (mut value, mut write) = (0.0, Write::Replace);
        let block = BLOCK / 2 / self.parts;
        for start in all.clone().step_by(block) {
            let rows = start..(start + block).min(all.end);
            let (half, local) = (rows.len(), start - all.start..rows.end - all.start);
            let partner = |i: usize| self.batch.partner[i] as usize;
            let pairs = rows.clone().map(|i| (i, i)).chain(rows.map(|i| (i, partner(i))));
            let (count, scores) = self.score(pairs, scratch);
            joint[local.clone()].copy_from_slice(&scores[..half]);
            marginal[local.clone()].copy_from_slice(&scores[half..]);
            let Some(objective) = self.objective else { continue };
            let (joint_gradient, marginal_gradient) = scratch.gradient[..count].split_at_mut(half);
            value += objective.joint(start, &joint[local.clone()], joint_gradient)
                + objective.marginal(start, 0, &marginal[local], marginal_gradient);
            self.backward(count, write, gradient, scratch);
            write = Write::Add;
        }
        value
    }

    /// Evaluates all pairs of the rows, and returns their value.
    fn all_pairs(
        &self,
        all: Range<usize>,
        matrix: &mut [f32],
        gradient: &mut [f32],
        scratch: &mut ConvScratch,
    ) -> f64 {
        let n = self.batch.n;
        let (mut value, mut write) = (0.0, Write::Replace);
        // A block is a tile of the matrix: a run of columns with as many rows as fit.
        let across = n.min(BLOCK / self.parts);
        let tile_rows = (BLOCK / self.parts / across).max(1);
        for top in all.clone().step_by(tile_rows) {
            let rows = top..(top + tile_rows).min(all.end);
            for left in (0..n).step_by(across) {
                let columns = left..(left + across).min(n);
                let pairs = rows.clone().flat_map(|i| columns.clone().map(move |j| (i, j)));
                let (count, scores) = self.score(pairs, scratch);
                for (row, run) in rows.clone().zip(scores.chunks_exact(columns.len())) {
                    let at = (row - all.start) * n;
                    matrix[at + columns.start..at + columns.end].copy_from_slice(run);
                }
                let Some(objective) = self.objective else { continue };
                let gradients = scratch.gradient[..count].chunks_exact_mut(columns.len());
                for (row, gradient) in rows.clone().zip(gradients) {
                    let at = (row - all.start) * n;
                    let run = &matrix[at + columns.start..at + columns.end];
                    value += all_pairs_gradient(objective, row, left, run, gradient);
                }
                self.backward(count, write, gradient, scratch);
                write = Write::Add;
            }
        }
        value
    }
}

impl Critic for Conv {
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64 {
        evaluate_pass(self, batch, objective, workers)
    }

    fn scores(&self) -> Scores<'_> {
        Scores(&self.blocks)
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        (&mut self.parameters, GradientParts(&self.parts))
    }

    fn operations(&self) -> f64 {
        let pairs = |block: &ScoreBlock| match block {
            ScoreBlock::AllPairs { matrix, .. } => matrix.len(),
            ScoreBlock::Paired { joint, marginal, .. } => joint.len() + marginal.len(),
        };
        let images = self.parts_of_pair * self.blocks.iter().map(pairs).sum::<usize>();
        2.0 * self.net.multiply_adds() * images as f64
    }
}
