use super::{engine, print_json};
use crate::args::Bench;
use crate::failure::{Failure, Outcome};
use crate::values::{CommaSeparated, Refusal};
use fdime::train::{Observer, StepRecord, Trainer};
use fdime::{
    Activation, AnyEstimator, BatchSource, CriticKind, CriticPlan, Device, Engine, Level, Pairing,
    RunPlan, ScenarioPlan,
};
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Mutex;
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
    device: String,
    threads: usize,
    steps: usize,
    median_ms: f64,
    fastest_ms: f64,
    gflops: f64,
    /// The peak of the whole process, without the GPU's memory; `None` where the system does not
    /// report it.
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
    let engine = engine(&args.execution, Activation::Relu)?;
    if !args.json {
        print_row(["configuration", "steps", "median ms", "fastest ms", "GFLOP/s", "peak MB"])?;
    }
    let mut measurements = Vec::new();
    for (configuration, plan) in configurations.iter().zip(plans) {
        let measurement = measure(&configuration.name, &plan, &*engine, args.seconds)?;
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
    engine: &dyn Engine,
    seconds: f64,
) -> Result<Measurement, Failure> {
    let staircase = plan.staircase()?;
    let mut trainer = Trainer::new(&plan.training, staircase.dims(), engine.threads())?;
    let device = engine.device_of(plan)?;
    let mut times = match device {
        Device::Cpu => {
            let mut batches = staircase.open();
            times_of_steps(seconds, || Ok(trainer.step(&mut *batches)?.0))
        }
        Device::Cuda { .. } => times_on_gpu(plan, engine, seconds),
    }
    .map_err(|failure| failure.within(name))?;
    times.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    let median_ms = times[times.len() / 2].milliseconds;
    Ok(Measurement {
        configuration: name.to_string(),
        estimator: plan.training.learner.estimator().to_string(),
        device: device.to_string(),
        threads: engine.threads(),
        steps: times.iter().map(|time| time.steps).sum(),
        median_ms,
        fastest_ms: times[0].milliseconds,
        gflops: trainer.operations() / median_ms / 1e6,
        peak_memory_mb: peak_memory_mb(),
    })
}

/// The time of a step, from the time of a number of steps.
struct StepTime {
    steps: usize,
    milliseconds: f64,
}

fn times_of_steps(
    seconds: f64,
    mut step: impl FnMut() -> Result<f64, Failure>,
) -> Result<Vec<StepTime>, Failure> {
    let mut timed = || {
        let start = Instant::now();
        check_value(step()?)?;
        Ok::<_, Failure>(StepTime { steps: 1, milliseconds: start.elapsed().as_secs_f64() * 1e3 })
    };
    let warm_up = Instant::now();
    while warm_up.elapsed() < Duration::from_secs_f64(WARM_UP * seconds) {
        timed()?;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < MIN_TIMES || begin.elapsed() < Duration::from_secs_f64(seconds) {
        times.push(timed()?);
    }
    Ok(times)
}

/// The part of the requested seconds for which steps are not measured, before the others.
const WARM_UP: f64 = 0.2;
const MIN_TIMES: usize = 3;

fn check_value(value: f64) -> Outcome {
    match value.is_finite() {
        true => Ok(()),
        false => Err(Failure::Run("training diverged during the measurement".into())),
    }
}

/// Times the steps of a training on the GPU, which reports many of them at a time.
fn times_on_gpu(
    plan: &RunPlan,
    engine: &dyn Engine,
    seconds: f64,
) -> Result<Vec<StepTime>, Failure> {
    let mut plan = plan.clone();
    plan.schedule.iterations = (seconds / SHORTEST_GPU_STEP).ceil() as usize;
    let watch = Mutex::new(Watch { seconds, begin: Instant::now(), mark: None, times: Vec::new() });
    let observe = |_| Box::new(Timed(&watch)) as Box<dyn Observer>;
    let trace = engine.run(&[plan], &observe).remove(0)?;
    trace.steps.iter().try_for_each(|step| check_value(step.value))?;
    let times = watch.into_inner().unwrap_or_else(|error| error.into_inner()).times;
    if times.len() < MIN_TIMES {
        return Err(Failure::Run("there were too few steps; increase --seconds".into()));
    }
    Ok(times)
}

/// A limit of how many steps are planned, in seconds.
const SHORTEST_GPU_STEP: f64 = 1e-5;
/// The part of the requested seconds after which the time since the last mark is kept.
const WINDOW: f64 = 0.1;

/// When steps were reported.
struct Watch {
    seconds: f64,
    /// The first report, after everything was prepared.
    begin: Instant,
    /// The last mark and its step.
    mark: Option<(Instant, usize)>,
    times: Vec<StepTime>,
}

struct Timed<'a>(&'a Mutex<Watch>);

impl Observer for Timed<'_> {
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()> {
        let mut watch = self.0.lock().unwrap_or_else(|error| error.into_inner());
        let (now, step, seconds) = (Instant::now(), record.iteration, watch.seconds);
        let Some((mark, first)) = watch.mark else {
            (watch.begin, watch.mark) = (now, Some((now, step)));
            return ControlFlow::Continue(());
        };
        let elapsed = (now - mark).as_secs_f64();
        if elapsed < WINDOW * seconds {
            return ControlFlow::Continue(());
        }
        let since_begin = (now - watch.begin).as_secs_f64();
        if since_begin >= WARM_UP * seconds {
            let steps = step - first;
            watch.times.push(StepTime { steps, milliseconds: elapsed * 1e3 / steps as f64 });
        }
        watch.mark = Some((now, step));
        match watch.times.len() >= MIN_TIMES && since_begin >= (1.0 + WARM_UP) * seconds {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}
