//! Groups of jobs: lists of parameters, all combinations of which are run.

use super::jobs::Job;
use crate::failure::Failure;
use crate::reproduce::consistency::{ConsistencyPlan, View};
use fdime::train::{CriticLearner, Training};
use fdime::{
    Activation, AdamPlan, AnyEstimator, CriticKind, CriticPlan, LearnerPlan, Pairing, RunPlan,
    ScenarioPlan, Schedule, parse_levels,
};
use serde::Deserialize;

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
    levels: String,
    iterations: usize,
    /// The number of iterations at the end of each level that are summarised.
    last: usize,
    learning_rate: f64,
    seeds: Vec<u64>,
}

/// Estimates on images.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageGroup {
    images: Vec<String>,
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

/// Returns the training of a learner with the paper's other settings.
fn training(learner: LearnerPlan, batch: usize, learning_rate: f64, seed: u64) -> Training {
    let optimizer = AdamPlan { learning_rate, ..AdamPlan::default() };
    Training { batch, optimizer, seed, ..Training::new(learner) }
}

impl StaircaseGroup {
    pub fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let levels = parse_levels(&self.levels)?;
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
                for &batch in &self.batches {
                    for learner in &learners {
                        let plan = |&seed: &u64| RunPlan {
                            scenario: scenario.clone(),
                            training: training(learner.clone(), batch, self.learning_rate, seed),
                            schedule: Schedule {
                                levels: levels.clone(),
                                iterations: self.iterations,
                            },
                            term: None,
                        };
                        let plans = self.seeds.iter().map(plan);
                        jobs.extend(plans.map(|plan| Job::Staircase { plan, last: self.last }));
                    }
                }
            }
        }
        Ok(jobs)
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
                            view,
                            rows,
                            training: training(
                                learner.clone(),
                                self.batch,
                                self.learning_rate,
                                seed,
                            ),
                            iterations: self.iterations,
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
