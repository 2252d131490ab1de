//! The jobs of recipes, and their measurements as they are stored in the log.

use super::consistency::ConsistencyPlan;
use crate::report::staircase::Curve;
use fdime::train::{LoggedRun, RunLog, Runs};
use fdime::{BatchSource, Chain, Ending, LevelSummary, Nats, Parameter, RunPlan, Term};
use serde::{Deserialize, Serialize};

/// A unit of work that is run once, even if several recipes need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Job {
    /// A staircase; the last iterations of each level are summarised.
    Staircase {
        plan: RunPlan,
        last: usize,
        /// The blocks of y of a chained estimate; `None` for a direct one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain: Option<Chain>,
    },
    /// An estimate on images: the mean of the last iterations.
    Images { plan: ConsistencyPlan, last: usize },
    /// The time of a training step, measured for this many seconds.
    Time { plan: RunPlan, seconds: f64 },
}

/// The result of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Measurement {
    Staircase {
        date: String,
        ending: Ending,
        levels: Vec<LevelMeasure>,
        curve: Curve,
        /// The terms of a chain at the last level that was finished.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        terms: Vec<TermMeasure>,
    },
    Images {
        date: String,
        mean: f64,
        variance: f64,
        steps: usize,
        /// The terms of a chain.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        terms: Vec<TermMeasure>,
    },
    Time {
        date: String,
        median_ms: f64,
        fastest_ms: f64,
        steps: usize,
        threads: usize,
    },
}

impl Measurement {
    /// Returns the day on which the job finished.
    pub fn date(&self) -> &str {
        match self {
            Measurement::Staircase { date, .. }
            | Measurement::Images { date, .. }
            | Measurement::Time { date, .. } => date,
        }
    }
}

/// A level that one run finished.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LevelMeasure {
    pub true_mi: f64,
    pub mean: f64,
    pub variance: f64,
}

impl LevelMeasure {
    /// Returns the library's summary of this level, whose last `window` iterations were measured.
    pub fn summary(&self, window: usize) -> LevelSummary {
        LevelSummary::new(Nats(self.true_mi), Nats(self.mean), self.variance, window)
    }
}

/// The mean of a term of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermMeasure {
    /// The block, counted from 1 as in formulas.
    pub block: usize,
    /// Whether X is beside the earlier blocks.
    pub with_x: bool,
    pub mean: f64,
}

/// The finished jobs of all recipes.
pub type FinishedJobs = Runs<Job, Measurement>;
/// The file of finished jobs, held by the process that runs jobs.
pub type Log = RunLog<Job, Measurement>;
pub type LoggedJob = LoggedRun<Job, Measurement>;

impl Job {
    /// Checks that the job can run.
    pub fn check(&self) -> fdime::Result<()> {
        match self {
            Job::Staircase { plan, last, chain } => {
                if let Some(chain) = chain {
                    chain.blocks(plan.staircase()?.dims().1)?;
                }
                for term in self.terms() {
                    let plan = with_term(plan, term);
                    plan.check()?;
                    plan.check_memory()?;
                }
                check_last(*last, plan.schedule.iterations)
            }
            Job::Time { plan, seconds } => {
                plan.check()?;
                plan.check_memory()?;
                let valid = *seconds > 0.0 && *seconds <= 3600.0;
                require(valid, Parameter::Seconds, seconds.to_string(), "between 0 and 3600".into())
            }
            Job::Images { plan, last } => {
                plan.check()?;
                check_last(*last, plan.iterations)
            }
        }
    }

    /// Returns whether the job has a result. Estimates of any device count, but times count only if
    /// they were measured on this machine.
    pub fn is_finished(&self, finished: &FinishedJobs) -> bool {
        match self {
            Job::Time { .. } => finished.latest_on(self, &machine()).is_some(),
            _ => finished.latest(self).is_some(),
        }
    }

    /// Returns the terms, each of which is a training; a job without a chain has one, which is
    /// `None`.
    pub fn terms(&self) -> Vec<Option<Term>> {
        let chain = match self {
            Job::Staircase { chain, .. } => chain.clone(),
            Job::Images { plan, .. } => plan.blocks(),
            Job::Time { .. } => None,
        };
        match chain {
            Some(chain) => chain.terms().into_iter().map(Some).collect(),
            None => vec![None],
        }
    }

    /// Returns the number of steps of each training, or 0 where a time limit ends the job.
    pub fn steps(&self) -> usize {
        match self {
            Job::Staircase { plan, .. } => plan.schedule.total(),
            Job::Images { plan, .. } => plan.iterations,
            Job::Time { .. } => 0,
        }
    }
}

/// Returns the plan of a term.
pub fn with_term(plan: &RunPlan, term: Option<Term>) -> RunPlan {
    RunPlan { term, ..plan.clone() }
}

fn check_last(last: usize, iterations: usize) -> fdime::Result<()> {
    let expected = format!("between 1 and the {iterations} iterations");
    require((1..=iterations).contains(&last), Parameter::Last, last.to_string(), expected)
}

fn require(
    valid: bool,
    parameter: Parameter,
    value: String,
    expected: String,
) -> fdime::Result<()> {
    match valid {
        true => Ok(()),
        false => {
            Err(fdime::Error::InvalidParameter { parameter, value, expected: expected.into() })
        }
    }
}

/// Returns the processor if the system names it, the number of cores and the operating system.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    format!("{model}, {cores} cores, {}", std::env::consts::OS)
}
