use super::{Ending, Outcome, RunPlan, StepRecord};
use crate::error::Result;
use crate::nats::Nats;
use serde::{Deserialize, Serialize};

/// Every step of a run on a staircase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenTrace", into = "WrittenTrace")]
pub struct Trace {
    /// The exact mutual information I(X; Y) at each level of the schedule, also for a term.
    pub true_mi: Vec<Nats>,
    /// The planned number of iterations at each level.
    pub iterations: usize,
    /// The steps made.
    pub steps: Vec<StepRecord>,
    /// How the run ended.
    pub ending: Ending,
}

/// A trace as it is written to logs, without numbers that can be computed from the others.
#[derive(Serialize, Deserialize)]
struct WrittenTrace {
    true_mi: Vec<Nats>,
    iterations: usize,
    ending: Ending,
    values: Vec<f64>,
    estimates: Vec<f64>,
}

impl From<Trace> for WrittenTrace {
    fn from(trace: Trace) -> Self {
        WrittenTrace {
            values: trace.steps.iter().map(|step| step.value).collect(),
            estimates: trace.steps.iter().map(|step| step.estimate.0).collect(),
            true_mi: trace.true_mi,
            iterations: trace.iterations,
            ending: trace.ending,
        }
    }
}

impl From<WrittenTrace> for Trace {
    fn from(written: WrittenTrace) -> Self {
        let iterations = written.iterations.max(1);
        let pairs = written.values.into_iter().zip(written.estimates).enumerate();
        Trace {
            true_mi: written.true_mi,
            iterations,
            steps: pairs
                .map(|(iteration, (value, estimate))| StepRecord {
                    iteration,
                    value,
                    estimate: Nats(estimate),
                })
                .collect(),
            ending: written.ending,
        }
    }
}

/// The bias and variance of an estimator at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelSummary {
    /// The exact mutual information.
    pub true_mi: Nats,
    /// The mean of the estimates.
    pub mean: Nats,
    /// |mean - true|: a magnitude, as in the paper's tables.
    pub bias: f64,
    /// The variance of the estimates over the iterations.
    pub variance: f64,
    /// The mean squared error, bias^2 + variance for a single run.
    pub mse: f64,
    /// The number of iterations that were summarised, at the end of the level.
    pub window: usize,
}

impl LevelSummary {
    /// Returns the summary of one run whose last `window` estimates have this mean and variance.
    pub fn new(true_mi: Nats, mean: Nats, variance: f64, window: usize) -> Self {
        let bias = (mean.0 - true_mi.0).abs();
        let mse = bias * bias + variance;
        LevelSummary { true_mi, mean, bias, variance, mse, window }
    }
}

impl Trace {
    /// Returns the trace of a run from the outcome of its training.
    pub fn new(plan: &RunPlan, outcome: &Outcome) -> Result<Self> {
        Ok(Trace {
            true_mi: plan.staircase()?.true_mi(),
            iterations: plan.schedule.iterations,
            steps: outcome.steps.clone(),
            ending: outcome.ending,
        })
    }

    /// Returns the sum of traces, each with its sign. It has as many steps as the shortest of them.
    pub fn sum(terms: &[(f64, &Trace)]) -> Self {
        let steps = terms.iter().map(|(_, trace)| trace.steps.len()).min().unwrap_or(0);
        let total = |step: usize, value: fn(&StepRecord) -> f64| -> f64 {
            terms.iter().map(|(sign, trace)| sign * value(&trace.steps[step])).sum()
        };
        let record = |iteration| StepRecord {
            iteration,
            value: total(iteration, |step| step.value),
            estimate: Nats(total(iteration, |step| step.estimate.0)),
        };
        let shortest = terms.iter().map(|(_, trace)| *trace).min_by_key(|trace| trace.steps.len());
        Trace {
            true_mi: shortest.map(|trace| trace.true_mi.clone()).unwrap_or_default(),
            iterations: shortest.map_or(1, |trace| trace.iterations),
            steps: (0..steps).map(record).collect(),
            ending: shortest.map_or(Ending::Completed, |trace| trace.ending),
        }
    }

    /// Returns summaries of the last `window` iterations of every level that was finished.
    pub fn summarise(&self, window: usize) -> Vec<LevelSummary> {
        let window = window.clamp(1, self.iterations);
        let levels = self.true_mi.iter().zip(self.steps.chunks_exact(self.iterations));
        levels
            .map(|(&true_mi, steps)| {
                let estimates = || steps[steps.len() - window..].iter().map(|s| s.estimate.0);
                let mean = estimates().sum::<f64>() / window as f64;
                let variance = estimates().map(|e| (e - mean).powi(2)).sum::<f64>() / window as f64;
                LevelSummary::new(true_mi, Nats(mean), variance, window)
            })
            .collect()
    }
}

/// A summary of several runs of the same plan with different seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunsSummary {
    /// Means of the runs' means, variances and squared errors, and the bias of that mean.
    #[serde(flatten)]
    pub level: LevelSummary,
    /// The number of runs that finished this level.
    pub runs: usize,
    /// The standard deviation of their means; `None` for a single run.
    pub mean_spread: Option<f64>,
}

impl RunsSummary {
    /// Summarises one level over the runs that finished it. The bias of several runs is
    /// |mean of their means - true|. Returns `None` if there are no runs.
    pub fn over_runs(runs: &[LevelSummary]) -> Option<Self> {
        let first = *runs.first()?;
        let count = runs.len() as f64;
        let average = |value: fn(&LevelSummary) -> f64| runs.iter().map(value).sum::<f64>() / count;
        let mean = average(|run| run.mean.0);
        let squares = runs.iter().map(|run| (run.mean.0 - mean).powi(2)).sum::<f64>() / count;
        let spread = (squares * count / (count - 1.0)).sqrt();
        let level = LevelSummary {
            mean: Nats(mean),
            bias: (mean - first.true_mi.0).abs(),
            variance: average(|run| run.variance),
            mse: average(|run| run.mse),
            ..first
        };
        let mean_spread = (runs.len() > 1).then_some(spread);
        Some(RunsSummary { level, runs: runs.len(), mean_spread })
    }
}

/// Summarises each level over the runs that finished it; levels that none finished are left out.
pub fn summarise_runs(runs: &[Trace], window: usize) -> Vec<RunsSummary> {
    let summaries: Vec<Vec<LevelSummary>> = runs.iter().map(|run| run.summarise(window)).collect();
    let levels = summaries.iter().map(Vec::len).max().unwrap_or(0);
    let finished = |level: usize| -> Vec<LevelSummary> {
        summaries.iter().filter_map(|run| run.get(level).copied()).collect()
    };
    (0..levels).filter_map(|level| RunsSummary::over_runs(&finished(level))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(estimates: &[f64], iterations: usize) -> Trace {
        Trace {
            true_mi: vec![Nats(2.0), Nats(4.0)],
            iterations,
            steps: estimates
                .iter()
                .enumerate()
                .map(|(iteration, &e)| StepRecord { iteration, value: 0.0, estimate: Nats(e) })
                .collect(),
            ending: Ending::Completed,
        }
    }

    #[test]
    fn bias_variance_and_error_of_the_window() {
        let run = trace(&[9.0, 1.0, 2.0, 9.0, 3.0, 5.0], 3);
        let levels = run.summarise(2);
        assert_eq!((levels[0].mean, levels[0].bias, levels[0].variance), (Nats(1.5), 0.5, 0.25));
        assert_eq!((levels[1].mean, levels[1].bias, levels[1].mse), (Nats(4.0), 0.0, 1.0));
        assert_eq!(run.summarise(100)[0].window, 3, "a window is at most a level");
    }

    #[test]
    fn only_finished_levels_count() {
        let run = trace(&[1.0, 2.0, 3.0, 4.0], 3);
        assert_eq!(run.summarise(3).len(), 1);
        let both = summarise_runs(&[run, trace(&[1.0; 6], 3)], 3);
        assert_eq!(both.iter().map(|level| level.runs).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(both[1].mean_spread, None);
    }

    #[test]
    fn runs_are_averaged() {
        let runs = summarise_runs(&[trace(&[1.0; 4], 2), trace(&[2.0; 4], 2)], 2);
        let RunsSummary { level, runs, mean_spread } = runs[0];
        assert_eq!((level.mean, level.bias, level.variance), (Nats(1.5), 0.5, 0.0));
        assert_eq!((runs, mean_spread), (2, Some(0.5f64.sqrt())));
        assert_eq!(level.mse, 0.5);
    }
}
