//! The deranged critic: one network over (x_i, y_i) and (x_i, y_partner(i)).

use super::{Batch, CHUNK, Critic, CriticPlan, GradientParts, groups};
use crate::engine::Workers;
use crate::nn::matrix::Write;
use crate::nn::{Mlp, MlpScratch, Part, Transposed};
use crate::objective::Objective;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use std::ops::Range;

pub(super) struct Deranged {
    mlp: Mlp,
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
}

impl Deranged {
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
        let groups = groups(n, 2);
        let block = |rows: &Range<usize>| ScoreBlock::Paired {
            first: rows.start,
            joint: vec![0.0; rows.len()],
            marginal: vec![0.0; rows.len()],
        };
        Deranged {
            blocks: groups.iter().map(block).collect(),
            parts: groups.iter().map(|_| Part::new(0, parameters.len())).collect(),
            scratch: (0..threads)
                .map(|_| Scratch { network: mlp.scratch(CHUNK), transposed: mlp.transposed() })
                .collect(),
            mlp,
            parameters,
            groups,
            passes: 0,
        }
    }

    /// Forward through all groups; with an objective, gradients and backward too.
    fn sweep(&mut self, batch: &Batch, objective: Option<&dyn Objective>, workers: &mut Workers) {
        let Deranged { mlp, parameters, groups, blocks, parts, scratch, passes } = self;
        workers.for_each(blocks, parts, scratch, |group, block, part, scratch| {
            let ScoreBlock::Paired { joint, marginal, .. } = block else { return };
            let all = groups[group].clone();
            part.value = 0.0;
            mlp.update_transposed(parameters, *passes, &mut scratch.transposed);
            for start in all.clone().step_by(CHUNK / 2) {
                let rows = start..(start + CHUNK / 2).min(all.end);
                let count = rows.len();
                gather(mlp.width(0), batch, rows.clone(), &mut scratch.network.activations[0]);
                mlp.forward(parameters, 0, 2 * count, &mut scratch.network);
                let scores = &scratch.network.activations[mlp.layers()][..2 * count];
                let local = start - all.start..rows.end - all.start;
                joint[local.clone()].copy_from_slice(&scores[..count]);
                marginal[local].copy_from_slice(&scores[count..]);
                let Some(objective) = objective else { continue };
                let gradient = &mut scratch.network.gradient[..2 * count];
                let (on, off) = gradient.split_at_mut(count);
                part.value += objective.joint(start, &scores[..count], on)
                    + objective.marginal(start, &scores[count..], off);
                let write = if start == all.start { Write::Replace } else { Write::Add };
                mlp.backward(
                    &scratch.transposed,
                    0,
                    2 * count,
                    write,
                    &mut part.gradient,
                    &mut scratch.network,
                );
            }
        });
    }
}

/// The network's input: rows (x_i, y_i), then rows (x_i, y_partner(i)).
fn gather(width: usize, batch: &Batch, rows: Range<usize>, input: &mut [f32]) {
    let (x_dim, y_dim) = (batch.x.len() / batch.n, batch.y.len() / batch.n);
    let (joint, marginal) = input.split_at_mut(rows.len() * width);
    let inputs = joint.chunks_exact_mut(width).zip(marginal.chunks_exact_mut(width));
    for (i, (joint, marginal)) in rows.zip(inputs) {
        let x = &batch.x[i * x_dim..(i + 1) * x_dim];
        let j = batch.partner[i] as usize;
        joint[..x_dim].copy_from_slice(x);
        joint[x_dim..].copy_from_slice(&batch.y[i * y_dim..(i + 1) * y_dim]);
        marginal[..x_dim].copy_from_slice(x);
        marginal[x_dim..].copy_from_slice(&batch.y[j * y_dim..(j + 1) * y_dim]);
    }
}

impl Critic for Deranged {
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
        let rows = 2 * self.groups.iter().map(Range::len).sum::<usize>();
        let layers = self.mlp.layers();
        let passes = 3 * self.mlp.multiply_adds(0..layers) - self.mlp.multiply_adds(0..1);
        2.0 * rows as f64 * passes as f64
    }
}
