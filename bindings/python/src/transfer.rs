//! Transfer entropies of series, and the journal of directions that are finished.

use crate::background::run_in_background;
use crate::estimate::{ReadingOptions, side_by_side};
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use crate::matrix::SharedJournal;
use crate::table::Table;
use crate::wording::KeywordArguments;
use fdime::estimate::{
    SeriesHeading, Timeline, TransferEntropy, TransferPlan, TransferRecord, TransferSeries,
};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Series, with the times and the recordings of their rows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct TimedTable<'py> {
    series: Bound<'py, Table>,
    time: Option<Bound<'py, Table>>,
    group: Option<Bound<'py, Table>>,
}

impl TimedTable<'_> {
    fn timeline(&self) -> PyResult<Timeline> {
        let [time, group] = [&self.time, &self.group]
            .map(|table| table.as_ref().and_then(|table| table.get().frame.columns.first()));
        call_library(|| Timeline::new(self.series.get().frame.rows, time, group))
    }
}

/// Checks that a plan, given as JSON, can be executed on these series.
#[pyfunction]
pub fn check_transfer(series: TimedTable<'_>, plan: &str) -> PyResult<()> {
    let plan: TransferPlan = parse_json(plan, "plan")?;
    let timeline = series.timeline()?;
    call_library(|| plan.check(&timeline))
}

/// Returns the plan of a target, a single series, with its history and lags; all as JSON.
#[pyfunction]
pub fn transfer_plan_for_target(
    py: Python<'_>,
    target: TimedTable<'_>,
    plan: &str,
    callback: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: TransferPlan = parse_json(plan, "plan")?;
    let timeline = target.timeline()?;
    let frame = &target.series.get().frame;
    let decided = run_in_background(py, callback, |progress| {
        plan.for_target(&frame.columns[0], &timeline, progress)
    })?;
    to_json(&decided)
}

/// Estimates the direction from a source to a target, a single series each. Returns it as JSON.
#[pyfunction]
pub fn estimate_transfer(
    py: Python<'_>,
    source: &Bound<'_, Table>,
    target: TimedTable<'_>,
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: TransferPlan = parse_json(plan, "plan")?;
    let (timeline, reading) = (target.timeline()?, options.reading()?);
    let frame =
        side_by_side(&source.get().frame, &target.series.get().frame, ["source", "target"])?;
    let found = run_on_engine(py, &execution, callback, |engine, progress| {
        let (source, target) = (&frame.columns[0], &frame.columns[1]);
        let series = TransferSeries { source, target, timeline: &timeline };
        TransferEntropy::new(&series, &plan, &reading, &KeywordArguments, engine, progress)
    })?;
    to_json(&found)
}

/// Compares all directions, given as JSON: adjusted p-values, and differences of opposite ones.
#[pyfunction]
pub fn compare_transfers(directions: &str) -> PyResult<String> {
    catch_panic(|| {
        let mut directions: Vec<TransferEntropy> = parse_json(directions, "directions")?;
        TransferEntropy::compare(&mut directions);
        to_json(&directions)
    })
}

/// The library's journal of finished directions. The command line reads and writes the same format.
#[pyclass(frozen, module = "fdime._native")]
pub struct TransferJournal(SharedJournal<TransferRecord>);

#[pymethods]
impl TransferJournal {
    /// Opens or creates the journal of the request with this heading, given as JSON. A file that
    /// another process is writing to, or that belongs to another request, is an error.
    #[new]
    fn new(path: PathBuf, heading: &str) -> PyResult<Self> {
        let heading: SeriesHeading<TransferPlan> = parse_json(heading, "heading")?;
        SharedJournal::open(path, &heading).map(TransferJournal)
    }

    /// Returns the estimate of a direction as JSON; `None` if it is not finished.
    fn find(&self, direction: (usize, usize)) -> PyResult<Option<String>> {
        self.0.find(&direction, |record| to_json(&record.found))
    }

    /// Appends the estimate of a direction, given as JSON, and waits until it is on disk.
    fn append(&self, py: Python<'_>, direction: (usize, usize), estimate: &str) -> PyResult<()> {
        self.0.append(py, TransferRecord { direction, found: parse_json(estimate, "estimate")? })
    }

    /// Closes the file, so that another process can open it.
    fn close(&self) {
        self.0.close();
    }
}
