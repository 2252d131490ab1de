//! Runs jobs and appends their measurements to the log.

use super::cost::PendingJob;
use super::images::Images;
use super::jobs::{Job, LevelMeasure, Log, Measurement, machine};
use crate::commands::{interrupt_flag, progress_bar};
use crate::failure::Failure;
use crate::report::staircase::Curve;
use fdime::train::{Outcome, Trainer};
use fdime::{BatchSource, Ending, Engine, Observer, RunPlan, StepRecord, Task, Trace};
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

/// Shows the progress of a job and keeps its measurement.
struct JobObserver {
    job: Job,
    device: String,
    /// Units of the progress bar per step.
    weight: u64,
    session: Arc<Session>,
}

impl JobObserver {
    fn keep(&self, measurement: Measurement) {
        let mut log = self.session.log.lock().unwrap_or_else(|error| error.into_inner());
        if let Err(error) = log.jobs.append(self.job.clone(), &self.device, measurement) {
            log.error.get_or_insert(error);
        }
    }
}

impl Observer for JobObserver {
    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.session.bar.inc(self.weight);
        match self.session.is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn on_end(&mut self, outcome: &Outcome) {
        if outcome.ending == Ending::Stopped {
            return;
        }
        match &self.job {
            Job::Staircase { plan, last } => {
                // The plan was checked before it ran.
                if let Ok(trace) = Trace::new(plan, outcome) {
                    self.keep(staircase_measurement(&trace, *last));
                }
            }
            Job::Images { last, .. } => self.keep(images_measurement(outcome, *last)),
            Job::Time { .. } => {}
        }
    }
}

fn staircase_measurement(trace: &Trace, last: usize) -> Measurement {
    let measures = trace.summarise(last).into_iter().map(|level| LevelMeasure {
        true_mi: level.true_mi.0,
        mean: level.mean.0,
        variance: level.variance,
    });
    Measurement::Staircase {
        date: today(),
        ending: trace.ending,
        levels: measures.collect(),
        curve: Curve::new(trace, MAX_POINTS),
    }
}

fn images_measurement(outcome: &Outcome, last: usize) -> Measurement {
    let steps = outcome.steps.len();
    let last = &outcome.steps[steps.saturating_sub(last)..];
    let count = last.len().max(1) as f64;
    let mean = last.iter().map(|step| step.estimate.0).sum::<f64>() / count;
    let variance = last.iter().map(|step| (step.estimate.0 - mean).powi(2)).sum::<f64>() / count;
    Measurement::Images { date: today(), mean, variance, steps }
}

impl Runner<'_> {
    /// Runs the jobs, with a progress bar on stderr. Returns the log and the errors of single jobs;
    /// fails if the user interrupts it.
    pub fn run(&self, jobs: &[PendingJob], log: Log) -> Result<(Log, Vec<String>), Failure> {
        let bar = progress_bar(jobs.iter().map(|job| weight(job) * job.job.steps() as u64).sum());
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

    fn observer(&self, pending: &PendingJob, session: &Arc<Session>) -> JobObserver {
        let device = match &pending.job {
            Job::Staircase { plan, .. } => {
                self.engine.device_of(plan).map_or_else(|_| String::new(), |d| d.to_string())
            }
            Job::Images { .. } => fdime::Device::Cpu.to_string(),
            Job::Time { .. } => machine(),
        };
        let (job, session) = (pending.job.clone(), Arc::clone(session));
        JobObserver { job, device, weight: weight(pending), session }
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
        // The longest run first, so that no thread starts a long run when the others finish.
        staircases.sort_by(|(a, _), (b, _)| b.total_operations().total_cmp(&a.total_operations()));
        let plans: Vec<RunPlan> = staircases.iter().map(|(_, plan)| (*plan).clone()).collect();
        let observer = |index: usize| -> Box<dyn Observer> {
            Box::new(self.observer(staircases[index].0, session))
        };
        messages(self.engine.run(&plans, &observer))
    }

    fn run_images(&self, jobs: &[PendingJob], session: &Arc<Session>) -> Vec<String> {
        let (mut pending, mut errors) = (Vec::new(), Vec::new());
        for job in jobs {
            let Job::Images { plan, .. } = &job.job else { continue };
            match self.images.get(&plan.images) {
                Some(images) => pending.push((job, plan, plan.source(images))),
                None => errors.push(format!("images {} were not loaded", plan.images)),
            }
        }
        if pending.is_empty() || session.is_interrupted() {
            return errors;
        }
        session.bar.set_message(format!("{} estimates on images", pending.len()));
        let tasks: Vec<Task> = pending.iter().map(|(_, plan, source)| plan.task(source)).collect();
        let observer = |index: usize| -> Box<dyn Observer> {
            Box::new(self.observer(pending[index].0, session))
        };
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
                Ok(time) => self.observer(pending, session).keep(time),
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

/// Returns the progress bar's units per step of a job: steps count in proportion to their cost.
fn weight(job: &PendingJob) -> u64 {
    (job.step_operations / 1e5).max(1.0) as u64
}

/// Returns the messages of the errors.
fn messages<T>(results: Vec<fdime::Result<T>>) -> Vec<String> {
    results.into_iter().filter_map(|result| Some(result.err()?.to_string())).collect()
}

/// Returns today's date in UTC.
fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}
