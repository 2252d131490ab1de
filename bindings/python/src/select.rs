//! Selection of features.

use crate::estimate::{ReadingOptions, X_AND_Y, pair_table};
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, parse_json, to_json};
use crate::table::Table;
use fdime::Error;
use fdime::data::{Column, PairTable};
use fdime::estimate::{self as library, EstimatePlan, Selection, SelectionPlan};
use pyo3::prelude::*;
use serde::Serialize;

/// A selection, and the number of rows that it was made from.
#[derive(Serialize)]
struct Selected {
    #[serde(flatten)]
    selection: Selection,
    rows: usize,
}

/// Chooses `k` columns of x by a criterion. Returns the selection and the number of rows as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "two tables, the settings and the callback")]
pub fn select_features(
    py: Python<'_>,
    x: &Bound<'_, Table>,
    y: &Bound<'_, Table>,
    k: usize,
    criterion: &str,
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<String> {
    let estimate: EstimatePlan = parse_json(plan, "plan")?;
    let (x, y) = (&x.get().frame, &y.get().frame);
    let plan = call_library(|| {
        let plan = SelectionPlan { k, criterion: criterion.parse()?, estimate };
        plan.check(x.columns.len(), x.rows.max(y.rows))?;
        Ok(plan)
    })?;
    let PairTable { x, y, .. } = pair_table(x, y, None, &options, X_AND_Y)?;
    let selection = run_on_engine(py, &execution, callback, |engine, progress| match &y[..] {
        [y] => library::select_features(&x, y, &plan, engine, progress),
        _ => Err(Error::Columns { problem: "y has several columns; give one target".into() }),
    })?;
    to_json(&Selected { selection, rows: y.first().map_or(0, Column::len) })
}
