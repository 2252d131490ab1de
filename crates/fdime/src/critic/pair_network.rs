//! What the joint and the deranged critic have in common: one network over pairs, with the batch
//! swept group by group. How a group of rows goes through the network is their own.

use super::{Batch, CHUNK, Critic, CriticPlan, GradientParts, Sweeping, groups, pass_in_sweeps};
use crate::nn::{Mlp, MlpScratch, Part, Transposed};
use crate::objective::Objective;
use crate::parallel::Workers;
use crate::random::Rng;
use crate::scores::{ScoreBlock, Scores};
use rand::Rng as _;
use std::ops::Range;

/// How a critic takes a group of rows through its network.
pub(super) trait Sweep: 'static {
    /// What a thread has to remember beside the network's activations.
    type Memory: Send;

    /// Memory for batches of `n` rows in groups of at most `rows`.
    fn memory(mlp: &Mlp, n: usize, rows: usize) -> Self::Memory;

    /// Pairs that each of `n` rows takes part in.
    fn pairs_per_row(n: usize) -> usize;

    /// Room for the scores of these rows of a batch of `n`.
    fn block(rows: &Range<usize>, n: usize) -> ScoreBlock;

    /// Scores a group, and if there is an objective, writes its gradient and returns its value.
    fn sweep(
        group: &Group,
        scores: &mut ScoreBlock,
        gradient: &mut [f32],
        scratch: &mut Scratch<Self::Memory>,
    ) -> f64;

    /// Multiply-adds of a pass over `n` rows.
    fn multiply_adds(mlp: &Mlp, n: f64) -> f64;
}

/// A group of rows and what it is swept with.
pub(super) struct Group<'a> {
    pub(super) mlp: &'a Mlp,
    pub(super) parameters: &'a [f32],
    pub(super) batch: &'a Batch,
    pub(super) rows: Range<usize>,
    /// Nothing: scores alone are wanted.
    pub(super) objective: Option<&'a dyn Objective>,
    /// The same in both sweeps of a pass, another in every pass.
    noise: u64,
}

impl Group<'_> {
    /// Random numbers for the chunk of rows that begins with `start`.
    pub(super) fn noise(&self, start: usize) -> Option<u64> {
        Some(self.noise ^ ((start as u64) << 40))
    }
}

/// The memory of one thread.
pub(super) struct Scratch<M> {
    pub(super) network: MlpScratch,
    pub(super) transposed: Transposed,
    pub(super) memory: M,
}

/// The critic.
pub(super) struct PairNetwork<S: Sweep> {
    mlp: Mlp,
    parameters: Vec<f32>,
    groups: Vec<Range<usize>>,
    blocks: Vec<ScoreBlock>,
    parts: Vec<Part>,
    scratch: Vec<Scratch<S::Memory>>,
    passes: u64,
    noise: u64,
}

impl<S: Sweep> PairNetwork<S> {
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
            blocks: groups.iter().map(|rows| S::block(rows, n)).collect(),
            parts: groups.iter().map(|_| Part::new(0, parameters.len())).collect(),
            scratch: (0..threads)
                .map(|_| Scratch {
                    network: mlp.scratch(CHUNK),
                    transposed: mlp.transposed(),
                    memory: S::memory(&mlp, n, largest),
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

impl<S: Sweep> Sweeping for PairNetwork<S> {
    fn sweep(&mut self, batch: &Batch, objective: Option<&dyn Objective>, workers: &mut Workers) {
        let PairNetwork { mlp, parameters, groups, blocks, parts, scratch, passes, noise } = self;
        workers.for_each(blocks, parts, scratch, |index, scores, part, scratch| {
            mlp.update_transposed(parameters, *passes, &mut scratch.transposed);
            let rows = groups[index].clone();
            let noise = noise.wrapping_add(*passes);
            let group = Group { mlp, parameters, batch, rows, objective, noise };
            part.value = S::sweep(&group, scores, &mut part.gradient, scratch);
        });
    }

    fn swept(&self) -> (&[ScoreBlock], &[Part]) {
        (&self.blocks, &self.parts)
    }
}

impl<S: Sweep> Critic for PairNetwork<S> {
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    fn pass(&mut self, batch: &Batch, objective: &mut dyn Objective, workers: &mut Workers) -> f64 {
        self.passes += 1;
        pass_in_sweeps(self, batch, objective, workers)
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
