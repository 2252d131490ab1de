//! The deranged critic: one network over (x_i, y_i) and (x_i, y_partner(i)).

use super::pair_network::{Group, GroupEvaluator, Scratch};
use super::{Batch, CHUNK};
use crate::nn::Mlp;
use crate::nn::matrix::Write;
use crate::scores::ScoreBlock;
use std::ops::Range;

pub(super) struct Deranged;

impl GroupEvaluator for Deranged {
    type Buffers = ();

    fn buffers(_mlp: &Mlp, _n: usize, _rows: usize) {}

    fn pairs_per_row(_n: usize) -> usize {
        2
    }

    fn score_block(rows: &Range<usize>, _n: usize) -> ScoreBlock {
        ScoreBlock::paired(rows)
    }

    fn evaluate_group(
        group: &Group,
        scores: &mut ScoreBlock,
        gradient: &mut [f32],
        scratch: &mut Scratch<()>,
    ) -> f64 {
        let ScoreBlock::Paired { joint, marginal, .. } = scores else {
            unreachable!("`score_block` of the deranged critic allocates paired scores");
        };
        let (mlp, all) = (group.mlp, &group.rows);
        let Scratch { network, transposed, .. } = scratch;
        let (mut value, mut write) = (0.0, Write::Replace);
        for start in all.clone().step_by(CHUNK / 2) {
            let rows = start..(start + CHUNK / 2).min(all.end);
            let count = rows.len();
            let local = start - all.start..rows.end - all.start;
            gather(group.batch, rows.clone(), &mut network.activations[0]);
            mlp.forward(group.parameters, 0, 2 * count, group.noise(start), network);
            let scores = &mut network.activations[mlp.layers()][..2 * count];
            let (joint_scores, marginal_scores) = scores.split_at_mut(count);
            group.batch.add_reference(rows.clone().map(|i| (i, i)), joint_scores);
            let partner = |i: usize| group.batch.partner[i] as usize;
            group.batch.add_reference(rows.map(|i| (i, partner(i))), marginal_scores);
            joint[local.clone()].copy_from_slice(joint_scores);
            marginal[local].copy_from_slice(marginal_scores);
            let Some(objective) = group.objective else { continue };
            let (joint_gradient, marginal_gradient) =
                network.gradient[..2 * count].split_at_mut(count);
            value += objective.joint(start, joint_scores, joint_gradient)
                + objective.marginal(start, 0, marginal_scores, marginal_gradient);
            mlp.backward(transposed, 0, 2 * count, write, gradient, network);
            write = Write::Add;
        }
        value
    }

    /// Counts the outputs, the gradient of the weights and, except in the first layer, the gradient
    /// of the inputs, for 2n rows each.
    fn multiply_adds(mlp: &Mlp, n: f64) -> f64 {
        let all = mlp.multiply_adds(0..mlp.layers());
        2.0 * n * (3 * all - mlp.multiply_adds(0..1)) as f64
    }
}

/// Writes the network's input: rows (x_i, y_i), then rows (x_i, y_partner(i)).
fn gather(batch: &Batch, rows: Range<usize>, input: &mut [f32]) {
    let (x_dim, y_dim) = batch.dims;
    let width = x_dim + y_dim;
    let (joint, marginal) = input.split_at_mut(rows.len() * width);
    let inputs = joint.chunks_exact_mut(width).zip(marginal.chunks_exact_mut(width));
    for (i, (joint, marginal)) in rows.zip(inputs) {
        let (x, y) = (batch.x_row(i), batch.y_row(i));
        joint[..x_dim].copy_from_slice(x);
        joint[x_dim..].copy_from_slice(y);
        marginal[..x_dim].copy_from_slice(x);
        marginal[x_dim..].copy_from_slice(batch.y_row(batch.partner[i] as usize));
    }
}
