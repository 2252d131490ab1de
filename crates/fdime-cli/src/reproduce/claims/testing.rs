//! Results for the tests of claims. Plans and log entries are leaked: results borrow them.

use super::{AnyClaim, Claim, Evidence, Verdict};
use crate::reproduce::consistency::{ConsistencyPlan, View};
use crate::reproduce::jobs::{Job, LoggedJob, Measurement};
use crate::reproduce::results::{
    ImageResult, ImageRun, LevelResult, Measured, Results, StaircaseResult, TimeResult,
};
use fdime::{
    Chain, CriticKind, CriticPlan, Estimator, LearnerPlan, Level, RunPlan, ScenarioPlan, Training,
};

pub fn parse(claim: &str) -> AnyClaim {
    toml::from_str(claim).unwrap()
}

/// Checks a claim without the paper's values and grades.
pub fn check(claim: &str, results: &Results) -> Verdict {
    parse(claim).check(&Evidence { results, paper: &[], graded: &[] })
}

/// A staircase with a joint critic on 5-dimensional Gaussians, and its measured levels.
pub struct Run {
    plan: RunPlan,
    chain: Option<Chain>,
    levels: Vec<LevelResult>,
}

impl Run {
    pub fn new(estimator: &str) -> Self {
        Run { plan: plan("gaussian", estimator, "joint"), chain: None, levels: Vec::new() }
    }

    pub fn scenario(mut self, name: &str) -> Self {
        self.plan.scenario = ScenarioPlan::new(name, self.plan.scenario.dim).unwrap();
        self
    }

    pub fn dim(mut self, dim: usize) -> Self {
        self.plan.scenario.dim = dim;
        self
    }

    pub fn chain(mut self, blocks: usize) -> Self {
        self.chain = Some(Chain::Equal(blocks));
        self
    }

    pub fn batch(mut self, batch: usize) -> Self {
        self.plan.training.batch = batch;
        self
    }

    /// Sets true MI, mean and variance of each level.
    pub fn levels(mut self, levels: &[(f64, f64, f64)]) -> Self {
        let exact = |value: f64| Measured { value, spread: None };
        self.levels = levels
            .iter()
            .map(|&(true_mi, mean, variance)| LevelResult {
                true_mi,
                mean: exact(mean),
                bias: exact((mean - true_mi).abs()),
                variance: exact(variance),
                mse: exact((mean - true_mi).powi(2) + variance),
                runs: 0,
            })
            .collect();
        self.planned(levels.len())
    }

    /// Sets the number of planned levels; those that were not measured count as unfinished.
    pub fn planned(mut self, levels: usize) -> Self {
        self.plan.schedule.levels = vec![Level::Mi(1.0); levels];
        self
    }
}

fn plan(scenario: &str, estimator: &str, critic: &str) -> RunPlan {
    let critic = CriticPlan::new(critic.parse::<CriticKind>().unwrap(), &[8]);
    let scenario = ScenarioPlan::new(scenario, 5).unwrap();
    RunPlan::new(scenario, estimator.parse::<Estimator>().unwrap(), critic)
}

pub fn results(runs: &[Run]) -> Results<'static> {
    let staircase = |run: &Run| StaircaseResult {
        plan: leak(run.plan.clone()),
        chain: leak(run.chain.clone()).as_ref(),
        last: 10,
        runs: Vec::new(),
        levels: run.levels.clone(),
    };
    Results { staircases: runs.iter().map(staircase).collect(), ..Results::default() }
}

/// Times in milliseconds by critic and batch size.
pub fn times(times: &[(&str, usize, f64)]) -> Results<'static> {
    let time = |&(critic, batch, median_ms): &(&str, usize, f64)| {
        let mut plan = plan("gaussian", "gan-dime", critic);
        plan.training.batch = batch;
        let plan = leak(plan);
        let logged = logged(Job::Time { plan: plan.clone(), seconds: 1.0 });
        TimeResult { plan, median_ms, fastest_ms: median_ms, steps: 3, threads: 1, logged }
    };
    Results { times: times.iter().map(time).collect(), ..Results::default() }
}

/// Direct estimates on images by view and visible rows.
pub fn images(estimator: &str, estimates: &[(View, usize, f64)]) -> Results<'static> {
    images_with(estimator, false, estimates)
}

/// Estimates on images by view and visible rows; those of two images are chained if `chained`.
pub fn images_with(
    estimator: &str,
    chained: bool,
    estimates: &[(View, usize, f64)],
) -> Results<'static> {
    let image = |&(view, rows, mean): &(View, usize, f64)| {
        let critic = CriticPlan::new(CriticKind::Conv, &[4, 4, 4]);
        let chain = chained && view != View::Single;
        let plan = leak(ConsistencyPlan {
            images: "mnist".into(),
            count: None,
            view,
            rows,
            training: Training::new(LearnerPlan::new(&estimator.parse().unwrap(), &critic)),
            iterations: 10,
            chain,
        });
        let logged = logged(Job::Images { plan: plan.clone(), last: 5 });
        let run = ImageRun { seed: 0, mean, variance: 0.0, terms: &[], logged };
        ImageResult { plan, last: 5, runs: vec![run] }
    };
    Results { images: estimates.iter().map(image).collect(), ..Results::default() }
}

/// Returns a log entry; claims do not use its measurement.
fn logged(plan: Job) -> &'static LoggedJob {
    let (date, terms) = (String::new(), Vec::new());
    let result = Measurement::Images { date, mean: 0.0, variance: 0.0, steps: 0, terms };
    leak(LoggedJob { plan, engine: "cpu".into(), version: "0".into(), result })
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
