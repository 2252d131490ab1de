//! Suites of tasks: tasks of any kind, and the benchmark by Czyz, Grabowski, Vogt, Beerenwinkel and Marx (cbg-ethz/bmi), as scenarios: the
//! 40 tasks of *Beyond Normal* (NeurIPS 2023), and the 13 tasks that *On the Properties and
//! Estimation of Pointwise Mutual Information Profiles* (TMLR 2025) adds.

use super::conditional::{ConditionalTask, conditional_suite};
use super::process::{TransferTask, transfer_suite};
use super::{Level, Scenario, ScenarioPlan};
use crate::data::Column;
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::random::Rng;

/// A named scenario at one level.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteTask {
    /// The task's name.
    pub name: String,
    /// The scenario.
    pub plan: ScenarioPlan,
    /// Its level.
    pub level: Level,
}

impl SuiteTask {
    fn new(name: &str, scenario: &str, dim: usize, level: Level) -> Result<Self> {
        let plan = ScenarioPlan::new(scenario, dim)?;
        let (x_dim, y_dim) = plan.name.base.dims(dim);
        Ok(SuiteTask { name: format!("{name}-{x_dim}x{y_dim}"), plan, level })
    }

    /// Creates the distribution.
    pub fn scenario(&self) -> Result<Scenario> {
        self.plan.at(self.level)
    }
}

/// A task of any suite.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyTask {
    /// Mutual information.
    Pairs(SuiteTask),
    /// Conditional mutual information.
    Triples(ConditionalTask),
    /// Transfer entropy.
    Series(TransferTask),
}

/// A table drawn from a task.
pub struct TaskTable {
    /// The columns of x.
    pub x: Vec<Column>,
    /// The columns of y.
    pub y: Vec<Column>,
    /// The columns that are given; without any, `truth` is a mutual information.
    pub given: Vec<Column>,
    /// The exact information between x and y, given the third.
    pub truth: Nats,
}

impl AnyTask {
    /// Returns the task's name.
    pub fn name(&self) -> &str {
        match self {
            AnyTask::Pairs(task) => &task.name,
            AnyTask::Triples(task) => &task.name,
            AnyTask::Series(task) => task.name,
        }
    }

    /// Returns the number of rows below which the task is run only if it is asked for.
    pub fn least_rows(&self) -> usize {
        match self {
            AnyTask::Triples(task) => task.least_rows,
            AnyTask::Pairs(_) | AnyTask::Series(_) => 0,
        }
    }

    /// Returns whether the rows of a table are a time series.
    pub fn is_series(&self) -> bool {
        matches!(self, AnyTask::Series(_))
    }

    /// Checks that a table of this many rows fits into the memory that is free.
    pub fn check_rows(&self, rows: usize) -> Result<()> {
        match self {
            AnyTask::Pairs(task) => task.scenario()?.check_rows(rows),
            AnyTask::Triples(task) => task.check_rows(rows),
            AnyTask::Series(task) => task.check_rows(rows),
        }
    }

    /// Returns the exact information between x and y, given the third if there is one.
    pub fn information(&self) -> Result<Nats> {
        match self {
            AnyTask::Pairs(task) => Ok(task.scenario()?.mutual_information()),
            AnyTask::Triples(task) => Ok(task.scenario()?.conditional_mutual_information()),
            AnyTask::Series(task) => task.transfer_entropy(),
        }
    }

    /// Draws the columns of x, of y, and of what is given.
    pub fn columns(&self, rng: &mut Rng, rows: usize) -> Result<[Vec<Column>; 3]> {
        match self {
            AnyTask::Pairs(task) => {
                let (x, y) = task.scenario()?.table(rng, rows);
                Ok([x, y, Vec::new()])
            }
            AnyTask::Triples(task) => Ok(task.scenario()?.table(rng, rows)),
            AnyTask::Series(task) => Ok(task.table(rng, rows)),
        }
    }

    /// Draws a table.
    pub fn table(&self, rng: &mut Rng, rows: usize) -> Result<TaskTable> {
        let [x, y, given] = self.columns(rng, rows)?;
        Ok(TaskTable { x, y, given, truth: self.information()? })
    }
}

/// Returns the tasks of a suite by its name: `bmi` or `bmi2`, `conditional` or `transfer`.
pub fn tasks_named(suite: &str) -> Result<Vec<AnyTask>> {
    match suite {
        "bmi" | "bmi2" => Ok(suite_named(suite)?.into_iter().map(AnyTask::Pairs).collect()),
        "conditional" => Ok(conditional_suite().into_iter().map(AnyTask::Triples).collect()),
        "transfer" => Ok(transfer_suite().into_iter().map(AnyTask::Series).collect()),
        _ => {
            let expected = "the suites are bmi, bmi2, conditional and transfer";
            Err(invalid(Parameter::Suite, suite, expected))
        }
    }
}

/// Returns the tasks of a suite of pairs by its name, `bmi` or `bmi2`.
pub fn suite_named(name: &str) -> Result<Vec<SuiteTask>> {
    match name {
        "bmi" => bmi_suite(),
        "bmi2" => bmi2_suite(),
        _ => Err(invalid(Parameter::Suite, name, "the suites are bmi and bmi2")),
    }
}

/// Returns the tasks of *Beyond Normal*.
pub fn bmi_suite() -> Result<Vec<SuiteTask>> {
    let mut tasks = Vec::new();
    let mut add = |name: &str, scenario: &str, dim: usize, level: Level| -> Result<()> {
        tasks.push(SuiteTask::new(name, scenario, dim, level)?);
        Ok(())
    };
    for (name, scenario) in [
        ("normal", "gaussian"),
        ("normal-cdf", "gaussian+normal-cdf"),
        ("normal-half-cube", "half-cube"),
        ("normal-wiggly", "gaussian+x:wiggle-1+y:wiggle-2"),
        ("normal-bimodal", "gaussian+x:bimodal-1+y:bimodal-2"),
        ("normal-swiss-roll", "swiss-roll"),
    ] {
        add(name, scenario, 1, Level::Rho(0.75))?;
    }
    add("additive-noise-0.1", "uniform", 1, Level::Epsilon(0.1))?;
    add("additive-noise-0.75", "uniform", 1, Level::Epsilon(0.75))?;
    for (dim, df) in [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (5, 2), (5, 3)] {
        add(&format!("student-df{df}"), "student", dim, Level::Df(f64::from(df)))?;
    }
    for (dim, df) in [(1, 1), (2, 1), (3, 2), (5, 2)] {
        let name = format!("student-df{df}-asinh");
        add(&name, "student+asinh", dim, Level::Df(f64::from(df)))?;
    }
    for dim in [2, 3, 5, 25, 50] {
        add("multinormal-dense", "dense-gaussian", dim, Level::Rho(0.5))?;
    }
    for dim in [2, 3, 5, 25] {
        add("multinormal-2pair", "two-pair-gaussian", dim, Level::Rho(0.8))?;
    }
    for (name, maps) in [
        ("cdf", "+normal-cdf"),
        ("half-cube", "+half-cube"),
        ("spiral", "+x:spiral-12+y:spiral-23"),
        ("cdf-spiral", "+normal-cdf+x:spiral-12+y:spiral-23"),
    ] {
        for dim in [3, 5, 25] {
            let scenario = format!("two-pair-gaussian{maps}");
            add(&format!("multinormal-2pair-{name}"), &scenario, dim, Level::Rho(0.8))?;
        }
    }
    Ok(tasks)
}

/// Returns the tasks of the second version of the benchmark that the first does not have: mixtures
/// of Gaussians, some of them bent.
pub fn bmi2_suite() -> Result<Vec<SuiteTask>> {
    let inliers = |dim: usize, fraction: f64| {
        ("two-pair-inliers", format!("inliers-{fraction}"), dim, Level::Inliers(fraction))
    };
    let concentric = |dim: usize, count: u32| {
        ("concentric", format!("concentric-{count}"), dim, Level::Components(f64::from(count)))
    };
    [
        ("letter-x", "x".into(), 1, Level::Rho(0.9)),
        ("letters-ai", "ai".into(), 1, Level::Rho(0.95)),
        ("waves", "waves".into(), 2, Level::Components(12.0)),
        ("galaxy", "galaxy".into(), 2, Level::Distance(3.0)),
        concentric(3, 5),
        concentric(5, 5),
        concentric(25, 5),
        concentric(3, 10),
        concentric(5, 10),
        inliers(5, 0.2),
        inliers(25, 0.2),
        inliers(5, 0.5),
        inliers(25, 0.5),
    ]
    .into_iter()
    .map(|(scenario, name, dim, level)| SuiteTask::new(&name, scenario, dim, level))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use crate::scenario::PairSource;
    use std::collections::BTreeSet;

    #[test]
    fn forty_tasks_have_the_published_mutual_information() {
        let tasks = bmi_suite().unwrap();
        let names: BTreeSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!((tasks.len(), names.len()), (40, 40));
        let known = [
            ("normal-wiggly-1x1", 0.4133),
            ("additive-noise-0.1-1x1", 1.7094),
            ("additive-noise-0.75-1x1", 0.3333),
            ("student-df1-1x1", 0.2242),
            ("student-df1-2x2", 0.4319),
            ("student-df2-2x2", 0.1931),
            ("student-df2-3x3", 0.2909),
            ("student-df3-3x3", 0.1787),
            ("student-df2-5x5", 0.4482),
            ("student-df3-5x5", 0.2985),
            ("multinormal-dense-50x50", 1.6243),
            ("multinormal-2pair-cdf-spiral-25x25", 1.0217),
        ];
        for (name, mi) in known {
            let task = tasks.iter().find(|task| task.name == name).unwrap();
            let exact = task.scenario().unwrap().mutual_information().0;
            assert!((exact - mi).abs() < 1e-4, "{name}: {exact}");
        }
    }

    /// The values do not change by 1e-6 if the grids of integration are wider and twice as fine. The
    /// benchmark itself takes the mean of 100,000 log ratios.
    #[test]
    fn thirteen_mixtures_have_known_mutual_information() {
        let tasks = bmi2_suite().unwrap();
        let known = [
            ("x-1x1", 0.408443),
            ("ai-1x1", 0.775953),
            ("waves-2x1", 1.307017),
            ("galaxy-2x1", 0.494298),
            ("concentric-5-3x1", 0.455423),
            ("concentric-5-5x1", 0.627391),
            ("concentric-5-25x1", 1.190768),
            ("concentric-10-3x1", 0.559916),
            ("concentric-10-5x1", 0.751451),
            ("inliers-0.2-5x5", 0.635759),
            ("inliers-0.2-25x25", 0.635759),
            ("inliers-0.5-5x5", 0.269626),
            ("inliers-0.5-25x25", 0.269626),
        ];
        assert_eq!(tasks.len(), known.len());
        for (task, (name, mi)) in tasks.iter().zip(known) {
            let scenario = task.scenario().unwrap();
            assert_eq!(task.name, name);
            assert!((scenario.mutual_information().0 - mi).abs() < 1e-6, "{name}");
            let (x_dim, y_dim) = scenario.dims();
            assert!(name.ends_with(&format!("-{x_dim}x{y_dim}")), "{name}");
        }
    }

    /// The stated mutual information is the mean of exact log ratios within 4.5 standard errors,
    /// which are at most 0.003 (alpha of about 1e-4 for 13 tasks, fixed seed).
    #[test]
    fn mixtures_have_the_mutual_information_of_their_samples() {
        for task in bmi2_suite().unwrap() {
            let scenario = task.scenario().unwrap();
            let mut rng = stream(11, Purpose::Data, 0, 0);
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let n = 200_000.0;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..200_000 {
                let ratio = scenario.draw(&mut rng, &mut x, &mut y);
                (sum, squares) = (sum + ratio, squares + ratio * ratio);
            }
            let (mean, truth) = (sum / n, scenario.mutual_information().0);
            let error = ((squares / n - mean * mean) / n).sqrt();
            assert!(error < 0.003 && (mean - truth).abs() < 4.5 * error, "{}", task.name);
        }
    }
}
