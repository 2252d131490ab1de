//! The 40 tasks of the benchmark by Czyz, Grabowski, Vogt, Beerenwinkel and Marx (*Beyond Normal*,
//! NeurIPS 2023; cbg-ethz/bmi), as scenarios.

use super::{Level, Scenario, ScenarioPlan};
use crate::error::Result;

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
        Ok(SuiteTask { name: format!("{name}-{dim}x{dim}"), plan, level })
    }

    /// Creates the distribution.
    pub fn scenario(&self) -> Result<Scenario> {
        self.plan.at(self.level)
    }
}

/// Returns the tasks.
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
