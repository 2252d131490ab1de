//! What recipes have to run, running it, and keeping what came of it.

use crate::commands::{interrupt_flag, progress_bar};
use crate::failure::Failure;
use crate::report::staircase::Curve;
use fdime::consistency::{self, ConsistencyPlan};
use fdime::data::Images;
use fdime::train::{LoggedRun, RunLog, Setup, Trainer};
use fdime::{
    CpuEngine, CriticKind, CriticPlan, Ending, Engine, Level, Observer, PairSource, RunPlan,
    ScenarioPlan, StepRecord, Trace,
};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Something to be run once, whichever recipes need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Job {
    /// A staircase, of which the last iterations of each level are summarised.
    Staircase { plan: RunPlan, last: usize },
    /// An estimate on images: the mean of the last iterations.
    Images { plan: ConsistencyPlan, last: usize },
    /// The time of a step, measured for so many seconds.
    Time { plan: RunPlan, seconds: f64 },
}

/// What came of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    Staircase { date: String, ending: Ending, levels: Vec<LevelMeasure>, curve: Curve },
    Images { date: String, mean: f64, variance: f64, steps: usize },
    Time { date: String, median_ms: f64, fastest_ms: f64, steps: usize, threads: usize },
}

impl Outcome {
    /// The day it came.
    pub fn date(&self) -> &str {
        match self {
            Outcome::Staircase { date, .. }
            | Outcome::Images { date, .. }
            | Outcome::Time { date, .. } => date,
        }
    }
}

/// A level that was finished.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LevelMeasure {
    pub true_mi: f64,
    pub mean: f64,
    pub variance: f64,
}

/// Points of a curve that is kept.
const POINTS: usize = 200;

/// What all recipes have run.
pub type Log = RunLog<Job, Outcome>;
pub type Logged = LoggedRun<Job, Outcome>;

impl Job {
    /// Refuses what cannot be run.
    pub fn check(&self) -> fdime::Result<()> {
        match self {
            Job::Staircase { plan, last } => {
                plan.check()?;
                plan.check_memory()?;
                check_window(*last, plan.schedule.iterations)
            }
            Job::Time { plan, seconds } => {
                plan.check()?;
                plan.check_memory()?;
                match *seconds > 0.0 && *seconds <= 3600.0 {
                    true => Ok(()),
                    false => Err(fdime::Error::InvalidParameter {
                        parameter: fdime::Parameter::Seconds,
                        value: seconds.to_string(),
                        expected: "between 0 and 3600".into(),
                    }),
                }
            }
            Job::Images { plan, last } => {
                plan.check()?;
                check_window(*last, plan.iterations)
            }
        }
    }

    /// Whether it need not be run: estimates are kept whatever executed them, but a time is this machine's.
    pub fn is_known(&self, log: &Log) -> bool {
        match self {
            Job::Time { .. } => log.find(self, &machine()).is_some(),
            _ => log.find_any(self).is_some(),
        }
    }

    /// Steps, where their number is known beforehand.
    fn steps(&self) -> usize {
        match self {
            Job::Staircase { plan, .. } => plan.iterations(),
            Job::Images { plan, .. } => plan.iterations,
            Job::Time { .. } => 0,
        }
    }

    /// Floating-point operations of a step. What has the same shape is asked once.
    fn operations(&self, known: &mut HashMap<String, f64>) -> fdime::Result<f64> {
        let (setup, dims) = match self {
            Job::Staircase { plan, .. } | Job::Time { plan, .. } => {
                (Setup::from(plan), plan.scenario.at(plan.schedule.levels[0])?.dims())
            }
            Job::Images { plan, .. } => {
                let size = plan.view.channels() * plan.critic.side * plan.critic.side;
                (plan.setup(), (size, size))
            }
        };
        let shape = format!(
            "{:?} {} {} {dims:?} {}",
            setup.critic,
            setup.pairing,
            setup.batch,
            setup.estimator.has_critic()
        );
        if let Some(operations) = known.get(&shape) {
            return Ok(*operations);
        }
        let operations = Trainer::new(&setup, dims, 1)?.operations();
        known.insert(shape, operations);
        Ok(operations)
    }
}

/// The iterations that are summarised are some of those that are made.
fn check_window(last: usize, iterations: usize) -> fdime::Result<()> {
    match (1..=iterations).contains(&last) {
        true => Ok(()),
        false => Err(fdime::Error::InvalidParameter {
            parameter: fdime::Parameter::Last,
            value: last.to_string(),
            expected: format!("between 1 and the {iterations} iterations").into(),
        }),
    }
}

/// Today, in UTC.
pub fn today() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    civil(seconds / 86_400)
}

/// The date so many days after 1 January 1970, in the calendar that is in use.
fn civil(days: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut days) = (1970, days);
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// The processor and its cores, where the system tells.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    format!("{model}, {cores} cores, {}", std::env::consts::OS)
}

/// What a list of jobs will take.
pub struct Cost {
    pub runs: usize,
    pub steps: usize,
    pub operations: f64,
    pub seconds: f64,
}

/// Operations a second of the GPU that the engine was measured on, an H200, in tf32; and the time of a
/// step that has next to none.
const GPU_SPEED: f64 = 1.4e14;
const GPU_STEP: f64 = 4e-5;

/// What jobs will take on this engine; operations of each job's step come with it.
pub fn cost(jobs: &[Job], engine: &dyn Engine, threads: usize) -> fdime::Result<(Cost, Vec<f64>)> {
    let mut known = HashMap::new();
    let operations =
        jobs.iter().map(|job| job.operations(&mut known)).collect::<fdime::Result<Vec<f64>>>()?;
    let mut cost = Cost { runs: jobs.len(), steps: 0, operations: 0.0, seconds: 0.0 };
    let (mut cpu_operations, mut shapes) = (0.0, Vec::new());
    for (job, operations) in jobs.iter().zip(&operations) {
        let total = operations * job.steps() as f64;
        cost.steps += job.steps();
        cost.operations += total;
        match job {
            Job::Staircase { plan, .. } if engine.device(plan) != CpuEngine::DEVICE => {
                cost.seconds += total / GPU_SPEED;
                let shape = (operations.to_bits(), job.steps());
                // Runs of one shape train together.
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                    cost.seconds += GPU_STEP * job.steps() as f64;
                }
            }
            Job::Time { seconds, .. } => cost.seconds += 1.3 * seconds,
            _ => cpu_operations += total,
        }
    }
    if cpu_operations > 0.0 {
        cost.seconds += cpu_operations / cpu_speed(threads)?;
    }
    Ok((cost, operations))
}

/// Operations a second of a typical step on this machine's cores, measured for a moment.
fn cpu_speed(threads: usize) -> fdime::Result<f64> {
    let critic = CriticPlan::new(CriticKind::Deranged, &[256, 256]);
    let mut plan = RunPlan::new(ScenarioPlan::new("gaussian", 20)?, "gan-dime".parse()?, critic);
    plan.batch = 512;
    plan.schedule.levels = vec![Level::Mi(2.0)];
    let scenario = plan.scenario.at(Level::Mi(2.0))?;
    let mut trainer = Trainer::of_plan(&plan, threads)?;
    let (start, mut steps) = (Instant::now(), 0.0);
    while steps < 3.0 || start.elapsed() < Duration::from_millis(300) {
        trainer.step(&scenario)?;
        steps += 1.0;
    }
    Ok(steps * trainer.operations() / start.elapsed().as_secs_f64())
}

/// What a job shows and keeps while it runs.
#[derive(Clone)]
struct Watch {
    job: Job,
    device: String,
    /// What a step adds to the bar.
    weight: u64,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    log: Arc<Mutex<SharedLog>>,
}

/// The log, and what went wrong with it.
struct SharedLog {
    runs: Log,
    failed: Option<fdime::Error>,
}

impl Watch {
    fn keep(&self, outcome: Outcome) {
        let mut log = self.log.lock().unwrap_or_else(|error| error.into_inner());
        if let Err(error) = log.runs.append(self.job.clone(), &self.device, outcome) {
            log.failed.get_or_insert(error);
        }
    }

    fn step(&self) -> ControlFlow<()> {
        self.bar.inc(self.weight);
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Observer for Watch {
    fn on_step(&mut self, _record: &StepRecord) -> ControlFlow<()> {
        self.step()
    }

    fn on_end(&mut self, trace: &Trace) {
        let Job::Staircase { last, .. } = self.job else { return };
        if trace.ending != Ending::Stopped {
            let levels = trace.summarise(last);
            self.keep(Outcome::Staircase {
                date: today(),
                ending: trace.ending,
                levels: levels
                    .iter()
                    .map(|level| LevelMeasure {
                        true_mi: level.true_mi.0,
                        mean: level.mean.0,
                        variance: level.variance,
                    })
                    .collect(),
                curve: Curve::new(trace, POINTS),
            });
        }
    }
}

impl consistency::Watch for Watch {
    fn on_step(&mut self, _estimate: f64) -> ControlFlow<()> {
        self.step()
    }

    fn on_end(&mut self, estimates: &[f64]) {
        let Job::Images { last, .. } = self.job else { return };
        let last = &estimates[estimates.len().saturating_sub(last)..];
        let mean = last.iter().sum::<f64>() / last.len().max(1) as f64;
        let variance =
            last.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / last.len().max(1) as f64;
        let steps = estimates.len();
        self.keep(Outcome::Images { date: today(), mean, variance, steps });
    }
}

/// What is needed to run jobs.
pub struct Runner<'a> {
    pub engine: &'a dyn Engine,
    pub threads: usize,
    /// Images by their name.
    pub images: &'a HashMap<String, Images>,
}

impl Runner<'_> {
    /// Runs the jobs, with a bar on stderr, until all are in the log or Ctrl-C. `operations` are those of
    /// each job's step. With the log comes what went wrong.
    pub fn run(
        &self,
        jobs: &[Job],
        operations: &[f64],
        log: Log,
    ) -> Result<(Log, Vec<String>), Failure> {
        let interrupted = interrupt_flag();
        let weight = |operations: f64| (operations / 1e5).max(1.0) as u64;
        let weights: Vec<u64> = operations.iter().map(|operations| weight(*operations)).collect();
        let steps = jobs.iter().zip(&weights);
        let bar = progress_bar(steps.map(|(job, weight)| job.steps() as u64 * weight).sum());
        bar.enable_steady_tick(Duration::from_millis(500));
        let log = Arc::new(Mutex::new(SharedLog { runs: log, failed: None }));
        let watch = |index: usize| {
            let job = &jobs[index];
            Watch {
                device: match job {
                    Job::Staircase { plan, .. } => self.engine.device(plan),
                    Job::Images { .. } => CpuEngine::DEVICE.into(),
                    Job::Time { .. } => machine(),
                },
                job: job.clone(),
                weight: weights[index],
                bar: bar.clone(),
                interrupted: Arc::clone(&interrupted),
                log: Arc::clone(&log),
            }
        };
        let mut failures = Vec::new();
        let (mut staircases, mut of_images, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            match job {
                Job::Staircase { plan, .. } => staircases.push((index, plan.clone())),
                Job::Images { plan, .. } => match self.images.get(&plan.images) {
                    Some(images) => of_images.push((index, (plan.clone(), images))),
                    None => failures.push(format!("there are no images {}", plan.images)),
                },
                Job::Time { plan, seconds } => times.push((index, plan, *seconds)),
            }
        }
        if !staircases.is_empty() {
            bar.set_message(format!("{} staircases", staircases.len()));
            // The longest first: then no thread has a long one left at the end.
            let total = |index: usize| operations[index] * jobs[index].steps() as f64;
            staircases.sort_by(|(a, _), (b, _)| total(*b).total_cmp(&total(*a)));
            let (indices, plans): (Vec<usize>, Vec<RunPlan>) = staircases.into_iter().unzip();
            let traces = self.engine.execute(&plans, &|k| Box::new(watch(indices[k])));
            let errors = traces.into_iter().filter_map(|trace| trace.err());
            failures.extend(errors.map(|error| error.to_string()));
        }
        if !of_images.is_empty() && !interrupted.load(Ordering::Relaxed) {
            bar.set_message(format!("{} estimates on images", of_images.len()));
            let (indices, plans): (Vec<usize>, Vec<_>) = of_images.into_iter().unzip();
            let estimates =
                consistency::execute(&plans, self.threads, &|k| Box::new(watch(indices[k])));
            let errors = estimates.into_iter().filter_map(|estimates| estimates.err());
            failures.extend(errors.map(|error| error.to_string()));
        }
        for (index, plan, seconds) in times {
            if !interrupted.load(Ordering::Relaxed) {
                let (critic, n, d) = (plan.critic.kind, plan.batch, plan.scenario.dim);
                bar.set_message(format!("time of {critic}, N = {n}, d = {d}"));
                match self.measure(plan, seconds) {
                    Ok(outcome) => watch(index).keep(outcome),
                    Err(error) => failures.push(error.to_string()),
                }
            }
        }
        bar.finish_and_clear();
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Logged);
        }
        let shared = Arc::into_inner(log).ok_or_else(|| Failure::Run("a run goes on".into()))?;
        let shared = shared.into_inner().unwrap_or_else(|error| error.into_inner());
        failures.extend(shared.failed.map(|error| error.to_string()));
        failures.sort();
        failures.dedup();
        Ok((shared.runs, failures))
    }

    /// The median time of whole steps, after one that warms up.
    fn measure(&self, plan: &RunPlan, seconds: f64) -> fdime::Result<Outcome> {
        let scenario = plan.scenario.at(plan.schedule.levels[0])?;
        let mut trainer = Trainer::of_plan(plan, self.threads)?;
        trainer.step(&scenario)?;
        let (begin, mut times) = (Instant::now(), Vec::new());
        while times.len() < 3 || begin.elapsed() < Duration::from_secs_f64(seconds) {
            let start = Instant::now();
            trainer.step(&scenario)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(Outcome::Time {
            date: today(),
            median_ms: times[times.len() / 2],
            fastest_ms: times[0],
            steps: times.len(),
            threads: self.threads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!((civil(0), civil(59)), ("1970-01-01".into(), "1970-03-01".into()));
        assert_eq!((civil(11_016), civil(11_017)), ("2000-02-29".into(), "2000-03-01".into()));
        assert_eq!(civil(20_454), "2026-01-01");
    }
}
