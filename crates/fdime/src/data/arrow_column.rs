//! Columns from Arrow's arrays, into which both Parquet and Arrow files are decoded.

use super::frame::{Categories, Column, Frame, MISSING, Values, truth_label};
use super::guard::without_panic;
use super::integers::{exact, is_rounded, rounded_in_row};
use super::source::Checked;
use crate::error::{Result, data_error, quote};
use crate::message::Message;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

/// The columns of a schema: each of its fields, or each element of a field of lists of equal length.
pub(super) struct Layout {
    pub(super) names: Vec<String>,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    /// The position of the field.
    root: usize,
    /// The position in the lists of that field.
    element: Option<usize>,
}

impl Layout {
    pub(super) fn new(schema: &Schema) -> Self {
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (root, field) in schema.fields().iter().enumerate() {
            match field.data_type() {
                DataType::FixedSizeList(item, length) if is_number(item.data_type()) => {
                    for element in 0..usize::try_from(*length).unwrap_or(0) {
                        names.push(format!("{}{}", field.name(), element + 1));
                        places.push(Place { root, element: Some(element) });
                    }
                }
                _ => {
                    names.push(field.name().clone());
                    places.push(Place { root, element: None });
                }
            }
        }
        Layout { names, places }
    }

    /// Returns the type of a column that is neither number nor text.
    pub(super) fn unreadable(&self, schema: &Schema, index: usize) -> Option<String> {
        let Place { root, element } = self.places[index];
        let kind = schema.field(root).data_type();
        let is_readable = element.is_some() || is_number(kind) || is_discrete(kind);
        (!is_readable).then(|| match kind {
            DataType::List(_) | DataType::LargeList(_) => "list".into(),
            DataType::Struct(_) => "struct".into(),
            kind => kind.to_string(),
        })
    }
}

/// Columns to which batches of arrays are appended.
pub(super) struct ArrowColumns {
    columns: Vec<ArrowColumn>,
    places: Vec<Place>,
    /// The fields that are needed, in order and each once.
    pub(super) roots: Vec<usize>,
}

impl ArrowColumns {
    /// Creates empty columns, with capacity for `rows` values each.
    pub(super) fn new(
        schema: &Schema,
        layout: &Layout,
        wanted: &[usize],
        names: &[&str],
        rows: usize,
    ) -> Checked<Self> {
        let places: Vec<Place> = wanted.iter().map(|index| layout.places[*index]).collect();
        let mut roots: Vec<usize> = places.iter().map(|place| place.root).collect();
        roots.sort_unstable();
        roots.dedup();
        let columns = places.iter().zip(names).map(|(place, name)| {
            ArrowColumn::new(name, schema.field(place.root), place.element.is_some(), rows)
        });
        Ok(Self { columns: columns.collect::<Checked<_>>()?, places, roots })
    }

    /// Appends the arrays of the fields `roots`.
    pub(super) fn append(&mut self, arrays: &[ArrayRef]) -> Checked<()> {
        // The values of the last field of lists, which its columns have one after the other.
        let mut lists: Option<(usize, Vec<f64>)> = None;
        for (column, place) in self.columns.iter_mut().zip(&self.places) {
            let position = self.roots.partition_point(|root| *root < place.root);
            let array = arrays.get(position).ok_or("a column is missing")?;
            let Some(element) = place.element else {
                column.append(array)?;
                continue;
            };
            let list =
                array.as_fixed_size_list_opt().ok_or_else(|| changed_type(array.data_type()))?;
            if lists.as_ref().is_none_or(|(root, _)| *root != place.root) {
                let mut values = Vec::new();
                append_numbers(&mut values, list.values())?;
                lists = Some((place.root, values));
            }
            let length = list.value_length() as usize;
            let values = lists.as_ref().map_or(&[][..], |(_, values)| values);
            let numbers = (0..list.len()).map(|row| match list.is_null(row) {
                true => f64::NAN,
                false => values.get(row * length + element).copied().unwrap_or(f64::NAN),
            });
            column.extend(numbers)?;
        }
        Ok(())
    }

    /// Returns the columns.
    pub(super) fn finish(self) -> Vec<Column> {
        self.columns.into_iter().map(ArrowColumn::finish).collect()
    }
}

/// A column to which arrays are appended.
struct ArrowColumn {
    name: String,
    values: Growing,
}

enum Growing {
    Continuous(Vec<f64>),
    Discrete(Categories),
}

impl ArrowColumn {
    /// Creates an empty column for values of the field's type, or for elements of its lists, with
    /// capacity for `rows` of them.
    fn new(name: &str, field: &Field, is_element: bool, rows: usize) -> Checked<Self> {
        // A damaged file can claim any number of rows, so the initial capacity is limited.
        const MAX_CAPACITY: usize = 1 << 24;
        let values = match field.data_type() {
            kind if is_discrete(kind) => Growing::Discrete(Default::default()),
            kind if is_element || is_number(kind) => {
                Growing::Continuous(Vec::with_capacity(rows.min(MAX_CAPACITY)))
            }
            kind => {
                let name = quote(name);
                return Err(format!(
                    "column {name} is of type {kind}, which is neither number nor text; leave it \
                     out or convert it"
                )
                .into());
            }
        };
        Ok(Self { name: name.to_string(), values })
    }

    /// Appends the rows of an array.
    fn append(&mut self, array: &dyn Array) -> Checked<()> {
        let name = &self.name;
        let fault =
            |problem: Message| Message::from(format!("column {} ", quote(name))).then(problem);
        match &mut self.values {
            Growing::Continuous(values) => {
                let start = values.len();
                append_numbers(values, array).map_err(fault)?;
                self.check_finite(start)
            }
            Growing::Discrete(categories) => append_labels(categories, array).map_err(fault),
        }
    }

    fn extend(&mut self, numbers: impl Iterator<Item = f64>) -> Checked<()> {
        let Growing::Continuous(values) = &mut self.values else { return Ok(()) };
        let start = values.len();
        values.extend(numbers);
        self.check_finite(start)
    }

    /// Returns an error if a value from `start` on is infinite.
    fn check_finite(&self, start: usize) -> Checked<()> {
        let Growing::Continuous(values) = &self.values else { return Ok(()) };
        match values[start..].iter().position(|value| value.is_infinite()) {
            Some(offset) => {
                let (name, row) = (quote(&self.name), start + offset + 1);
                Err(format!("column {name} has an infinite value in row {row}; remove it").into())
            }
            None => Ok(()),
        }
    }

    /// Returns the column.
    fn finish(self) -> Column {
        let values = match self.values {
            Growing::Continuous(values) => Values::Continuous(values),
            Growing::Discrete(categories) => categories.finish(),
        };
        Column { name: self.name, values }
    }
}

/// Reads columns from another library's memory; `name` names the table in errors.
pub fn read_batches(batches: impl RecordBatchReader, name: &str) -> Result<Frame> {
    without_panic(|| decode(batches)).flatten().map_err(|problem| data_error(name, problem))
}

fn decode(batches: impl RecordBatchReader) -> Checked<Frame> {
    let schema = batches.schema();
    let layout = Layout::new(&schema);
    let all: Vec<usize> = (0..layout.names.len()).collect();
    let names: Vec<&str> = layout.names.iter().map(String::as_str).collect();
    let mut columns = ArrowColumns::new(&schema, &layout, &all, &names, 0)?;
    for batch in batches {
        columns.append(batch.map_err(|error| error.to_string())?.columns())?;
    }
    Ok(Frame::new(columns.finish())?)
}

fn is_discrete(kind: &DataType) -> bool {
    use DataType::*;
    matches!(kind, Boolean | Dictionary(..) | Utf8 | LargeUtf8 | Utf8View)
}

fn is_number(kind: &DataType) -> bool {
    use DataType::*;
    kind.is_integer()
        || kind.is_floating()
        || matches!(kind, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
        || matches!(kind, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
}

/// Appends numbers; dates and times are numbers of their units since their origin, rounded to 53
/// bits.
fn append_numbers(values: &mut Vec<f64>, array: &dyn Array) -> Checked<()> {
    use DataType::*;
    match array.data_type() {
        Float64 => append_cast::<Float64Type>(values, array, |value| value),
        Float32 => append_cast::<Float32Type>(values, array, f64::from),
        Float16 => append_cast::<Float16Type>(values, array, f64::from),
        Int8 => append_cast::<Int8Type>(values, array, f64::from),
        Int16 => append_cast::<Int16Type>(values, array, f64::from),
        Int32 => append_cast::<Int32Type>(values, array, f64::from),
        Int64 => append_integers::<Int64Type>(values, array),
        UInt8 => append_cast::<UInt8Type>(values, array, f64::from),
        UInt16 => append_cast::<UInt16Type>(values, array, f64::from),
        UInt32 => append_cast::<UInt32Type>(values, array, f64::from),
        UInt64 => append_integers::<UInt64Type>(values, array),
        Decimal32(..) => append_decimals::<Decimal32Type>(values, array),
        Decimal64(..) => append_decimals::<Decimal64Type>(values, array),
        Decimal128(..) => append_decimals::<Decimal128Type>(values, array),
        Decimal256(..) => append_decimals::<Decimal256Type>(values, array),
        Date32 => append_cast::<Date32Type>(values, array, f64::from),
        Date64 => append_cast::<Date64Type>(values, array, |value| value as f64),
        Time32(TimeUnit::Second) => append_cast::<Time32SecondType>(values, array, f64::from),
        Time32(_) => append_cast::<Time32MillisecondType>(values, array, f64::from),
        Time64(TimeUnit::Microsecond) => {
            append_cast::<Time64MicrosecondType>(values, array, |value| value as f64)
        }
        Time64(_) => append_cast::<Time64NanosecondType>(values, array, |value| value as f64),
        Timestamp(unit, _) => match unit {
            TimeUnit::Second => append_cast::<TimestampSecondType>(values, array, |v| v as f64),
            TimeUnit::Millisecond => {
                append_cast::<TimestampMillisecondType>(values, array, |v| v as f64)
            }
            TimeUnit::Microsecond => {
                append_cast::<TimestampMicrosecondType>(values, array, |v| v as f64)
            }
            TimeUnit::Nanosecond => {
                append_cast::<TimestampNanosecondType>(values, array, |v| v as f64)
            }
        },
        Duration(unit) => match unit {
            TimeUnit::Second => append_cast::<DurationSecondType>(values, array, |v| v as f64),
            TimeUnit::Millisecond => {
                append_cast::<DurationMillisecondType>(values, array, |v| v as f64)
            }
            TimeUnit::Microsecond => {
                append_cast::<DurationMicrosecondType>(values, array, |v| v as f64)
            }
            TimeUnit::Nanosecond => {
                append_cast::<DurationNanosecondType>(values, array, |v| v as f64)
            }
        },
        kind => Err(changed_type(kind)),
    }
}

fn append_cast<T: ArrowPrimitiveType>(
    values: &mut Vec<f64>,
    array: &dyn Array,
    cast: fn(T::Native) -> f64,
) -> Checked<()> {
    let array = array.as_primitive_opt::<T>().ok_or_else(|| changed_type(array.data_type()))?;
    if array.null_count() == 0 {
        values.extend(array.values().iter().map(|value| cast(*value)));
    } else {
        values.extend(array.iter().map(|value| value.map_or(f64::NAN, cast)));
    }
    Ok(())
}

/// Appends integers of 64 bits; one that would be rounded is an error.
fn append_integers<T: ArrowPrimitiveType<Native: Into<i128>>>(
    values: &mut Vec<f64>,
    array: &dyn Array,
) -> Checked<()> {
    let array = array.as_primitive_opt::<T>().ok_or_else(|| changed_type(array.data_type()))?;
    for integer in array {
        let number = integer.map_or(Some(f64::NAN), exact);
        values.push(number.ok_or_else(|| rounded_in_row(values.len() + 1))?);
    }
    Ok(())
}

/// Appends decimals through their digits, so that 0.1 becomes the nearest double.
fn append_decimals<T: DecimalType>(values: &mut Vec<f64>, array: &dyn Array) -> Checked<()> {
    let array = array.as_primitive_opt::<T>().ok_or_else(|| changed_type(array.data_type()))?;
    for row in 0..array.len() {
        if array.is_null(row) {
            values.push(f64::NAN);
            continue;
        }
        let digits = array.value_as_string(row);
        let value = digits.parse().unwrap_or(f64::NAN);
        if is_rounded(&digits, value) {
            return Err(rounded_in_row(values.len() + 1).into());
        }
        values.push(value);
    }
    Ok(())
}

fn append_labels(categories: &mut Categories, array: &dyn Array) -> Checked<()> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let labels = dictionary_labels(dictionary.values())?;
        let mut codes: Vec<Option<u32>> = vec![None; labels.len()];
        // `normalized_keys` panics for an empty dictionary, which has no valid key.
        let keys = match labels.is_empty() {
            true => vec![0; array.len()],
            false => dictionary.normalized_keys(),
        };
        for (row, key) in keys.into_iter().enumerate() {
            let label = labels.get(key).and_then(Option::as_deref);
            let code = match label {
                Some(label) if !array.is_null(row) => {
                    *codes[key].get_or_insert_with(|| categories.code(label))
                }
                _ => MISSING,
            };
            categories.push_code(code);
        }
        return Ok(());
    }
    match array.data_type() {
        DataType::Boolean => {
            array.as_boolean().iter().for_each(|value| categories.push(value.map(truth_label)));
        }
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(|value| categories.push(value)),
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().for_each(|value| categories.push(value));
        }
        DataType::Utf8View => array.as_string_view().iter().for_each(|v| categories.push(v)),
        kind => return Err(changed_type(kind)),
    }
    Ok(())
}

/// Returns a dictionary's values as labels; numbers are written in decimal notation.
fn dictionary_labels(values: &dyn Array) -> Checked<Vec<Option<String>>> {
    if is_number(values.data_type()) {
        let mut numbers = Vec::new();
        append_numbers(&mut numbers, values)?;
        return Ok(numbers.iter().map(|n| (!n.is_nan()).then(|| n.to_string())).collect());
    }
    if values.as_any_dictionary_opt().is_some() {
        return Err("is a dictionary of dictionaries; write plain text instead".into());
    }
    let mut categories = Categories::default();
    append_labels(&mut categories, values)?;
    let Values::Discrete { codes, labels } = categories.finish() else { return Ok(Vec::new()) };
    Ok(codes.iter().map(|code| labels.get(*code as usize).cloned()).collect())
}

fn changed_type(kind: &DataType) -> Message {
    format!("holds values of type {kind}, which is neither number nor text; leave it out").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use std::sync::Arc;

    fn read(array: &dyn Array) -> Checked<Values> {
        let field = Field::new("c", array.data_type().clone(), true);
        let mut column = ArrowColumn::new("c", &field, false, array.len())?;
        column.append(array)?;
        Ok(column.finish().values)
    }

    fn numbers(array: &dyn Array) -> Vec<f64> {
        match read(array).unwrap() {
            Values::Continuous(values) => values,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_of_all_kinds() {
        assert_eq!(numbers(&Int8Array::from(vec![-3])), [-3.0]);
        assert_eq!(numbers(&UInt64Array::from(vec![1 << 60])), [2f64.powi(60)]);
        assert_eq!(numbers(&Float32Array::from(vec![0.5])), [0.5]);
        assert_eq!(numbers(&Float16Array::from(vec![half::f16::from_f64(1.5)])), [1.5]);
        assert_eq!(numbers(&Date32Array::from(vec![20_000])), [20_000.0]);
        assert_eq!(numbers(&Time64NanosecondArray::from(vec![7])), [7.0]);
        assert_eq!(numbers(&TimestampMicrosecondArray::from(vec![-7])), [-7.0]);
        assert_eq!(numbers(&DurationSecondArray::from(vec![9])), [9.0]);
        let decimals = Decimal128Array::from(vec![1, -250]).with_precision_and_scale(9, 1).unwrap();
        assert_eq!(numbers(&decimals), [0.1, -25.0]);
        assert!(numbers(&Int64Array::from(vec![None, Some(1)]))[0].is_nan());
    }

    #[test]
    fn labels_of_all_kinds() {
        let expected = Values::Discrete {
            codes: vec![0, MISSING, 1, 0],
            labels: vec!["b".to_string(), "a".to_string()],
        };
        let cells = vec![Some("b"), None, Some("a"), Some("b")];
        assert_eq!(read(&StringArray::from(cells.clone())).unwrap(), expected);
        assert_eq!(read(&LargeStringArray::from(cells.clone())).unwrap(), expected);
        assert_eq!(read(&StringViewArray::from(cells.clone())).unwrap(), expected);
        let keys = Int8Array::from(vec![Some(2), None, Some(1), Some(2)]);
        let values = StringArray::from(vec!["unused", "a", "b"]);
        let dictionary = DictionaryArray::new(keys, Arc::new(values));
        assert_eq!(read(&dictionary).unwrap(), expected);
        let of_numbers = DictionaryArray::new(
            UInt8Array::from(vec![1, 0]),
            Arc::new(Int64Array::from(vec![5, 7])),
        );
        let labels = vec!["7".to_string(), "5".to_string()];
        assert_eq!(read(&of_numbers).unwrap(), Values::Discrete { codes: vec![0, 1], labels });
        let empty = DictionaryArray::new(
            Int8Array::from(vec![None, None]),
            Arc::new(StringArray::from(Vec::<&str>::new())),
        );
        assert!(read(&empty).unwrap().is_missing(1));
        let labels = vec!["true".to_string(), "false".to_string()];
        let truths = BooleanArray::from(vec![true, false]);
        assert_eq!(read(&truths).unwrap(), Values::Discrete { codes: vec![0, 1], labels });
    }

    #[test]
    fn infinities_and_other_types_are_refused() {
        let error = read(&Float64Array::from(vec![1.0, f64::NEG_INFINITY])).unwrap_err();
        assert_eq!(error.to_string(), "column 'c' has an infinite value in row 2; remove it");
        let large = (1 << 62) + 1;
        let decimals = Decimal128Array::from(vec![large]).with_precision_and_scale(38, 0).unwrap();
        for array in [
            &Int64Array::from(vec![None, Some(large as i64)]) as &dyn Array,
            &UInt64Array::from(vec![None, Some(large as u64)]),
            &decimals,
        ] {
            let error = read(array).unwrap_err().to_string();
            let expected = "column 'c' has an integer above 2^53, which would be rounded, in row ";
            assert!(error.starts_with(expected), "{error}");
        }
        let error = read(&BinaryArray::from(vec![b"a".as_slice()])).unwrap_err().to_string();
        assert!(error.contains("of type Binary"), "{error}");
    }
}
