//! A critic in training.

use super::Learner;
use crate::critic::{Batch, Critic, CriticKind, CriticPlan, GradientParts, PairScorer};
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::objective::{Estimator, Objective};
use crate::pairing::Pairing;
use crate::parallel::{Workers, never};
use crate::scores::ScoreBlock;
use crate::train::HeldOut;

/// The number of marginal pairs for each held-out row: more pairs make the comparison of steps less
/// noisy.
const HELD_OUT_SHIFTS: usize = 8;

/// The number of held-out rows that an all-pairs objective compares with each other. Pairs cost the
/// separable critic almost nothing.
const HELD_OUT_BLOCK: usize = 64;
const SEPARABLE_HELD_OUT_BLOCK: usize = 256;

/// A critic, the estimator that it is trained with, and its pairing.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticLearner {
    /// The estimator: cost, link and readout.
    pub estimator: Estimator,
    /// The network.
    pub critic: CriticPlan,
    /// The pairing that makes marginal pairs.
    pub pairing: Pairing,
}

impl CriticLearner {
    pub(super) fn check(&self) -> Result<()> {
        self.critic.check()?;
        self.critic.kind.check_pairing(self.pairing)?;
        self.estimator.check_pairing(self.pairing)
    }

    pub(super) fn build(
        &self,
        dims: (usize, usize),
        n: usize,
        seed: u64,
        threads: usize,
    ) -> Result<CriticInTraining> {
        Ok(CriticInTraining {
            critic: self.critic.build(dims, n, self.pairing, seed, threads)?,
            objective: self.estimator.objective(self.pairing.counts(n)),
            estimator: self.estimator.clone(),
            pairing: self.pairing,
            plan: self.critic.clone(),
            dims,
            scorer: None,
        })
    }
}

pub(super) struct CriticInTraining {
    critic: Box<dyn Critic>,
    objective: Box<dyn Objective>,
    estimator: Estimator,
    pairing: Pairing,
    plan: CriticPlan,
    dims: (usize, usize),
    /// Scores held-out pairs; created when it is first needed.
    scorer: Option<PairScorer>,
}

impl Learner for CriticInTraining {
    fn pass(&mut self, batch: &Batch, workers: &mut Workers) -> f64 {
        self.critic.pass(batch, &mut *self.objective, workers)
    }

    fn estimate(&self) -> Nats {
        self.estimator.mutual_information(self.critic.scores())
    }

    fn parameters(&self) -> &[f32] {
        self.critic.parameters()
    }

    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>) {
        self.critic.parameters_and_gradient()
    }

    fn operations(&self) -> f64 {
        self.critic.operations()
    }

    fn held_out_value(&mut self, held_out: HeldOut) -> Result<f64> {
        if self.plan.kind == CriticKind::Conv {
            return Err(Error::Incompatible {
                parameter: Parameter::Critic,
                value: self.plan.kind.to_string(),
                other: "held-out rows".into(),
                reason: "use another critic".into(),
            });
        }
        let scorer = self.scorer.get_or_insert_with(|| PairScorer::new(&self.plan, self.dims));
        let HeldOut { inputs, rows } = held_out;
        let rows: Vec<u32> = rows.collect();
        let parameters = self.critic.parameters();
        if self.pairing != Pairing::AllPairs {
            let Ok(mut joint) = scorer.scores(parameters, inputs, held_out_pairs(&rows), never);
            let marginal = joint.split_off(rows.len());
            let scores = ScoreBlock::Paired { first: 0, joint, marginal };
            return Ok(self.estimator.value_and_gradient(&scores).0);
        }
        let size = match self.plan.kind {
            CriticKind::Separable => SEPARABLE_HELD_OUT_BLOCK,
            _ => HELD_OUT_BLOCK,
        };
        let (mut sum, mut count) = (0.0, 0);
        for block in rows.chunks(size).filter(|block| block.len() > 1) {
            let pairs = block.iter().flat_map(|&i| block.iter().map(move |&j| (i, j)));
            let Ok(matrix) = scorer.scores(parameters, inputs, pairs, never);
            let n = block.len();
            let scores = ScoreBlock::AllPairs { first: 0, n, matrix };
            sum += self.estimator.value_and_gradient(&scores).0 * n as f64;
            count += n;
        }
        Ok(sum / count as f64)
    }
}

/// Returns the joint pairs of the rows, then several marginal pairs for each.
fn held_out_pairs(rows: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let n = rows.len();
    let shifts = HELD_OUT_SHIFTS.min(n - 1);
    (0..=shifts).flat_map(move |k| {
        let shift = n * k / (shifts + 1);
        (0..n).map(move |i| (rows[i], rows[(i + shift) % n]))
    })
}
