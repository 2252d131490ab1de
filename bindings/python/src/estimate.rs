//! Estimates from finite data.

use crate::failure::{caught, exception, guarded, json, parsed};
use crate::table::Table;
use crate::watch::watched;
use crate::words::Arguments;
use fdime::Estimator;
use fdime::data::{Column, ConstantColumns, Frame, MissingRows, PairTable, Reading, scoring_pairs};
use fdime::estimate::{
    Estimate, EstimatePlan, EstimateReport, PairFinding, Paragraph, RowOrder, SavedColumn,
    SavedModel, estimate as estimate_of,
};
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How columns are read: what the arguments of that name say.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    discrete: Vec<String>,
    numeric: Vec<String>,
    missing: String,
    constant: String,
}

/// Whether `drop` or `error` was asked for.
fn drops(argument: &str, value: &str) -> PyResult<bool> {
    match value {
        "drop" => Ok(true),
        "error" => Ok(false),
        _ => Err(PyValueError::new_err(format!("{argument}='{value}': write 'drop' or 'error'"))),
    }
}

fn missing_rows(value: &str) -> PyResult<MissingRows> {
    let drop = drops("missing", value)?;
    Ok(if drop { MissingRows::Drop } else { MissingRows::Refuse })
}

impl Options {
    fn reading(&self) -> PyResult<Reading<'_>> {
        let drop_constant = drops("constant", &self.constant)?;
        Ok(Reading {
            missing: missing_rows(&self.missing)?,
            constant: if drop_constant { ConstantColumns::Drop } else { ConstantColumns::Refuse },
            ..Reading::default()
        })
    }
}

/// The plan for an estimator and an effort, as JSON.
#[pyfunction]
pub fn estimate_plan(
    estimator: &str,
    effort: &str,
    folds: usize,
    permutations: usize,
    seed: u64,
    blocks: Option<usize>,
) -> PyResult<String> {
    let plan = guarded(|| {
        let mut plan = EstimatePlan::new(estimator.parse()?, effort.parse()?);
        plan.folds = folds;
        plan.permutations = permutations;
        plan.seed = seed;
        if let Some(gap) = blocks {
            plan.order = RowOrder::Series { gap };
        }
        Ok(plan)
    })?;
    json(&plan)
}

/// Refuses a plan that cannot be run on this many rows.
#[pyfunction]
pub fn check_plan(plan: &str, rows: usize) -> PyResult<()> {
    let plan: EstimatePlan = parsed(plan, "plan")?;
    guarded(|| plan.check(rows))
}

/// What the user should know about an estimator, if anything.
#[pyfunction]
pub fn notice(estimator: &str) -> PyResult<Option<String>> {
    guarded(|| Ok(estimator.parse::<Estimator>().ok().and_then(|estimator| estimator.notice())))
}

/// The columns of x and then those of y.
fn side_by_side(x: &Frame, y: &Frame) -> PyResult<Frame> {
    if x.rows != y.rows {
        return Err(PyValueError::new_err(format!(
            "x has {} rows, but y has {}; each row of x goes with the same row of y",
            x.rows, y.rows
        )));
    }
    let columns: Vec<Column> = x.columns.iter().chain(&y.columns).cloned().collect();
    Frame::new(columns).map_err(exception)
}

/// Both sides, with columns as numbers or categories as asked for, and their complete rows.
fn pair_table(x: &Frame, y: &Frame, options: &Options) -> PyResult<PairTable> {
    let frame = side_by_side(x, y)?;
    let reading = options.reading()?;
    let [discrete, numeric] = [&options.discrete, &options.numeric]
        .map(|selectors| selectors.iter().map(String::as_str).collect::<Vec<_>>());
    guarded(|| {
        let frame = frame.typed(&discrete, &numeric, "x and y")?;
        frame.into_pairs(x.columns.len(), &reading, "x and y")
    })
}

/// One value for every row of the input; rows that were left out have none.
fn spread_out(values: &[f64], kept: &[usize], rows: usize) -> Vec<f64> {
    let mut all = vec![f64::NAN; rows];
    kept.iter().zip(values).for_each(|(row, value)| all[*row] = *value);
    all
}

/// The estimate: JSON, summaries, pointwise information, null distribution and model.
#[pyfunction]
pub fn estimate<'py>(
    py: Python<'py>,
    x: &Bound<'py, Table>,
    y: &Bound<'py, Table>,
    plan: &str,
    options: Options,
    threads: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan: EstimatePlan = parsed(plan, "plan")?;
    let start = Instant::now();
    let table = pair_table(&x.get().frame, &y.get().frame, &options)?;
    let result =
        watched(py, threads, watch, |watch| estimate_of(&table.x, &table.y, &plan, watch))?;
    let seconds = start.elapsed().as_secs_f64();
    caught(|| answer(py, &table, &plan, &result, seconds))
}

/// What Python is told of an estimate.
fn answer<'py>(
    py: Python<'py>,
    table: &PairTable,
    plan: &EstimatePlan,
    result: &Estimate,
    seconds: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let report = EstimateReport { table, plan, estimate: result, seconds };
    let answer = PyDict::new(py);
    answer.set_item("json", json(&report.record(&Arguments))?)?;
    answer.set_item("summary", paragraphs(report.summary(false, &Arguments)))?;
    answer.set_item("summary_bits", paragraphs(report.summary(true, &Arguments)))?;
    let pointwise = spread_out(&result.pointwise, &table.kept, table.input_rows);
    answer.set_item("pointwise", PyArray1::from_vec(py, pointwise))?;
    let test = result.independence.as_ref();
    answer.set_item("observed", test.map(|test| test.observed))?;
    answer.set_item("null", test.map(|test| PyArray1::from_slice(py, &test.null)))?;
    let model = (!result.models.is_empty())
        .then(|| Model { model: SavedModel::new(plan, result, &table.x, &table.y) });
    answer.set_item("model", model.map(|model| Py::new(py, model)).transpose()?)?;
    Ok(answer)
}

/// Returns each paragraph with whether it is an item of a list.
fn paragraphs(summary: Vec<Paragraph>) -> Vec<(bool, String)> {
    let paragraphs = summary.into_iter().map(|paragraph| match paragraph {
        Paragraph::Text(text) => (false, text),
        Paragraph::Item(text) => (true, text),
        Paragraph::Gap => (false, String::new()),
    });
    paragraphs.collect()
}

/// One pair of a matrix, as JSON.
#[pyfunction]
pub fn pair(
    py: Python<'_>,
    x: (String, Bound<'_, Table>),
    y: (String, Bound<'_, Table>),
    plan: &str,
    options: Options,
    threads: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: EstimatePlan = parsed(plan, "plan")?;
    let reading = options.reading()?;
    let (left, right) = (&x.1.get().frame, &y.1.get().frame);
    let frame = side_by_side(left, right)?;
    let columns: Vec<usize> = (0..frame.columns.len()).collect();
    let (of_x, of_y) = columns.split_at(left.columns.len());
    let finding = watched(py, threads, watch, |watch| {
        PairFinding::new(&frame, (&x.0, of_x), (&y.0, of_y), &plan, &reading, &Arguments, watch)
    })?;
    json(&finding)
}

/// Adjusts the p-values of all pairs for their number.
#[pyfunction]
pub fn adjust(pairs: &str) -> PyResult<String> {
    caught(|| {
        let mut pairs: Vec<PairFinding> = parsed(pairs, "pairs")?;
        PairFinding::adjust(&mut pairs);
        json(&pairs)
    })
}

/// Critics that give new rows a log ratio.
#[pyclass(frozen, module = "fdime._native")]
pub struct Model {
    model: SavedModel,
}

fn named(columns: &[SavedColumn]) -> Vec<(String, bool)> {
    columns.iter().map(|column| (column.name.clone(), column.discrete)).collect()
}

#[pymethods]
impl Model {
    /// Names of the columns of x and of y, in the order in which they are needed.
    #[getter]
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let names = |columns: &[SavedColumn]| columns.iter().map(|c| c.name.clone()).collect();
        (names(self.model.x()), names(self.model.y()))
    }

    /// The estimate that it comes from.
    #[getter]
    fn mi(&self) -> f64 {
        self.model.trained_mi_nats()
    }

    /// The log ratio of every row; the columns are those of `names`.
    fn log_ratios<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, Table>,
        y: &Bound<'py, Table>,
        missing: &str,
        threads: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let frame = side_by_side(&x.get().frame, &y.get().frame)?;
        let missing = missing_rows(missing)?;
        let ratios = watched(py, threads, None, |_| {
            let (x, y) = (named(self.model.x()), named(self.model.y()));
            let table = scoring_pairs(frame, &x, &y, missing, "x and y")?;
            let ratios = self.model.log_ratios(&table.x, &table.y)?;
            Ok(spread_out(&ratios, &table.kept, table.input_rows))
        })?;
        Ok(PyArray1::from_vec(py, ratios))
    }

    /// Writes a folder that the command line's `fdime apply` reads too.
    fn save(&self, folder: PathBuf) -> PyResult<()> {
        guarded(|| self.model.save(&folder))
    }

    /// Reads a folder.
    #[staticmethod]
    fn load(folder: PathBuf) -> PyResult<Self> {
        guarded(|| SavedModel::load(&folder)).map(|model| Model { model })
    }

    #[staticmethod]
    fn from_bytes(plan: &[u8], critics: &[u8]) -> PyResult<Self> {
        let model = guarded(|| SavedModel::from_bytes(plan, critics, Path::new("pickle")))?;
        Ok(Model { model })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bytes<'py>)> {
        let bytes = caught(|| slf.get().model.to_bytes().map_err(PyRuntimeError::new_err));
        let (plan, critics) = bytes?;
        let bytes = |bytes: Vec<u8>| PyBytes::new(slf.py(), &bytes);
        Ok((slf.getattr("from_bytes")?, (bytes(plan), bytes(critics))))
    }
}

type Bytes<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
