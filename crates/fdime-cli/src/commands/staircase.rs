use super::{engine, interrupt_flag, parse_hidden, print_json, progress_bar};
use crate::args::Staircase;
use crate::failure::{Failure, Outcome};
use crate::report::staircase::{Curve, Line, POINTS, Panel, render};
use fdime::data::{check_writable, write_whole};
use fdime::train::{RunLog, StaircaseOptions, StaircasePlan};
use fdime::{
    CpuEngine, Ending, Engine, LevelSummary, Link, Observer, Readout, RunPlan, RunsSummary,
    StepRecord, Trace, parse_levels, summarise_runs,
};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The file's settings or the defaults, then the flags.
fn plan_of(args: &Staircase) -> Result<StaircasePlan, Failure> {
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let names = |text: &String| split_names(text).iter().map(|n| n.trim().to_string()).collect();
    let options = StaircaseOptions {
        scenario: args.scenario.clone(),
        dim: args.dim,
        estimators: args.estimator.as_ref().map(names),
        link: args.link.clone(),
        readout: args.readout.clone(),
        critic: args.critic.clone(),
        pairing: args.pairing.clone(),
        hidden: args.hidden.as_deref().map(parse_hidden).transpose()?,
        embedding: args.embedding,
        activation: args.activation.clone(),
        levels: args.levels.as_deref().map(parse_levels).transpose()?,
        batch: args.batch,
        iterations: args.iterations,
        learning_rate: args.lr,
        seed: args.seed,
        runs: args.runs,
        last: args.last,
    };
    let plan = StaircasePlan::new(plan, &options)?;
    if let Some(path) = &args.svg {
        check_writable(path)?;
    }
    Ok(plan)
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

fn read_plan(path: &Path) -> Result<StaircasePlan, Failure> {
    let fail = |reason: String| Failure::Usage(format!("--plan {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    StaircasePlan::from_json(&text).map_err(fail)
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
    let plan = plan_of(args)?;
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
