//! Groups of jobs: lists of parameters, all combinations of which are run.

use super::block_limit::BlockLimit;
use super::jobs::Job;
use crate::failure::Failure;
use crate::reproduce::consistency::{ConsistencyPlan, View};
use fdime::train::{CriticLearner, LearningRateSchedule, Training};
use fdime::{
    Activation, AdamPlan, AnyEstimator, CriticKind, CriticPlan, LearnerPlan, Level, Pairing,
    RunPlan, ScenarioPlan, Schedule, parse_levels,
};
use serde::Deserialize;
use std::num::NonZeroUsize;

/// Staircases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaircaseGroup {
    scenarios: Vec<String>,
    dims: Vec<usize>,
    batches: Vec<usize>,
    #[serde(deserialize_with = "estimators_by_name")]
    estimators: Vec<AnyEstimator>,
    critics: Vec<CriticKind>,
    /// An empty list means each critic's default.
    #[serde(default)]
    pairings: Vec<Pairing>,
    hidden: Vec<usize>,
    activation: Activation,
    /// The levels; missing if `levels_per_dim` is given.
    levels: Option<String>,
    /// A single level for each d, whose mutual information is this many nats times d.
    levels_per_dim: Option<f64>,
    iterations: usize,
    /// The number of iterations at the end of each level that are summarised.
    last: usize,
    learning_rate: f64,
    #[serde(default)]
    learning_rate_schedule: LearningRateSchedule,
    /// The number of blocks of chained estimates, or y's columns if those are fewer.
    #[serde(default = "direct")]
    chains: Vec<BlockLimit>,
    seeds: Vec<u64>,
}

/// Estimates on images.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageGroup {
    images: Vec<String>,
    /// The number of images to draw from, the first of each set; all of them if absent.
    count: Option<NonZeroUsize>,
    views: Vec<View>,
    /// Numbers of visible rows.
    rows: Vec<usize>,
    #[serde(deserialize_with = "estimators_by_name")]
    estimators: Vec<AnyEstimator>,
    critic: CriticKind,
    pairing: Pairing,
    hidden: Vec<usize>,
    /// The number of parts of a pair that are scored one by one.
    #[serde(default = "one")]
    parts: usize,
    activation: Activation,
    batch: usize,
    iterations: usize,
    /// The number of iterations at the end that are summarised.
    last: usize,
    learning_rate: f64,
    #[serde(default)]
    learning_rate_schedule: LearningRateSchedule,
    /// Whether the two images of y are the blocks of a chain.
    #[serde(default)]
    chain: bool,
    seeds: Vec<u64>,
}

/// Measurements of the time of a training step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeGroup {
    scenario: String,
    level: String,
    dims: Vec<usize>,
    batches: Vec<usize>,
    #[serde(deserialize_with = "estimators_by_name")]
    estimators: Vec<AnyEstimator>,
    critics: Vec<CriticKind>,
    /// An empty list means each critic's default.
    #[serde(default)]
    pairings: Vec<Pairing>,
    hidden: Vec<usize>,
    activation: Activation,
    learning_rate: f64,
    /// The duration of each measurement.
    seconds: f64,
}

fn one() -> usize {
    1
}

fn direct() -> Vec<BlockLimit> {
    vec![BlockLimit::DIRECT]
}

fn estimators_by_name<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<AnyEstimator>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}

/// Returns every valid combination of estimator, critic and pairing. NJEE, which has no critic,
/// occurs once.
fn learners(
    estimators: &[AnyEstimator],
    kinds: &[CriticKind],
    pairings: &[Pairing],
    hidden: &[usize],
    activation: Activation,
) -> Vec<LearnerPlan> {
    let mut learners = Vec::new();
    for estimator in estimators {
        let critic = |kind| CriticPlan { activation, ..CriticPlan::new(kind, hidden) };
        let Some(trained) = estimator.critic() else {
            learners.push(LearnerPlan::new(estimator, &critic(CriticKind::Joint)));
            continue;
        };
        for &kind in kinds {
            let default = [kind.default_pairing()];
            for &pairing in if pairings.is_empty() { &default } else { pairings } {
                if kind.check_pairing(pairing).and(trained.check_pairing(pairing)).is_ok() {
                    let (estimator, critic) = (trained.clone(), critic(kind));
                    let learner = CriticLearner { estimator, critic, pairing };
                    learners.push(LearnerPlan::Critic(learner));
                }
            }
        }
    }
    learners
}

/// Returns the training of a learner with the paper's other settings and a constant learning rate.
fn training(learner: LearnerPlan, batch: usize, learning_rate: f64, seed: u64) -> Training {
    let optimizer = AdamPlan { learning_rate, ..AdamPlan::default() };
    Training { batch, optimizer, seed, ..Training::new(learner) }
}

impl StaircaseGroup {
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let learners = learners(
            &self.estimators,
            &self.critics,
            &self.pairings,
            &self.hidden,
            self.activation,
        );
        let mut jobs = Vec::new();
        for scenario in &self.scenarios {
            for &dim in &self.dims {
                let scenario = ScenarioPlan::new(scenario, dim)?;
                let schedule = Schedule { levels: self.levels(dim)?, iterations: self.iterations };
                for &batch in &self.batches {
                    for learner in &learners {
                        for &limit in &self.chains {
                            for &seed in &self.seeds {
                                let training = Training {
                                    learning_rate_schedule: self.learning_rate_schedule,
                                    ..training(learner.clone(), batch, self.learning_rate, seed)
                                };
                                let (scenario, schedule) = (scenario.clone(), schedule.clone());
                                let plan = RunPlan { scenario, training, schedule, term: None };
                                let chain = limit.chain(&plan)?;
                                // NJEE, which has no critic, has no chain.
                                if chain.is_none() || learner.critic().is_some() {
                                    let job = Job::Staircase { plan, last: self.last, chain };
                                    // Several limits are the same chain if y has few columns.
                                    if !jobs.contains(&job) {
                                        jobs.push(job);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }

    /// Returns the levels for d = `dim`.
    fn levels(&self, dim: usize) -> Result<Vec<Level>, Failure> {
        match (&self.levels, self.levels_per_dim) {
            (Some(levels), None) => Ok(parse_levels(levels)?),
            (None, Some(nats)) => Ok(vec![Level::Mi(nats * dim as f64)]),
            _ => Err(Failure::Usage("a staircase has either levels or levels_per_dim".into())),
        }
    }
}

impl ImageGroup {
    pub fn jobs(&self) -> Vec<Job> {
        let critic = CriticPlan {
            activation: self.activation,
            parts: self.parts,
            ..CriticPlan::new(self.critic, &self.hidden)
        };
        let mut jobs = Vec::new();
        for images in &self.images {
            for &view in &self.views {
                for &rows in &self.rows {
                    for estimator in &self.estimators {
                        let mut learner = LearnerPlan::new(estimator, &critic);
                        if let Some(critic) = learner.critic_mut() {
                            critic.pairing = self.pairing;
                        }
                        let plan = |&seed: &u64| ConsistencyPlan {
                            images: images.clone(),
                            count: self.count,
                            view,
                            rows,
                            training: Training {
                                learning_rate_schedule: self.learning_rate_schedule,
                                ..training(learner.clone(), self.batch, self.learning_rate, seed)
                            },
                            iterations: self.iterations,
                            chain: self.chain,
                        };
                        let plans = self.seeds.iter().map(plan);
                        jobs.extend(plans.map(|plan| Job::Images { plan, last: self.last }));
                    }
                }
            }
        }
        jobs
    }
}

/// The number of iterations at each level of the paper's staircases. Only some of them are timed.
const STAIRCASE_ITERATIONS: usize = 4000;

impl TimeGroup {
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let learners = learners(
            &self.estimators,
            &self.critics,
            &self.pairings,
            &self.hidden,
            self.activation,
        );
        let mut jobs = Vec::new();
        for &dim in &self.dims {
            for &batch in &self.batches {
                for learner in &learners {
                    let levels = parse_levels(&self.level)?;
                    let plan = RunPlan {
                        scenario: ScenarioPlan::new(&self.scenario, dim)?,
                        training: training(learner.clone(), batch, self.learning_rate, 0),
                        schedule: Schedule { levels, iterations: STAIRCASE_ITERATIONS },
                        term: None,
                    };
                    jobs.push(Job::Time { plan, seconds: self.seconds });
                }
            }
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn njee_has_one_learner_and_cpc_takes_only_all_pairs() {
        let kinds = [CriticKind::Joint, CriticKind::Deranged];
        let count = |name: &str| {
            let estimators = [name.parse().unwrap()];
            learners(&estimators, &kinds, &[], &[8, 8], Activation::Relu).len()
        };
        assert_eq!((count("kl-dime"), count("cpc"), count("njee")), (2, 1, 1));
    }
}
