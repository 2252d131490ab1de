//! Learners, which a training trains: a critic with an objective, or NJEE's classifiers.

mod critic;
mod njee;

pub use critic::CriticLearner;
pub use njee::NjeePlan;
#[cfg(feature = "cuda")]
pub(crate) use njee::{bin_count, classifiers};

use super::HeldOut;
use crate::critic::{Batch, CriticPlan, GradientParts};
use crate::error::{Error, Result, invalid, unknown_name};
use crate::link::Link;
use crate::message::Parameter;
use crate::nats::Nats;
use crate::objective::{Estimator, Readout};
use crate::pairing::Pairing;
use crate::parallel::Workers;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A model in training.
pub(super) trait Learner: Send {
    /// Computes the objective on a batch and its gradient. Returns the objective, which is
    /// maximised.
    fn pass(&mut self, batch: &Batch, workers: &mut Workers) -> f64;

    /// Returns the estimate of the mutual information from the batch of the last pass.
    fn estimate(&self) -> Nats;

    /// Returns all parameters.
    fn parameters(&self) -> &[f32];

    /// Returns the parameters for an update, and the gradient of the last pass.
    fn parameters_and_gradient(&mut self) -> (&mut [f32], GradientParts<'_>);

    /// Returns the floating-point operations of one pass; a multiply-add counts as two.
    fn operations(&self) -> f64;

    /// Returns the objective on held-out rows, or an error if the learner cannot score them.
    fn held_out_value(&mut self, held_out: HeldOut) -> Result<f64>;
}

/// The plan of a learner.
#[derive(Clone, Debug, PartialEq)]
pub enum LearnerPlan {
    /// A critic, trained with an estimator's objective.
    Critic(CriticLearner),
    /// The classifiers of NJEE.
    Njee(NjeePlan),
}

impl LearnerPlan {
    /// Returns the learner of an estimator: a critic with its default pairing, or NJEE's
    /// classifiers with the hidden layers of `critic`.
    pub fn new(estimator: &AnyEstimator, critic: &CriticPlan) -> Self {
        Self::with_pairing(estimator, critic, critic.kind.default_pairing())
    }

    pub(super) fn with_pairing(
        estimator: &AnyEstimator,
        critic: &CriticPlan,
        pairing: Pairing,
    ) -> Self {
        match estimator {
            AnyEstimator::Critic(estimator) => LearnerPlan::Critic(CriticLearner {
                estimator: estimator.clone(),
                critic: critic.clone(),
                pairing,
            }),
            AnyEstimator::Njee => LearnerPlan::Njee(NjeePlan {
                hidden: critic.hidden.clone(),
                activation: critic.activation,
            }),
        }
    }

    /// Returns the estimator.
    pub fn estimator(&self) -> AnyEstimator {
        match self {
            LearnerPlan::Critic(learner) => AnyEstimator::Critic(learner.estimator.clone()),
            LearnerPlan::Njee(_) => AnyEstimator::Njee,
        }
    }

    /// Returns the critic's part of the plan; `None` for NJEE.
    pub fn critic(&self) -> Option<&CriticLearner> {
        match self {
            LearnerPlan::Critic(learner) => Some(learner),
            LearnerPlan::Njee(_) => None,
        }
    }

    /// Returns the critic's part of the plan for a change; `None` for NJEE.
    pub fn critic_mut(&mut self) -> Option<&mut CriticLearner> {
        match self {
            LearnerPlan::Critic(learner) => Some(learner),
            LearnerPlan::Njee(_) => None,
        }
    }

    /// Returns the name of the estimator, without changes to its link or readout.
    pub fn estimator_name(&self) -> &str {
        match self {
            LearnerPlan::Critic(learner) => learner.estimator.name(),
            LearnerPlan::Njee(_) => AnyEstimator::NJEE,
        }
    }

    /// Returns the pairing; `None` for NJEE.
    pub fn pairing(&self) -> Option<Pairing> {
        self.critic().map(|learner| learner.pairing)
    }

    /// Returns the widths of the hidden layers.
    pub fn hidden(&self) -> &[usize] {
        match self {
            LearnerPlan::Critic(learner) => &learner.critic.hidden,
            LearnerPlan::Njee(plan) => &plan.hidden,
        }
    }

    /// Returns the name of the network: that of the critic, or `njee`.
    pub fn name(&self) -> &'static str {
        match self {
            LearnerPlan::Critic(learner) => learner.critic.kind.name(),
            LearnerPlan::Njee(_) => AnyEstimator::NJEE,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            LearnerPlan::Critic(learner) => learner.check(),
            LearnerPlan::Njee(plan) => plan.check(),
        }
    }

    pub(super) fn check_dims(&self, dims: (usize, usize)) -> Result<()> {
        match self {
            LearnerPlan::Critic(learner) => learner.critic.check_dims(dims),
            LearnerPlan::Njee(_) => Ok(()),
        }
    }

    /// Estimates the memory, in bytes, of training on batches of `n` pairs.
    pub(super) fn memory(&self, dims: (usize, usize), n: usize) -> f64 {
        match self {
            LearnerPlan::Critic(learner) => learner.critic.memory(dims, n, learner.pairing),
            LearnerPlan::Njee(plan) => plan.memory(dims, n),
        }
    }

    /// Builds the learner for batches of `n` pairs with parameters drawn from `seed`.
    pub(super) fn build(
        &self,
        dims: (usize, usize),
        n: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Box<dyn Learner>> {
        Ok(match self {
            LearnerPlan::Critic(learner) => Box::new(learner.build(dims, n, seed, threads)?),
            LearnerPlan::Njee(plan) => Box::new(plan.build(dims, n, seed, threads)),
        })
    }

    /// Makes one pass over a batch on the CPU, with parameters drawn from `seed`. Tests compare
    /// engines by it.
    #[doc(hidden)]
    pub fn pass(&self, batch: &Batch, seed: u64) -> Result<Pass> {
        let mut workers = Workers::new(1);
        let mut learner = self.build(batch.dims, batch.n, seed, 1)?;
        let value = learner.pass(batch, &mut workers);
        let estimate = learner.estimate();
        let count = learner.parameters().len();
        Ok(Pass { value, estimate, gradient: learner.parameters_and_gradient().1.sum(count) })
    }
}

/// The results of a step on a given batch.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The objective's value.
    pub value: f64,
    /// The estimate.
    pub estimate: Nats,
    /// The gradient, in the order of the learner's parameters.
    pub gradient: Vec<f32>,
}

/// An estimator that can be trained on fresh samples: one with a critic, or NJEE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "AnyEstimatorFile", into = "AnyEstimatorFile")]
pub enum AnyEstimator {
    /// An estimator that trains a critic.
    Critic(Estimator),
    /// The difference of entropies by 2d - 1 classifiers.
    Njee,
}

impl AnyEstimator {
    /// The name of NJEE.
    pub const NJEE: &str = "njee";

    /// Returns the name, without changes to the link or the readout.
    pub fn name(&self) -> &str {
        match self {
            AnyEstimator::Critic(estimator) => estimator.name(),
            AnyEstimator::Njee => Self::NJEE,
        }
    }

    /// Returns the estimator that trains a critic; `None` for NJEE.
    pub fn critic(&self) -> Option<&Estimator> {
        match self {
            AnyEstimator::Critic(estimator) => Some(estimator),
            AnyEstimator::Njee => None,
        }
    }

    /// Replaces the link and the readout where they are given. NJEE has neither.
    pub fn with(self, link: Option<Link>, readout: Option<Readout>) -> Self {
        match self {
            AnyEstimator::Critic(estimator) => {
                let (link, readout) =
                    (link.unwrap_or(estimator.link()), readout.unwrap_or(estimator.readout()));
                AnyEstimator::Critic(estimator.with_link(link).with_readout(readout))
            }
            AnyEstimator::Njee => AnyEstimator::Njee,
        }
    }
}

impl From<Estimator> for AnyEstimator {
    fn from(estimator: Estimator) -> Self {
        AnyEstimator::Critic(estimator)
    }
}

impl fmt::Display for AnyEstimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyEstimator::Critic(estimator) => estimator.fmt(f),
            AnyEstimator::Njee => f.write_str(Self::NJEE),
        }
    }
}

impl FromStr for AnyEstimator {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            Self::NJEE => Ok(AnyEstimator::Njee),
            "auto" | "copula" | "cca" | "ksg" => Err(invalid(
                Parameter::Estimator,
                name,
                "is for tables; fresh samples need an estimator that is trained, e.g. gan-dime",
            )),
            _ => name.parse().map(AnyEstimator::Critic).map_err(|error| match error {
                Error::UnknownName { suggestion: None, .. } => {
                    unknown_name(Parameter::Estimator, name, [Self::NJEE])
                }
                error => error,
            }),
        }
    }
}

/// An estimator as it is written in plan files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyEstimatorFile {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readout: Option<Readout>,
}

impl TryFrom<AnyEstimatorFile> for AnyEstimator {
    type Error = Error;

    fn try_from(file: AnyEstimatorFile) -> Result<Self> {
        Ok(file.name.parse::<AnyEstimator>()?.with(file.link, file.readout))
    }
}

impl From<AnyEstimator> for AnyEstimatorFile {
    fn from(estimator: AnyEstimator) -> Self {
        let critic = estimator.critic();
        let (link, readout) = (critic.map(Estimator::link), critic.map(Estimator::readout));
        AnyEstimatorFile { name: estimator.name().into(), link, readout }
    }
}
