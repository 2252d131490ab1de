//! Studies of power.

use crate::estimate::paragraphs;
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use fdime::estimate::{
    EstimatePlan, PowerPlan, PowerRecord, StudySize, power_study as library_study,
};
use fdime::{Level, ScenarioPlan};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Instant;

/// Simulates a study of power. Returns a dictionary with the result as JSON and its summaries. Without
/// `rows`, the number of rows with this power is searched for.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the settings of the study and the callback")]
pub fn power_analysis<'py>(
    py: Python<'py>,
    scenario: (&str, usize),
    level: &str,
    dim: (usize, usize),
    power: f64,
    rows: Option<Vec<usize>>,
    alpha: f64,
    tables: usize,
    plan: &str,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let estimate: EstimatePlan = parse_json(plan, "plan")?;
    let start = Instant::now();
    let plan = call_library(|| {
        let (scenario, level) =
            (ScenarioPlan::new(scenario.0, scenario.1)?, level.parse::<Level>()?);
        let size = rows.map_or(StudySize::Search(power), StudySize::Rows);
        Ok(PowerPlan { alpha, tables, ..PowerPlan::new(scenario, level, dim, size, estimate)? })
    })?;
    let study = run_on_engine(py, &execution, callback, |engine, progress| {
        library_study(&plan, engine, progress)
    })?;
    catch_panic(|| {
        let record = PowerRecord::new(plan, study, start.elapsed().as_secs_f64());
        let answer = PyDict::new(py);
        answer.set_item("json", to_json(&record)?)?;
        answer.set_item("summary", paragraphs(record.summary(false)))?;
        answer.set_item("summary_bits", paragraphs(record.summary(true)))?;
        Ok(answer)
    })
}
