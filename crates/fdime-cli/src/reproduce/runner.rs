//! Runs jobs and appends their measurements to the log.

use super::consistency::ConsistencyPlan;
use super::cost::{PendingJob, PendingTraining};
use super::images::Images;
use super::jobs::{Job, LevelMeasure, Log, Measurement, TermMeasure, machine, with_term};
use crate::commands::{interrupt_flag, progress_bar};
use crate::failure::Failure;
use crate::report::staircase::Curve;
use fdime::train::{Outcome, Trainer};
use fdime::{BatchSource, Ending, Engine, Observer, RunPlan, StepRecord, Task, Term, Trace};
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The maximum number of points of a staircase's curve in the log.
const MAX_POINTS: usize = 200;

/// The engine and the images that jobs run with.
pub struct Runner<'a> {
    pub engine: &'a dyn Engine,
    /// Images by the name of their set.
    pub images: &'a HashMap<String, Images>,
}

/// The state that all jobs of one call share.
struct Session {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    log: Mutex<SharedLog>,
}

/// The log, and the first error of writing it.
struct SharedLog {
    jobs: Log,
    error: Option<fdime::Error>,
}

impl Session {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// A job of which some trainings have ended.
struct RunningJob {
    job: Job,
    device: String,
    /// The term of each training, and the units of the progress bar of one of its steps.
    trainings: Vec<(Option<Term>, u64)>,
    /// The traces of the trainings that have ended.
    traces: Mutex<Vec<Option<Trace>>>,
    session: Arc<Session>,
}

impl RunningJob {
    /// Keeps the trace of a training; that of the last one completes the job.
    fn end_training(&self, index: usize, trace: Trace) {
        let mut traces = self.traces.lock().unwrap_or_else(|error| error.into_inner());
        traces[index] = Some(trace);
        if traces.iter().all(Option::is_some) {
            let traces: Vec<Trace> = traces.iter_mut().filter_map(Option::take).collect();
            if let Some(measurement) = self.measurement(&traces) {
                self.keep(measurement);
            }
        }
    }

    fn keep(&self, measurement: Measurement) {
        let mut log = self.session.log.lock().unwrap_or_else(|error| error.into_inner());
        if let Err(error) = log.jobs.append(self.job.clone(), &self.device, measurement) {
            log.error.get_or_insert(error);
        }
    }

    /// Returns the measurement of the sum of the trainings, each with the sign of its term; `None`
    /// for times, which are not those of whole trainings.
    fn measurement(&self, traces: &[Trace]) -> Option<Measurement> {
        let terms = || self.trainings.iter().map(|(term, _)| term.as_ref()).zip(traces);
        let signed: Vec<(f64, &Trace)> =
            terms().map(|(term, trace)| (term.map_or(1.0, Term::sign), trace)).collect();
        let sum = Trace::sum(&signed);
        let term_measures = |end: usize, last: usize| -> Vec<TermMeasure> {
            let measure = |(term, trace): (Option<&Term>, &Trace)| {
                let steps = &trace.steps[end.saturating_sub(last)..end];
                let (block, with_x) = (term?.block + 1, term?.with_x);
                (end > 0).then(|| TermMeasure { block, with_x, mean: moments(steps).0 })
            };
            terms().filter_map(measure).collect()
        };
        Some(match &self.job {
            Job::Images { last, .. } => {
                let steps = sum.steps.len();
                let (mean, variance) = moments(&sum.steps[steps.saturating_sub(*last)..]);
                let terms = term_measures(steps, *last);
                Measurement::Images { date: today(), mean, variance, steps, terms }
            }
            Job::Staircase { last, .. } => {
                let levels: Vec<LevelMeasure> = sum
                    .summarise(*last)
                    .into_iter()
                    .map(|level| LevelMeasure {
                        true_mi: level.true_mi.0,
                        mean: level.mean.0,
                        variance: level.variance,
                    })
                    .collect();
                Measurement::Staircase {
                    date: today(),
                    ending: sum.ending,
                    terms: term_measures(levels.len() * sum.iterations, *last),
                    levels,
                    curve: Curve::new(&sum, MAX_POINTS),
                }
            }
            Job::Time { .. } => return None,
        })
    }
}

/// Returns the mean and the variance of the estimates; 0 without steps.
fn moments(steps: &[StepRecord]) -> (f64, f64) {
    let count = steps.len().max(1) as f64;
    let mean = steps.iter().map(|step| step.estimate.0).sum::<f64>() / count;
    let squares = steps.iter().map(|step| (step.estimate.0 - mean).powi(2));
    (mean, squares.sum::<f64>() / count)
}

/// Shows the progress of a training and passes its trace to its job.
#[derive(Clone)]
struct TrainingObserver {
    job: Arc<RunningJob>,
    /// The number of the training within the job.
    index: usize,
}

impl Observer for TrainingObserver {
    fn on_begin(&mut self) -> ControlFlow<()> {
        match self.job.session.is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.job.session.bar.inc(self.job.trainings[self.index].1);
        self.on_begin()
    }

    fn on_end(&mut self, outcome: &Outcome) {
        if outcome.ending == Ending::Stopped {
            return;
        }
        let trace = match &self.job.job {
            // The plan was checked before it ran.
            Job::Staircase { plan, .. } => Trace::new(plan, outcome).ok(),
            Job::Images { plan, .. } => Some(Trace {
                true_mi: Vec::new(),
                iterations: plan.iterations,
                steps: outcome.steps.clone(),
                ending: outcome.ending,
            }),
            Job::Time { .. } => None,
        };
        if let Some(trace) = trace {
            self.job.end_training(self.index, trace);
        }
    }
}

impl Runner<'_> {
    /// Runs the jobs, with a progress bar on stderr. Returns the log and the errors of single jobs;
    /// fails if the user interrupts it.
    pub fn run(&self, jobs: &[PendingJob], log: Log) -> Result<(Log, Vec<String>), Failure> {
        let bar = progress_bar(jobs.iter().map(length).sum());
        bar.enable_steady_tick(Duration::from_millis(500));
        let log = Mutex::new(SharedLog { jobs: log, error: None });
        let session = Arc::new(Session { bar, interrupted: interrupt_flag(), log });
        let mut errors = self.run_staircases(jobs, &session);
        errors.extend(self.run_images(jobs, &session));
        errors.extend(self.run_timings(jobs, &session));
        session.bar.finish_and_clear();
        if session.is_interrupted() {
            return Err(Failure::Logged);
        }
        let session = Arc::into_inner(session)
            .ok_or_else(|| Failure::Run("a job is still running".into()))?;
        let log = session.log.into_inner().unwrap_or_else(|error| error.into_inner());
        errors.extend(log.error.map(|error| error.to_string()));
        errors.sort();
        errors.dedup();
        Ok((log.jobs, errors))
    }

    fn start(&self, pending: &PendingJob, session: &Arc<Session>) -> Arc<RunningJob> {
        let device = match &pending.job {
            // All terms of a chain run on the same device.
            Job::Staircase { plan, .. } => {
                let first = pending.trainings.first().and_then(|training| training.term.clone());
                let device = self.engine.device_of(&with_term(plan, first));
                device.map_or_else(|_| String::new(), |device| device.to_string())
            }
            Job::Images { plan, .. } => {
                let device = || {
                    let pairs = plan.pairs(self.images.get(&plan.images)?);
                    Some(self.engine.device_for(&plan.task(&pairs)).to_string())
                };
                device().unwrap_or_default()
            }
            Job::Time { .. } => machine(),
        };
        let trainings: Vec<(Option<Term>, u64)> =
            pending.trainings.iter().map(|t| (t.term.clone(), weight(t))).collect();
        Arc::new(RunningJob {
            job: pending.job.clone(),
            device,
            traces: Mutex::new(vec![None; trainings.len()]),
            trainings,
            session: Arc::clone(session),
        })
    }

    fn run_staircases(&self, jobs: &[PendingJob], session: &Arc<Session>) -> Vec<String> {
        let mut staircases: Vec<(&PendingJob, &RunPlan)> = Vec::new();
        for pending in jobs {
            if let Job::Staircase { plan, .. } = &pending.job {
                staircases.push((pending, plan));
            }
        }
        if staircases.is_empty() {
            return Vec::new();
        }
        session.bar.set_message(format!("{} staircases", staircases.len()));
        // The longest job first, so that no thread starts a long run when the others finish. The
        // terms of a job are together, so that an interruption leaves few jobs unfinished.
        staircases.sort_by(|(a, _), (b, _)| b.total_operations().total_cmp(&a.total_operations()));
        let (mut plans, mut observers) = (Vec::new(), Vec::new());
        for (pending, plan) in staircases {
            let job = self.start(pending, session);
            for (index, training) in pending.trainings.iter().enumerate() {
                plans.push(with_term(plan, training.term.clone()));
                observers.push(TrainingObserver { job: Arc::clone(&job), index });
            }
        }
        let observer = |index: usize| -> Box<dyn Observer> { Box::new(observers[index].clone()) };
        messages(self.engine.run(&plans, &observer))
    }

    fn run_images(&self, jobs: &[PendingJob], session: &Arc<Session>) -> Vec<String> {
        let (mut pending, mut errors) = (Vec::new(), Vec::new());
        for job in jobs {
            let Job::Images { plan, .. } = &job.job else { continue };
            match self.images.get(&plan.images) {
                Some(images) => pending.push((job, plan, plan.pairs(images))),
                None => errors.push(format!("images {} were not loaded", plan.images)),
            }
        }
        if pending.is_empty() || session.is_interrupted() {
            return errors;
        }
        session.bar.set_message(format!("{} estimates on images", pending.len()));
        let mut trainings: Vec<(&ConsistencyPlan, Box<dyn BatchSource>, TrainingObserver)> =
            Vec::new();
        for (pending, plan, pairs) in &pending {
            let job = self.start(pending, session);
            for (index, training) in pending.trainings.iter().enumerate() {
                match plan.source(pairs, training.term.as_ref()) {
                    Ok(source) => {
                        let observer = TrainingObserver { job: Arc::clone(&job), index };
                        trainings.push((plan, source, observer));
                    }
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        let tasks: Vec<Task> =
            trainings.iter().map(|(plan, source, _)| plan.task(&**source)).collect();
        let observer = |index: usize| -> Box<dyn Observer> { Box::new(trainings[index].2.clone()) };
        errors.extend(messages(self.engine.execute(&tasks, &observer)));
        errors
    }

    fn run_timings(&self, jobs: &[PendingJob], session: &Arc<Session>) -> Vec<String> {
        let mut errors = Vec::new();
        for pending in jobs {
            let Job::Time { plan, seconds } = &pending.job else { continue };
            if session.is_interrupted() {
                break;
            }
            let (critic, n, d) =
                (plan.training.learner.name(), plan.training.batch, plan.scenario.dim);
            session.bar.set_message(format!("time of {critic}, N = {n}, d = {d}"));
            match self.measure_time(plan, *seconds) {
                Ok(time) => self.start(pending, session).keep(time),
                Err(error) => errors.push(error.to_string()),
            }
        }
        errors
    }

    /// Measures whole training steps for this many seconds, after one step to warm up.
    fn measure_time(&self, plan: &RunPlan, seconds: f64) -> fdime::Result<Measurement> {
        let staircase = plan.staircase()?;
        let mut batches = staircase.open();
        let mut trainer = Trainer::new(&plan.training, staircase.dims(), self.engine.threads())?;
        trainer.step(&mut *batches)?;
        let (begin, mut times) = (Instant::now(), Vec::new());
        while times.len() < 3 || begin.elapsed() < Duration::from_secs_f64(seconds) {
            let start = Instant::now();
            trainer.step(&mut *batches)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(Measurement::Time {
            date: today(),
            median_ms: times[times.len() / 2],
            fastest_ms: times[0],
            steps: times.len(),
            threads: self.engine.threads(),
        })
    }
}

/// Returns the progress bar's units per step of a training: steps count in proportion to their
/// cost.
fn weight(training: &PendingTraining) -> u64 {
    (training.step_operations / 1e5).max(1.0) as u64
}

/// Returns the progress bar's units of a job.
fn length(job: &PendingJob) -> u64 {
    job.trainings.iter().map(|training| weight(training) * job.job.steps() as u64).sum()
}

/// Returns the messages of the errors.
fn messages<T>(results: Vec<fdime::Result<T>>) -> Vec<String> {
    results.into_iter().filter_map(|result| Some(result.err()?.to_string())).collect()
}

/// Returns today's date in UTC.
fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}
