//! The common part of the joint and the deranged critic: one network over pairs, which evaluates
//! the batch in groups of rows. The two differ in how they evaluate a group.

use super::{Batch, CHUNK, Critic, CriticPlan, Evaluate, GradientParts, evaluate_pass, groups};
use crate::nn::{Mlp, MlpScratch, Part, Transposed};
use crate::objective::Objective;
use crate::parallel::Workers;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use rand::Rng as _;
use std::ops::Range;

/// The evaluation of a group of rows by a kind of critic.
pub(super) trait GroupEvaluator: 'static {
    /// The buffers that a thread needs beside the network's activations.
    type Buffers: Send;

    /// Allocates the buffers for batches of `n` rows in groups of at most `rows` rows.
    fn buffers(mlp: &Mlp, n: usize, rows: usize) -> Self::Buffers;

    /// Returns the number of pairs for each row of a batch of `n` rows.
    fn pairs_per_row(n: usize) -> usize;

    /// Allocates the scores of the given rows of a batch of `n` rows.
    fn score_block(rows: &Range<usize>, n: usize) -> ScoreBlock;

    /// Scores a group. If there is an objective, writes its gradient and returns its value.
    fn evaluate_group(
        group: &Group,
        scores: &mut ScoreBlock,
        gradient: &mut [f32],
        scratch: &mut Scratch<Self::Buffers>,
    ) -> f64;

    /// Returns the number of multiply-adds of a pass over `n` rows.
    fn multiply_adds(mlp: &Mlp, n: f64) -> f64;
}

/// A group of rows and the inputs of its evaluation.
pub(super) struct Group<'a> {
    pub(super) mlp: &'a Mlp,
    pub(super) parameters: &'a [f32],
    pub(super) batch: &'a Batch,
    pub(super) rows: Range<usize>,
    /// `None` if only scores are needed.
    pub(super) objective: Option<&'a dyn Objective>,
    /// The seed of dropout: the same in both evaluations of a pass, different in every pass.
    noise: u64,
}

impl Group<'_> {
    /// Returns the seed of dropout for the chunk of rows that begins with `start`.
    pub(super) fn noise(&self, start: usize) -> Option<u64> {
        Some(self.noise ^ ((start as u64) << 40))
    }
}

/// The buffers of one thread.
pub(super) struct Scratch<B> {
    pub(super) network: MlpScratch,
    pub(super) transposed: Transposed,
    pub(super) buffers: B,
}

/// A critic with one network over pairs.
pub(super) struct PairNetwork<S: GroupEvaluator> {
    mlp: Mlp,
    parameters: Vec<f32>,
    groups: Vec<Range<usize>>,
    blocks: Vec<ScoreBlock>,
    parts: Vec<Part>,
    scratch: Vec<Scratch<S::Buffers>>,
    passes: u64,
    noise: u64,
}

impl<S: GroupEvaluator> PairNetwork<S> {
    pub(super) fn new(
        plan: &CriticPlan,
        (x_dim, y_dim): (usize, usize),
        n: usize,
        rng: &mut Rng,
        threads: usize,
    ) -> Self {
        let mlp =
            Mlp::new(x_dim + y_dim, &plan.hidden, 1, plan.activation).with_dropout(plan.dropout);
        let mut parameters = vec![0.0; mlp.parameter_count()];
        mlp.initialise(&mut parameters, plan.initial_scale as f32, rng);
        let noise = rng.next_u64();
        let groups = groups(n, S::pairs_per_row(n));
        let largest = groups.iter().map(Range::len).max().unwrap_or(0);
        PairNetwork {
            blocks: groups.iter().map(|rows| S::score_block(rows, n)).collect(),
            parts: groups.iter().map(|_| Part::new(0, parameters.len())).collect(),
            scratch: (0..threads)
                .map(|_| Scratch {
                    network: mlp.scratch(CHUNK),
                    transposed: mlp.transposed(),
                    buffers: S::buffers(&mlp, n, largest),
                })
                .collect(),
            mlp,
            parameters,
            groups,
            passes: 0,
            noise,
        }
    }
}

impl<S: GroupEvaluator> Evaluate for PairNetwork<S> {
    fn evaluate(
        &mut self,
        batch: &Batch,
        objective: Option<&dyn Objective>,
        workers: &mut Workers,
    ) {
        let PairNetwork { mlp, parameters, groups, blocks, parts, scratch, passes, noise } = self;
        workers.for_each(blocks, parts, scratch, |index, scores, part, scratch| {
            mlp.update_transposed(parameters, *passes, &mut scratch.transposed);
            let rows = groups[index].clone();
            let noise = noise.wrapping_add(*passes);
            let group = Group { mlp, parameters, batch, rows, objective, noise };
            part.value = S::evaluate_group(&group, scores, &mut part.gradient, scratch);
        });
    }

    fn last_evaluation(&self) -> (&[ScoreBlock], &[Part]) {
        (&self.blocks, &self.parts)
    }
}

impl<S: GroupEvaluator> Critic for PairNetwork<S> {
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64 {
        self.passes += 1;
        evaluate_pass(self, batch, objective, workers)
    }

    fn scores(&self) -> Scores<'_> {
        Scores(&self.blocks)
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        (&mut self.parameters, GradientParts(&self.parts))
    }

    fn operations(&self) -> f64 {
        let n: usize = self.groups.iter().map(Range::len).sum();
        2.0 * S::multiply_adds(&self.mlp, n as f64)
    }
}
