//! Lags of series, and the journal of those that are finished.

use crate::background::run_in_background;
use crate::estimate::{ReadingOptions, X_AND_Y, side_by_side};
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, parse_json, to_json};
use crate::matrix::SharedJournal;
use crate::table::Table;
use crate::wording::KeywordArguments;
use fdime::data::{Column, Frame};
use fdime::estimate::{
    EstimatePlan, LagEstimate, LagPlan, LagProfile, LagRecord, LagSeries, LagTest, SeriesHeading,
    Timeline,
};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Two series, the columns that are held fixed, and the times and the recordings of their rows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SeriesTables<'py> {
    x: Bound<'py, Table>,
    y: Bound<'py, Table>,
    given: Option<Bound<'py, Table>>,
    time: Option<Bound<'py, Table>>,
    group: Option<Bound<'py, Table>>,
}

/// Two series in the library's form.
struct Series {
    /// The columns x and y.
    frame: Frame,
    given: Vec<Column>,
    timeline: Timeline,
}

impl SeriesTables<'_> {
    fn read(&self) -> PyResult<Series> {
        let frame = side_by_side(&self.x.get().frame, &self.y.get().frame, X_AND_Y)?;
        let timeline = call_library(|| {
            let [time, group] = [&self.time, &self.group]
                .map(|table| table.as_ref().and_then(|table| table.get().frame.columns.first()));
            Timeline::new(frame.rows, time, group)
        })?;
        let given = self.given.as_ref().map(|table| table.get().frame.columns.clone());
        Ok(Series { frame, given: given.unwrap_or_default(), timeline })
    }
}

impl Series {
    fn view(&self) -> LagSeries<'_> {
        let [x, y]: [&Column; 2] = [0, 1].map(|place| &self.frame.columns[place]);
        LagSeries { x, y, given: &self.given, timeline: &self.timeline }
    }
}

/// Checks that a plan of lags, given as JSON, can be executed on two series of one column each.
#[pyfunction]
pub fn check_lags(series: SeriesTables<'_>, plan: &str) -> PyResult<()> {
    let plan: LagPlan = parse_json(plan, "plan")?;
    let series = series.read()?;
    call_library(|| plan.check(&series.view()))
}

/// Estimates one lag of two series of one column each. Returns it as JSON.
#[pyfunction]
pub fn estimate_lag(
    py: Python<'_>,
    series: SeriesTables<'_>,
    lag: i64,
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: EstimatePlan = parse_json(plan, "plan")?;
    let (series, reading) = (series.read()?, options.reading()?);
    let found = run_on_engine(py, &execution, callback, |engine, progress| {
        let series = series.view();
        LagEstimate::new(&series, lag, &plan, &reading, &KeywordArguments, engine, progress)
    })?;
    to_json(&found)
}

/// Tests two series at all lags of a plan. Returns the profile of the estimates of these lags, all as
/// JSON.
#[pyfunction]
pub fn lag_profile(
    py: Python<'_>,
    series: SeriesTables<'_>,
    plan: &str,
    estimates: &str,
) -> PyResult<String> {
    let plan: LagPlan = parse_json(plan, "plan")?;
    let estimates: Vec<LagEstimate> = parse_json(estimates, "estimates")?;
    let series = series.read()?;
    let test =
        run_in_background(py, None, |progress| LagTest::new(&series.view(), &plan, progress))?;
    to_json(&LagProfile::new(&series.view(), estimates, &test))
}

/// Adjusts the p-values of all profiles, given as JSON, for their number.
#[pyfunction]
pub fn adjust_lag_profiles(profiles: &str) -> PyResult<String> {
    catch_panic(|| {
        let mut profiles: Vec<LagProfile> = parse_json(profiles, "profiles")?;
        LagProfile::adjust(&mut profiles);
        to_json(&profiles)
    })
}

/// The library's journal of finished lags. The command line reads and writes the same format.
#[pyclass(frozen, module = "fdime._native")]
pub struct LagJournal(SharedJournal<LagRecord>);

#[pymethods]
impl LagJournal {
    /// Opens or creates the journal of the request with this heading, given as JSON. A file that
    /// another process is writing to, or that belongs to another request, is an error.
    #[new]
    fn new(path: PathBuf, heading: &str) -> PyResult<Self> {
        let heading: SeriesHeading<EstimatePlan> = parse_json(heading, "heading")?;
        SharedJournal::open(path, &heading).map(LagJournal)
    }

    /// Returns the estimate of a lag as JSON; `None` if it is not finished.
    fn find(&self, lag: (usize, usize, i64)) -> PyResult<Option<String>> {
        self.0.find(&lag, |record| to_json(&record.found))
    }

    /// Appends the estimate of a lag, given as JSON, and waits until it is on disk.
    fn append(&self, py: Python<'_>, lag: (usize, usize, i64), estimate: &str) -> PyResult<()> {
        self.0.append(py, LagRecord { lag, found: parse_json(estimate, "estimate")? })
    }

    /// Closes the file, so that another process can open it.
    fn close(&self) {
        self.0.close();
    }
}
