use super::{parse_hidden, print_json};
use crate::args::Bench;
use crate::failure::{Failure, Outcome};
use fdime::train::Trainer;
use fdime::{CpuEngine, CriticKind, CriticPlan, Estimator, Level, Pairing, RunPlan, ScenarioPlan};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// The standard set: what `bench/compare.py` runs beside PyTorch.
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
    /// Of the process so far, where the system tells.
    peak_memory_mb: Option<f64>,
}

/// `CRITIC-dDIM-nBATCH` or `CRITIC-dDIM-nBATCH-PAIRING`
fn parse(configuration: &str) -> Result<(CriticKind, usize, usize, Pairing), Failure> {
    let malformed = || {
        Failure::Usage(
            "write CRITIC-dDIM-nBATCH, e.g. deranged-d20-n64, or CRITIC-dDIM-nBATCH-PAIRING".into(),
        )
    };
    let mut parts = configuration.splitn(4, '-');
    let mut part = || parts.next().ok_or_else(malformed);
    let critic: CriticKind = part()?.parse()?;
    let dim = part()?.strip_prefix('d').and_then(|d| d.parse().ok()).ok_or_else(malformed)?;
    let batch = part()?.strip_prefix('n').and_then(|n| n.parse().ok()).ok_or_else(malformed)?;
    let pairing = match parts.next() {
        Some(pairing) => pairing.parse()?,
        None => critic.default_pairing(),
    };
    Ok((critic, dim, batch, pairing))
}

pub fn run(args: &Bench) -> Outcome {
    let hidden = parse_hidden(&args.hidden)?;
    let estimator: Estimator = args.estimator.parse()?;
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Failure::Usage(format!("--seconds {}: between 0 and 3600", args.seconds)));
    }
    let threads = CpuEngine::new(args.threads).threads();
    let configurations: Vec<&str> = if args.configurations.is_empty() {
        STANDARD.to_vec()
    } else {
        args.configurations.iter().map(String::as_str).collect()
    };
    let plans = configurations
        .iter()
        .map(|name| plan(name, &estimator, &hidden).map_err(|failure| failure.within(name)))
        .collect::<Result<Vec<_>, _>>()?;
    if !args.json {
        writeln!(
            std::io::stdout(),
            "{:<28} {:>8} {:>11} {:>11} {:>9} {:>8}",
            "configuration",
            "steps",
            "median ms",
            "fastest ms",
            "GFLOP/s",
            "peak MB"
        )?;
    }
    let mut measurements = Vec::new();
    for (name, plan) in configurations.iter().zip(plans) {
        let measurement = measure(name, &plan, threads, args.seconds)?;
        if !args.json {
            writeln!(
                std::io::stdout(),
                "{:<28} {:>8} {:>11.4} {:>11.4} {:>9.1} {:>8}",
                measurement.configuration,
                measurement.steps,
                measurement.median_ms,
                measurement.fastest_ms,
                measurement.gflops,
                measurement.peak_memory_mb.map_or("-".into(), |mb| format!("{mb:.0}")),
            )?;
        }
        measurements.push(measurement);
    }
    if args.json { print_json(&measurements) } else { Ok(()) }
}

/// The plan of a configuration.
fn plan(configuration: &str, estimator: &Estimator, hidden: &[usize]) -> Result<RunPlan, Failure> {
    let (critic, dim, batch, pairing) = parse(configuration)?;
    let scenario = ScenarioPlan::new("gaussian", dim)?;
    let critic = CriticPlan::new(critic, hidden);
    let mut plan = RunPlan::new(scenario, estimator.clone(), critic);
    (plan.batch, plan.pairing) = (batch, pairing);
    plan.schedule.levels = vec![Level::Mi(2.0)];
    plan.check()?;
    Ok(plan)
}

/// Whole steps, data generation and update included.
fn measure(
    name: &str,
    plan: &RunPlan,
    threads: usize,
    seconds: f64,
) -> Result<Measurement, Failure> {
    let scenario = plan.scenario.at(plan.schedule.levels[0])?;
    let mut trainer = Trainer::of_plan(plan, threads)?;
    let mut step = || -> Result<f64, Failure> {
        let start = Instant::now();
        if trainer.step(&scenario)?.is_none() {
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
        estimator: plan.estimator.to_string(),
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
