use super::{engine, interrupt_flag, print_json, progress_bar};
use crate::args::Staircase;
use crate::console::{complain, note};
use crate::failure::{Failure, Outcome};
use crate::outputs;
use crate::report::staircase::{Curve, Line, POINTS, Panel, render};
use crate::values::CommaSeparated;
use fdime::data::write_whole;
use fdime::train::{
    Outcome as Training, RunLog, StaircaseOptions, StaircasePlan, StaircaseRun, TermSummary,
    summarise_terms,
};
use fdime::{
    AnyEstimator, Chain, Device, Ending, Engine, Estimator, LevelSummary, Link, Observer, Readout,
    RunPlan, RunsSummary, StepRecord, Term, Trace, counted, summarise_runs,
};
use indicatif::ProgressBar;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub fn run(args: &Staircase) -> Outcome {
    let plan = plan(args)?;
    check_files(args)?;
    for estimator in &plan.estimators {
        if let Some(notice) = estimator.critic().and_then(Estimator::notice) {
            note(&format!("note: {estimator}: {notice}"));
        }
    }
    let engine = engine(&args.execution, plan.critic.activation)?;
    let runs = plan.run_plans();
    let device = devices(&runs, &*engine)?;
    let log = args.log.as_deref().map(open_log).transpose()?;
    let start = Instant::now();
    let (traces, log_error) = execute(&runs, &*engine, log)?;
    let failures = failures(&runs, &traces);
    let runs = plan.combine(traces);
    let report = Report::new(plan, failures, &runs, start.elapsed().as_secs_f64(), device);
    report.warn();
    // Files come first: whoever reads the output may close it at any time.
    if let Some(path) = &args.svg {
        let svg = plot(&report.plan, &runs);
        write_whole(path, |file| file.write_all(svg.as_bytes()))?;
        note(&format!("wrote {}", path.display()));
    }
    let printed = if args.json { print_json(&report) } else { report.print_table() };
    if report.results.is_empty() {
        return Err(Failure::Run("no run finished its first level".into()));
    }
    log_error.map_or(printed, |error| Err(error.into()))
}

/// Checks the names of files before any work is done.
fn check_files(args: &Staircase) -> Outcome {
    let plan = args.plan.as_deref().map(|path| ("--plan", path));
    let outputs = [("--svg", &args.svg), ("--log", &args.log)];
    let outputs = outputs.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
    outputs::check(plan.as_slice(), &outputs.collect::<Vec<_>>())
}

fn open_log(path: &Path) -> Result<TraceLog, Failure> {
    let log = TraceLog::open(path).map_err(|error| Failure::Usage(format!("--log: {error}")))?;
    if let Some(damage) = log.runs().damage() {
        note(&format!("note: {}: {damage}", path.display()));
    }
    Ok(log)
}

/// Returns the settings of the plan file, or the defaults, overridden by the flags.
fn plan(args: &Staircase) -> Result<StaircasePlan, Failure> {
    let file = args.plan.as_deref().map(read_plan).transpose()?;
    let names = |CommaSeparated(estimators): &CommaSeparated<AnyEstimator>| {
        estimators.iter().map(|estimator| estimator.name().to_string()).collect()
    };
    let options = StaircaseOptions {
        scenario: args.scenario.clone(),
        dim: args.dim,
        estimators: args.estimator.as_ref().map(names),
        link: args.link.map(|link| link.to_string()),
        readout: args.readout.map(|readout| readout.to_string()),
        critic: args.critic.map(|critic| critic.to_string()),
        pairing: args.pairing.map(|pairing| pairing.to_string()),
        hidden: args.hidden.clone().map(|CommaSeparated(hidden)| hidden),
        embedding: args.embedding,
        activation: args.activation.map(|activation| activation.to_string()),
        levels: args.levels.clone().map(|CommaSeparated(levels)| levels),
        batch: args.batch,
        iterations: args.iterations,
        learning_rate: args.lr,
        learning_rate_schedule: args.lr_schedule.map(|schedule| schedule.to_string()),
        chain: args.chain.map(Chain::Equal),
        seed: args.seed,
        runs: args.runs,
        last: args.last,
    };
    let mut plan = StaircasePlan::new(file, &options)?;
    // The runs of an estimator that is named twice would be the same, to the last digit.
    let mut distinct: Vec<AnyEstimator> = Vec::new();
    for estimator in plan.estimators.drain(..) {
        if !distinct.contains(&estimator) {
            distinct.push(estimator);
        }
    }
    plan.estimators = distinct;
    Ok(plan)
}

fn read_plan(path: &Path) -> Result<StaircasePlan, Failure> {
    let fail = |reason: String| Failure::Usage(format!("--plan {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    StaircasePlan::from_json(&text).map_err(|error| fail(error.to_string()))
}

/// Returns the devices that the runs are executed on. Checks that runs on the CPU fit into memory.
fn devices(runs: &[RunPlan], engine: &dyn Engine) -> Result<String, Failure> {
    let mut devices: Vec<String> = Vec::new();
    for run in runs {
        let device = engine.device_of(run)?;
        if !devices.contains(&device.to_string()) {
            if device == Device::Cpu {
                run.check_memory()?;
            }
            devices.push(device.to_string());
        }
    }
    Ok(devices.join("; "))
}

/// The estimator of a result: its name, and the settings that flags can change.
#[derive(Clone, PartialEq, Serialize)]
struct Identity {
    estimator: String,
    /// `None` for NJEE, like the readout.
    link: Option<Link>,
    readout: Option<Readout>,
}

impl From<&AnyEstimator> for Identity {
    fn from(estimator: &AnyEstimator) -> Self {
        Identity {
            estimator: estimator.name().to_string(),
            link: estimator.critic().map(Estimator::link),
            readout: estimator.critic().map(Estimator::readout),
        }
    }
}

/// The summary of an estimator's runs at one level.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    identity: Identity,
    critic: String,
    pairing: String,
    scenario: String,
    dim: usize,
    batch: usize,
    #[serde(flatten)]
    summary: RunsSummary,
    /// The terms of a chain, whose signed sum is the estimate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<TermSummary>,
}

/// Returns the trainings that diverged.
fn failures(runs: &[RunPlan], traces: &[Trace]) -> Vec<FailedRun> {
    let failure = |(run, trace): (&RunPlan, &Trace)| match trace.ending {
        Ending::Diverged { iteration } => Some(FailedRun {
            identity: (&run.training.learner.estimator()).into(),
            seed: run.training.seed,
            term: run.term.as_ref().map(Term::to_string),
            iteration,
            reason: "diverged",
        }),
        _ => None,
    };
    runs.iter().zip(traces).filter_map(failure).collect()
}

/// A run that ended before its last iteration.
#[derive(Serialize)]
struct FailedRun {
    #[serde(flatten)]
    identity: Identity,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<String>,
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

impl Report {
    fn new(
        plan: StaircasePlan,
        failures: Vec<FailedRun>,
        runs: &[StaircaseRun],
        seconds: f64,
        device: String,
    ) -> Self {
        let row = |estimator: &AnyEstimator, summary, terms| Row {
            identity: estimator.into(),
            critic: plan.critic.kind.to_string(),
            pairing: plan.pairing.to_string(),
            scenario: plan.scenario.name.to_string(),
            dim: plan.scenario.dim,
            batch: plan.batch,
            summary,
            terms,
        };
        let groups = plan.estimators.iter().zip(runs.chunks(plan.runs));
        let results = groups.flat_map(|(estimator, runs)| {
            let traces: Vec<Trace> = runs.iter().map(|run| run.trace.clone()).collect();
            let levels = summarise_runs(&traces, plan.last).into_iter();
            let terms = summarise_terms(runs, plan.last);
            levels.zip(terms).map(move |(summary, terms)| row(estimator, summary, terms))
        });
        Report {
            results: results.collect(),
            failures,
            seconds,
            device,
            version: env!("CARGO_PKG_VERSION"),
            plan,
        }
    }

    /// Prints a warning for each run that diverged.
    fn warn(&self) {
        for FailedRun { identity, seed, term, iteration, .. } in &self.failures {
            let term = term.as_ref().map_or(String::new(), |term| format!(", {term}"));
            note(&format!(
                "warning: {} (seed {seed}{term}) diverged at iteration {iteration}: \
                 its objective or estimate is no longer finite",
                identity.estimator
            ));
        }
    }

    fn print_table(&self) -> Outcome {
        let plan = &self.plan;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", textwrap::fill(&headline(plan), 80))?;
        writeln!(out, "{}", textwrap::fill(&self.settings(), 80))?;
        if plan.chain.is_some() {
            writeln!(out, "{TERMS_NOTE}")?;
        }
        if self.device != Device::Cpu.to_string() {
            writeln!(out, "on {}", self.device)?;
        }
        let width = plan.estimators.iter().map(|e| e.to_string().len()).max().unwrap_or(0).max(9);
        writeln!(
            out,
            "\n{:width$}  {:>8}  {:>8}  {:>8}  {:>9}  {:>9}",
            "estimator", "true MI", "mean", "|bias|", "variance", "MSE"
        )?;
        for estimator in &plan.estimators {
            let (label, identity) = (estimator.to_string(), Identity::from(estimator));
            for row in self.results.iter().filter(|row| row.identity == identity) {
                writeln!(out, "{label:width$}  {}", cells(&row.summary.level))?;
                if !row.terms.is_empty() {
                    writeln!(out, "{}", terms_line(&row.terms))?;
                }
            }
            let failures = self.failures.iter().filter(|run| run.identity == identity);
            // Several terms of a run may diverge.
            let seeds: BTreeSet<u64> = failures.map(|run| run.seed).collect();
            match seeds.len() {
                0 => {}
                diverged => {
                    writeln!(out, "{label:width$}  {diverged} of {} runs diverged", plan.runs)?;
                }
            }
        }
        Ok(())
    }

    fn settings(&self) -> String {
        let StaircasePlan { schedule, runs, last, seed, chain, .. } = &self.plan;
        let trainings = |chain: &Chain| format!(" of {}", counted(2 * chain.len() - 1, "training"));
        format!(
            "last {} of {} at each level; {}{}, seed {seed}; MI in nats; {:.1} s",
            schedule.iterations.min(*last),
            counted(schedule.iterations, "iteration"),
            counted(*runs, "run"),
            chain.as_ref().map_or(String::new(), trainings),
            self.seconds,
        )
    }
}

/// What [`terms_line`] shows.
const TERMS_NOTE: &str = "below each row, what blocks b of y add: I(X, Y_<b; Y_b) - I(Y_<b; Y_b)";

/// Returns what each block adds to the mean: its two terms; the first block has only one.
fn terms_line(terms: &[TermSummary]) -> String {
    // The two terms of a block stay in the same line.
    const NO_BREAK: &str = "\u{a0}";
    let block = |added: &TermSummary| {
        let is_subtracted = |term: &&TermSummary| term.block == added.block && !term.with_x;
        match terms.iter().find(is_subtracted) {
            Some(other) => {
                let (added, mut subtracted) = (cell(added.mean, 2), cell(other.mean, 2));
                if subtracted.starts_with('-') {
                    subtracted = format!("({subtracted})");
                }
                format!("{added}{NO_BREAK}-{NO_BREAK}{subtracted}")
            }
            None => cell(added.mean, 2),
        }
    };
    let blocks: Vec<String> = terms.iter().filter(|term| term.with_x).map(block).collect();
    let options = textwrap::Options::new(80).initial_indent("  = ").subsequent_indent("    ");
    textwrap::fill(&blocks.join("  +  "), options).replace(NO_BREAK, " ")
}

/// Returns the numbers of a row of the table.
fn cells(level: &LevelSummary) -> String {
    let LevelSummary { true_mi, mean, bias, variance, mse, .. } = *level;
    format!(
        "{:>8}  {:>8}  {:>8}  {:>9}  {:>9}",
        cell(true_mi.0, 3),
        cell(mean.0, 3),
        cell(bias, 3),
        cell(variance, 4),
        cell(mse, 4)
    )
}

/// Formats a number of the table; large numbers of diverging estimators in scientific notation.
fn cell(value: f64, decimals: usize) -> String {
    let text =
        if value.abs() < 1000.0 { format!("{value:.decimals$}") } else { format!("{value:.1e}") };
    // A small negative number is rounded to -0.00.
    match text.strip_prefix('-') {
        Some(size) if size.chars().all(|digit| matches!(digit, '0' | '.')) => size.to_string(),
        _ => text,
    }
}

fn headline(plan: &StaircasePlan) -> String {
    let hidden: Vec<String> = plan.critic.hidden.iter().map(ToString::to_string).collect();
    format!(
        "{}, d = {}, N = {}, critic {} ({}), pairing {}{}",
        plan.scenario.name,
        plan.scenario.dim,
        plan.batch,
        plan.critic.kind,
        hidden.join("-"),
        plan.pairing,
        plan.chain.as_ref().map_or(String::new(), |chain| format!(
            ", chain of {} of y",
            counted(chain.len(), "block")
        ))
    )
}

/// Returns the plot of the first run of each estimator.
fn plot(plan: &StaircasePlan, runs: &[StaircaseRun]) -> String {
    let first_runs: Vec<&[StaircaseRun]> = runs.chunks(plan.runs).map(|runs| &runs[..1]).collect();
    let curves: Vec<Curve> =
        first_runs.iter().map(|run| Curve::new(&run[0].trace, POINTS)).collect();
    let panel = |((estimator, curve), run): ((&AnyEstimator, _), &&[StaircaseRun])| Panel {
        title: estimator.to_string(),
        batch: plan.batch,
        lines: vec![Line { label: String::new(), curve, hints: Vec::new() }],
        terms: plan.chain.as_ref().map(|_| summarise_terms(run, plan.last)),
    };
    let panels: Vec<Panel> =
        plan.estimators.iter().zip(&curves).zip(&first_runs).map(panel).collect();
    let runs = match plan.runs {
        1 => String::new(),
        runs => format!(", first of {runs} runs"),
    };
    render(&panels, &(headline(plan) + &runs))
}

type TraceLog = RunLog<RunPlan, Trace>;

/// The log, and the first error in writing it.
struct Log {
    runs: TraceLog,
    error: Option<fdime::Error>,
}

/// Shows the progress of a run, writes it to the log at its end, and stops it on Ctrl-C.
struct RunObserver {
    plan: RunPlan,
    name: String,
    device: String,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    log: Option<Arc<Mutex<Log>>>,
}

impl RunObserver {
    fn stop_on_interrupt(&self) -> ControlFlow<()> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Observer for RunObserver {
    fn on_begin(&mut self) -> ControlFlow<()> {
        self.stop_on_interrupt()
    }

    fn on_step(&mut self, record: &StepRecord) -> ControlFlow<()> {
        self.bar.inc(1);
        if record.iteration.is_multiple_of(100) {
            self.bar.set_message(format!("{}: {:.2}", self.name, record.estimate.0));
        }
        self.stop_on_interrupt()
    }

    fn on_end(&mut self, outcome: &Training) {
        let Some(log) = self.log.as_ref().filter(|_| outcome.ending != Ending::Stopped) else {
            return;
        };
        let mut log = log.lock().unwrap_or_else(|error| error.into_inner());
        let appended = Trace::new(&self.plan, outcome)
            .and_then(|trace| log.runs.append(self.plan.clone(), &self.device, trace));
        if let Err(error) = appended
            && log.error.is_none()
        {
            complain(&format!("warning: {error}; this result is shown, but it is not in the log"));
            log.error = Some(error);
        }
    }
}

/// Executes the plans that are not in the log, with a progress bar on stderr. Returns the traces of
/// all plans, and the error if the log could not be written.
fn execute(
    plans: &[RunPlan],
    engine: &dyn Engine,
    log: Option<TraceLog>,
) -> Result<(Vec<Trace>, Option<fdime::Error>), Failure> {
    let logged = |plan: &RunPlan| {
        log.as_ref()?.find(plan, &engine.device_of(plan).ok()?.to_string()).cloned()
    };
    let mut traces: Vec<Option<Trace>> = plans.iter().map(logged).collect();
    let known = traces.iter().flatten().count();
    if known > 0 {
        note(&format!("{known} of {} runs are already in the log", plans.len()));
    }
    let open = plans.iter().zip(&traces).filter(|(_, trace)| trace.is_none());
    let open: Vec<RunPlan> = open.map(|(plan, _)| plan.clone()).collect();
    let log = log.map(|runs| Arc::new(Mutex::new(Log { runs, error: None })));
    let mut executed = execute_open(&open, engine, log.clone())?.into_iter();
    for trace in traces.iter_mut().filter(|trace| trace.is_none()) {
        *trace = executed.next();
    }
    let log = log.as_ref().map(|log| log.lock().unwrap_or_else(|error| error.into_inner()));
    Ok((traces.into_iter().flatten().collect(), log.and_then(|mut log| log.error.take())))
}

fn execute_open(
    plans: &[RunPlan],
    engine: &dyn Engine,
    log: Option<Arc<Mutex<Log>>>,
) -> Result<Vec<Trace>, Failure> {
    let interrupted = interrupt_flag();
    let bar = progress_bar(plans.iter().map(|plan| plan.schedule.total()).sum::<usize>() as u64);
    let observer = |index: usize| -> Box<dyn Observer> {
        let plan = plans[index].clone();
        Box::new(RunObserver {
            name: plan.training.learner.estimator().to_string(),
            // The plan was checked before.
            device: engine.device_of(&plan).map_or(String::new(), |device| device.to_string()),
            plan,
            bar: bar.clone(),
            interrupted: Arc::clone(&interrupted),
            log: log.clone(),
        })
    };
    let executed = engine.run(plans, &observer);
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        return Err(if log.is_some() { Failure::Logged } else { Failure::Interrupted });
    }
    executed.into_iter().map(|trace| trace.map_err(Failure::from)).collect()
}
