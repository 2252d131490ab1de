use super::{Interruptible, amount, estimation_engine, interrupt_flag, progress_bar};
use crate::args::Suite;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::Flags;
use crate::saved::Saved;
use fdime::data::glob_matches;
use fdime::engine::run_estimates;
use fdime::estimate::{Effort, Estimate, EstimatePlan, RowOrder, estimate, estimate_given};
use fdime::random::{Purpose, stream};
use fdime::{AnyTask, Engine, Nats, Parameter, counted, tasks_named};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

/// The flags of this command, which takes the suite as an argument.
const FLAGS: Flags = Flags { renamed: &[(Parameter::Suite, "SUITE")] };

/// The level of the tests whose rejections are counted.
const TEST_LEVEL: f64 = 0.05;

/// The result of a task.
#[derive(Serialize, JsonSchema)]
struct Row {
    task: String,
    true_mi: f64,
    mi_nats: f64,
    ci_low: f64,
    ci_high: f64,
    p_value: Option<f64>,
    seconds: f64,
}

impl Row {
    fn new(task: &AnyTask, true_mi: f64, result: &Estimate, seconds: f64) -> Self {
        Row {
            task: task.name().to_string(),
            true_mi,
            mi_nats: result.mi.0,
            ci_low: result.interval.0.0,
            ci_high: result.interval.1.0,
            p_value: result.independence.as_ref().map(|test| test.p_value),
            seconds,
        }
    }

    /// Returns the row of the table, in bits or in nats.
    fn line(&self, bits: bool) -> String {
        let amount = |nats: f64| amount(Nats(nats), bits);
        format!(
            "{:34} {:6.3} {:8.3} {:+7.3} {:>15} {:5.1}",
            self.task,
            amount(self.true_mi),
            amount(self.mi_nats),
            amount(self.error()),
            format!("{:.3} to {:.3}", amount(self.ci_low), amount(self.ci_high)),
            self.seconds
        )
    }

    /// Returns the estimate minus the true value.
    fn error(&self) -> f64 {
        self.mi_nats - self.true_mi
    }

    /// Returns whether x and y are independent, given the third if there is one.
    fn is_null(&self) -> bool {
        self.true_mi == 0.0
    }

    /// Returns whether the test rejects independence.
    fn is_rejected(&self) -> bool {
        self.p_value.is_some_and(|p_value| p_value <= TEST_LEVEL)
    }

    /// Returns whether the estimate is within a factor of 1.5 of the true value.
    fn solved(&self) -> bool {
        (self.true_mi / 1.5..=self.true_mi * 1.5).contains(&self.mi_nats)
    }

    /// Returns whether the interval contains the true value.
    fn covered(&self) -> bool {
        (self.ci_low..=self.ci_high).contains(&self.true_mi)
    }
}

#[derive(Serialize, JsonSchema)]
struct Summary {
    tasks: usize,
    /// Among the tasks whose true value is not 0.
    solved: usize,
    null_tasks: usize,
    null_rejected: usize,
    mean_absolute_error: f64,
    interval_coverage: f64,
    slowest_seconds: f64,
    seconds: f64,
}

impl Summary {
    fn new(rows: &[Row], seconds: f64) -> Self {
        let count = rows.len() as f64;
        Summary {
            tasks: rows.len(),
            solved: rows.iter().filter(|row| !row.is_null() && row.solved()).count(),
            null_tasks: rows.iter().filter(|row| row.is_null()).count(),
            null_rejected: rows.iter().filter(|row| row.is_null() && row.is_rejected()).count(),
            mean_absolute_error: rows.iter().map(|row| row.error().abs()).sum::<f64>() / count,
            interval_coverage: rows.iter().filter(|row| row.covered()).count() as f64 / count,
            slowest_seconds: rows.iter().map(|row| row.seconds).fold(0.0, f64::max),
            seconds,
        }
    }

    /// Returns the summary in words.
    fn text(&self, bits: bool) -> String {
        let nulls = match self.null_tasks {
            0 => String::new(),
            count => format!(
                ";\nindependence rejected (p <= {TEST_LEVEL}) in {} of {} without dependence",
                self.null_rejected,
                counted(count, "task")
            ),
        };
        format!(
            "{} of {} solved (within a factor of 1.5); mean absolute error {:.4} {};\n\
             {:.0}% of the intervals contain the true value; {:.0} s in total, slowest {:.1} s{nulls}",
            self.solved,
            counted(self.tasks - self.null_tasks, "task"),
            amount(Nats(self.mean_absolute_error), bits),
            if bits { "bits" } else { "nats" },
            100.0 * self.interval_coverage,
            self.seconds,
            self.slowest_seconds
        )
    }
}

/// The results of the command.
#[derive(Serialize, JsonSchema)]
pub struct Results {
    /// The result of each task.
    results: Vec<Row>,
    /// The summary of all tasks.
    summary: Summary,
    /// The number of rows of each task.
    n_rows: usize,
    /// Everything that determines the estimates, except the data.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    plan: EstimatePlan,
    /// The version of fdime.
    version: String,
}

/// Returns the tasks to run: those with the requested names, or all that have enough rows.
fn selected(args: &Suite) -> Result<Vec<AnyTask>, Failure> {
    let mut tasks = tasks_named(&args.suite).map_err(|error| Failure::new(error, &FLAGS))?;
    match &args.tasks {
        Some(glob) => {
            tasks.retain(|task| glob_matches(glob, task.name()));
            if tasks.is_empty() {
                return Err(Failure::Usage(format!("--tasks {glob}: no task matches")));
            }
        }
        None => {
            let count = tasks.len();
            tasks.retain(|task| args.rows >= task.least_rows());
            if tasks.len() < count {
                note(&format!(
                    "{} with many columns left out; name them in --tasks, or use more --rows",
                    counted(count - tasks.len(), "task")
                ));
            }
        }
    }
    Ok(tasks)
}

pub fn run(args: &Suite) -> Outcome {
    let tasks = selected(args)?;
    let mut plan = args.estimation.plan(Effort::Default);
    plan.chain = args.chain.chain.unwrap_or(plan.chain);
    if tasks.iter().all(AnyTask::is_series) {
        plan.order = RowOrder::AutomaticSeries;
    }
    plan.check(args.rows)?;
    for task in &tasks {
        task.check_rows(args.rows)?;
    }
    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{:34} {:>6} {:>8} {:>7} {:>15} {:>5}",
            "task", "true", "estimate", "error", "95% interval", "s"
        )?;
    }
    drop(out);
    let engine = estimation_engine(&args.estimation.execution)?;
    let start = Instant::now();
    let rows = measure_all(&tasks, args, &plan, &*engine)?;
    let summary = Summary::new(&rows, start.elapsed().as_secs_f64());
    if args.json {
        let version = env!("CARGO_PKG_VERSION").into();
        let results = Results { results: rows, summary, n_rows: args.rows, plan, version };
        return Saved::new("suite", results).print();
    }
    writeln!(std::io::stdout().lock(), "\n{}", summary.text(args.bits))?;
    Ok(())
}

/// Measures all tasks, several at a time. Unless the result is JSON, rows are printed in order as soon
/// as they are known.
fn measure_all(
    tasks: &[AnyTask],
    args: &Suite,
    plan: &EstimatePlan,
    engine: &dyn Engine,
) -> Result<Vec<Row>, Failure> {
    let bar = progress_bar(tasks.len() as u64);
    bar.set_message("tasks");
    let progress = Interruptible(interrupt_flag());
    let lines: Mutex<(Vec<Option<String>>, usize)> = Mutex::new((vec![None; tasks.len()], 0));
    let rows = run_estimates(engine, args.rows, tasks.len(), |index, engine| {
        let row = measure(&tasks[index], args, plan, engine, &progress)?;
        bar.inc(1);
        if !args.json {
            let mut lines = lines.lock().unwrap_or_else(|error| error.into_inner());
            let (lines, printed) = &mut *lines;
            lines[index] = Some(row.line(args.bits));
            while let Some(Some(line)) = lines.get(*printed) {
                bar.suspend(|| writeln!(std::io::stdout().lock(), "{line}"))?;
                *printed += 1;
            }
        }
        Ok(row)
    });
    bar.finish_and_clear();
    rows.into_iter().collect()
}

/// Draws the table of a task and estimates its information.
fn measure(
    task: &AnyTask,
    args: &Suite,
    plan: &EstimatePlan,
    engine: &dyn Engine,
    progress: &Interruptible,
) -> Result<Row, Failure> {
    let mut rng = stream(args.estimation.seed, Purpose::Data, 0, 0);
    let table = task.table(&mut rng, args.rows)?;
    let start = Instant::now();
    let result = match table.given.is_empty() {
        true => estimate(&table.x, &table.y, plan, engine, progress),
        false => estimate_given(&table.x, &table.y, &table.given, plan, engine, progress),
    }?;
    Ok(Row::new(task, table.truth.0, &result, start.elapsed().as_secs_f64()))
}
