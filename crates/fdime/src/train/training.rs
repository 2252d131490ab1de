use super::learner::{CriticLearner, LearnerPlan, NjeePlan};
use crate::critic::CriticPlan;
use crate::error::{Error, Result, invalid, unknown_name};
use crate::memory::shortage;
use crate::message::Parameter;
use crate::nn::AdamPlan;
use crate::objective::Estimator;
use crate::pairing::Pairing;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The smallest batch in which x can be paired with another y.
const MIN_BATCH: usize = 2;

/// Everything about a training except the source of its samples.
///
/// In JSON all settings are fields of one object: `estimator`, `critic` and `pairing`, or `njee`,
/// followed by `batch`, `optimizer` and `seed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TrainingFile", into = "TrainingFile")]
pub struct Training {
    /// The learner.
    pub learner: LearnerPlan,
    /// The number of joint samples in each step.
    pub batch: usize,
    /// The settings of Adam.
    pub optimizer: AdamPlan,
    /// The schedule of the learning rate.
    pub learning_rate_schedule: LearningRateSchedule,
    /// The seed of all randomness.
    pub seed: u64,
}

/// How the learning rate changes over a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearningRateSchedule {
    /// It is constant.
    #[default]
    Constant,
    /// It rises linearly over the first 5% of the steps and then falls to 0 along half a cosine.
    WarmUpAndCosine,
}

impl LearningRateSchedule {
    /// All schedules.
    pub const ALL: [LearningRateSchedule; 2] =
        [LearningRateSchedule::Constant, LearningRateSchedule::WarmUpAndCosine];

    /// Returns the name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            LearningRateSchedule::Constant => "constant",
            LearningRateSchedule::WarmUpAndCosine => "warm-up-and-cosine",
        }
    }

    /// The share of the steps over which the learning rate rises.
    pub(crate) const WARM_UP: f64 = 0.05;

    /// Returns the factor of the learning rate in step `step` (from 1) of `steps`.
    pub(super) fn factor(self, step: usize, steps: usize) -> f64 {
        let progress = step as f64 / steps as f64;
        match self {
            LearningRateSchedule::Constant => 1.0,
            LearningRateSchedule::WarmUpAndCosine if progress < Self::WARM_UP => {
                progress / Self::WARM_UP
            }
            LearningRateSchedule::WarmUpAndCosine => {
                let decline = (progress - Self::WARM_UP) / (1.0 - Self::WARM_UP);
                0.5 * (1.0 + (std::f64::consts::PI * decline).cos())
            }
        }
    }

    pub(super) fn is_constant(&self) -> bool {
        *self == LearningRateSchedule::Constant
    }
}

impl fmt::Display for LearningRateSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LearningRateSchedule {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = LearningRateSchedule::ALL;
        known.into_iter().find(|schedule| schedule.name() == name).ok_or_else(|| {
            let names = known.map(LearningRateSchedule::name);
            unknown_name(Parameter::LearningRateSchedule, name, names)
        })
    }
}

impl Training {
    /// Returns a training with the paper's settings: batches of 64 and Adam with a learning rate of
    /// 5e-4.
    pub fn new(learner: LearnerPlan) -> Self {
        Training {
            learner,
            batch: 64,
            optimizer: AdamPlan::default(),
            learning_rate_schedule: LearningRateSchedule::default(),
            seed: 0,
        }
    }

    /// Checks everything that does not depend on the samples.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<()> {
        if self.batch < MIN_BATCH {
            let expected = "at least 2 samples are needed to pair x with another y";
            return Err(invalid(Parameter::Batch, self.batch, expected));
        }
        if self.batch > u32::MAX as usize {
            return Err(invalid(
                Parameter::Batch,
                self.batch,
                "a batch holds at most 2^32 - 1 samples",
            ));
        }
        self.learner.check()?;
        self.optimizer.check()
    }

    /// Checks that a training on pairs of these dimensions fits into the memory that is free.
    pub fn check_memory(&self, dims: (usize, usize)) -> Result<()> {
        let required = |batch: usize| self.learner.memory(dims, batch);
        if let Some(shortage) = shortage(required(MIN_BATCH)) {
            let widths: Vec<String> = self.learner.hidden().iter().map(usize::to_string).collect();
            let (x_dim, y_dim) = dims;
            let expected = format!(
                "with inputs of {x_dim} + {y_dim} dimensions it takes {shortage}; use narrower \
                 layers, or fewer dimensions"
            );
            return Err(invalid(Parameter::Hidden, widths.join(","), expected));
        }
        match shortage(required(self.batch)) {
            Some(shortage) => Err(invalid(
                Parameter::Batch,
                self.batch,
                format!(
                    "with this critic it takes {shortage}; use a smaller batch, or critic deranged"
                ),
            )),
            None => Ok(()),
        }
    }
}

/// A training as it is written in plan files.
#[derive(Serialize, Deserialize)]
struct TrainingFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimator: Option<Estimator>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    critic: Option<CriticPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pairing: Option<Pairing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    njee: Option<NjeePlan>,
    batch: usize,
    optimizer: AdamPlan,
    #[serde(default, skip_serializing_if = "LearningRateSchedule::is_constant")]
    learning_rate_schedule: LearningRateSchedule,
    seed: u64,
}

impl TryFrom<TrainingFile> for Training {
    type Error = Error;

    fn try_from(file: TrainingFile) -> Result<Self> {
        let learner = match (file.estimator, file.critic, file.pairing, file.njee) {
            (Some(estimator), Some(critic), Some(pairing), None) => {
                LearnerPlan::Critic(CriticLearner { estimator, critic, pairing })
            }
            (None, None, None, Some(njee)) => LearnerPlan::Njee(njee),
            _ => {
                let problem = "a plan has either estimator, critic and pairing, or njee";
                return Err(Error::Plan { problem: problem.into() });
            }
        };
        Ok(Training {
            learner,
            batch: file.batch,
            optimizer: file.optimizer,
            learning_rate_schedule: file.learning_rate_schedule,
            seed: file.seed,
        })
    }
}

impl From<Training> for TrainingFile {
    fn from(training: Training) -> Self {
        let (critic, njee) = match training.learner {
            LearnerPlan::Critic(critic) => (Some(critic), None),
            LearnerPlan::Njee(njee) => (None, Some(njee)),
        };
        let (estimator, critic, pairing) = match critic {
            Some(learner) => (Some(learner.estimator), Some(learner.critic), Some(learner.pairing)),
            None => (None, None, None),
        };
        TrainingFile {
            estimator,
            critic,
            pairing,
            njee,
            batch: training.batch,
            optimizer: training.optimizer,
            learning_rate_schedule: training.learning_rate_schedule,
            seed: training.seed,
        }
    }
}
