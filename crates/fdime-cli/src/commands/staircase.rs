use super::{engine, interrupt_flag, parse_hidden, print_json, progress_bar};
use crate::args::Staircase;
use crate::failure::{Failure, Outcome};
use crate::report::staircase::{Curve, Line, POINTS, Panel, render};
use fdime::data::{check_writable, write_whole};
use fdime::train::RunLog;
use fdime::{
    AdamPlan, CpuEngine, CriticKind, CriticPlan, Ending, Engine, Estimator, LevelSummary, Link,
    Observer, Pairing, Readout, RunPlan, RunsSummary, ScenarioPlan, Schedule, StepRecord, Trace,
    parse_levels, summarise_runs,
};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Several estimators and seeds with all else equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StaircasePlan {
    scenario: ScenarioPlan,
    estimators: Vec<Estimator>,
    critic: CriticPlan,
    pairing: Pairing,
    batch: usize,
    schedule: Schedule,
    optimizer: AdamPlan,
    seed: u64,
    #[serde(default = "one")]
    runs: usize,
    /// Iterations at the end of each level that are summarised.
    #[serde(default = "paper_window")]
    last: usize,
}

fn one() -> usize {
    1
}

fn paper_window() -> usize {
    1000
}

const MOST_RUNS: usize = 100_000;

impl StaircasePlan {
    /// The file's settings or the defaults, then the flags.
    fn new(args: &Staircase) -> Result<Self, Failure> {
        let mut plan = match &args.plan {
            Some(path) => read_plan(path)?,
            None => StaircasePlan::defaults(args.scenario.as_deref().unwrap_or("gaussian"))?,
        };
        if let Some(name) = &args.scenario {
            plan.scenario.name = name.parse()?;
            plan.schedule.levels = plan.scenario.default_levels();
        }
        plan.scenario.dim = args.dim.unwrap_or(plan.scenario.dim);
        if let Some(names) = &args.estimator {
            plan.estimators = split_names(names)
                .into_iter()
                .map(|name| name.trim().parse())
                .collect::<Result<_, _>>()?;
        }
        if let Some(link) = &args.link {
            let link = link.parse()?;
            plan.estimators =
                plan.estimators.into_iter().map(|estimator| estimator.with_link(link)).collect();
        }
        if let Some(readout) = &args.readout {
            let readout = readout.parse()?;
            plan.estimators =
                plan.estimators.into_iter().map(|e| e.with_readout(readout)).collect();
        }
        if let Some(critic) = &args.critic {
            plan.critic.kind = critic.parse()?;
            plan.pairing = plan.critic.kind.default_pairing();
        }
        if let Some(pairing) = &args.pairing {
            plan.pairing = pairing.parse()?;
        }
        if let Some(hidden) = &args.hidden {
            plan.critic.hidden = parse_hidden(hidden)?;
        }
        plan.critic.embedding = args.embedding.unwrap_or(plan.critic.embedding);
        if let Some(activation) = &args.activation {
            plan.critic.activation = activation.parse()?;
        }
        if let Some(levels) = &args.levels {
            plan.schedule.levels = parse_levels(levels)?;
        }
        plan.batch = args.batch.unwrap_or(plan.batch);
        plan.schedule.iterations = args.iterations.unwrap_or(plan.schedule.iterations);
        plan.optimizer.learning_rate = args.lr.unwrap_or(plan.optimizer.learning_rate);
        plan.seed = args.seed.unwrap_or(plan.seed);
        plan.runs = args.runs.unwrap_or(plan.runs);
        plan.last = args.last.unwrap_or(plan.last);
        if !(1..=MOST_RUNS).contains(&plan.runs) {
            let message = format!("--runs {}: between 1 and {MOST_RUNS}", plan.runs);
            return Err(Failure::Usage(message));
        }
        if plan.last == 0 {
            return Err(Failure::Usage("--last 0: at least one iteration".into()));
        }
        if plan.estimators.is_empty() {
            return Err(Failure::Usage("--estimator: at least one, e.g. gan-dime".into()));
        }
        for estimator in &plan.estimators {
            plan.run_plan(estimator, 0).check()?;
        }
        if let Some(path) = &args.svg {
            check_writable(path)?;
        }
        Ok(plan)
    }

    /// The paper's staircase with the three f-DIME estimators and the deranged critic.
    fn defaults(scenario: &str) -> Result<Self, Failure> {
        let one_dimensional = scenario.contains("swiss-roll");
        let scenario = ScenarioPlan::new(scenario, if one_dimensional { 1 } else { 20 })?;
        let (_, hidden) = CriticPlan::PRESETS[0];
        let critic = CriticPlan::new(CriticKind::Deranged, hidden);
        let estimators = ["kl-dime", "gan-dime", "hd-dime"]
            .map(str::parse)
            .into_iter()
            .collect::<Result<Vec<Estimator>, _>>()?;
        let paper = RunPlan::new(scenario, estimators[0].clone(), critic);
        Ok(StaircasePlan {
            scenario: paper.scenario,
            estimators,
            critic: paper.critic,
            pairing: paper.pairing,
            batch: paper.batch,
            schedule: paper.schedule,
            optimizer: paper.optimizer,
            seed: paper.seed,
            runs: one(),
            last: paper_window(),
        })
    }

    /// A run of one estimator.
    fn run_plan(&self, estimator: &Estimator, index: usize) -> RunPlan {
        RunPlan {
            scenario: self.scenario.clone(),
            estimator: estimator.clone(),
            critic: self.critic.clone(),
            pairing: self.pairing,
            batch: self.batch,
            schedule: self.schedule.clone(),
            optimizer: self.optimizer,
            seed: self.seed.wrapping_add(index as u64),
        }
    }

    /// The runs of the first estimator, then those of the second, and so on.
    fn run_plans(&self) -> Vec<RunPlan> {
        let runs = |estimator| (0..self.runs).map(move |index| self.run_plan(estimator, index));
        self.estimators.iter().flat_map(runs).collect()
    }
}

impl From<RunPlan> for StaircasePlan {
    fn from(run: RunPlan) -> Self {
        StaircasePlan {
            scenario: run.scenario,
            estimators: vec![run.estimator],
            critic: run.critic,
            pairing: run.pairing,
            batch: run.batch,
            schedule: run.schedule,
            optimizer: run.optimizer,
            seed: run.seed,
            runs: one(),
            last: paper_window(),
        }
    }
}

/// Names at commas, but not at those inside parentheses.
fn split_names(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == ',' && depth == 0
    })
    .collect()
}

/// A plan, the plan of a single run, or the JSON that an earlier run printed, which holds its plan.
fn read_plan(path: &Path) -> Result<StaircasePlan, Failure> {
    let fail = |reason: String| Failure::Usage(format!("--plan {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let mut value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| fail(format!("not JSON: {error}")))?;
    if let Some(plan) = value.get_mut("plan") {
        value = plan.take();
    }
    let plan = if value.get("estimator").is_some() {
        serde_json::from_value::<RunPlan>(value).map(StaircasePlan::from)
    } else {
        serde_json::from_value(value)
    };
    plan.map_err(|error| fail(format!("not a staircase plan: {error}")))
}

/// One row of the results.
#[derive(Serialize)]
struct Row {
    estimator: String,
    critic: String,
    pairing: String,
    scenario: String,
    dim: usize,
    batch: usize,
    link: Link,
    readout: Readout,
    #[serde(flatten)]
    summary: RunsSummary,
}

/// A run that ended before its last level was through.
#[derive(Serialize)]
struct FailedRun {
    estimator: String,
    seed: u64,
    iteration: usize,
    reason: &'static str,
}

#[derive(Serialize)]
struct Report {
    results: Vec<Row>,
    failures: Vec<FailedRun>,
    plan: StaircasePlan,
    seconds: f64,
    device: String,
    version: &'static str,
}

pub fn run(args: &Staircase) -> Outcome {
    let plan = StaircasePlan::new(args)?;
    for estimator in &plan.estimators {
        if let Some(notice) = estimator.notice() {
            eprintln!("note: {estimator}: {notice}");
        }
    }
    let precision = args.precision.as_deref();
    let engine = engine(&args.device, precision, args.threads, plan.critic.activation)?;
    let run_plans = plan.run_plans();
    let mut devices: Vec<String> = Vec::new();
    for run in &run_plans {
        let device = engine.device(run);
        if !devices.contains(&device) {
            if device == CpuEngine::DEVICE {
                run.check_memory()?;
            }
            devices.push(device);
        }
    }
    let device = devices.join("; ");
    let log = args.log.as_deref().map(RunLog::open).transpose();
    let log = log.map_err(|error| Failure::Usage(format!("--log: {error}")))?;
    let start = Instant::now();
    let (traces, log_failed) = execute(&run_plans, &*engine, log)?;
    let seconds = start.elapsed().as_secs_f64();

    let mut report = Report {
        results: Vec::new(),
        failures: Vec::new(),
        plan: plan.clone(),
        seconds,
        device,
        version: env!("CARGO_PKG_VERSION"),
    };
    for (run, trace) in run_plans.iter().zip(&traces) {
        if let Ending::Diverged { iteration } = trace.ending {
            let (estimator, seed) = (run.estimator.to_string(), run.seed);
            eprintln!(
                "warning: {estimator} (seed {seed}) diverged at iteration {iteration}: \
                 its objective or estimate is no longer finite"
            );
            report.failures.push(FailedRun { estimator, seed, iteration, reason: "diverged" });
        }
    }
    for (estimator, traces) in plan.estimators.iter().zip(traces.chunks(plan.runs)) {
        for summary in summarise_runs(traces, plan.last) {
            report.results.push(Row {
                estimator: estimator.name().to_string(),
                critic: plan.critic.kind.to_string(),
                pairing: plan.pairing.to_string(),
                scenario: plan.scenario.name.to_string(),
                dim: plan.scenario.dim,
                batch: plan.batch,
                link: estimator.link(),
                readout: estimator.readout(),
                summary,
            });
        }
    }
    if args.json {
        print_json(&report)?;
    } else {
        print_table(&report)?;
    }
    if let Some(path) = &args.svg {
        let curves: Vec<Curve> =
            traces.chunks(plan.runs).map(|traces| Curve::new(&traces[0], POINTS)).collect();
        let line = |curve| Line { label: String::new(), curve, hints: Vec::new() };
        let panels: Vec<Panel> = plan
            .estimators
            .iter()
            .zip(&curves)
            .map(|(estimator, curve)| Panel {
                title: estimator.to_string(),
                batch: plan.batch,
                lines: vec![line(curve)],
            })
            .collect();
        let runs =
            if plan.runs > 1 { format!(", first of {} runs", plan.runs) } else { String::new() };
        let svg = render(&panels, &(headline(&plan) + &runs));
        write_whole(path, |file| file.write_all(svg.as_bytes()))?;
        eprintln!("wrote {}", path.display());
    }
    if report.results.is_empty() {
        return Err(Failure::Run("no run finished its first level".into()));
    }
    log_failed.map_or(Ok(()), |error| Err(Failure::Run(error.to_string())))
}

/// Shows a run's progress, keeps it when it is finished, and ends it at Ctrl-C.
struct Watch {
    name: String,
    plan: RunPlan,
    device: String,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    log: Option<Arc<Mutex<Log>>>,
}

type TraceLog = RunLog<RunPlan, Trace>;

/// The log, and what went wrong with it.
struct Log {
    runs: TraceLog,
    failed: Option<fdime::Error>,
}

impl Observer for Watch {
    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()> {
        self.bar.inc(1);
        if record.iteration.is_multiple_of(100) {
            self.bar.set_message(format!("{}: {:.2}", self.name, record.estimate.0));
        }
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn on_end(&mut self, trace: &Trace) {
        let Some(log) = self.log.as_ref().filter(|_| trace.ending != Ending::Stopped) else {
            return;
        };
        let mut log = log.lock().unwrap_or_else(|error| error.into_inner());
        if let Err(error) = log.runs.append(self.plan.clone(), &self.device, trace.clone()) {
            if log.failed.is_none() {
                eprintln!("warning: {error}; the results will be shown, but are not in the log");
            }
            log.failed = Some(error);
        }
    }
}

/// Runs the plans with a progress bar on stderr, until done or Ctrl-C.
fn execute(
    plans: &[RunPlan],
    engine: &dyn Engine,
    log: Option<TraceLog>,
) -> Result<(Vec<Trace>, Option<fdime::Error>), Failure> {
    let interrupted = interrupt_flag();
    let mut traces: Vec<Option<Trace>> =
        plans.iter().map(|plan| log.as_ref()?.find(plan, &engine.device(plan)).cloned()).collect();
    let known = traces.iter().flatten().count();
    if known > 0 {
        eprintln!("{known} of {} runs are in the log already", plans.len());
    }
    let to_run: Vec<usize> = (0..plans.len()).filter(|index| traces[*index].is_none()).collect();
    let log = log.map(|runs| Arc::new(Mutex::new(Log { runs, failed: None })));
    let rest: Vec<RunPlan> = to_run.iter().map(|index| plans[*index].clone()).collect();
    let total: usize = rest.iter().map(RunPlan::iterations).sum();
    let bar = progress_bar(total as u64);
    let observer = |index: usize| -> Box<dyn Observer> {
        Box::new(Watch {
            name: rest[index].estimator.to_string(),
            plan: rest[index].clone(),
            device: engine.device(&rest[index]),
            bar: bar.clone(),
            interrupted: Arc::clone(&interrupted),
            log: log.clone(),
        })
    };
    let executed = engine.execute(&rest, &observer);
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        return Err(if log.is_some() { Failure::Logged } else { Failure::Interrupted });
    }
    let log = log.as_ref().map(|log| log.lock().unwrap_or_else(|error| error.into_inner()));
    let failed = log.and_then(|mut log| log.failed.take());
    for (index, trace) in to_run.into_iter().zip(executed) {
        traces[index] = Some(trace?);
    }
    Ok((traces.into_iter().flatten().collect(), failed))
}

/// A number of the table; very large ones, which diverging estimators produce, as powers of ten.
fn cell(value: f64, decimals: usize) -> String {
    if value.abs() < 1000.0 { format!("{value:.decimals$}") } else { format!("{value:.1e}") }
}

fn headline(plan: &StaircasePlan) -> String {
    let hidden: Vec<String> = plan.critic.hidden.iter().map(ToString::to_string).collect();
    format!(
        "{}, d = {}, N = {}, critic {} ({}), pairing {}",
        plan.scenario.name,
        plan.scenario.dim,
        plan.batch,
        plan.critic.kind,
        hidden.join("-"),
        plan.pairing
    )
}

fn print_table(report: &Report) -> Outcome {
    let plan = &report.plan;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", headline(plan))?;
    writeln!(
        out,
        "last {} of {} iterations at each level; {} run{}, seed {}; MI in nats; {:.1} s{}",
        plan.last.min(plan.schedule.iterations),
        plan.schedule.iterations,
        plan.runs,
        if plan.runs == 1 { "" } else { "s" },
        plan.seed,
        report.seconds,
        if report.device == CpuEngine::DEVICE {
            String::new()
        } else {
            format!("\non {}", report.device)
        }
    )?;
    let width = plan.estimators.iter().map(|e| e.to_string().len()).max().unwrap_or(0).max(9);
    writeln!(
        out,
        "\n{:width$}  {:>8}  {:>8}  {:>8}  {:>9}  {:>9}",
        "estimator", "true MI", "mean", "|bias|", "variance", "MSE"
    )?;
    for estimator in &plan.estimators {
        let label = estimator.to_string();
        let of_estimator = |row: &&Row| {
            row.estimator == estimator.name()
                && row.link == estimator.link()
                && row.readout == estimator.readout()
        };
        for row in report.results.iter().filter(of_estimator) {
            let LevelSummary { true_mi, mean, bias, variance, mse, .. } = row.summary.level;
            writeln!(
                out,
                "{label:width$}  {:>8}  {:>8}  {:>8}  {:>9}  {:>9}",
                cell(true_mi.0, 3),
                cell(mean.0, 3),
                cell(bias, 3),
                cell(variance, 4),
                cell(mse, 4)
            )?;
        }
        let diverged = report.failures.iter().filter(|run| run.estimator == label).count();
        if diverged > 0 {
            writeln!(out, "{label:width$}  {diverged} of {} runs diverged", plan.runs)?;
        }
    }
    Ok(())
}
