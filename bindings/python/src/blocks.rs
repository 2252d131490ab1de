//! Building blocks for researchers: divergences, objectives, scenarios.

use crate::failure::{caught, exception, guarded};
use crate::table::readable;
use crate::watch::watched;
use fdime::estimate::Progress;
use fdime::names::Entry;
use fdime::objective::{Cost, Objective as Maximised, value_and_gradient};
use fdime::random::{Purpose, stream};
use fdime::scores::{PairCounts, ScoreBlock, Scores};
use fdime::{
    Divergence as Generator, Estimator, Level, PairSource, Pairing, Scenario as Distribution,
    ScenarioPlan, bmi_suite,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// An f-divergence.
#[pyclass(frozen, module = "fdime._native")]
pub struct Divergence {
    generator: Generator,
}

impl Divergence {
    fn map<'py>(
        &self,
        values: &Bound<'py, PyAny>,
        function: impl Fn(&Generator, f64) -> f64,
    ) -> NewNumbers<'py> {
        caught(|| {
            let array: PyReadonlyArray1<f64> = readable(values)?.extract()?;
            let mapped = array.as_array().iter().map(|v| function(&self.generator, *v)).collect();
            Ok(PyArray1::from_vec(values.py(), mapped))
        })
    }
}

type NewNumbers<'py> = PyResult<Bound<'py, PyArray1<f64>>>;

#[pymethods]
impl Divergence {
    /// By its name, or `f:` and an expression in u.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        Ok(Divergence { generator: guarded(|| name.parse())? })
    }

    #[getter]
    fn name(&self) -> String {
        self.generator.to_string()
    }

    #[getter]
    fn title(&self) -> &'static str {
        self.generator.title()
    }

    #[getter]
    fn formula(&self) -> String {
        self.generator.formula()
    }

    /// What was changed about f, if anything.
    #[getter]
    fn notice(&self) -> Option<String> {
        Estimator::f_dime(self.generator.clone()).notice()
    }

    fn f<'py>(&self, u: &Bound<'py, PyAny>) -> NewNumbers<'py> {
        self.map(u, Generator::f)
    }

    fn a<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewNumbers<'py> {
        self.map(log_ratio, Generator::a)
    }

    fn b<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewNumbers<'py> {
        self.map(log_ratio, Generator::b)
    }

    fn a_slope<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewNumbers<'py> {
        self.map(log_ratio, Generator::a_slope)
    }

    fn b_slope<'py>(&self, log_ratio: &Bound<'py, PyAny>) -> NewNumbers<'py> {
        self.map(log_ratio, Generator::b_slope)
    }
}

/// What a critic is trained to maximise, with its memory of past batches (MINE's moving average).
#[pyclass(frozen, module = "fdime._native")]
pub struct Objective {
    estimator: Estimator,
    state: Mutex<Option<(PairCounts, Box<dyn Maximised>)>>,
}

/// Scores of all pairs as a square matrix, or of joint and marginal pairs.
fn scores(joint: &Bound<'_, PyAny>, marginal: Option<&Bound<'_, PyAny>>) -> PyResult<ScoreBlock> {
    let Some(marginal) = marginal else {
        let matrix: PyReadonlyArray2<f32> = readable(joint)?.extract()?;
        let matrix = matrix.as_array();
        let n = matrix.nrows();
        if n < 2 || matrix.ncols() != n {
            let problem = "scores of all pairs are a square matrix of at least 2 rows";
            return Err(PyValueError::new_err(problem));
        }
        return Ok(ScoreBlock::AllPairs { first: 0, n, matrix: matrix.iter().copied().collect() });
    };
    let (joint, marginal): (PyReadonlyArray1<f32>, PyReadonlyArray1<f32>) =
        (readable(joint)?.extract()?, readable(marginal)?.extract()?);
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
    guarded(|| estimator.check_pairing(pairing))
}

impl Objective {
    /// Whether past batches count.
    fn remembers(&self) -> bool {
        *self.estimator.cost() == Cost::MovingAverage
    }
}

#[pymethods]
impl Objective {
    #[new]
    #[pyo3(signature = (estimator, link=None, readout=None))]
    fn new(estimator: &str, link: Option<&str>, readout: Option<&str>) -> PyResult<Self> {
        let estimator = guarded(|| {
            let mut estimator: Estimator = estimator.parse()?;
            if let Some(link) = link {
                estimator = estimator.with_link(link.parse()?);
            }
            if let Some(readout) = readout {
                estimator = estimator.with_readout(readout.parse()?);
            }
            // NJEE has classifiers in place of a critic, and says so here.
            estimator.objective(PairCounts { joint: 1, marginal: 1 })?;
            Ok(estimator)
        })?;
        Ok(Objective { estimator, state: Mutex::new(None) })
    }

    #[getter]
    fn name(&self) -> String {
        self.estimator.name().to_string()
    }

    /// What is maximised: `f:` and a divergence, `moving-average`, `clipped-TAU` or `info-nce`.
    #[getter]
    fn cost(&self) -> String {
        match self.estimator.cost() {
            Cost::FDivergence(divergence) => format!("f:{divergence}"),
            Cost::MovingAverage => "moving-average".into(),
            Cost::Clipped { tau } => format!("clipped-{tau}"),
            Cost::InfoNce => "info-nce".into(),
            Cost::Classifiers => "classifiers".into(),
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

    /// Value and gradient, in the shape of the scores.
    #[pyo3(signature = (joint, marginal=None))]
    fn value_and_gradient<'py>(
        &self,
        py: Python<'py>,
        joint: &Bound<'py, PyAny>,
        marginal: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(f64, Vec<Bound<'py, PyAny>>)> {
        let scores = caught(|| scores(joint, marginal))?;
        check_pairing(&self.estimator, &scores)?;
        let counts = Scores(std::slice::from_ref(&scores)).counts();
        let mut state = self.state.lock().unwrap_or_else(|error| error.into_inner());
        let (value, gradient) = guarded(|| {
            let known = state.as_ref().map(|(known, _)| *known);
            if let Some(known) = known.filter(|k| *k != counts && self.remembers()) {
                return Err(fdime::Error::Incompatible {
                    parameter: fdime::Parameter::Estimator,
                    value: self.estimator.name().into(),
                    other: format!("{} + {} scores", counts.joint, counts.marginal).into(),
                    reason: format!(
                        "it remembers batches of {} + {}; make another for other sizes",
                        known.joint, known.marginal
                    )
                    .into(),
                });
            }
            if known != Some(counts) {
                *state = Some((counts, self.estimator.objective(counts)?));
            }
            let Some((_, objective)) = &mut *state else { unreachable!("it was just made") };
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

    /// The mutual information read off scores.
    #[pyo3(signature = (joint, marginal=None))]
    fn mutual_information(
        &self,
        joint: &Bound<'_, PyAny>,
        marginal: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        let scores = caught(|| scores(joint, marginal))?;
        check_pairing(&self.estimator, &scores)?;
        guarded(|| Ok(self.estimator.mutual_information(Scores(&[scores])).0))
    }
}

/// A distribution with known mutual information.
#[pyclass(frozen, module = "fdime._native")]
pub struct Scenario {
    distribution: Distribution,
}

type Sample<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Scenario {
    #[new]
    fn new(name: &str, dim: usize, level: &str) -> PyResult<Self> {
        let made = || ScenarioPlan::new(name, dim)?.at(level.parse::<Level>()?);
        Ok(Scenario { distribution: guarded(made)? })
    }

    #[getter]
    fn mutual_information(&self) -> f64 {
        self.distribution.mutual_information().0
    }

    #[getter]
    fn dims(&self) -> (usize, usize) {
        self.distribution.dims()
    }

    /// x, y and the exact log ratio of every row.
    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Sample<'py>> {
        let (x_dim, y_dim) = self.distribution.dims();
        let room = |dim: usize| {
            let mut values = Vec::new();
            let reserved = n.checked_mul(dim).map(|count| values.try_reserve_exact(count));
            match reserved {
                Some(Ok(())) => Ok(values),
                _ => Err(PyMemoryError::new_err(format!("there is no room for {n} rows"))),
            }
        };
        let (mut x, mut y, mut ratios) = (room(x_dim)?, room(y_dim)?, room(1)?);
        let (x, y, ratios) = watched(py, 1, None, |watch| {
            let mut rng = stream(seed, Purpose::Data, 0, 0);
            let (mut x_row, mut y_row) = (Vec::new(), Vec::new());
            for _ in 0..n {
                if watch.advance(1).is_break() {
                    return Err(fdime::Error::Interrupted);
                }
                ratios.push(self.distribution.draw(&mut rng, &mut x_row, &mut y_row));
                x.extend_from_slice(&x_row);
                y.extend_from_slice(&y_row);
            }
            Ok((x, y, ratios))
        })?;
        let table = |values: Vec<f64>, dim| PyArray1::from_vec(py, values).reshape([n, dim]);
        Ok((table(x, x_dim)?, table(y, y_dim)?, PyArray1::from_vec(py, ratios)))
    }
}

/// Name, scenario, dimension and level of the 40 tasks of the benchmark.
#[pyfunction]
pub fn suite() -> PyResult<Vec<(String, String, usize, String)>> {
    let tasks = bmi_suite().map_err(exception)?;
    Ok(tasks
        .into_iter()
        .map(|task| (task.name, task.plan.name.to_string(), task.plan.dim, task.level.to_string()))
        .collect())
}

/// Every name that something answers to, with a description, by what it names.
#[pyfunction]
pub fn names() -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let described = |entry: Entry| match entry.formula {
        Some(formula) => (entry.name, format!("{}: f(u) = {formula}", entry.description)),
        None => (entry.name, entry.description.into()),
    };
    let sections = fdime::names::sections().into_iter();
    sections.map(|s| (s.title, s.entries.into_iter().map(described).collect())).collect()
}
