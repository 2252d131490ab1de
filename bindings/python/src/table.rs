//! Columns from arrays and from the Arrow tables of other libraries.

use crate::failure::{call_library, catch_panic, exception};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, make_array};
use fdime::Parameter;
use fdime::data::{Column, Frame, MISSING, Values, read_batches, select};
use numpy::ndarray::ArrayView1;
use numpy::{
    PyArray1, PyArrayDescrMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::sync::Arc;

/// Columns of equal length, numbers or categories.
#[pyclass(frozen, module = "fdime._native")]
pub struct Table {
    pub(crate) frame: Arc<Frame>,
}

/// Returns texts as times, if all are dates, or dates with times, as the readers of files do.
#[pyfunction]
pub fn parse_times(py: Python<'_>, labels: Vec<String>) -> Option<Bound<'_, PyArray1<f64>>> {
    fdime::data::parse_times(&labels).map(|times| PyArray1::from_vec(py, times))
}

/// Returns a column of numbers; NaN is a missing value. An infinite value is an error.
fn continuous<T: Copy + Into<f64>>(name: &str, values: ArrayView1<T>) -> PyResult<Column> {
    let values: Vec<f64> = values.iter().map(|value| (*value).into()).collect();
    if let Some(row) = values.iter().position(|value| value.is_infinite()) {
        return Err(PyValueError::new_err(format!(
            "column '{name}' has an infinite value in row {}; remove it",
            row + 1
        )));
    }
    Ok(Column { name: name.into(), values: Values::Continuous(values) })
}

/// Returns the array, or a copy if its memory is not aligned for its type, such as a field of a packed
/// record: Rust must not read such memory.
pub fn aligned<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Ok(untyped) = array.cast::<PyUntypedArray>() else { return Ok(array.clone()) };
    let size = untyped.dtype().itemsize().max(1) as isize;
    let whole_steps = untyped.strides().iter().all(|stride| stride % size == 0);
    let is_aligned = array.getattr("flags")?.getattr("aligned")?.extract::<bool>()?;
    if whole_steps && is_aligned { Ok(array.clone()) } else { array.call_method0("copy") }
}

/// Reads a column: an array of float64 or float32, or (codes, labels) with -1 for a missing value.
fn read_column(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Column> {
    let values = &aligned(values)?;
    if let Ok(array) = values.extract::<PyReadonlyArray1<f64>>() {
        return continuous(name, array.as_array());
    }
    if let Ok(array) = values.extract::<PyReadonlyArray1<f32>>() {
        return continuous(name, array.as_array());
    }
    let (codes, labels): (Bound<'_, PyAny>, Vec<String>) = values.extract()?;
    let codes: PyReadonlyArray1<i64> = aligned(&codes)?.extract()?;
    let code = |code: &i64| match usize::try_from(*code) {
        Ok(code) if code < labels.len() => Ok(code as u32),
        Ok(code) => {
            Err(PyValueError::new_err(format!("column '{name}': there is no label {code}")))
        }
        Err(_) => Ok(MISSING),
    };
    let codes = codes.as_array().iter().map(code).collect::<PyResult<_>>()?;
    Ok(Column { name: name.into(), values: Values::Discrete { codes, labels } })
}

/// Reads the columns of a matrix with any strides.
fn read_columns<T: numpy::Element + Copy + Into<f64>>(
    names: &[String],
    matrix: &PyReadonlyArray2<T>,
) -> PyResult<Vec<Column>> {
    let matrix = matrix.as_array();
    check_count(names.len(), matrix.ncols())?;
    names.iter().zip(matrix.columns()).map(|(name, column)| continuous(name, column)).collect()
}

/// Returns an error unless there are as many names as columns.
fn check_count(names: usize, columns: usize) -> PyResult<()> {
    match names == columns {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("{names} names for {columns} columns"))),
    }
}

/// Reads the columns of another library's table without a copy in between.
fn arrow_frame(source: &Bound<'_, PyAny>) -> PyResult<Frame> {
    const NAME: &str = "the Arrow table";
    let not_a_table =
        |error: &dyn std::fmt::Display| PyTypeError::new_err(format!("not a table: {error}"));
    if source.hasattr("__arrow_c_stream__")? {
        let capsule = source.call_method0("__arrow_c_stream__")?;
        let pointer = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: by the Arrow interface, a capsule of this name holds a valid stream that its
        // consumer may move out; from_raw leaves a released one in its place.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer) };
        let reader =
            RecordBatchStreamReader::try_new(stream).map_err(|error| not_a_table(&error))?;
        return read_batches(reader, NAME).map_err(exception);
    }
    let capsules = source.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
    let schema = pointer::<FFI_ArrowSchema>(&capsules.get_item(0)?, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&capsules.get_item(1)?, c"arrow_array")?;
    // SAFETY: as above; both are moved out of their capsules together.
    let data =
        unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &FFI_ArrowSchema::from_raw(schema)) };
    let array = make_array(data.map_err(|error| not_a_table(&error))?);
    let Some(columns) = array.as_struct_opt() else {
        return Err(not_a_table(&"it is a single array"));
    };
    let batch = RecordBatch::from(columns);
    let schema = batch.schema();
    read_batches(RecordBatchIterator::new([Ok(batch)], schema), NAME).map_err(exception)
}

impl Table {
    fn from_columns(columns: Vec<Column>) -> PyResult<Self> {
        let frame = Frame::new(columns).map_err(exception)?;
        Ok(Table { frame: Arc::new(frame) })
    }
}

#[pymethods]
impl Table {
    /// Creates a table from one-dimensional columns: see `read_column`.
    #[new]
    fn new(names: Vec<String>, columns: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        check_count(names.len(), columns.len())?;
        catch_panic(|| {
            let columns =
                names.iter().zip(&columns).map(|(name, values)| read_column(name, values));
            Self::from_columns(columns.collect::<PyResult<_>>()?)
        })
    }

    /// Creates a table from the columns of a matrix of float64 or float32 with any strides.
    #[staticmethod]
    fn from_matrix(names: Vec<String>, matrix: &Bound<'_, PyAny>) -> PyResult<Self> {
        catch_panic(|| {
            let matrix = aligned(matrix)?;
            Self::from_columns(match matrix.extract::<PyReadonlyArray2<f64>>() {
                Ok(matrix) => read_columns(&names, &matrix)?,
                Err(_) => read_columns(&names, &matrix.extract::<PyReadonlyArray2<f32>>()?)?,
            })
        })
    }

    /// Creates a table from an object with the Arrow PyCapsule interface.
    #[staticmethod]
    fn from_arrow(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        catch_panic(|| Ok(Table { frame: Arc::new(arrow_frame(source)?) }))
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.frame.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The number of rows.
    #[getter]
    fn rows(&self) -> usize {
        self.frame.rows
    }

    /// Whether each column is discrete.
    #[getter]
    fn discrete(&self) -> Vec<bool> {
        let columns = self.frame.columns.iter();
        columns.map(|column| matches!(column.values, Values::Discrete { .. })).collect()
    }

    /// Whether all present values of each column are equal.
    #[getter]
    fn constant(&self) -> Vec<bool> {
        self.frame.columns.iter().map(Column::is_constant).collect()
    }

    /// The number of missing values of each column.
    #[getter]
    fn missing(&self) -> Vec<usize> {
        let count =
            |column: &Column| (0..column.len()).filter(|&row| column.is_missing(row)).count();
        self.frame.columns.iter().map(count).collect()
    }

    /// Returns whether each column has only whole numbers, at most `max` of them different.
    fn few_whole_numbers(&self, max: usize) -> Vec<bool> {
        self.frame.columns.iter().map(|column| column.is_few_whole_numbers(max)).collect()
    }

    /// Returns an error if a value is missing.
    fn check_complete(&self) -> PyResult<()> {
        call_library(|| self.frame.check_complete("the table"))
    }

    /// The number of rows and a hash of names and values.
    #[getter]
    fn fingerprint(&self) -> String {
        self.frame.fingerprint()
    }

    /// Returns the positions of the columns that a selector of the `columns` or `groups` argument
    /// names, as on the command line.
    fn positions(&self, selector: &str, argument: &str) -> PyResult<Vec<usize>> {
        let parameter = match argument {
            "groups" => Parameter::Groups,
            _ => Parameter::Columns,
        };
        call_library(|| select(&self.names(), selector, parameter))
    }

    /// Returns a table of the columns at these positions, in this order.
    fn select(&self, positions: Vec<usize>) -> PyResult<Self> {
        let pick = |position: usize| {
            let column = self.frame.columns.get(position).cloned();
            column.ok_or_else(|| PyValueError::new_err(format!("there is no column {position}")))
        };
        Self::from_columns(positions.into_iter().map(pick).collect::<PyResult<_>>()?)
    }

    /// Returns a table of these columns followed by those of another table.
    fn beside(&self, other: &Bound<'_, Self>) -> PyResult<Self> {
        let columns = self.frame.columns.iter().chain(&other.get().frame.columns);
        Self::from_columns(columns.cloned().collect())
    }

    /// Returns a table with the columns of these selectors converted to categories or to numbers.
    fn typed(&self, discrete: Vec<String>, numeric: Vec<String>) -> PyResult<Self> {
        let [discrete, numeric] = [&discrete, &numeric]
            .map(|selectors| selectors.iter().map(String::as_str).collect::<Vec<_>>());
        let frame = Frame::clone(&self.frame);
        let frame = call_library(|| frame.typed(&discrete, &numeric, "the table"))?;
        Ok(Table { frame: Arc::new(frame) })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let py = slf.py();
        let columns = slf.get().frame.columns.iter().map(|column| {
            Ok(match &column.values {
                Values::Continuous(values) => PyArray1::from_slice(py, values).into_any(),
                Values::Discrete { codes, labels } => {
                    let code = |code: &u32| if *code == MISSING { -1 } else { i64::from(*code) };
                    let codes = PyArray1::from_vec(py, codes.iter().map(code).collect());
                    (codes, labels.clone()).into_pyobject(py)?.into_any()
                }
            })
        });
        let columns = columns.collect::<PyResult<_>>()?;
        Ok((slf.get_type().into_any(), (slf.get().names(), columns)))
    }
}

type Parts<'py> = (Vec<String>, Vec<Bound<'py, PyAny>>);

/// Returns the pointer in a capsule of the Arrow interface.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}
