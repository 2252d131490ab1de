//! Estimates from finite data.

use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, exception, parse_json, to_json};
use crate::table::Table;
use crate::wording::KeywordArguments;
use fdime::Estimator;
use fdime::data::{Column, ConstantColumns, Frame, MissingRows, PairTable, Reading, scoring_pairs};
use fdime::estimate::{
    self as library, Estimate, EstimatePlan, EstimateReport, Paragraph, RowOrder, SavedColumn,
    SavedModel,
};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::time::Instant;

/// How columns are read, by the keyword arguments of the same names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ReadingOptions {
    discrete: Vec<String>,
    numeric: Vec<String>,
    missing: String,
    constant: String,
}

/// Returns whether `drop` was asked for. Anything but `drop` and `error` is an error.
fn is_drop(argument: &str, value: &str) -> PyResult<bool> {
    match value {
        "drop" => Ok(true),
        "error" => Ok(false),
        _ => Err(PyValueError::new_err(format!("{argument}='{value}': write 'drop' or 'error'"))),
    }
}

fn missing_rows(value: &str) -> PyResult<MissingRows> {
    Ok(if is_drop("missing", value)? { MissingRows::Drop } else { MissingRows::Refuse })
}

impl ReadingOptions {
    /// Returns the library's options. Selectors are not among them: see `pair_table`.
    pub fn reading(&self) -> PyResult<Reading<'_>> {
        let drop_constant = is_drop("constant", &self.constant)?;
        Ok(Reading {
            missing: missing_rows(&self.missing)?,
            constant: if drop_constant { ConstantColumns::Drop } else { ConstantColumns::Refuse },
            ..Reading::default()
        })
    }
}

/// The settings of a plan, by the keyword arguments of the same names; `blocks` is whether rows are a
/// series, and its gap.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PlanOptions {
    estimator: String,
    effort: String,
    folds: usize,
    permutations: usize,
    seed: u64,
    chain: Option<String>,
    blocks: (bool, Option<usize>),
    tests: usize,
}

/// Returns the plan for an estimator and an effort as JSON. A series without a gap gets one from the
/// data.
#[pyfunction]
pub fn estimate_plan(options: PlanOptions) -> PyResult<String> {
    let plan = call_library(|| {
        let mut plan = EstimatePlan::new(options.estimator.parse()?, options.effort.parse()?);
        plan.folds = options.folds;
        plan.permutations = options.permutations;
        plan.seed = options.seed;
        if let Some(chain) = options.chain {
            plan.chain = chain.parse()?;
        }
        if let (true, gap) = options.blocks {
            plan.order = gap.map_or(RowOrder::AutomaticSeries, |gap| RowOrder::Series { gap });
        }
        Ok(plan.for_tests(options.tests))
    })?;
    to_json(&plan)
}

/// Checks that a plan can be executed on this many rows.
#[pyfunction]
pub fn check_plan(plan: &str, rows: usize) -> PyResult<()> {
    let plan: EstimatePlan = parse_json(plan, "plan")?;
    call_library(|| plan.check(rows))
}

/// Returns what the user should know about an estimator, if there is anything.
#[pyfunction]
pub fn notice(estimator: &str) -> PyResult<Option<String>> {
    call_library(|| {
        Ok(estimator.parse::<Estimator>().ok().and_then(|estimator| estimator.notice()))
    })
}

/// The names of x and y in most functions.
pub const X_AND_Y: [&str; 2] = ["x", "y"];

/// Returns the columns of x followed by those of y, which errors call by their roles.
pub fn side_by_side(x: &Frame, y: &Frame, [x_role, y_role]: [&str; 2]) -> PyResult<Frame> {
    if x.rows != y.rows {
        return Err(PyValueError::new_err(format!(
            "{x_role} has {} rows, but {y_role} has {}; each row of {x_role} goes with the same row \
             of {y_role}",
            x.rows, y.rows
        )));
    }
    let columns: Vec<Column> = x.columns.iter().chain(&y.columns).cloned().collect();
    Frame::new(columns).map_err(exception)
}

/// Returns the complete rows of both sides and of what is held fixed, with columns converted to
/// numbers or categories as the options ask. Errors call the sides by their roles.
pub fn pair_table(
    x: &Frame,
    y: &Frame,
    given: Option<&Frame>,
    options: &ReadingOptions,
    roles: [&str; 2],
) -> PyResult<PairTable> {
    let mut frame = side_by_side(x, y, roles)?;
    let mut name = roles.join(" and ");
    if let Some(given) = given {
        if given.rows != frame.rows {
            return Err(PyValueError::new_err(format!(
                "given has {} rows, but x has {}; each row of given goes with the same row of x",
                given.rows, frame.rows
            )));
        }
        frame.columns.extend(given.columns.iter().cloned());
        frame = Frame::new(frame.columns).map_err(exception)?;
        name = "x, y and given".into();
    }
    let reading = options.reading()?;
    let sides = [(roles[0], &x.columns), (roles[1], &y.columns)];
    let [discrete, numeric] = [&options.discrete, &options.numeric].map(|selectors| {
        selectors.iter().flat_map(|selector| expanded(selector, &sides)).collect::<Vec<_>>()
    });
    call_library(|| {
        let frame = frame.typed(&discrete, &numeric, &name)?;
        frame.into_pairs(x.columns.len(), y.columns.len(), &reading, &name)
    })
}

/// Returns the columns of a side if the selector is its role and no column has that name, as in
/// `discrete="y"` for a Series with another name; else the selector.
fn expanded<'a>(selector: &'a str, sides: &[(&str, &'a Vec<Column>); 2]) -> Vec<&'a str> {
    let is_column =
        sides.iter().flat_map(|(_, columns)| *columns).any(|column| column.name == selector);
    match sides.iter().find(|(role, _)| *role == selector && !is_column) {
        Some((_, columns)) => columns.iter().map(|column| column.name.as_str()).collect(),
        None => vec![selector],
    }
}

/// Returns one value for each row of the input; NaN for rows that were dropped.
fn at_input_rows(values: &[f64], kept: &[usize], rows: usize) -> Vec<f64> {
    let mut all = vec![f64::NAN; rows];
    kept.iter().zip(values).for_each(|(row, value)| all[*row] = *value);
    all
}

/// Estimates a mutual information, conditional if columns are given. Returns a dictionary: see
/// `answer`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "three tables, the settings and the callback")]
pub fn estimate<'py>(
    py: Python<'py>,
    x: &Bound<'py, Table>,
    y: &Bound<'py, Table>,
    given: Option<&Bound<'py, Table>>,
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan: EstimatePlan = parse_json(plan, "plan")?;
    let start = Instant::now();
    let held_fixed = given.map(|given| &*given.get().frame);
    let table = pair_table(&x.get().frame, &y.get().frame, held_fixed, &options, X_AND_Y)?;
    let PairTable { x, y, given, .. } = &table;
    let plan = call_library(|| Ok(plan.for_data(x, &[&y[..], given].concat())))?;
    let result = run_on_engine(py, &execution, callback, |engine, progress| match held_fixed {
        Some(_) => library::estimate_given(x, y, given, &plan, engine, progress),
        None => library::estimate(x, y, &plan, engine, progress),
    })?;
    let seconds = start.elapsed().as_secs_f64();
    catch_panic(|| answer(py, &table, &plan, &result, seconds))
}

/// Returns an estimate as JSON and summaries, with its arrays and its model.
fn answer<'py>(
    py: Python<'py>,
    table: &PairTable,
    plan: &EstimatePlan,
    result: &Estimate,
    seconds: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let report =
        EstimateReport { table, plan, estimate: result, seconds, file: None, keeps_critics: true };
    let answer = PyDict::new(py);
    let record = report.record(&KeywordArguments);
    answer.set_item("json", to_json(&record)?)?;
    answer.set_item("summary", paragraphs(record.summary(false)))?;
    answer.set_item("summary_bits", paragraphs(record.summary(true)))?;
    let pointwise = at_input_rows(&result.pointwise, &table.kept, table.input_rows);
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
pub fn paragraphs(summary: Vec<Paragraph>) -> Vec<(bool, String)> {
    let paragraphs = summary.into_iter().map(|paragraph| match paragraph {
        Paragraph::Text(text) => (false, text),
        Paragraph::Item(text) => (true, text),
        Paragraph::Gap => (false, String::new()),
    });
    paragraphs.collect()
}

/// Trained critics, which return the log ratios of new rows.
#[pyclass(frozen, module = "fdime._native")]
pub struct Model {
    model: SavedModel,
}

/// Returns the name of each column and whether it is discrete.
fn names_and_kinds(columns: &[SavedColumn]) -> Vec<(String, bool)> {
    columns.iter().map(SavedColumn::kind).collect()
}

#[pymethods]
impl Model {
    /// The names of the columns of x and of y, in the order that `log_ratios` needs.
    #[getter]
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let names = |columns: &[SavedColumn]| columns.iter().map(|c| c.name.clone()).collect();
        (names(self.model.x()), names(self.model.y()))
    }

    /// The estimate that the critics were trained for.
    #[getter]
    fn mi(&self) -> f64 {
        self.model.trained_mi_nats()
    }

    /// Returns the log ratio of each row, and remarks on the rows. The columns are those of `names`.
    fn log_ratios<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, Table>,
        y: &Bound<'py, Table>,
        missing: &str,
        execution: Execution,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Vec<String>)> {
        let frame = side_by_side(&x.get().frame, &y.get().frame, X_AND_Y)?;
        let missing = missing_rows(missing)?;
        let (ratios, notes) = run_on_engine(py, &execution, None, |engine, _| {
            let (x, y) = (names_and_kinds(self.model.x()), names_and_kinds(self.model.y()));
            let table = scoring_pairs(frame, &x, &y, missing, "x and y")?;
            let ratios = self.model.log_ratios(&table.x, &table.y, engine)?;
            let notes = self.model.unknown_categories(&table.x, &table.y);
            let notes: Vec<String> =
                notes.iter().map(|note| note.render(&KeywordArguments)).collect();
            Ok((at_input_rows(&ratios, &table.kept, table.input_rows), notes))
        })?;
        Ok((PyArray1::from_vec(py, ratios), notes))
    }

    /// Writes a file, which `fdime apply` of the command line also reads.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        call_library(|| self.model.save(&path))
    }

    /// Reads a file that `save` wrote.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        call_library(|| SavedModel::load(&path)).map(|model| Model { model })
    }

    /// Reads what `__reduce__` returned.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        call_library(|| SavedModel::from_bytes(data, "pickle")).map(|model| Model { model })
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = call_library(|| slf.get().model.to_bytes())?;
        Ok((slf.getattr("from_bytes")?, (PyBytes::new(slf.py(), &bytes),)))
    }
}
