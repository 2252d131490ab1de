//! The separable critic: score(x, y) = g(x) . h(y), where g and h are networks.

use super::{Batch, Critic, CriticPlan, GradientParts, Reference, all_pairs_gradient, groups};
use crate::nn::matrix::{Matrix, Write, multiply};
use crate::nn::{Mlp, MlpScratch, Part, Transposed, dot};
use crate::objective::Objective;
use crate::pairing::Pairing;
use crate::parallel::Workers;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use rand::Rng as _;
use std::ops::Range;

/// Returns the networks g and h.
pub(super) fn networks(plan: &CriticPlan, (x_dim, y_dim): (usize, usize)) -> [Mlp; 2] {
    [x_dim, y_dim].map(|inputs| {
        Mlp::new(inputs, &plan.hidden, plan.embedding, plan.activation).with_dropout(plan.dropout)
    })
}

pub(super) struct Separable {
    g: Mlp,
    h: Mlp,
    parameters: Vec<f32>,
    /// One tower for every group of rows: first those of g, then those of h.
    towers: Vec<Tower>,
    parts: Vec<Part>,
    /// g(x) and h(y) of all rows, and the gradient with respect to h(y).
    x_embedding: Vec<f32>,
    y_embedding: Vec<f32>,
    y_gradient: Vec<f32>,
    blocks: Vec<ScoreBlock>,
    block_states: Vec<BlockState>,
    scratch: Vec<Scratch>,
    passes: u64,
    /// Whether the scores of all pairs of this pass are computed.
    scored: bool,
    /// The seed of dropout.
    noise: u64,
    all_pairs: bool,
}

struct Scratch {
    g: Transposed,
    h: Transposed,
    /// dJ/ds of the rows of the score matrix that are being computed.
    score_gradient: Vec<f32>,
}

/// A group of rows and its activations in one of the two networks.
struct Tower {
    rows: Range<usize>,
    network: MlpScratch,
}

/// The contribution of a group of x rows to the value and to the gradients of the embeddings.
struct BlockState {
    value: f64,
    rows: Range<usize>,
    /// Gradient with respect to g(x) of the group's rows.
    x_gradient: Vec<f32>,
    /// All pairs: the group's part of the gradient with respect to h(y) of all rows.
    /// Paired: dJ/ds of the group's joint, then of its marginal pairs.
    y_gradient: Vec<f32>,
}

/// Returns the number of rows of the score matrix that are computed together: about 2^16 scores, so
/// that they and their gradients stay in the L2 cache.
fn score_rows(n: usize) -> usize {
    ((1 << 16) / n).clamp(8, 128)
}

impl BlockState {
    fn new(rows: &Range<usize>, embedding: usize, y_gradients: usize) -> Self {
        BlockState {
            value: 0.0,
            rows: rows.clone(),
            x_gradient: vec![0.0; rows.len() * embedding],
            y_gradient: vec![0.0; y_gradients],
        }
    }
}

impl Separable {
    pub(super) fn new(
        plan: &CriticPlan,
        (x_dim, y_dim): (usize, usize),
        n: usize,
        pairing: Pairing,
        rng: &mut Rng,
        threads: usize,
    ) -> Self {
        let embedding = plan.embedding;
        let [g, h] = networks(plan, (x_dim, y_dim));
        let mut parameters = vec![0.0; g.parameter_count() + h.parameter_count()];
        let (g_parameters, h_parameters) = parameters.split_at_mut(g.parameter_count());
        g.initialise(g_parameters, plan.initial_scale as f32, rng);
        h.initialise(h_parameters, plan.initial_scale as f32, rng);
        let noise = rng.next_u64();
        let all_pairs = pairing == Pairing::AllPairs;
        let groups = groups(n, 2);
        let (mut towers, mut parts) = (Vec::new(), Vec::new());
        for (mlp, offset) in [(&g, 0), (&h, g.parameter_count())] {
            for rows in &groups {
                towers.push(Tower { rows: rows.clone(), network: mlp.scratch(rows.len()) });
                parts.push(Part::new(offset, mlp.parameter_count()));
            }
        }
        let blocks = groups
            .iter()
            .map(|rows| match all_pairs {
                true => ScoreBlock::all_pairs(rows, n),
                false => ScoreBlock::paired(rows),
            })
            .collect();
        let y_gradients =
            |rows: &Range<usize>| if all_pairs { n * embedding } else { 2 * rows.len() };
        let block_states =
            groups.iter().map(|rows| BlockState::new(rows, embedding, y_gradients(rows))).collect();
        Separable {
            parameters,
            towers,
            parts,
            x_embedding: vec![0.0; n * embedding],
            y_embedding: vec![0.0; n * embedding],
            y_gradient: vec![0.0; n * embedding],
            blocks,
            block_states,
            scratch: (0..threads)
                .map(|_| Scratch {
                    g: g.transposed(),
                    h: h.transposed(),
                    score_gradient: vec![0.0; if all_pairs { score_rows(n) * n } else { 0 }],
                })
                .collect(),
            passes: 0,
            scored: false,
            noise,
            g,
            h,
            all_pairs,
        }
    }

    /// Computes g(x) and h(y) of all rows.
    fn embed(&mut self, batch: &Batch, workers: &mut Workers) {
        let Separable { g, h, parameters, towers, parts, scratch, passes, noise, .. } = self;
        let half = towers.len() / 2;
        workers.for_each(towers, parts, scratch, |index, tower, part, _| {
            let (mlp, data) = if index < half { (&*g, &batch.x) } else { (&*h, &batch.y) };
            let (rows, width) = (tower.rows.clone(), mlp.width(0));
            let input = &data[rows.start * width..rows.end * width];
            tower.network.activations[0].copy_from_slice(input);
            let noise = Some(noise.wrapping_add(*passes) ^ ((index as u64) << 40));
            mlp.forward(&parameters[part.offset..], 0, rows.len(), noise, &mut tower.network);
        });
        let embedding = g.width(g.layers());
        for (index, tower) in towers.iter().enumerate() {
            let all = if index < half { &mut self.x_embedding } else { &mut self.y_embedding };
            all[tower.rows.start * embedding..tower.rows.end * embedding]
                .copy_from_slice(&tower.network.activations[g.layers()]);
        }
    }

    /// Computes the scores; with an objective, also its value and the gradients of g(x) and h(y).
    fn score(&mut self, batch: &Batch, objective: Option<&dyn Objective>, workers: &mut Workers) {
        let Separable {
            g, x_embedding, y_embedding, blocks, block_states, scratch, scored, ..
        } = self;
        let pass = ScorePass {
            embedding: g.width(g.layers()),
            x: x_embedding,
            y: y_embedding,
            batch,
            scored: *scored,
        };
        workers.for_each(blocks, block_states, scratch, |_, block, state, scratch| match block {
            ScoreBlock::AllPairs { n, matrix, .. } => {
                pass.all_pairs(*n, objective, matrix, state, &mut scratch.score_gradient);
            }
            ScoreBlock::Paired { joint, marginal, .. } => {
                pass.paired(objective, joint, marginal, state);
            }
        });
    }

    /// Sums the gradient with respect to h(y) of all rows over the groups.
    fn gather_y_gradient(&mut self, batch: &Batch) {
        let embedding = self.g.width(self.g.layers());
        self.y_gradient.fill(0.0);
        if self.all_pairs {
            for state in &self.block_states {
                let parts = self.y_gradient.iter_mut().zip(&state.y_gradient);
                parts.for_each(|(sum, part)| *sum += part);
            }
            return;
        }
        for state in &self.block_states {
            let (joint, marginal) = state.y_gradient.split_at(state.rows.len());
            for ((i, joint), marginal) in state.rows.clone().zip(joint).zip(marginal) {
                let x = &self.x_embedding[i * embedding..(i + 1) * embedding];
                for (j, weight) in [(i, joint), (batch.partner[i] as usize, marginal)] {
                    let y = &mut self.y_gradient[j * embedding..(j + 1) * embedding];
                    y.iter_mut().zip(x).for_each(|(y, x)| *y += weight * x);
                }
            }
        }
    }

    /// Propagates the gradients of g(x) and h(y) back to the parameters.
    fn backward(&mut self, workers: &mut Workers) {
        let Separable {
            g,
            h,
            parameters,
            towers,
            parts,
            y_gradient,
            block_states,
            scratch,
            passes,
            ..
        } = self;
        let (half, embedding) = (towers.len() / 2, g.width(g.layers()));
        workers.for_each(towers, parts, scratch, |index, tower, part, scratch| {
            let rows = tower.rows.clone();
            let (mlp, transposed, gradient) = if index < half {
                (&*g, &mut scratch.g, &block_states[index].x_gradient[..])
            } else {
                (&*h, &mut scratch.h, &y_gradient[rows.start * embedding..rows.end * embedding])
            };
            tower.network.gradient[..gradient.len()].copy_from_slice(gradient);
            mlp.update_transposed(&parameters[part.offset..], *passes, transposed);
            mlp.backward(
                transposed,
                0,
                rows.len(),
                Write::Replace,
                &mut part.gradient,
                &mut tower.network,
            );
        });
    }
}

/// The embeddings whose inner products are the scores.
struct ScorePass<'a> {
    embedding: usize,
    x: &'a [f32],
    y: &'a [f32],
    batch: &'a Batch,
    scored: bool,
}

impl ScorePass<'_> {
    /// Adds the reference log ratios of all pairs of `count` rows from `first` on.
    fn add_reference(&self, first: usize, count: usize, scores: &mut [f32]) {
        let Reference { width, x, y } = &self.batch.reference;
        if *width > 0 {
            let x = Matrix::new(&x[first * width..], count, *width);
            let y = Matrix::new(y, self.batch.n, *width);
            multiply(scores, Write::Add, x, y.transposed());
        }
    }

    fn all_pairs(
        &self,
        n: usize,
        objective: Option<&dyn Objective>,
        scores: &mut [f32],
        state: &mut BlockState,
        gradient: &mut [f32],
    ) {
        let e = self.embedding;
        let y = Matrix::new(self.y, n, e);
        state.value = 0.0;
        let mut write = Write::Replace;
        for top in (0..state.rows.len()).step_by(score_rows(n)) {
            let count = score_rows(n).min(state.rows.len() - top);
            let first = state.rows.start + top;
            let x = Matrix::new(&self.x[first * e..], count, e);
            let scores = &mut scores[top * n..(top + count) * n];
            if !self.scored {
                multiply(scores, Write::Replace, x, y.transposed());
                self.add_reference(first, count, scores);
            }
            let Some(objective) = objective else { continue };
            let gradient = &mut gradient[..count * n];
            let runs = scores.chunks_exact(n).zip(gradient.chunks_exact_mut(n));
            for (row, (scores, gradient)) in (first..).zip(runs) {
                state.value += all_pairs_gradient(objective, row, 0, scores, gradient);
            }
            let gradient = Matrix::new(gradient, count, n);
            multiply(&mut state.x_gradient[top * e..], Write::Replace, gradient, y);
            multiply(&mut state.y_gradient, write, gradient.transposed(), x);
            write = Write::Add;
        }
    }

    fn paired(
        &self,
        objective: Option<&dyn Objective>,
        joint: &mut [f32],
        marginal: &mut [f32],
        state: &mut BlockState,
    ) {
        let e = self.embedding;
        let y_row = |j: usize| &self.y[j * e..(j + 1) * e];
        for (local, i) in state.rows.clone().enumerate() {
            let x = &self.x[i * e..(i + 1) * e];
            joint[local] = dot(x, y_row(i));
            marginal[local] = dot(x, y_row(self.batch.partner[i] as usize));
        }
        let rows = || state.rows.clone();
        self.batch.add_reference(rows().map(|i| (i, i)), joint);
        let partner = |i: usize| self.batch.partner[i] as usize;
        self.batch.add_reference(rows().map(|i| (i, partner(i))), marginal);
        let Some(objective) = objective else { return };
        let (joint_gradient, marginal_gradient) = state.y_gradient.split_at_mut(state.rows.len());
        state.value = objective.joint(state.rows.start, joint, joint_gradient)
            + objective.marginal(state.rows.start, 0, marginal, marginal_gradient);
        for (local, i) in state.rows.clone().enumerate() {
            let (y, other) = (y_row(i), y_row(self.batch.partner[i] as usize));
            let x_gradient = &mut state.x_gradient[local * e..(local + 1) * e];
            for ((g, y), other) in x_gradient.iter_mut().zip(y).zip(other) {
                *g = joint_gradient[local] * y + marginal_gradient[local] * other;
            }
        }
    }
}

impl Critic for Separable {
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64 {
        self.passes += 1;
        self.embed(batch, workers);
        self.scored = false;
        if objective.needs_whole_batch() {
            self.score(batch, None, workers);
            objective.observe(Scores(&self.blocks));
            self.scored = true;
        }
        self.score(batch, Some(objective), workers);
        self.gather_y_gradient(batch);
        self.backward(workers);
        objective.constant() + self.block_states.iter().map(|state| state.value).sum::<f64>()
    }

    fn scores(&self) -> Scores<'_> {
        Scores(&self.blocks)
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        (&mut self.parameters, GradientParts(&self.parts))
    }

    fn operations(&self) -> f64 {
        let e = self.g.width(self.g.layers());
        let n = self.x_embedding.len() / e;
        let tower = |mlp: &Mlp| 3 * mlp.multiply_adds(0..mlp.layers()) - mlp.multiply_adds(0..1);
        let pairs = if self.all_pairs { n } else { 2 };
        2.0 * n as f64 * (tower(&self.g) + tower(&self.h) + 3 * pairs * e) as f64
    }
}
