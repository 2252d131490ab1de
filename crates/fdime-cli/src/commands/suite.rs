use super::{Watch, amount, print_json};
use crate::args::Suite;
use crate::failure::{Failure, Outcome};
use crate::flags::Flags;
use fdime::data::glob_matches;
use fdime::estimate::{Effort, Estimate, EstimatePlan, estimate};
use fdime::random::{Purpose, stream};
use fdime::{CpuEngine, Nats, Parameter, SuiteTask, counted, suite_named};
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// The flags of this command, which takes the suite as an argument.
const FLAGS: Flags = Flags { renamed: &[(Parameter::Suite, "SUITE")] };

/// The result of a task.
#[derive(Serialize)]
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
    fn new(task: &SuiteTask, true_mi: f64, result: &Estimate, seconds: f64) -> Self {
        Row {
            task: task.name.clone(),
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

    /// Returns whether the estimate is within a factor of 1.5 of the true value.
    fn solved(&self) -> bool {
        (self.true_mi / 1.5..=self.true_mi * 1.5).contains(&self.mi_nats)
    }

    /// Returns whether the interval contains the true value.
    fn covered(&self) -> bool {
        (self.ci_low..=self.ci_high).contains(&self.true_mi)
    }
}

#[derive(Serialize)]
struct Summary {
    tasks: usize,
    solved: usize,
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
            solved: rows.iter().filter(|row| row.solved()).count(),
            mean_absolute_error: rows.iter().map(|row| row.error().abs()).sum::<f64>() / count,
            interval_coverage: rows.iter().filter(|row| row.covered()).count() as f64 / count,
            slowest_seconds: rows.iter().map(|row| row.seconds).fold(0.0, f64::max),
            seconds,
        }
    }
}

#[derive(Serialize)]
struct Report {
    results: Vec<Row>,
    summary: Summary,
    n_rows: usize,
    plan: EstimatePlan,
    version: &'static str,
}

pub fn run(args: &Suite) -> Outcome {
    let mut tasks = suite_named(&args.suite).map_err(|error| Failure::new(error, &FLAGS))?;
    let mut plan = args.estimation.plan(Effort::Default);
    plan.chain = args.chain.chain.unwrap_or(plan.chain);
    plan.check(args.rows)?;
    if let Some(glob) = &args.tasks {
        tasks.retain(|task| glob_matches(glob, &task.name));
        if tasks.is_empty() {
            return Err(Failure::Usage(format!("--tasks {glob}: no task has such a name")));
        }
    }
    for task in &tasks {
        task.scenario()?.check_rows(args.rows)?;
    }
    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{:34} {:>6} {:>8} {:>7} {:>15} {:>5}",
            "task", "true", "estimate", "error", "95% interval", "s"
        )?;
    }
    let engine = CpuEngine::new(args.estimation.threads);
    let start = Instant::now();
    let mut rows = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let scenario = task.scenario()?;
        let mut rng = stream(args.estimation.seed, Purpose::Data, 0, 0);
        let (x, y) = scenario.table(&mut rng, args.rows);
        let task_start = Instant::now();
        let watch = Watch::new(&format!("{} ({} of {})", task.name, index + 1, tasks.len()));
        let result = estimate(&x, &y, &plan, &engine, &watch)?;
        drop(watch);
        let seconds = task_start.elapsed().as_secs_f64();
        let row = Row::new(task, scenario.mutual_information().0, &result, seconds);
        if !args.json {
            writeln!(out, "{}", row.line(args.bits))?;
        }
        rows.push(row);
    }
    let summary = Summary::new(&rows, start.elapsed().as_secs_f64());
    if args.json {
        drop(out);
        let version = env!("CARGO_PKG_VERSION");
        return print_json(&Report { results: rows, summary, n_rows: args.rows, plan, version });
    }
    writeln!(
        out,
        "\n{} of {} solved (within a factor of 1.5); mean absolute error {:.4} {};\n\
         {:.0}% of the intervals contain the true value; {:.0} s in total, slowest {:.1} s",
        summary.solved,
        counted(summary.tasks, "task"),
        amount(Nats(summary.mean_absolute_error), args.bits),
        if args.bits { "bits" } else { "nats" },
        100.0 * summary.interval_coverage,
        summary.seconds,
        summary.slowest_seconds
    )?;
    Ok(())
}
