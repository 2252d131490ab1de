//! Building blocks for researchers: divergences, objectives, scenarios.

use crate::background::run_in_background;
use crate::failure::{call_library, catch_panic, exception};
use crate::table::aligned;
use fdime::data::{Column, Values};
use fdime::estimate::Progress;
use fdime::names::Entry;
use fdime::objective::{Cost, Objective as LibraryObjective, value_and_gradient};
use fdime::random::{Purpose, stream};
use fdime::scores::{PairCounts, ScoreBlock, Scores};
use fdime::{
    AnyEstimator, AnyTask, Divergence as LibraryDivergence, Error, Estimator, Level, Message,
    PairSource, Pairing, Parameter, Scenario as LibraryScenario, ScenarioPlan, suite_named,
    tasks_named,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// An f-divergence.
#[pyclass(frozen, module = "fdime._native")]
pub struct Divergence {
    divergence: LibraryDivergence,
}

impl Divergence {
    /// Applies a function of the divergence to each value.
    fn map<'py>(
        &self,
        values: &Bound<'py, PyAny>,
        function: impl Fn(&LibraryDivergence, f64) -> f64,
    ) -> NewArray<'py> {
        catch_panic(|| {
            let array: PyReadonlyArray1<f64> = aligned(values)?.extract()?;
            let mapped = array.as_array().iter().map(|v| function(&self.divergence, *v)).collect();
            Ok(PyArray1::from_vec(values.py(), mapped))
        })
    }
}

type NewArray<'py> = PyResult<Bound<'py, PyArray1<f64>>>;

#[pymethods]
impl Divergence {
    /// Creates a divergence by its name, or by `f:` and an expression in u.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        Ok(Divergence { divergence: call_library(|| name.parse())? })
    }

    #[getter]
    fn name(&self) -> String {
        self.divergence.to_string()
    }

    #[getter]
    fn title(&self) -> &'static str {
        self.divergence.title()
    }

    #[getter]
    fn formula(&self) -> String {
        self.divergence.formula()
    }

    /// What the user should know about f, if there is anything.
    #[getter]
    fn notice(&self) -> Option<String> {
        Estimator::f_dime(self.divergence.clone()).notice()
    }

    fn f<'py>(&self, u: &Bound<'py, PyAny>) -> NewArray<'py> {
        self.map(u, LibraryDivergence::f)
    }

    fn a<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewArray<'py> {
        self.map(log_ratio, LibraryDivergence::a)
    }

    fn b<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewArray<'py> {
        self.map(log_ratio, LibraryDivergence::b)
    }

    fn a_slope<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewArray<'py> {
        self.map(log_ratio, LibraryDivergence::a_slope)
    }

    fn b_slope<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewArray<'py> {
        self.map(log_ratio, LibraryDivergence::b_slope)
    }
}

/// The objective of a critic, with its state over batches (MINE's moving average).
#[pyclass(frozen, module = "fdime._native")]
pub struct Objective {
    estimator: Estimator,
    state: Mutex<Option<(PairCounts, Box<dyn LibraryObjective>)>>,
}

/// Reads the scores of all pairs as a square matrix, or those of joint and of marginal pairs.
fn read_scores(
    joint: &Bound<'_, PyAny>,
    marginal: Option<&Bound<'_, PyAny>>,
) -> PyResult<ScoreBlock> {
    let Some(marginal) = marginal else {
        let matrix: PyReadonlyArray2<f32> = aligned(joint)?.extract()?;
        let matrix = matrix.as_array();
        let n = matrix.nrows();
        if n < 2 || matrix.ncols() != n {
            let problem = "the scores of all pairs must be a square matrix with at least 2 rows";
            return Err(PyValueError::new_err(problem));
        }
        return Ok(ScoreBlock::AllPairs { first: 0, n, matrix: matrix.iter().copied().collect() });
    };
    let (joint, marginal): (PyReadonlyArray1<f32>, PyReadonlyArray1<f32>) =
        (aligned(joint)?.extract()?, aligned(marginal)?.extract()?);
    let (joint, marginal) = (joint.as_array().to_vec(), marginal.as_array().to_vec());
    if joint.is_empty() || marginal.is_empty() {
        return Err(PyValueError::new_err("there are no scores"));
    }
    Ok(ScoreBlock::Paired { first: 0, joint, marginal })
}

fn check_pairing(estimator: &Estimator, scores: &ScoreBlock) -> PyResult<()> {
    let pairing = match scores {
        ScoreBlock::AllPairs { .. } => Pairing::AllPairs,
        ScoreBlock::Paired { .. } => Pairing::Derangement,
    };
    call_library(|| estimator.check_pairing(pairing))
}

impl Objective {
    /// Returns the error for a batch of another size than those before.
    fn other_batch_size(&self, known: PairCounts, counts: PairCounts) -> Error {
        let PairCounts { joint, marginal } = known;
        let reason =
            format!("it remembers batches of {joint} + {marginal}; make another for other sizes");
        Error::Incompatible {
            parameter: Parameter::Estimator,
            value: self.estimator.name().into(),
            other: Message::from(format!("{} + {} scores", counts.joint, counts.marginal)),
            reason: reason.into(),
        }
    }

    /// Returns whether the gradient depends on past batches.
    fn has_memory(&self) -> bool {
        *self.estimator.cost() == Cost::MovingAverage
    }
}

#[pymethods]
impl Objective {
    #[new]
    #[pyo3(signature = (estimator, link=None, readout=None))]
    fn new(estimator: &str, link: Option<&str>, readout: Option<&str>) -> PyResult<Self> {
        let estimator = call_library(|| {
            let AnyEstimator::Critic(mut estimator) = estimator.parse()? else {
                let expected = "give an estimator that trains a critic, e.g. gan-dime".into();
                let (parameter, value) = (Parameter::Estimator, estimator.to_string());
                return Err(Error::InvalidParameter { parameter, value, expected });
            };
            if let Some(link) = link {
                estimator = estimator.with_link(link.parse()?);
            }
            if let Some(readout) = readout {
                estimator = estimator.with_readout(readout.parse()?);
            }
            Ok(estimator)
        })?;
        Ok(Objective { estimator, state: Mutex::new(None) })
    }

    #[getter]
    fn name(&self) -> String {
        self.estimator.name().to_string()
    }

    /// The objective by name: `f:` and a divergence, `moving-average`, `clipped-TAU`,
    /// `info-nce` or `symmetric-info-nce`.
    #[getter]
    fn cost(&self) -> String {
        match self.estimator.cost() {
            Cost::FDivergence(divergence) => format!("f:{divergence}"),
            Cost::MovingAverage => "moving-average".into(),
            Cost::Clipped { tau } => format!("clipped-{tau}"),
            Cost::InfoNce => "info-nce".into(),
            Cost::SymmetricInfoNce => "symmetric-info-nce".into(),
        }
    }

    #[getter]
    fn link(&self) -> &'static str {
        self.estimator.link().name()
    }

    #[getter]
    fn readout(&self) -> String {
        self.estimator.readout().to_string()
    }

    /// Returns the value, and the gradient in the shape of the scores.
    #[pyo3(signature = (joint, marginal=None))]
    fn value_and_gradient<'py>(
        &self,
        py: Python<'py>,
        joint: &Bound<'py, PyAny>,
        marginal: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(f64, Vec<Bound<'py, PyAny>>)> {
        let scores = catch_panic(|| read_scores(joint, marginal))?;
        check_pairing(&self.estimator, &scores)?;
        let counts = Scores(std::slice::from_ref(&scores)).counts();
        let mut state = self.state.lock().unwrap_or_else(|error| error.into_inner());
        let (value, gradient) = call_library(|| {
            if let Some((known, _)) = &*state
                && *known != counts
                && self.has_memory()
            {
                return Err(self.other_batch_size(*known, counts));
            }
            let same_size = state.take().filter(|(known, _)| *known == counts);
            let new = || (counts, self.estimator.objective(counts));
            let (_, objective) = state.insert(same_size.unwrap_or_else(new));
            Ok(value_and_gradient(&mut **objective, &scores))
        })?;
        let gradients = match gradient {
            ScoreBlock::AllPairs { n, matrix, .. } => {
                vec![PyArray1::from_vec(py, matrix).reshape([n, n])?.into_any()]
            }
            ScoreBlock::Paired { joint, marginal, .. } => {
                [joint, marginal].map(|part| PyArray1::from_vec(py, part).into_any()).into()
            }
        };
        Ok((value, gradients))
    }

    /// Returns the mutual information that the readout computes from scores.
    #[pyo3(signature = (joint, marginal=None))]
    fn mutual_information(
        &self,
        joint: &Bound<'_, PyAny>,
        marginal: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        let scores = catch_panic(|| read_scores(joint, marginal))?;
        check_pairing(&self.estimator, &scores)?;
        call_library(|| Ok(self.estimator.mutual_information(Scores(&[scores])).0))
    }
}

/// A distribution with known mutual information.
#[pyclass(frozen, module = "fdime._native")]
pub struct Scenario {
    scenario: LibraryScenario,
}

type Sample<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Scenario {
    #[new]
    fn new(name: &str, dim: usize, level: &str) -> PyResult<Self> {
        let scenario = || ScenarioPlan::new(name, dim)?.at(level.parse::<Level>()?);
        Ok(Scenario { scenario: call_library(scenario)? })
    }

    #[getter]
    fn mutual_information(&self) -> f64 {
        self.scenario.mutual_information().0
    }

    #[getter]
    fn dims(&self) -> (usize, usize) {
        self.scenario.dims()
    }

    /// Draws rows. Returns x, y and the exact log ratio of each row.
    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Sample<'py>> {
        let (x_dim, y_dim) = self.scenario.dims();
        let reserve = |dim: usize| {
            let mut values = Vec::new();
            let reserved = n.checked_mul(dim).map(|count| values.try_reserve_exact(count));
            match reserved {
                Some(Ok(())) => Ok(values),
                _ => Err(PyMemoryError::new_err(format!(
                    "n={n}: not enough memory for so many rows"
                ))),
            }
        };
        let (mut x, mut y, mut ratios) = (reserve(x_dim)?, reserve(y_dim)?, reserve(1)?);
        let (x, y, ratios) = run_in_background(py, None, |progress| {
            let mut rng = stream(seed, Purpose::Data, 0, 0);
            let (mut x_row, mut y_row) = (Vec::new(), Vec::new());
            for _ in 0..n {
                if progress.advance(1).is_break() {
                    return Err(Error::Interrupted);
                }
                ratios.push(self.scenario.draw(&mut rng, &mut x_row, &mut y_row));
                x.extend_from_slice(&x_row);
                y.extend_from_slice(&y_row);
            }
            Ok((x, y, ratios))
        })?;
        let table = |values: Vec<f64>, dim| PyArray1::from_vec(py, values).reshape([n, dim]);
        Ok((table(x, x_dim)?, table(y, y_dim)?, PyArray1::from_vec(py, ratios)))
    }
}

/// Returns the name, scenario, dimension and level of the tasks of a suite.
#[pyfunction]
pub fn suite(name: &str) -> PyResult<Vec<(String, String, usize, String)>> {
    let tasks = suite_named(name).map_err(exception)?;
    Ok(tasks
        .into_iter()
        .map(|task| (task.name, task.plan.name.to_string(), task.plan.dim, task.level.to_string()))
        .collect())
}

/// A task with known conditional information, of the suites `conditional` and `transfer`.
#[pyclass(frozen, module = "fdime._native")]
pub struct ConditionalTask {
    task: AnyTask,
}

#[pymethods]
impl ConditionalTask {
    #[new]
    fn new(suite: &str, name: &str) -> PyResult<Self> {
        let found = conditional_tasks(suite)?.into_iter().find(|task| task.name() == name);
        let unknown = || {
            PyValueError::new_err(format!(
                "name='{name}': there is no such task in suite '{suite}'; \
                 conditional_benchmark('{suite}') lists them"
            ))
        };
        Ok(ConditionalTask { task: found.ok_or_else(unknown)? })
    }

    #[getter]
    fn is_series(&self) -> bool {
        self.task.is_series()
    }

    /// Returns the exact information between x and y given the third.
    #[getter]
    fn information(&self, py: Python<'_>) -> PyResult<f64> {
        run_in_background(py, None, |_| Ok(self.task.information()?.0))
    }

    /// Draws rows. Returns x, y and what is given.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
    ) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        call_library(|| self.task.check_rows(n))?;
        let sides = run_in_background(py, None, |_| {
            self.task.columns(&mut stream(seed, Purpose::Data, 0, 0), n)
        })?;
        let table = |columns: Vec<Column>| {
            let values = columns.iter().filter_map(|column| match &column.values {
                Values::Continuous(values) => Some(values.clone()),
                Values::Discrete { .. } => None,
            });
            let columns: Vec<Vec<f64>> = values.collect();
            let rows: Vec<Vec<f64>> =
                (0..n).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
            Ok(PyArray2::from_vec2(py, &rows)?)
        };
        sides.into_iter().map(table).collect()
    }
}

fn conditional_tasks(suite: &str) -> PyResult<Vec<AnyTask>> {
    match suite {
        "conditional" | "transfer" => tasks_named(suite).map_err(exception),
        _ => {
            let expected = "the suites of conditional tasks are conditional and transfer";
            Err(PyValueError::new_err(format!("suite='{suite}': {expected}")))
        }
    }
}

/// Returns the names of the tasks of a suite of conditional tasks.
#[pyfunction]
pub fn conditional_suite(name: &str) -> PyResult<Vec<String>> {
    Ok(conditional_tasks(name)?.iter().map(|task| task.name().to_string()).collect())
}

/// Returns every name that a user can write, with a description, by kind.
#[pyfunction]
pub fn names() -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let described = |entry: Entry| match entry.formula {
        Some(formula) => (entry.name, format!("{}: f(u) = {formula}", entry.description)),
        None => (entry.name, entry.description.into()),
    };
    let sections = fdime::names::sections().into_iter();
    sections.map(|s| (s.title, s.entries.into_iter().map(described).collect())).collect()
}
