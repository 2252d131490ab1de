//! The capacity of a channel.

use crate::estimate::{ReadingOptions, pair_table, paragraphs};
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use crate::table::Table;
use crate::wording::InputAndOutput;
use fdime::Error;
use fdime::estimate::{CapacityReport, EstimatePlan, channel_capacity as library_capacity};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Instant;

/// Estimates a capacity. Returns a dictionary with the result as JSON and its summaries.
#[pyfunction]
pub fn channel_capacity<'py>(
    py: Python<'py>,
    input: &Bound<'py, Table>,
    output: &Bound<'py, Table>,
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan: EstimatePlan = parse_json(plan, "plan")?;
    let start = Instant::now();
    let roles = ["input", "output"];
    let table = pair_table(&input.get().frame, &output.get().frame, None, &options, roles)?;
    let plan = call_library(|| Ok(plan.for_data(&table.x, &table.y)))?;
    let capacity = run_on_engine(py, &execution, callback, |engine, progress| {
        library_capacity(&table.x, &table.y, &plan, engine, progress).map_err(in_words)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    catch_panic(|| {
        let report =
            CapacityReport { table: &table, plan: &plan, capacity: &capacity, seconds, file: None };
        let record = report.record(&InputAndOutput);
        let answer = PyDict::new(py);
        answer.set_item("json", to_json(&record)?)?;
        answer.set_item("summary", paragraphs(record.summary(false)))?;
        answer.set_item("summary_bits", paragraphs(record.summary(true)))?;
        Ok(answer)
    })
}

/// Returns the error with x and y as the input and the output.
fn in_words(error: Error) -> Error {
    match error {
        Error::Selection { .. } => Error::Columns { problem: error.render(&InputAndOutput) },
        other => other,
    }
}
