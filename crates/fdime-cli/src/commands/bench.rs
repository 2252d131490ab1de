use super::print_json;
use crate::args::Bench;
use crate::failure::{Failure, Outcome};
use crate::values::{CommaSeparated, Refusal};
use fdime::parallel::thread_count;
use fdime::train::Trainer;
use fdime::{
    AnyEstimator, BatchSource, CriticKind, CriticPlan, Level, Pairing, RunPlan, ScenarioPlan,
};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// The default configurations, which `bench/compare.py` compares with PyTorch.
const STANDARD: [&str; 5] = [
    "deranged-d20-n64",
    "deranged-d20-n1024",
    "joint-d5-n64",
    "deranged-d20-n30000",
    "separable-d20-n1024",
];

#[derive(Serialize)]
struct Measurement {
    configuration: String,
    estimator: String,
    threads: usize,
    steps: usize,
    median_ms: f64,
    fastest_ms: f64,
    gflops: f64,
    /// The peak of the whole process; `None` where the system does not report it.
    peak_memory_mb: Option<f64>,
}

/// A setting whose steps are timed: `CRITIC-dDIM-nBATCH` or `CRITIC-dDIM-nBATCH-PAIRING`.
#[derive(Clone)]
pub struct Configuration {
    name: String,
    critic: CriticKind,
    dim: usize,
    batch: usize,
    pairing: Pairing,
}

/// Returns the configuration of that name.
pub fn configuration(name: &str) -> Result<Configuration, Refusal> {
    Ok(parse(name).map_err(|failure| failure.within(name))?)
}

fn parse(name: &str) -> Result<Configuration, Failure> {
    let malformed = || {
        Failure::Usage(
            "write CRITIC-dDIM-nBATCH, e.g. deranged-d20-n64, or CRITIC-dDIM-nBATCH-PAIRING".into(),
        )
    };
    let mut parts = name.splitn(4, '-');
    let mut part = || parts.next().ok_or_else(malformed);
    let critic: CriticKind = part()?.parse()?;
    let dim = part()?.strip_prefix('d').and_then(|d| d.parse().ok()).ok_or_else(malformed)?;
    let batch = part()?.strip_prefix('n').and_then(|n| n.parse().ok()).ok_or_else(malformed)?;
    let pairing = match parts.next() {
        Some(pairing) => pairing.parse()?,
        None => critic.default_pairing(),
    };
    Ok(Configuration { name: name.to_string(), critic, dim, batch, pairing })
}

impl Configuration {
    /// Returns the plan of a training run with this configuration.
    fn plan(&self, estimator: &AnyEstimator, hidden: &[usize]) -> Result<RunPlan, Failure> {
        let scenario = ScenarioPlan::new("gaussian", self.dim)?;
        let critic = CriticPlan::new(self.critic, hidden);
        let mut plan = RunPlan::new(scenario, estimator.clone(), critic);
        plan.training.batch = self.batch;
        if let Some(learner) = plan.training.learner.critic_mut() {
            learner.pairing = self.pairing;
        }
        plan.schedule.levels = vec![Level::Mi(2.0)];
        plan.check()?;
        plan.check_memory()?;
        Ok(plan)
    }
}

pub fn run(args: &Bench) -> Outcome {
    let CommaSeparated(hidden) = &args.hidden;
    let configurations = match &args.configurations[..] {
        [] => STANDARD.map(parse).into_iter().collect::<Result<_, _>>()?,
        configurations => configurations.to_vec(),
    };
    let plan = |configuration: &Configuration| {
        let plan = configuration.plan(&args.estimator, hidden);
        plan.map_err(|failure| failure.within(&configuration.name))
    };
    let plans = configurations.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    let threads = thread_count(args.threads);
    if !args.json {
        print_row(["configuration", "steps", "median ms", "fastest ms", "GFLOP/s", "peak MB"])?;
    }
    let mut measurements = Vec::new();
    for (configuration, plan) in configurations.iter().zip(plans) {
        let measurement = measure(&configuration.name, &plan, threads, args.seconds)?;
        if !args.json {
            measurement.print()?;
        }
        measurements.push(measurement);
    }
    if args.json { print_json(&measurements) } else { Ok(()) }
}

fn print_row(cells: [&str; 6]) -> Outcome {
    let [name, steps, median, fastest, gflops, memory] = cells;
    let row = format!("{name:<28} {steps:>8} {median:>11} {fastest:>11} {gflops:>9} {memory:>8}");
    Ok(writeln!(std::io::stdout(), "{row}")?)
}

impl Measurement {
    fn print(&self) -> Outcome {
        print_row([
            &self.configuration,
            &self.steps.to_string(),
            &format!("{:.4}", self.median_ms),
            &format!("{:.4}", self.fastest_ms),
            &format!("{:.1}", self.gflops),
            &self.peak_memory_mb.map_or("-".into(), |mb| format!("{mb:.0}")),
        ])
    }
}

/// Times whole steps, including data generation and the update of the weights.
fn measure(
    name: &str,
    plan: &RunPlan,
    threads: usize,
    seconds: f64,
) -> Result<Measurement, Failure> {
    let staircase = plan.staircase()?;
    let mut batches = staircase.open();
    let mut trainer = Trainer::new(&plan.training, staircase.dims(), threads)?;
    let mut step = || -> Result<f64, Failure> {
        let start = Instant::now();
        if !trainer.step(&mut *batches)?.0.is_finite() {
            return Err(Failure::Run(format!("{name}: training diverged during the measurement")));
        }
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let warm_up = Instant::now();
    while warm_up.elapsed() < Duration::from_secs_f64(0.2 * seconds) {
        step()?;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || begin.elapsed() < Duration::from_secs_f64(seconds) {
        times.push(step()?);
    }
    times.sort_by(f64::total_cmp);
    let median_ms = times[times.len() / 2];
    Ok(Measurement {
        configuration: name.to_string(),
        estimator: plan.training.learner.estimator().to_string(),
        threads,
        steps: times.len(),
        median_ms,
        fastest_ms: times[0],
        gflops: trainer.operations() / median_ms / 1e6,
        peak_memory_mb: peak_memory_mb(),
    })
}

fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}
