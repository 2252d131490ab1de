//! The jobs that remain to be run, and an estimate of their duration.

use super::jobs::{Job, Log};
use fdime::train::Trainer;
use fdime::{
    BatchSource, CriticKind, CriticPlan, Device, Engine, Estimator, Level, RunPlan, ScenarioPlan,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Floating-point operations per second of the GPU that the engine was measured on: an H200 in
/// tf32.
const GPU_SPEED: f64 = 1.4e14;
/// The duration of the smallest training step on that GPU, in seconds.
const GPU_STEP_SECONDS: f64 = 4e-5;
/// A measurement takes this many times as long as requested.
const TIMING_OVERHEAD: f64 = 1.3;

/// A job that remains to be run.
pub struct PendingJob {
    pub job: Job,
    /// The number of floating-point operations of a training step.
    pub step_operations: f64,
}

impl PendingJob {
    pub fn total_operations(&self) -> f64 {
        self.step_operations * self.job.steps() as f64
    }

    /// Returns the distinct jobs that the log does not hold, and the number of those that it holds.
    pub fn find<'a>(
        jobs: impl IntoIterator<Item = &'a Job>,
        log: &Log,
    ) -> fdime::Result<(Vec<PendingJob>, usize)> {
        let (mut pending, mut finished): (Vec<PendingJob>, usize) = (Vec::new(), 0);
        let mut known = HashMap::new();
        for job in jobs {
            if job.is_finished(log) {
                finished += 1;
            } else if pending.iter().all(|other| other.job != *job) {
                let step_operations = step_operations(job, &mut known)?;
                pending.push(PendingJob { job: job.clone(), step_operations });
            }
        }
        Ok((pending, finished))
    }
}

/// Returns the floating-point operations of a step. `known` caches them by the shape of the
/// network.
fn step_operations(job: &Job, known: &mut HashMap<String, f64>) -> fdime::Result<f64> {
    let (training, dims) = match job {
        Job::Staircase { plan, .. } | Job::Time { plan, .. } => {
            (&plan.training, plan.staircase()?.dims())
        }
        Job::Images { plan, .. } => (&plan.training, plan.dims()),
    };
    let network = training.learner.critic().map(|learner| (&learner.critic, learner.pairing));
    let shape = format!("{network:?} {} {dims:?}", training.batch);
    if let Some(operations) = known.get(&shape) {
        return Ok(*operations);
    }
    let operations = Trainer::new(training, dims, 1)?.operations();
    known.insert(shape, operations);
    Ok(operations)
}

/// The estimated cost of running jobs.
pub struct Cost {
    pub runs: usize,
    pub steps: usize,
    pub operations: f64,
    pub seconds: f64,
}

impl Cost {
    /// Estimates the cost of running jobs on this engine. Jobs on the CPU make it measure the speed
    /// of the machine, which takes a fraction of a second.
    pub fn estimate(jobs: &[PendingJob], engine: &dyn Engine) -> fdime::Result<Self> {
        let (mut seconds, mut cpu_operations, mut gpu_shapes) = (0.0, 0.0, Vec::new());
        for pending in jobs {
            let (steps, operations) = (pending.job.steps(), pending.total_operations());
            match &pending.job {
                Job::Staircase { plan, .. } if engine.device_of(plan)? != Device::Cpu => {
                    seconds += operations / GPU_SPEED;
                    // Runs of the same shape train together.
                    let shape = (pending.step_operations.to_bits(), steps);
                    if !gpu_shapes.contains(&shape) {
                        gpu_shapes.push(shape);
                        seconds += GPU_STEP_SECONDS * steps as f64;
                    }
                }
                Job::Time { seconds: measured, .. } => seconds += TIMING_OVERHEAD * measured,
                _ => cpu_operations += operations,
            }
        }
        if cpu_operations > 0.0 {
            seconds += cpu_operations / cpu_speed(engine.threads())?;
        }
        Ok(Cost {
            runs: jobs.len(),
            steps: jobs.iter().map(|pending| pending.job.steps()).sum(),
            operations: jobs.iter().map(PendingJob::total_operations).sum(),
            seconds,
        })
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Cost { runs, steps, operations, seconds } = self;
        let petaflop = operations / 1e15;
        let time = duration(*seconds);
        write!(f, "{runs} runs, {steps} training steps, {petaflop:.3} PFLOP: about {time}")
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} seconds"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Measures how many operations per second a typical training step achieves on this machine's
/// cores.
fn cpu_speed(threads: usize) -> fdime::Result<f64> {
    let critic = CriticPlan::new(CriticKind::Deranged, &[256, 256]);
    let mut plan =
        RunPlan::new(ScenarioPlan::new("gaussian", 20)?, "gan-dime".parse::<Estimator>()?, critic);
    plan.training.batch = 512;
    plan.schedule.levels = vec![Level::Mi(2.0)];
    let staircase = plan.staircase()?;
    let mut batches = staircase.open();
    let mut trainer = Trainer::new(&plan.training, staircase.dims(), threads)?;
    let (start, mut steps) = (Instant::now(), 0.0);
    while steps < 3.0 || start.elapsed() < Duration::from_millis(300) {
        trainer.step(&mut *batches)?;
        steps += 1.0;
    }
    Ok(steps * trainer.operations() / start.elapsed().as_secs_f64())
}
