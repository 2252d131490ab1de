//! Columns from Python's arrays and from other libraries' memory.

use crate::failure::{caught, exception, guarded};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, make_array};
use fdime::data::{Column, Frame, MISSING, Values, read_batches};
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

/// Numbers with NaN for missing ones.
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

/// The array, or a copy of one that does not lie as its type demands, such as a field of a packed
/// record or a part of a message: Rust may not look at such memory.
pub fn readable<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Ok(untyped) = array.cast::<PyUntypedArray>() else { return Ok(array.clone()) };
    let size = untyped.dtype().itemsize().max(1) as isize;
    let stepped = untyped.strides().iter().all(|stride| stride % size == 0);
    let aligned = array.getattr("flags")?.getattr("aligned")?.extract::<bool>()?;
    if stepped && aligned { Ok(array.clone()) } else { array.call_method0("copy") }
}

/// One column: an array of float64 or float32, or (codes, labels) with -1 for a missing value.
fn column(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Column> {
    let values = &readable(values)?;
    if let Ok(array) = values.extract::<PyReadonlyArray1<f64>>() {
        return continuous(name, array.as_array());
    }
    if let Ok(array) = values.extract::<PyReadonlyArray1<f32>>() {
        return continuous(name, array.as_array());
    }
    let (codes, labels): (Bound<'_, PyAny>, Vec<String>) = values.extract()?;
    let codes: PyReadonlyArray1<i64> = readable(&codes)?.extract()?;
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

/// The columns of a matrix, whatever its strides.
fn columns<T: numpy::Element + Copy + Into<f64>>(
    names: &[String],
    matrix: &PyReadonlyArray2<T>,
) -> PyResult<Vec<Column>> {
    let matrix = matrix.as_array();
    same_count(names.len(), matrix.ncols())?;
    names.iter().zip(matrix.columns()).map(|(name, column)| continuous(name, column)).collect()
}

fn same_count(names: usize, columns: usize) -> PyResult<()> {
    match names == columns {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("{names} names for {columns} columns"))),
    }
}

/// The columns of another library's table, read where they lie.
fn arrow_frame(source: &Bound<'_, PyAny>) -> PyResult<Frame> {
    const NAME: &str = "the Arrow table";
    let not_a_table =
        |error: &dyn std::fmt::Display| PyTypeError::new_err(format!("not a table: {error}"));
    if source.hasattr("__arrow_c_stream__")? {
        let capsule = source.call_method0("__arrow_c_stream__")?;
        let pointer = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: the interface says that a capsule of this name holds a valid stream, which its
        // consumer may move out; from_raw leaves a released one behind.
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
    fn of(columns: Vec<Column>) -> PyResult<Self> {
        let frame = Frame::new(columns).map_err(exception)?;
        Ok(Table { frame: Arc::new(frame) })
    }
}

#[pymethods]
impl Table {
    /// From one-dimensional columns: see `column`.
    #[new]
    fn new(names: Vec<String>, columns: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        same_count(names.len(), columns.len())?;
        caught(|| {
            let columns = names.iter().zip(&columns).map(|(name, values)| column(name, values));
            Self::of(columns.collect::<PyResult<_>>()?)
        })
    }

    /// From the columns of a matrix of float64 or float32, whatever its strides.
    #[staticmethod]
    fn from_matrix(names: Vec<String>, matrix: &Bound<'_, PyAny>) -> PyResult<Self> {
        caught(|| {
            let matrix = readable(matrix)?;
            Self::of(match matrix.extract::<PyReadonlyArray2<f64>>() {
                Ok(matrix) => columns(&names, &matrix)?,
                Err(_) => columns(&names, &matrix.extract::<PyReadonlyArray2<f32>>()?)?,
            })
        })
    }

    /// From anything with the Arrow PyCapsule interface.
    #[staticmethod]
    fn from_arrow(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        caught(|| Ok(Table { frame: Arc::new(arrow_frame(source)?) }))
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

    /// Whether each column holds categories.
    #[getter]
    fn discrete(&self) -> Vec<bool> {
        let columns = self.frame.columns.iter();
        columns.map(|column| matches!(column.values, Values::Discrete { .. })).collect()
    }

    /// Whether each column has the same value in every row that has one.
    #[getter]
    fn constant(&self) -> Vec<bool> {
        self.frame.columns.iter().map(Column::is_constant).collect()
    }

    /// How many values each column lacks.
    #[getter]
    fn missing(&self) -> Vec<usize> {
        let lacks =
            |column: &Column| (0..column.len()).filter(|&row| column.is_missing(row)).count();
        self.frame.columns.iter().map(lacks).collect()
    }

    /// Whether each column has whole numbers, at most so many different ones.
    fn few_whole_numbers(&self, most: usize) -> Vec<bool> {
        self.frame.columns.iter().map(|column| column.is_few_whole_numbers(most)).collect()
    }

    /// Refuses missing values.
    fn check_complete(&self) -> PyResult<()> {
        guarded(|| self.frame.check_complete("the table"))
    }

    /// What differs for other columns.
    #[getter]
    fn fingerprint(&self) -> String {
        self.frame.fingerprint()
    }

    /// Some of the columns, in this order.
    fn select(&self, positions: Vec<usize>) -> PyResult<Self> {
        let pick = |position: usize| {
            let column = self.frame.columns.get(position).cloned();
            column.ok_or_else(|| PyValueError::new_err(format!("there is no column {position}")))
        };
        Self::of(positions.into_iter().map(pick).collect::<PyResult<_>>()?)
    }

    /// The same with the columns of these selectors as categories or as numbers.
    fn typed(&self, discrete: Vec<String>, numeric: Vec<String>) -> PyResult<Self> {
        let [discrete, numeric] = [&discrete, &numeric]
            .map(|selectors| selectors.iter().map(String::as_str).collect::<Vec<_>>());
        let frame = Frame::clone(&self.frame);
        let frame = guarded(|| frame.typed(&discrete, &numeric, "the table"))?;
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

/// What a capsule of the Arrow interface points to.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}
