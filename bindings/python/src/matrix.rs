//! Pairs of a matrix, and the journal of those that are finished.

use crate::estimate::{ReadingOptions, X_AND_Y, side_by_side};
use crate::execution::{Execution, run_on_engine};
use crate::failure::{call_library, catch_panic, exception, parse_json, to_json};
use crate::table::Table;
use crate::wording::KeywordArguments;
use fdime::estimate::{EstimatePlan, MatrixHeading, PairEstimate, PairRecord};
use fdime::{Error, journal as library};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Estimates one pair of named groups of columns. Returns it as JSON.
#[pyfunction]
pub fn estimate_pair(
    py: Python<'_>,
    x: (String, Bound<'_, Table>),
    y: (String, Bound<'_, Table>),
    plan: &str,
    options: ReadingOptions,
    execution: Execution,
    callback: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: EstimatePlan = parse_json(plan, "plan")?;
    let reading = options.reading()?;
    let ((x_name, x), (y_name, y)) = (x, y);
    let frame = side_by_side(&x.get().frame, &y.get().frame, X_AND_Y)?;
    let places: Vec<usize> = (0..frame.columns.len()).collect();
    let (x, y) = places.split_at(x.get().frame.columns.len());
    let pair = run_on_engine(py, &execution, callback, |engine, progress| {
        let (x, y) = ((x_name.as_str(), x), (y_name.as_str(), y));
        PairEstimate::new(&frame, x, y, &plan, &reading, &KeywordArguments, engine, progress)
    })?;
    to_json(&pair)
}

/// Adjusts the p-values of all pairs, given as JSON, for their number.
#[pyfunction]
pub fn adjust_pairs(pairs: &str) -> PyResult<String> {
    catch_panic(|| {
        let mut pairs: Vec<PairEstimate> = parse_json(pairs, "pairs")?;
        PairEstimate::adjust(&mut pairs);
        to_json(&pairs)
    })
}

/// A journal of the library that Python's threads share.
pub struct SharedJournal<E> {
    /// `None` once the journal is closed.
    journal: Mutex<Option<library::Journal<E>>>,
}

impl<E: library::Entry + Send> SharedJournal<E> {
    /// Opens or creates a journal. A file that another process is writing to, or that starts with
    /// another heading, is an error.
    pub fn open(path: PathBuf, heading: &(impl Serialize + Sync)) -> PyResult<Self> {
        let opened = catch_panic(|| Ok(library::Journal::open_with_heading(&path, heading)))?;
        let refused =
            |reason: &str| PyValueError::new_err(format!("journal='{}': {reason}", path.display()));
        match opened {
            Ok(journal) => Ok(SharedJournal { journal: Mutex::new(Some(journal)) }),
            Err(Error::NotWritable { reason, .. }) => Err(refused(&reason)),
            Err(error) => Err(exception(error)),
        }
    }

    /// Returns what `read` makes of the last entry with this key; `None` if there is none.
    pub fn find<T>(&self, key: &E::Key, read: impl Fn(&E) -> PyResult<T>) -> PyResult<Option<T>> {
        let journal = self.lock();
        journal.as_ref().and_then(|journal| journal.find(key).last()).map(read).transpose()
    }

    /// Appends an entry and waits until it is on disk, without the interpreter's lock.
    pub fn append(&self, py: Python<'_>, entry: E) -> PyResult<()> {
        py.detach(|| {
            call_library(|| match self.lock().as_mut() {
                Some(journal) => journal.append(entry),
                None => Ok(()),
            })
        })
    }

    /// Closes the file.
    pub fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<library::Journal<E>>> {
        self.journal.lock().unwrap_or_else(|error| error.into_inner())
    }
}

/// The library's journal of finished pairs. The command line reads and writes the same format.
#[pyclass(frozen, module = "fdime._native")]
pub struct Journal(SharedJournal<PairRecord>);

#[pymethods]
impl Journal {
    /// Opens or creates the journal of the matrix with this heading, given as JSON. A
    /// file that another process is writing to, or that belongs to another matrix, is an error.
    #[new]
    fn new(path: PathBuf, heading: &str) -> PyResult<Self> {
        let heading: MatrixHeading = parse_json(heading, "heading")?;
        SharedJournal::open(path, &heading).map(Journal)
    }

    /// Returns the estimate of a pair as JSON; `None` if it is not finished.
    fn find(&self, pair: (usize, usize)) -> PyResult<Option<String>> {
        self.0.find(&pair, |record| to_json(&record.found))
    }

    /// Appends the estimate of a pair, given as JSON, and waits until it is on disk.
    fn append(&self, py: Python<'_>, pair: (usize, usize), estimate: &str) -> PyResult<()> {
        self.0.append(py, PairRecord { pair, found: parse_json(estimate, "estimate")? })
    }

    /// Closes the file, so that another process can open it.
    fn close(&self) {
        self.0.close();
    }
}
