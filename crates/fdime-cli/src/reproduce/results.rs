//! The results of a recipe's jobs, combined over seeds.

use super::jobs::{FinishedJobs, Job, LevelMeasure, LoggedJob, Measurement, TermMeasure};
use super::paper::Statistic;
use crate::report::staircase::Curve;
use crate::reproduce::consistency::{ConsistencyPlan, View};
use fdime::train::Training;
use fdime::{Chain, CriticKind, CriticPlan, LevelSummary, Pairing, RunPlan, RunsSummary};

/// The tolerance for comparing levels: they are computed from correlations, so 2 may be
/// 1.9999999999999998.
pub const ROUNDING: f64 = 1e-6;

/// An estimate on images below this value is too close to 0 to divide by.
const MIN_REFERENCE: f64 = 0.05;

/// All results of a recipe.
#[derive(Default)]
pub struct Results<'a> {
    pub staircases: Vec<StaircaseResult<'a>>,
    pub images: Vec<ImageResult<'a>>,
    pub times: Vec<TimeResult<'a>>,
    /// The number of jobs that are not in the log.
    pub missing: usize,
    /// The number of estimates on images that diverged.
    pub diverged: usize,
}

/// Staircases that differ only in their seed.
pub struct StaircaseResult<'a> {
    pub plan: &'a RunPlan,
    /// The blocks of y of a chained estimate; `None` for a direct one.
    pub chain: Option<&'a Chain>,
    /// The number of iterations at the end of each level that are summarised.
    pub last: usize,
    pub runs: Vec<StaircaseRun<'a>>,
    pub levels: Vec<LevelResult>,
}

/// The staircase of one seed.
pub struct StaircaseRun<'a> {
    pub seed: u64,
    pub logged: &'a LoggedJob,
    pub levels: &'a [LevelMeasure],
    pub curve: &'a Curve,
}

/// One level over the runs that finished it.
#[derive(Clone, Copy, Debug)]
pub struct LevelResult {
    pub true_mi: f64,
    pub mean: Measured,
    /// |mean of the runs' means - true MI|, with the spread of the means.
    pub bias: Measured,
    pub variance: Measured,
    pub mse: Measured,
    /// The number of runs that finished the level.
    pub runs: usize,
}

/// A value over seeds, with the standard deviation if there are several.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub value: f64,
    pub spread: Option<f64>,
}

impl Measured {
    /// Returns the mean of the values, with their standard deviation.
    pub fn mean(values: &[f64]) -> Self {
        let value = values.iter().sum::<f64>() / values.len() as f64;
        Measured { value, spread: standard_deviation(values) }
    }
}

/// Returns the sample standard deviation, or `None` for fewer than two values.
fn standard_deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

impl LevelResult {
    /// Combines the runs that finished a level. Returns `None` if there are none.
    fn over_runs(runs: &[LevelSummary]) -> Option<Self> {
        let RunsSummary { level, .. } = RunsSummary::over_runs(runs)?;
        let spread = |statistic: fn(&LevelSummary) -> f64| {
            standard_deviation(&runs.iter().map(statistic).collect::<Vec<_>>())
        };
        let mean_spread = spread(|run| run.mean.0);
        Some(LevelResult {
            true_mi: level.true_mi.0,
            mean: Measured { value: level.mean.0, spread: mean_spread },
            bias: Measured { value: level.bias, spread: mean_spread },
            variance: Measured { value: level.variance, spread: spread(|run| run.variance) },
            mse: Measured { value: level.mse, spread: spread(|run| run.mse) },
            runs: runs.len(),
        })
    }

    /// Returns mean / true MI; `None` if the true MI is 0.
    pub fn ratio(&self) -> Option<Measured> {
        let Measured { value, spread } = self.mean;
        (self.true_mi > 0.0).then(|| Measured {
            value: value / self.true_mi,
            spread: spread.map(|spread| spread / self.true_mi),
        })
    }

    pub fn statistic(&self, statistic: Statistic) -> Measured {
        match statistic {
            Statistic::Bias => self.bias,
            Statistic::Variance => self.variance,
            Statistic::Mse => self.mse,
        }
    }
}

impl StaircaseResult<'_> {
    pub fn estimator(&self) -> &str {
        self.plan.training.learner.estimator_name()
    }

    /// Returns the estimator, followed by the chain if there is one.
    pub fn name(&self) -> String {
        with_chain(self.estimator().into(), self.chain)
    }

    /// Returns the label that distinguishes staircases of the same estimator.
    pub fn label(&self) -> String {
        with_chain(label(self.plan), self.chain)
    }

    /// Returns the level with this true MI, or `None` if no run finished it.
    pub fn at(&self, true_mi: f64) -> Option<&LevelResult> {
        self.levels.iter().find(|level| (level.true_mi - true_mi).abs() < ROUNDING)
    }

    /// Returns whether every run finished every level.
    pub fn is_complete(&self) -> bool {
        self.levels.len() == self.plan.schedule.levels.len()
            && self.levels.iter().all(|level| level.runs == self.runs.len())
    }

    /// Returns the critic and its pairing; `None` for NJEE.
    fn critic(&self) -> Option<(&CriticPlan, Pairing)> {
        let learner = self.plan.training.learner.critic()?;
        Some((&learner.critic, learner.pairing))
    }

    /// Returns whether the other staircase differs from this one only in the estimator and seeds.
    pub fn is_comparable(&self, other: &StaircaseResult) -> bool {
        self.plan.scenario == other.plan.scenario
            && self.plan.training.batch == other.plan.training.batch
            && self.critic() == other.critic()
            && self.chain == other.chain
    }

    fn summarise(&mut self) {
        let levels = self.runs.iter().map(|run| run.levels.len()).max().unwrap_or(0);
        let finished = |index: usize| -> Vec<LevelSummary> {
            let measures = self.runs.iter().filter_map(|run| run.levels.get(index));
            measures.map(|level| level.summary(self.last)).collect()
        };
        self.levels =
            (0..levels).filter_map(|index| LevelResult::over_runs(&finished(index))).collect();
    }
}

/// Returns the name of a chain, or that of an estimate without one.
pub fn chain_name(chain: Option<&Chain>) -> String {
    chain.map_or("direct".into(), |chain| format!("chain of {}", chain.len()))
}

/// Returns the text, followed by the chain if there is one.
fn with_chain(text: String, chain: Option<&Chain>) -> String {
    match chain {
        Some(_) => format!("{text}, {}", chain_name(chain)),
        None => text,
    }
}

/// Returns the critic of a plan, followed by the pairing if that is not the critic's default.
pub fn label(plan: &RunPlan) -> String {
    let Some(learner) = plan.training.learner.critic() else { return "its own".into() };
    let (kind, pairing) = (learner.critic.kind, learner.pairing);
    match pairing == kind.default_pairing() {
        true => kind.to_string(),
        false => format!("{kind}, {pairing}"),
    }
}

/// Estimates on images that differ only in their seed.
pub struct ImageResult<'a> {
    pub plan: &'a ConsistencyPlan,
    /// The number of iterations at the end that are summarised.
    pub last: usize,
    pub runs: Vec<ImageRun<'a>>,
}

/// The estimate of one seed.
pub struct ImageRun<'a> {
    pub seed: u64,
    pub mean: f64,
    pub variance: f64,
    /// The terms of a chain.
    pub terms: &'a [TermMeasure],
    pub logged: &'a LoggedJob,
}

impl ImageResult<'_> {
    pub fn estimator(&self) -> &str {
        self.plan.training.learner.estimator_name()
    }

    /// Returns the ratios of these estimates to those of `reference` with the same seed.
    fn ratios_to(&self, reference: &ImageResult) -> Vec<f64> {
        let ratio = |run: &ImageRun| {
            let same_seed = reference.runs.iter().find(|other| other.seed == run.seed)?;
            (same_seed.mean.abs() > MIN_REFERENCE).then(|| run.mean / same_seed.mean)
        };
        self.runs.iter().filter_map(ratio).collect()
    }
}

/// The time of a training step.
pub struct TimeResult<'a> {
    pub plan: &'a RunPlan,
    pub median_ms: f64,
    pub fastest_ms: f64,
    pub steps: usize,
    pub threads: usize,
    pub logged: &'a LoggedJob,
}

impl TimeResult<'_> {
    /// Returns whether a critic of this kind was timed, with this pairing if one is given.
    pub fn matches(&self, critic: CriticKind, pairing: Option<Pairing>) -> bool {
        self.plan.training.learner.critic().is_some_and(|learner| {
            learner.critic.kind == critic
                && pairing.is_none_or(|pairing| learner.pairing == pairing)
        })
    }
}

impl<'a> Results<'a> {
    /// Collects the results of these jobs and combines runs that differ only in their seed.
    pub fn collect(jobs: &'a [Job], finished: &'a FinishedJobs) -> Self {
        let mut results = Results::default();
        for job in jobs {
            match finished.latest(job) {
                Some(logged) => results.add(job, logged),
                None => results.missing += 1,
            }
        }
        results.staircases.iter_mut().for_each(StaircaseResult::summarise);
        results
    }

    fn add(&mut self, job: &'a Job, logged: &'a LoggedJob) {
        match (job, &logged.result) {
            (
                Job::Staircase { plan, last, chain },
                Measurement::Staircase { levels, curve, .. },
            ) => {
                let chain = chain.as_ref();
                let same = |known: &StaircaseResult| {
                    known.chain == chain
                        && *plan
                            == RunPlan {
                                training: with_seed(&known.plan.training, plan.training.seed),
                                ..known.plan.clone()
                            }
                };
                let new =
                    || StaircaseResult { plan, chain, last: *last, runs: vec![], levels: vec![] };
                let run = StaircaseRun { seed: plan.training.seed, logged, levels, curve };
                find_or_push(&mut self.staircases, same, new).runs.push(run);
            }
            // A run that diverged has no estimate.
            (Job::Images { plan, .. }, Measurement::Images { steps, .. })
                if *steps < plan.iterations =>
            {
                self.diverged += 1;
            }
            (Job::Images { plan, last }, Measurement::Images { mean, variance, terms, .. }) => {
                let same = |known: &ImageResult| {
                    *plan
                        == ConsistencyPlan {
                            training: with_seed(&known.plan.training, plan.training.seed),
                            ..known.plan.clone()
                        }
                };
                let new = || ImageResult { plan, last: *last, runs: vec![] };
                let run = ImageRun {
                    seed: plan.training.seed,
                    mean: *mean,
                    variance: *variance,
                    terms,
                    logged,
                };
                find_or_push(&mut self.images, same, new).runs.push(run);
            }
            (
                Job::Time { plan, .. },
                &Measurement::Time { median_ms, fastest_ms, steps, threads, .. },
            ) => {
                let time = TimeResult { plan, median_ms, fastest_ms, steps, threads, logged };
                self.times.push(time);
            }
            _ => self.missing += 1,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.staircases.is_empty() && self.images.is_empty() && self.times.is_empty()
    }

    /// Returns all log entries that the results were collected from.
    pub fn logged(&self) -> impl Iterator<Item = &'a LoggedJob> {
        let staircases = self.staircases.iter().flat_map(|s| s.runs.iter().map(|run| run.logged));
        let images = self.images.iter().flat_map(|i| i.runs.iter().map(|run| run.logged));
        staircases.chain(images).chain(self.times.iter().map(|time| time.logged))
    }

    /// Returns the staircases of an estimator.
    pub fn staircases_of<'b>(
        &'b self,
        estimator: &'b str,
    ) -> impl Iterator<Item = &'b StaircaseResult<'a>> {
        self.staircases.iter().filter(move |staircase| staircase.estimator() == estimator)
    }

    /// Returns the ratios of a consistency test for each set of images, estimator and number of
    /// visible rows. Estimates of `view`, chained or not, are divided by direct ones of the single
    /// image; estimates of the single image are divided by those of the single image with all rows visible.
    pub fn ratios(&self, view: View) -> Vec<Ratios> {
        let mut all: Vec<Ratios> = Vec::new();
        for result in self.images.iter().filter(|result| result.plan.view == view) {
            let ratios = self.reference(result).map(|reference| result.ratios_to(reference));
            let Some(ratios) = ratios.filter(|ratios| !ratios.is_empty()) else { continue };
            let (images, parts) = (&result.plan.images, result.plan.parts());
            let same = |known: &Ratios| {
                known.images == *images
                    && known.estimator == result.estimator()
                    && known.parts == parts
                    && known.chain == result.plan.blocks()
            };
            let new = || Ratios {
                images: images.clone(),
                estimator: result.estimator().into(),
                parts,
                chain: result.plan.blocks(),
                by_rows: vec![],
            };
            let entry = (result.plan.rows, Measured::mean(&ratios));
            find_or_push(&mut all, same, new).by_rows.push(entry);
        }
        all
    }

    /// Returns the estimates on single images that a result is divided by.
    fn reference(&self, result: &ImageResult) -> Option<&ImageResult<'a>> {
        let plan = result.plan;
        let mut reference = ConsistencyPlan {
            view: View::Single,
            rows: if plan.view == View::Single { plan.side() } else { plan.rows },
            chain: false,
            ..plan.clone()
        };
        if let Some(learner) = reference.training.learner.critic_mut() {
            learner.critic.parts = 1;
        }
        // The plan of a result has the first seed of all its runs.
        self.images.iter().find(|other| *other.plan == reference)
    }
}

fn with_seed(training: &Training, seed: u64) -> Training {
    Training { seed, ..training.clone() }
}

/// Returns the first item for which `same` is true, and appends a new one if there is none.
pub fn find_or_push<T>(
    items: &mut Vec<T>,
    same: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> &mut T {
    let index = items.iter().position(same).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    });
    &mut items[index]
}

/// Ratios of estimates by visible rows.
pub struct Ratios {
    pub images: String,
    pub estimator: String,
    /// The number of parts of a pair that the critic scored one by one.
    pub parts: usize,
    /// The blocks of y of chained estimates; `None` for direct ones.
    pub chain: Option<Chain>,
    pub by_rows: Vec<(usize, Measured)>,
}

impl Ratios {
    pub fn name(&self) -> String {
        let name = match self.parts {
            1 => self.estimator.clone(),
            _ => format!("{}, image by image", self.estimator),
        };
        with_chain(name, self.chain.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_the_standard_deviation() {
        let three = Measured::mean(&[1.0, 2.0, 3.0]);
        assert_eq!((three.value, three.spread), (2.0, Some(1.0)));
        assert_eq!(Measured::mean(&[4.0]).spread, None);
    }

    #[test]
    fn bias_of_several_runs_is_that_of_their_mean() {
        // One run is 0.5 too low, the other 1.5 too high: their mean is 0.5 too high.
        let measures = [1.5, 3.5].map(|mean| LevelMeasure { true_mi: 2.0, mean, variance: 0.25 });
        let level = LevelResult::over_runs(&measures.map(|level| level.summary(10))).unwrap();
        assert_eq!((level.mean.value, level.bias.value), (2.5, 0.5));
        assert_eq!(level.bias.spread, level.mean.spread);
        assert_eq!(level.mse.value, 0.5 * (0.25 + 2.25) + 0.25);
        assert!(LevelResult::over_runs(&[]).is_none());
    }
}
