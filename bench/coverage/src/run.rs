//! Runs estimates of tables with known truth.

use crate::families::{Family, families};
use fdime::estimate::{
    Effort, EstimatePlan, Method, NoProgress, RowOrder, estimate, estimate_given,
};
use fdime::parallel::{run_jobs, thread_count};
use fdime::random::{Purpose, Rng, stream};
use fdime::{AnyTask, CpuEngine, Nats, TaskTable, tasks_named};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

/// The result of one estimate.
#[derive(Serialize, Deserialize)]
pub struct Record {
    pub task: String,
    /// The kind of dependence, or the suite.
    pub kind: String,
    /// Whether no setting was chosen by this task.
    pub unseen: bool,
    pub rows: usize,
    pub draw: u64,
    pub truth: f64,
    pub mi: f64,
    pub low: f64,
    pub high: f64,
    pub lower_bound: Option<f64>,
    pub p_value: Option<f64>,
    pub reliability: String,
    pub reasons: Vec<String>,
    pub seconds: f64,
}

type DrawTable = Box<dyn Fn(&mut Rng, usize) -> fdime::Result<TaskTable> + Send + Sync>;

/// A distribution of tables with known information.
struct Task {
    name: String,
    kind: String,
    unseen: bool,
    order: RowOrder,
    table: DrawTable,
}

/// The options of a run.
struct Options {
    tasks: String,
    only: Vec<String>,
    rows: Vec<usize>,
    draws: u64,
    first_draw: u64,
    method: Method,
    effort: Effort,
    threads: usize,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut options = Options {
            tasks: "families".into(),
            only: Vec::new(),
            rows: vec![200, 1000, 10_000],
            draws: 1,
            first_draw: 0,
            method: Method::Auto,
            effort: Effort::Default,
            threads: 0,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { return Err(format!("{}: no value", pair[0]).into()) };
            match name.as_str() {
                "--tasks" => options.tasks = value.clone(),
                "--only" => options.only = value.split(',').map(String::from).collect(),
                "--rows" => {
                    options.rows = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--draws" => options.draws = value.parse()?,
                "--first-draw" => options.first_draw = value.parse()?,
                "--estimator" => options.method = value.parse()?,
                "--effort" => options.effort = value.parse()?,
                "--threads" => options.threads = value.parse()?,
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        Ok(options)
    }

    /// Returns the chosen tasks.
    fn tasks(&self) -> Result<Vec<Task>, Box<dyn Error>> {
        let mut tasks: Vec<Task> = match self.tasks.as_str() {
            choice @ ("families" | "seen" | "unseen") => {
                let chosen = families()
                    .into_iter()
                    .filter(|family| choice == "families" || family.unseen == (choice == "unseen"))
                    .filter(|f| self.only.is_empty() || self.only.iter().any(|o| o == f.name));
                let chosen: Vec<_> = chosen.collect();
                let truths = run_jobs(thread_count(self.threads), chosen.len(), |k, _| {
                    Nats(chosen[k].truth().0)
                });
                chosen.into_iter().zip(truths).map(of_family).collect()
            }
            suite => tasks_named(suite)?.into_iter().map(|task| of_suite(suite, task)).collect(),
        };
        if !self.only.is_empty() {
            tasks.retain(|task| self.only.contains(&task.name));
        }
        Ok(tasks)
    }
}

fn of_family((family, truth): (Family, Nats)) -> Task {
    Task {
        name: family.name.into(),
        kind: family.kind.into(),
        unseen: family.unseen,
        order: RowOrder::Exchangeable,
        table: Box::new(move |rng, rows| {
            let (x, y) = family.table(rng, rows);
            Ok(TaskTable { x, y, given: Vec::new(), truth })
        }),
    }
}

fn of_suite(suite: &str, task: AnyTask) -> Task {
    Task {
        name: task.name().into(),
        kind: suite.into(),
        unseen: suite == "bmi2",
        order: if task.is_series() { RowOrder::AutomaticSeries } else { RowOrder::Exchangeable },
        table: Box::new(move |rng, rows| task.table(rng, rows)),
    }
}

/// Runs estimates and prints a line of JSON for each as soon as it is finished.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let options = Options::parse(arguments)?;
    let tasks = options.tasks()?;
    // The largest tables come first, so that no thread is left with one at the end.
    let mut rows = options.rows.clone();
    rows.sort_unstable_by(|a, b| b.cmp(a));
    let mut jobs = Vec::new();
    for rows in rows {
        for draw in options.first_draw..options.first_draw + options.draws {
            jobs.extend(tasks.iter().map(|task| (task, rows, draw)));
        }
    }
    let (out, engine) = (Mutex::new(std::io::stdout()), CpuEngine::new(1));
    let results = run_jobs(thread_count(options.threads), jobs.len(), |k, _| {
        let (task, rows, draw) = jobs[k];
        let record = one(task, rows, draw, &options, &engine)?;
        let line = serde_json::to_string(&record).map_err(|e| e.to_string())?;
        let mut out = out.lock().unwrap_or_else(|error| error.into_inner());
        writeln!(out, "{line}").map_err(|e| e.to_string())
    });
    Ok(results.into_iter().collect::<Result<(), String>>()?)
}

/// Draws a table and estimates it.
fn one(
    task: &Task,
    rows: usize,
    draw: u64,
    options: &Options,
    engine: &CpuEngine,
) -> Result<Record, String> {
    let failed = |error: fdime::Error| format!("{}: {error}", task.name);
    let mut rng = stream(draw, Purpose::Data, 0, 0);
    let table = (task.table)(&mut rng, rows).map_err(failed)?;
    let plan = EstimatePlan::new(options.method.clone(), options.effort);
    let plan = EstimatePlan { seed: draw, order: task.order, ..plan };
    let start = Instant::now();
    let TaskTable { x, y, given, .. } = &table;
    let result = match given.is_empty() {
        true => estimate(x, y, &plan, engine, &NoProgress),
        false => estimate_given(x, y, given, &plan, engine, &NoProgress),
    }
    .map_err(failed)?;
    Ok(Record {
        task: task.name.clone(),
        kind: task.kind.clone(),
        unseen: task.unseen,
        rows,
        draw,
        truth: table.truth.0,
        mi: result.mi.0,
        low: result.interval.0.0,
        high: result.interval.1.0,
        lower_bound: result.lower_bound.map(|bound| bound.0),
        p_value: result.independence.as_ref().map(|test| test.p_value),
        reliability: result.verdict.reliability.to_string(),
        reasons: result.verdict.reasons.iter().map(|reason| reason.code.to_string()).collect(),
        seconds: start.elapsed().as_secs_f64(),
    })
}
