//! What a recipe's runs have measured, over seeds.

use super::jobs::{Job, LevelMeasure, Log, Logged, Outcome};
use super::paper::Statistic;
use crate::report::staircase::Curve;
use fdime::consistency::{ConsistencyPlan, View};
use fdime::{CriticPlan, RunPlan};

/// Levels are computed from correlations, so that 2 may be 1.9999999999999998.
pub const ROUNDING: f64 = 1e-6;

/// Everything measured for a recipe.
#[derive(Default)]
pub struct Results<'a> {
    pub staircases: Vec<Staircase<'a>>,
    pub images: Vec<ImageResult<'a>>,
    pub times: Vec<TimeResult<'a>>,
    /// Jobs that are not in the log.
    pub missing: usize,
    /// Estimates on images that diverged.
    pub diverged: usize,
}

/// Runs that differ in their seed alone.
pub struct Staircase<'a> {
    pub plan: &'a RunPlan,
    pub last: usize,
    pub runs: Vec<Run<'a>>,
    pub levels: Vec<Level>,
}

/// One of them.
pub struct Run<'a> {
    pub seed: u64,
    pub logged: &'a Logged,
    pub levels: &'a [LevelMeasure],
    pub curve: &'a Curve,
}

/// A level over the runs that finished it.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub true_mi: f64,
    pub mean: Measured,
    pub bias: Measured,
    pub variance: Measured,
    pub mse: Measured,
    /// Runs that finished it.
    pub runs: usize,
}

/// A mean over seeds, and the standard deviation if there are several.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub value: f64,
    pub spread: Option<f64>,
}

impl Measured {
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|v| (v - value).powi(2)).sum::<f64>();
        let spread = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Measured { value, spread }
    }
}

impl Level {
    pub fn statistic(&self, statistic: Statistic) -> Measured {
        match statistic {
            Statistic::Bias => self.bias,
            Statistic::Variance => self.variance,
            Statistic::Mse => self.mse,
        }
    }
}

impl Staircase<'_> {
    pub fn estimator(&self) -> &str {
        self.plan.estimator.name()
    }

    /// What tells runs of one estimator apart: the critic, and how it pairs if not as usual.
    pub fn label(&self) -> String {
        label(self.plan)
    }

    /// The level of this true MI.
    pub fn at(&self, true_mi: f64) -> Option<&Level> {
        self.levels.iter().find(|level| (level.true_mi - true_mi).abs() < ROUNDING)
    }

    /// Whether every run finished every level.
    pub fn complete(&self) -> bool {
        self.levels.len() == self.plan.schedule.levels.len()
            && self.levels.iter().all(|level| level.runs == self.runs.len())
    }

    fn summarise(&mut self) {
        let most = self.runs.iter().map(|run| run.levels.len()).max().unwrap_or(0);
        for index in 0..most {
            let levels: Vec<LevelMeasure> =
                self.runs.iter().filter_map(|run| run.levels.get(index).copied()).collect();
            let of = |f: &dyn Fn(&LevelMeasure) -> f64| {
                Measured::of(&levels.iter().map(f).collect::<Vec<_>>())
            };
            let true_mi = levels[0].true_mi;
            self.levels.push(Level {
                true_mi,
                mean: of(&|level| level.mean),
                // As in the paper, of one run: |mean of its estimates - truth|.
                bias: of(&|level| (level.mean - level.true_mi).abs()),
                variance: of(&|level| level.variance),
                mse: of(&|level| (level.mean - level.true_mi).powi(2) + level.variance),
                runs: levels.len(),
            });
        }
    }
}

/// The critic of a plan, and its pairing if that is not the critic's own.
pub fn label(plan: &RunPlan) -> String {
    let kind = plan.critic.kind;
    match plan.estimator.has_critic() {
        false => "its own".into(),
        true if plan.pairing == kind.default_pairing() => kind.to_string(),
        true => format!("{kind}, {}", plan.pairing),
    }
}

/// Estimates on images that differ in their seed alone.
pub struct ImageResult<'a> {
    pub plan: &'a ConsistencyPlan,
    pub last: usize,
    pub runs: Vec<(u64, f64, f64, &'a Logged)>,
}

impl ImageResult<'_> {
    pub fn estimator(&self) -> &str {
        self.plan.estimator.name()
    }
}

/// The time of a step.
pub struct TimeResult<'a> {
    pub plan: &'a RunPlan,
    pub median_ms: f64,
    pub fastest_ms: f64,
    pub steps: usize,
    pub threads: usize,
    pub logged: &'a Logged,
}

impl<'a> Results<'a> {
    /// What the log has of these jobs.
    pub fn collect(jobs: &'a [Job], log: &'a Log) -> Self {
        let mut results = Results::default();
        for job in jobs {
            let Some(logged) = log.find_any(job) else {
                results.missing += 1;
                continue;
            };
            match (job, &logged.result) {
                (Job::Staircase { plan, last }, Outcome::Staircase { levels, curve, .. }) => {
                    let run = Run { seed: plan.seed, logged, levels, curve };
                    let same = |other: &RunPlan| RunPlan { seed: plan.seed, ..other.clone() };
                    let known = results.staircases.iter_mut();
                    match known.into_iter().find(|known| same(known.plan) == *plan) {
                        Some(known) => known.runs.push(run),
                        None => results.staircases.push(Staircase {
                            plan,
                            last: *last,
                            runs: vec![run],
                            levels: Vec::new(),
                        }),
                    }
                }
                // A run that diverged has no estimate.
                (Job::Images { plan, .. }, Outcome::Images { steps, .. })
                    if *steps < plan.iterations =>
                {
                    results.diverged += 1;
                }
                (Job::Images { plan, last }, Outcome::Images { mean, variance, .. }) => {
                    let run = (plan.seed, *mean, *variance, logged);
                    let same = |other: &ConsistencyPlan| ConsistencyPlan {
                        seed: plan.seed,
                        ..other.clone()
                    };
                    let known = results.images.iter_mut();
                    match known.into_iter().find(|known| same(known.plan) == *plan) {
                        Some(known) => known.runs.push(run),
                        None => {
                            let last = *last;
                            results.images.push(ImageResult { plan, last, runs: vec![run] });
                        }
                    }
                }
                (
                    Job::Time { plan, .. },
                    Outcome::Time { median_ms, fastest_ms, steps, threads, .. },
                ) => results.times.push(TimeResult {
                    plan,
                    median_ms: *median_ms,
                    fastest_ms: *fastest_ms,
                    steps: *steps,
                    threads: *threads,
                    logged,
                }),
                _ => results.missing += 1,
            }
        }
        results.staircases.iter_mut().for_each(Staircase::summarise);
        results
    }

    /// Staircases of an estimator.
    pub fn of<'b>(&'b self, estimator: &'b str) -> impl Iterator<Item = &'b Staircase<'a>> {
        self.staircases.iter().filter(move |staircase| staircase.estimator() == estimator)
    }

    /// The data sets, estimators and visible rows of a consistency test, and for each the ratio of
    /// estimates, over seeds: that of `view` to the single image's, or for the single image itself, to that
    /// of the whole image.
    pub fn ratios(&self, view: View) -> Vec<Ratios> {
        let mut all: Vec<Ratios> = Vec::new();
        for result in self.images.iter().filter(|result| result.plan.view == view) {
            let reference_rows =
                if view == View::Single { result.plan.critic.side } else { result.plan.rows };
            let reference = ConsistencyPlan {
                view: View::Single,
                rows: reference_rows,
                critic: CriticPlan { parts: 1, ..result.plan.critic.clone() },
                ..result.plan.clone()
            };
            let Some(reference) = self.images.iter().find(|other| *other.plan == reference) else {
                continue;
            };
            let ratios: Vec<f64> = result
                .runs
                .iter()
                .filter_map(|(seed, mean, ..)| {
                    let same = reference.runs.iter().find(|(other, ..)| other == seed)?;
                    // Where nothing is seen there is nothing to divide by.
                    (same.1.abs() > 0.05).then(|| mean / same.1)
                })
                .collect();
            if ratios.is_empty() {
                continue;
            }
            let entry = (result.plan.rows, Measured::of(&ratios));
            let (images, estimator) = (&result.plan.images, result.estimator());
            let parts = result.plan.critic.parts;
            let same = |known: &&mut Ratios| {
                known.images == *images && known.estimator == estimator && known.parts == parts
            };
            match all.iter_mut().find(same) {
                Some(known) => known.by_rows.push(entry),
                None => all.push(Ratios {
                    images: images.clone(),
                    estimator: estimator.into(),
                    parts,
                    by_rows: vec![entry],
                }),
            }
        }
        all
    }
}

/// Ratios of estimates by visible rows.
pub struct Ratios {
    pub images: String,
    pub estimator: String,
    /// Parts that the critic scored one by one.
    pub parts: usize,
    pub by_rows: Vec<(usize, Measured)>,
}

impl Ratios {
    pub fn name(&self) -> String {
        match self.parts {
            1 => self.estimator.clone(),
            _ => format!("{}, image by image", self.estimator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_standard_deviations() {
        let three = Measured::of(&[1.0, 2.0, 3.0]);
        assert_eq!((three.value, three.spread), (2.0, Some(1.0)));
        assert_eq!(Measured::of(&[4.0]).spread, None);
    }
}
