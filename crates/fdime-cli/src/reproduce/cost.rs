//! The jobs that remain to be run, and an estimate of their duration.

use super::image_sets::ImageSets;
use super::jobs::{FinishedJobs, Job, with_term};
use fdime::parallel::run_jobs;
use fdime::train::{CriticLearner, Trainer, Training};
use fdime::{
    BatchSource, CriticKind, CriticPlan, Device, Engine, Estimator, Level, RunPlan, ScenarioPlan,
    Task, Term, counted,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Floating-point operations per second of the GPU that the engine was measured on: an H200 in
/// tf32.
const GPU_SPEED: f64 = 1.4e14;
/// The same for convolutions, with the few runs of a recipe.
const GPU_CONV_SPEED: f64 = 2.5e13;
/// The duration of the smallest training step on that GPU, in seconds.
const GPU_STEP_SECONDS: f64 = 4e-5;
/// Steps with more operations are not tried out. They consist of large matrix products, so their
/// time follows from the number of operations.
const MAX_TRIED_OPERATIONS: f64 = 2e9;

/// A job that remains to be run.
pub struct PendingJob {
    pub job: Job,
    /// The trainings: one for each term of a chain, otherwise one.
    pub trainings: Vec<PendingTraining>,
}

/// A training of a job.
pub struct PendingTraining {
    pub term: Option<Term>,
    /// The number of floating-point operations of a training step.
    pub step_operations: f64,
    /// The network and the sizes of a batch: steps of the same shape take the same time.
    shape: String,
}

impl PendingTraining {
    fn new(job: &Job, term: Option<Term>, known: &mut HashMap<String, f64>) -> fdime::Result<Self> {
        let (training, dims) = match job {
            Job::Staircase { plan, .. } | Job::Time { plan, .. } => {
                (&plan.training, with_term(plan, term.clone()).staircase()?.dims())
            }
            Job::Images { plan, .. } => (&plan.training, plan.dims(term.as_ref())?),
        };
        let network = match training.learner.critic() {
            Some(learner) => format!("{:?} {}", learner.critic, learner.pairing),
            None => format!("{:?}", training.learner),
        };
        let shape = format!("{network} {} {dims:?}", training.batch);
        let step_operations = match known.get(&shape) {
            Some(operations) => *operations,
            None => Trainer::new(training, dims, 1)?.operations(),
        };
        known.insert(shape.clone(), step_operations);
        Ok(PendingTraining { term, step_operations, shape })
    }
}

impl PendingJob {
    fn new(job: &Job, known: &mut HashMap<String, f64>) -> fdime::Result<Self> {
        let trainings = job.terms().into_iter().map(|term| PendingTraining::new(job, term, known));
        let trainings = trainings.collect::<fdime::Result<_>>()?;
        Ok(PendingJob { job: job.clone(), trainings })
    }

    /// Returns the number of steps of all trainings.
    fn steps(&self) -> usize {
        self.job.steps() * self.trainings.len()
    }

    /// Returns the number of operations of one step of each training.
    fn step_operations(&self) -> f64 {
        self.trainings.iter().map(|training| training.step_operations).sum()
    }

    pub fn total_operations(&self) -> f64 {
        self.step_operations() * self.job.steps() as f64
    }

    /// Returns the training with the most operations.
    fn largest(&self) -> &PendingTraining {
        let by_operations = |a: &&PendingTraining, b: &&PendingTraining| {
            a.step_operations.total_cmp(&b.step_operations)
        };
        self.trainings.iter().max_by(by_operations).expect("every job has a training")
    }

    /// Returns the distinct jobs that have no result, and the number of those that have one.
    pub fn find<'a>(
        jobs: impl IntoIterator<Item = &'a Job>,
        finished: &FinishedJobs,
    ) -> fdime::Result<(Vec<PendingJob>, usize)> {
        let mut distinct: Vec<&Job> = Vec::new();
        for job in jobs {
            if !distinct.contains(&job) {
                distinct.push(job);
            }
        }
        let count = distinct.len();
        distinct.retain(|job| !job.is_finished(finished));
        let mut known = HashMap::new();
        let pending = distinct.iter().map(|job| PendingJob::new(job, &mut known));
        Ok((pending.collect::<fdime::Result<_>>()?, count - distinct.len()))
    }
}

/// The estimated cost of running jobs.
pub struct Cost {
    pub runs: usize,
    pub steps: usize,
    pub operations: f64,
    pub seconds: f64,
}

impl Cost {
    /// Estimates the cost of running jobs on this engine. It tries out a few steps of each shape
    /// on the CPU, which takes some seconds at most.
    pub fn estimate(
        jobs: &[PendingJob],
        engine: &dyn Engine,
        images: &ImageSets,
    ) -> fdime::Result<Self> {
        let mut clock = Clock::new(engine.threads());
        let mut seconds = 0.0;
        for pending in jobs {
            let largest = pending.largest();
            match &pending.job {
                Job::Staircase { plan, .. } => {
                    let plan = with_term(plan, largest.term.clone());
                    seconds += clock.job(pending, &plan.task(&plan.staircase()?), engine)?;
                }
                Job::Images { plan, .. } => {
                    // Jobs whose images are missing are not run.
                    if let Some(images) = images.get(&plan.images) {
                        let pairs = plan.pairs(images);
                        let source = plan.source(&pairs, largest.term.as_ref())?;
                        seconds += clock.job(pending, &plan.task(&*source), engine)?;
                    }
                }
                // A warm-up step, and at least three measured ones.
                Job::Time { seconds: requested, .. } => {
                    let step = largest.step_operations / clock.speed()?;
                    seconds += requested.max(3.0 * step) + step;
                }
            }
        }
        Ok(Cost {
            runs: jobs.len(),
            steps: jobs.iter().map(PendingJob::steps).sum(),
            operations: jobs.iter().map(PendingJob::total_operations).sum(),
            seconds,
        })
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Cost { runs, steps, operations, seconds } = self;
        f.write_str(&counted(*runs, "run"))?;
        if *steps > 0 {
            let (amount, unit) = match *operations {
                o if o < 1e12 => (o / 1e9, "GFLOP"),
                o if o < 1e15 => (o / 1e12, "TFLOP"),
                o => (o / 1e15, "PFLOP"),
            };
            write!(f, ", {}, {amount:.1} {unit}", counted(*steps, "training step"))?;
        }
        write!(f, ": about {}", duration(*seconds))
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.5 => "a second".into(),
        s if s < 90.0 => format!("{s:.0} seconds"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Measures the time of training steps on this machine's cores, and knows that of a GPU.
struct Clock {
    threads: usize,
    /// Seconds of a step by its shape.
    steps: HashMap<String, f64>,
    /// Operations per second of large steps.
    speed: Option<f64>,
    /// The shapes, trainings and steps of the jobs on a GPU. Runs of the same shape train together,
    /// and so do the terms of a chain.
    gpu_shapes: Vec<(String, usize, usize)>,
}

impl Clock {
    fn new(threads: usize) -> Self {
        Clock { threads, steps: HashMap::new(), speed: None, gpu_shapes: Vec::new() }
    }

    /// Returns the seconds that a job adds to the time of many. `task` is its largest training.
    fn job(
        &mut self,
        pending: &PendingJob,
        task: &Task,
        engine: &dyn Engine,
    ) -> fdime::Result<f64> {
        let (largest, steps) = (pending.largest(), pending.job.steps());
        if engine.device_for(task) == Device::Cpu {
            // The terms of a chain differ in the number of inputs only, so one of them is tried out.
            let trained = steps as f64 * pending.step_operations() / largest.step_operations;
            return Ok(trained * self.step(largest, task.training, task.source)?);
        }
        let shape = (largest.shape.clone(), pending.trainings.len(), steps);
        let launches = if self.gpu_shapes.contains(&shape) { 0.0 } else { steps as f64 };
        self.gpu_shapes.push(shape);
        let is_conv = |learner: &CriticLearner| learner.critic.kind == CriticKind::Conv;
        let speed = match task.training.learner.critic().is_some_and(is_conv) {
            true => GPU_CONV_SPEED,
            false => GPU_SPEED,
        };
        Ok(pending.total_operations() / speed + GPU_STEP_SECONDS * launches)
    }

    /// Returns the seconds that a step adds to the time of many runs, each on one thread.
    fn step(
        &mut self,
        pending: &PendingTraining,
        training: &Training,
        source: &dyn BatchSource,
    ) -> fdime::Result<f64> {
        if pending.step_operations > MAX_TRIED_OPERATIONS {
            return Ok(pending.step_operations / self.speed()?);
        }
        if let Some(seconds) = self.steps.get(&pending.shape) {
            return Ok(*seconds);
        }
        // All threads at once, because they share caches and memory.
        let timed = run_jobs(self.threads, self.threads, |_, _| {
            step_seconds(training, source, 1, Duration::from_millis(40))
        });
        let sum = timed.into_iter().sum::<fdime::Result<f64>>()?;
        let seconds = sum / (self.threads * self.threads) as f64;
        self.steps.insert(pending.shape.clone(), seconds);
        Ok(seconds)
    }

    /// Returns the operations per second of a step whose matrix products are large.
    fn speed(&mut self) -> fdime::Result<f64> {
        if let Some(speed) = self.speed {
            return Ok(speed);
        }
        let critic = CriticPlan::new(CriticKind::Deranged, &[256, 256]);
        let scenario = ScenarioPlan::new("gaussian", 20)?;
        let mut plan = RunPlan::new(scenario, "gan-dime".parse::<Estimator>()?, critic);
        plan.training.batch = 512;
        plan.schedule.levels = vec![Level::Mi(2.0)];
        let source = plan.staircase()?;
        let time = Duration::from_millis(300);
        let seconds = step_seconds(&plan.training, &source, self.threads, time)?;
        let operations = Trainer::new(&plan.training, source.dims(), 1)?.operations();
        Ok(*self.speed.insert(operations / seconds))
    }
}

/// Returns the median time of a training step, from steps for this long after one to warm up.
fn step_seconds(
    training: &Training,
    source: &dyn BatchSource,
    threads: usize,
    time: Duration,
) -> fdime::Result<f64> {
    let mut batches = source.open();
    let mut trainer = Trainer::new(training, source.dims(), threads)?;
    trainer.step(&mut *batches)?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || begin.elapsed() < time {
        let start = Instant::now();
        trainer.step(&mut *batches)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdime::{Chain, CpuEngine};

    fn plan(batch: usize, iterations: usize) -> RunPlan {
        let critic = CriticPlan::new(CriticKind::Deranged, &[8, 8]);
        let scenario = ScenarioPlan::new("gaussian", 2).unwrap();
        let mut plan = RunPlan::new(scenario, "gan-dime".parse::<Estimator>().unwrap(), critic);
        plan.training.batch = batch;
        plan.schedule.levels = vec![Level::Mi(1.0)];
        plan.schedule.iterations = iterations;
        plan
    }

    #[test]
    fn jobs_of_several_recipes_count_once_and_in_proportion_to_their_steps() {
        let job = |iterations| Job::Staircase { plan: plan(8, iterations), last: 5, chain: None };
        let (one, two) = (job(1000), job(2000));
        let none = FinishedJobs::default();
        let (pending, finished) = PendingJob::find([&one, &two, &one], &none).unwrap();
        assert_eq!((pending.len(), finished), (2, 0));
        let cost = Cost::estimate(&pending, &CpuEngine::new(1), &ImageSets::new()).unwrap();
        assert_eq!((cost.runs, cost.steps), (2, 3000));
        // A step of this size takes microseconds, not the milliseconds of a typical one.
        assert!(cost.seconds > 0.0 && cost.seconds < 30.0, "{}", cost.seconds);
    }

    #[test]
    fn every_term_of_a_chain_counts() {
        let job = |chain| Job::Staircase { plan: plan(8, 1000), last: 5, chain };
        let (direct, chained) = (job(None), job(Some(Chain::Equal(2))));
        let (pending, _) = PendingJob::find([&direct, &chained], &FinishedJobs::default()).unwrap();
        // I(X; Y_1), I(X, Y_1; Y_2) and I(Y_1; Y_2), of which the second has all columns.
        assert_eq!(pending[1].trainings.len(), 3);
        assert_eq!(pending[1].largest().step_operations, pending[0].step_operations());
        assert_eq!(pending[1].largest().term, Chain::Equal(2).terms().into_iter().nth(1));
        let cost = Cost::estimate(&pending, &CpuEngine::new(1), &ImageSets::new()).unwrap();
        assert_eq!((cost.runs, cost.steps), (2, 4000));
        assert!(cost.operations > 3.0 * pending[0].total_operations());
    }

    #[test]
    fn measurements_take_at_least_the_requested_time() {
        let job = Job::Time { plan: plan(8, 10), seconds: 2.0 };
        let (pending, _) = PendingJob::find([&job], &FinishedJobs::default()).unwrap();
        let cost = Cost::estimate(&pending, &CpuEngine::new(1), &ImageSets::new()).unwrap();
        assert!((2.0..2.1).contains(&cost.seconds), "{}", cost.seconds);
        assert_eq!(cost.to_string(), "1 run: about 2 seconds");
    }

    #[test]
    fn costs_are_written_in_fitting_units() {
        let cost = Cost { runs: 2, steps: 4000, operations: 3.2e13, seconds: 300.0 };
        let text = "2 runs, 4000 training steps, 32.0 TFLOP: about 5 minutes";
        assert_eq!(cost.to_string(), text);
        assert_eq!((duration(0.01), duration(1e5)), ("a second".into(), "27.8 hours".into()));
    }
}
