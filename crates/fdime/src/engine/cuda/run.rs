//! A training that the GPU can execute.

use super::abi;
use super::session::divergence_number;
use super::{LEAST_DF, MOST_PAIRED, MOST_PAIRS};
use crate::critic::{CriticKind, CriticPlan};
use crate::engine::Task;
use crate::nn::AdamPlan;
use crate::objective::{Cost, Estimator};
use crate::pairing::Pairing;
use crate::scenario::{Generator, PairSource, Scenario, ScenarioPlan};
use crate::train::{LearningRateSchedule, Schedule};

/// A critic trained on a staircase, whose samples the GPU draws itself.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) scenario: ScenarioPlan,
    pub(super) schedule: Schedule,
    pub(super) estimator: Estimator,
    pub(super) critic: CriticPlan,
    pub(super) pairing: Pairing,
    pub(super) batch: usize,
    pub(super) optimizer: AdamPlan,
    pub(super) seed: u64,
}

impl Run {
    /// Returns the run of a task, or why the GPU cannot execute it.
    pub(super) fn new(task: &Task) -> Result<Self, String> {
        let training = task.training;
        let Some(learner) = training.learner.critic() else {
            return Err("njee trains classifiers".into());
        };
        let Some(staircase) = task.source.staircase() else {
            return Err("samples that are not those of a scenario".into());
        };
        if training.learning_rate_schedule != LearningRateSchedule::Constant {
            return Err("the learning rate changes".into());
        }
        let run = Run {
            scenario: staircase.scenario.clone(),
            schedule: staircase.schedule.clone(),
            estimator: learner.estimator.clone(),
            critic: learner.critic.clone(),
            pairing: learner.pairing,
            batch: training.batch,
            optimizer: training.optimizer,
            seed: training.seed,
        };
        match unsupported(&run) {
            Some(reason) => Err(reason),
            None => Ok(run),
        }
    }
}

/// Returns why a run cannot be executed on the GPU; `None` if it can.
fn unsupported(plan: &Run) -> Option<String> {
    let layers = plan.critic.hidden.len();
    if plan.critic.kind == CriticKind::Conv {
        return Some("critic conv".into());
    }
    if let Cost::FDivergence(divergence) = plan.estimator.cost()
        && divergence_number(divergence).is_none()
    {
        return Some(format!("{} is a custom divergence", plan.estimator.name()));
    }
    if plan.critic.dropout > 0.0 {
        return Some("the critic has dropout".into());
    }
    if layers < 2 && plan.critic.kind != CriticKind::Separable {
        return Some(format!("critic {} has a single hidden layer", plan.critic.kind));
    }
    if layers > 8 {
        return Some("the critic has more than 8 hidden layers".into());
    }
    // The level with the heaviest tails, if that matters.
    let scenarios = plan.schedule.levels.iter().filter_map(|level| plan.scenario.at(*level).ok());
    let tails = |scenario: &Scenario| match scenario.generator().0 {
        Generator::Student { df } => df,
        _ => f64::INFINITY,
    };
    let maps = scenarios.min_by(|a, b| tails(a).total_cmp(&tails(b)))?;
    let (generator, _, x_maps, y_maps) = maps.generator();
    if matches!(generator, Generator::Student { df } if df < LEAST_DF) {
        return Some("single precision has no room for tails of so few degrees of freedom".into());
    }
    if x_maps.len().max(y_maps.len()) > abi::MOST_MAPS {
        return Some(format!("scenario {} has more than 8 maps", plan.scenario.name));
    }
    let dims = maps.dims();
    let hidden = &plan.critic.hidden;
    let widest = hidden.iter().copied().chain([plan.critic.embedding, dims.0, dims.1]).max()?;
    let widest_hidden = hidden.iter().copied().max()?;
    if widest as u64 * widest_hidden as u64 > 1 << 30 {
        return Some("a layer may have more than 2^30 weights".into());
    }
    let n = plan.batch as u64;
    let rows = if plan.pairing == Pairing::AllPairs { n * n } else { 2 * n };
    let most = if plan.pairing == Pairing::AllPairs { MOST_PAIRS } else { MOST_PAIRED };
    if rows > most {
        return Some("a step has too many pairs for its kernels".into());
    }
    None
}
