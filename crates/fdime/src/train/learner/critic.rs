//! A critic in training.

use super::Learner;
use crate::critic::{Batch, Critic, CriticKind, CriticPlan, GradientParts, PairScorer};
use crate::error::{Error, Result};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::objective::{Estimator, Objective};
use crate::pairing::Pairing;
use crate::parallel::{Workers, never};
use crate::train::HeldOut;
use crate::train::held_out::HeldOutPairs;

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
            learner: self.clone(),
            dims,
            scorer: None,
        })
    }
}

pub(super) struct CriticInTraining {
    critic: Box<dyn Critic>,
    objective: Box<dyn Objective>,
    learner: CriticLearner,
    dims: (usize, usize),
    /// Scores held-out pairs; created when it is first needed.
    scorer: Option<PairScorer>,
}

impl Learner for CriticInTraining {
    fn pass(&mut self, batch: &Batch, workers: &mut Workers) -> f64 {
        self.critic.pass(batch, &mut *self.objective, workers)
    }

    fn estimate(&self) -> Nats {
        self.learner.estimator.mutual_information(self.critic.scores())
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
        let CriticLearner { estimator, critic, .. } = &self.learner;
        if critic.kind == CriticKind::Conv {
            return Err(Error::Incompatible {
                parameter: Parameter::Critic,
                value: critic.kind.to_string(),
                other: "held-out rows".into(),
                reason: "use another critic".into(),
            });
        }
        let HeldOut { inputs, rows } = held_out;
        let Some(pairs) = HeldOutPairs::new(&self.learner, rows.len()) else { return Ok(f64::NAN) };
        let scorer = self.scorer.get_or_insert_with(|| PairScorer::new(critic, self.dims));
        let (parameters, first) = (self.critic.parameters(), rows.start);
        let of_table = pairs.pairs().into_iter().map(|(i, j)| (first + i, first + j));
        let Ok(scores) = scorer.scores(parameters, inputs, of_table, never);
        Ok(pairs.value(estimator, scores))
    }
}
