//! Staircases of several estimators.

use super::{
    AnyEstimator, BatchSource, LearnerPlan, LearningRateSchedule, LevelSummary, RunPlan,
    RunsSummary, Schedule, Staircase, Trace, Training,
};
use crate::chain::{Chain, Term};
use crate::critic::{CriticKind, CriticPlan};
use crate::error::{Error, Result, invalid};
use crate::message::Parameter;
use crate::nn::AdamPlan;
use crate::pairing::Pairing;
use crate::scenario::{Level, ScenarioPlan};
use serde::{Deserialize, Serialize};

/// Runs of several estimators with several seeds; all other settings are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaircasePlan {
    /// The distribution of the samples.
    pub scenario: ScenarioPlan,
    /// The estimators to compare.
    pub estimators: Vec<AnyEstimator>,
    /// The network.
    pub critic: CriticPlan,
    /// The pairing that makes marginal pairs.
    pub pairing: Pairing,
    /// The number of joint samples in each step.
    pub batch: usize,
    /// The levels and the iterations at each.
    pub schedule: Schedule,
    /// The settings of Adam.
    pub optimizer: AdamPlan,
    /// How the learning rate changes over the run.
    #[serde(default, skip_serializing_if = "LearningRateSchedule::is_constant")]
    pub learning_rate_schedule: LearningRateSchedule,
    /// The blocks of y of a chained estimate; `None` for a direct one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    /// The seed of the first run; each following run adds 1.
    pub seed: u64,
    /// The number of runs of each estimator.
    #[serde(default = "one")]
    pub runs: usize,
    /// The number of iterations at the end of each level that are summarised.
    #[serde(default = "paper_window")]
    pub last: usize,
}

fn one() -> usize {
    1
}

fn paper_window() -> usize {
    1000
}

const MAX_RUNS: usize = 100_000;

/// Settings to change in a plan, by the names that users write; `None` changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "each field sets the part of the plan with the same name")]
pub struct StaircaseOptions {
    pub scenario: Option<String>,
    pub dim: Option<usize>,
    pub estimators: Option<Vec<String>>,
    pub link: Option<String>,
    pub readout: Option<String>,
    pub critic: Option<String>,
    pub pairing: Option<String>,
    pub hidden: Option<Vec<usize>>,
    pub embedding: Option<usize>,
    pub activation: Option<String>,
    pub levels: Option<Vec<Level>>,
    pub batch: Option<usize>,
    pub iterations: Option<usize>,
    pub learning_rate: Option<f64>,
    pub learning_rate_schedule: Option<String>,
    pub chain: Option<Chain>,
    pub seed: Option<u64>,
    pub runs: Option<usize>,
    pub last: Option<usize>,
}

impl StaircasePlan {
    /// Returns the paper's staircase with the three f-DIME estimators and the deranged critic.
    pub fn paper(scenario: &str) -> Result<Self> {
        let one_dimensional = scenario.contains("swiss-roll");
        let scenario = ScenarioPlan::new(scenario, if one_dimensional { 1 } else { 20 })?;
        let (_, hidden) = CriticPlan::PRESETS[0];
        let critic = CriticPlan::new(CriticKind::Deranged, hidden);
        let estimators = ["kl-dime", "gan-dime", "hd-dime"].map(str::parse).into_iter();
        let estimators = estimators.collect::<Result<Vec<AnyEstimator>>>()?;
        let first = RunPlan::new(scenario, estimators[0].clone(), critic);
        Ok(StaircasePlan { estimators, ..first.into() })
    }

    /// Returns `plan`, or the paper's if it is `None`, with the options applied.
    pub fn new(plan: Option<Self>, options: &StaircaseOptions) -> Result<Self> {
        let scenario = options.scenario.as_deref();
        let mut plan = match plan {
            Some(plan) => plan,
            None => StaircasePlan::paper(scenario.unwrap_or("gaussian"))?,
        };
        if let Some(name) = scenario {
            plan.scenario.name = name.parse()?;
            plan.schedule.levels = plan.scenario.default_levels();
        }
        plan.scenario.dim = options.dim.unwrap_or(plan.scenario.dim);
        if let Some(names) = &options.estimators {
            plan.estimators = names.iter().map(|name| name.parse()).collect::<Result<_>>()?;
        }
        let link = options.link.as_deref().map(str::parse).transpose()?;
        let readout = options.readout.as_deref().map(str::parse).transpose()?;
        let estimators = plan.estimators.into_iter();
        plan.estimators = estimators.map(|estimator| estimator.with(link, readout)).collect();
        if let Some(critic) = &options.critic {
            plan.critic.kind = critic.parse()?;
            plan.pairing = plan.critic.kind.default_pairing();
        }
        if let Some(pairing) = &options.pairing {
            plan.pairing = pairing.parse()?;
        }
        if let Some(hidden) = &options.hidden {
            plan.critic.hidden.clone_from(hidden);
        }
        plan.critic.embedding = options.embedding.unwrap_or(plan.critic.embedding);
        if let Some(activation) = &options.activation {
            plan.critic.activation = activation.parse()?;
        }
        if let Some(levels) = &options.levels {
            plan.schedule.levels.clone_from(levels);
        }
        plan.batch = options.batch.unwrap_or(plan.batch);
        plan.schedule.iterations = options.iterations.unwrap_or(plan.schedule.iterations);
        let learning_rate = options.learning_rate.unwrap_or(plan.optimizer.learning_rate);
        plan.optimizer.learning_rate = learning_rate;
        if let Some(schedule) = &options.learning_rate_schedule {
            plan.learning_rate_schedule = schedule.parse()?;
        }
        plan.chain = options.chain.clone().or(plan.chain);
        plan.seed = options.seed.unwrap_or(plan.seed);
        plan.runs = options.runs.unwrap_or(plan.runs);
        plan.last = options.last.unwrap_or(plan.last);
        plan.check()?;
        Ok(plan)
    }

    /// Reads a plan, the plan of a single run, or the JSON of an earlier run, which holds its plan.
    pub fn from_json(text: &str) -> Result<Self> {
        let fail = |problem: String| Error::Plan { problem };
        let mut value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| fail(format!("not JSON: {error}")))?;
        if let Some(plan) = value.get_mut("plan") {
            value = plan.take();
        }
        let plan = match value.get("estimators") {
            Some(_) => serde_json::from_value(value),
            None => serde_json::from_value::<RunPlan>(value).map(StaircasePlan::from),
        };
        plan.map_err(|error| fail(format!("not a staircase plan: {error}")))
    }

    /// Checks that every run can be executed.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_RUNS).contains(&self.runs) {
            return Err(invalid(
                Parameter::Runs,
                self.runs,
                format!("must be between 1 and {MAX_RUNS}"),
            ));
        }
        if self.last == 0 {
            return Err(invalid(Parameter::Last, 0, "must be at least one iteration"));
        }
        if self.estimators.is_empty() {
            return Err(invalid(Parameter::Estimator, "[]", "give at least one, e.g. gan-dime"));
        }
        if let Some(chain) = &self.chain {
            // Before there are plans for the terms: there may be none, or too many.
            chain.blocks(Staircase::new(&self.scenario, &self.schedule)?.dims().1)?;
        }
        let check = |estimator| self.term_plans(estimator, 0).iter().try_for_each(RunPlan::check);
        self.estimators.iter().try_for_each(check)
    }

    /// Returns the plan of a run of one estimator.
    fn run_plan(&self, estimator: &AnyEstimator, index: usize) -> RunPlan {
        RunPlan {
            scenario: self.scenario.clone(),
            training: Training {
                learner: LearnerPlan::with_pairing(estimator, &self.critic, self.pairing),
                batch: self.batch,
                optimizer: self.optimizer,
                learning_rate_schedule: self.learning_rate_schedule,
                seed: self.seed.wrapping_add(index as u64),
            },
            schedule: self.schedule.clone(),
            term: None,
        }
    }

    /// Returns the trainings of a run of one estimator: one for each term of the chain. All have the
    /// same seed, hence the same samples, so that chance partly cancels in their sum.
    fn term_plans(&self, estimator: &AnyEstimator, index: usize) -> Vec<RunPlan> {
        let with_term = |term| RunPlan { term, ..self.run_plan(estimator, index) };
        self.terms().into_iter().map(with_term).collect()
    }

    /// Returns the terms of a run; a direct run has one, which is `None`.
    fn terms(&self) -> Vec<Option<Term>> {
        match &self.chain {
            Some(chain) => chain.terms().into_iter().map(Some).collect(),
            None => vec![None],
        }
    }

    /// Returns the trainings of all runs: those of the first estimator's first run, then of its
    /// second run, and so on.
    pub fn run_plans(&self) -> Vec<RunPlan> {
        let runs = |estimator| (0..self.runs).flat_map(move |run| self.term_plans(estimator, run));
        self.estimators.iter().flat_map(runs).collect()
    }

    /// Combines the traces of [`run_plans`](Self::run_plans) into those of the runs: `runs` of the
    /// first estimator, then those of the second, and so on.
    pub fn combine(&self, traces: Vec<Trace>) -> Vec<StaircaseRun> {
        let terms = self.terms();
        let mut traces = traces.into_iter();
        let mut runs = Vec::new();
        loop {
            let of_run: Vec<Trace> = traces.by_ref().take(terms.len()).collect();
            if of_run.is_empty() {
                return runs;
            }
            runs.push(StaircaseRun::new(&terms, of_run));
        }
    }
}

/// A run on a staircase.
#[derive(Clone, Debug)]
pub struct StaircaseRun {
    /// Every step; for a chain, the sum of its terms.
    pub trace: Trace,
    /// The terms of a chain; none for a direct run.
    pub terms: Vec<TermTrace>,
}

/// The training of a term.
#[derive(Clone, Debug)]
pub struct TermTrace {
    /// The term.
    pub term: Term,
    /// Every step.
    pub trace: Trace,
}

impl StaircaseRun {
    fn new(terms: &[Option<Term>], mut traces: Vec<Trace>) -> Self {
        if let ([None], 1) = (terms, traces.len()) {
            return StaircaseRun { trace: traces.remove(0), terms: Vec::new() };
        }
        let terms: Vec<TermTrace> = terms
            .iter()
            .flatten()
            .zip(traces)
            .map(|(term, trace)| TermTrace { term: term.clone(), trace })
            .collect();
        let signed: Vec<(f64, &Trace)> =
            terms.iter().map(|term| (term.term.sign(), &term.trace)).collect();
        StaircaseRun { trace: Trace::sum(&signed), terms }
    }
}

/// A term of a chain at one level, over runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermSummary {
    /// The term as a formula.
    pub term: String,
    /// Its block, counted from 1.
    pub block: usize,
    /// Whether X is beside the earlier blocks, so that the term is added and not subtracted.
    pub with_x: bool,
    /// The mean of the estimates, in nats.
    pub mean: f64,
    /// The variance of the estimates over the iterations, as the mean over the runs.
    pub variance: f64,
}

impl TermSummary {
    /// Returns what the term contributes to the sum: its mean with its sign.
    pub fn contribution(&self) -> f64 {
        if self.with_x { self.mean } else { -self.mean }
    }
}

/// Returns the terms of each level over the runs that finished it with every term, so that the
/// contributions add up to the mean that [`summarise_runs`](super::summarise_runs) gives. The lists
/// are empty for direct runs.
pub fn summarise_terms(runs: &[StaircaseRun], window: usize) -> Vec<Vec<TermSummary>> {
    // For each run and term the summaries of the levels that the whole run finished.
    let of_term = |run: &StaircaseRun, term: &TermTrace| {
        let finished = run.trace.steps.len() / run.trace.iterations.max(1);
        term.trace.summarise(window).into_iter().take(finished).collect::<Vec<_>>()
    };
    let of_run = |run: &StaircaseRun| -> Vec<Vec<LevelSummary>> {
        run.terms.iter().map(|term| of_term(run, term)).collect()
    };
    let summaries: Vec<Vec<Vec<LevelSummary>>> = runs.iter().map(of_run).collect();
    let levels = runs.iter().map(|run| run.trace.summarise(window).len()).max().unwrap_or(0);
    let at = |level: usize, (index, term): (usize, &TermTrace)| {
        let runs: Vec<LevelSummary> =
            summaries.iter().filter_map(|run| run.get(index)?.get(level).copied()).collect();
        let summary = RunsSummary::over_runs(&runs)?.level;
        Some(TermSummary {
            term: term.term.to_string(),
            block: term.term.block + 1,
            with_x: term.term.with_x,
            mean: summary.mean.0,
            variance: summary.variance,
        })
    };
    let terms = runs.first().map_or(&[][..], |run| &run.terms);
    let of_level = |level| terms.iter().enumerate().filter_map(|term| at(level, term)).collect();
    (0..levels).map(of_level).collect()
}

impl From<RunPlan> for StaircasePlan {
    fn from(run: RunPlan) -> Self {
        let RunPlan { scenario, training, schedule, term } = run;
        let estimators = vec![training.learner.estimator()];
        let (critic, pairing) = match training.learner {
            LearnerPlan::Critic(learner) => (learner.critic, learner.pairing),
            LearnerPlan::Njee(njee) => {
                let critic = CriticPlan::new(CriticKind::Deranged, &njee.hidden);
                (CriticPlan { activation: njee.activation, ..critic }, Pairing::Derangement)
            }
        };
        StaircasePlan {
            scenario,
            estimators,
            critic,
            pairing,
            batch: training.batch,
            schedule,
            optimizer: training.optimizer,
            learning_rate_schedule: training.learning_rate_schedule,
            chain: term.map(|term| term.chain),
            seed: training.seed,
            runs: one(),
            last: paper_window(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ending, StepRecord, summarise_runs};
    use super::*;
    use crate::nats::Nats;

    /// Returns a trace of two levels with two iterations each, of which `steps` were made.
    fn trace(estimate: f64, steps: usize) -> Trace {
        let record = |iteration| StepRecord {
            iteration,
            value: 0.0,
            estimate: Nats(estimate + iteration as f64),
        };
        Trace {
            true_mi: vec![Nats(1.0), Nats(2.0)],
            iterations: 2,
            steps: (0..steps).map(record).collect(),
            ending: Ending::Completed,
        }
    }

    /// The second run's last term diverged at the second level, so that run is left out there, also
    /// for the terms that finished it.
    #[test]
    fn contributions_of_terms_add_up_to_the_mean() {
        let terms: Vec<Option<Term>> = Chain::Equal(2).terms().into_iter().map(Some).collect();
        let runs = [[(1.0, 4), (2.0, 4), (0.5, 4)], [(3.0, 4), (5.0, 4), (0.25, 3)]]
            .map(|run| run.map(|(estimate, steps)| trace(estimate, steps)))
            .map(|traces| StaircaseRun::new(&terms, traces.to_vec()));
        let sums: Vec<Trace> = runs.iter().map(|run| run.trace.clone()).collect();
        let (levels, terms) = (summarise_runs(&sums, 2), summarise_terms(&runs, 2));
        assert_eq!(levels.iter().map(|level| level.runs).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(terms.len(), 2);
        for (level, terms) in levels.iter().zip(&terms) {
            let sum: f64 = terms.iter().map(TermSummary::contribution).sum();
            assert!((sum - level.level.mean.0).abs() < 1e-12, "{terms:?}");
        }
        assert_eq!(terms[1].iter().map(|term| term.mean).collect::<Vec<_>>(), [3.5, 4.5, 3.0]);
    }
}
