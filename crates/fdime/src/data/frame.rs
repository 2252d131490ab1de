use crate::error::{Error, Result};
use crate::message::{Message, printable};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The code of a missing value in a discrete column.
pub const MISSING: u32 = u32::MAX;

/// Columns of equal length.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The columns, in the order of the request.
    pub columns: Vec<Column>,
    /// The length of every column.
    pub rows: usize,
    /// Remarks on how the columns were read.
    pub notes: Vec<Message>,
}

/// One variable.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name in the file, or the position if the file has no names.
    pub name: String,
    /// The value of every row.
    pub values: Values,
}

/// The values of a column. Values that have no order are discrete.
#[derive(Clone, Debug)]
pub enum Values {
    /// Numbers, all finite; NaN is a missing one.
    Continuous(Vec<f64>),
    /// Categories, numbered in the order in which they first appear.
    Discrete {
        /// An index into `labels`, or [`MISSING`].
        codes: Vec<u32>,
        /// The names of the categories.
        labels: Vec<String>,
    },
}

impl Frame {
    /// Creates a frame, without categories that do not occur. Columns of different lengths are an
    /// error. Control characters in names and categories are written as escapes, so that they can be
    /// printed.
    pub fn new(mut columns: Vec<Column>) -> Result<Self> {
        columns.iter_mut().for_each(Column::make_printable);
        columns.iter_mut().for_each(Column::drop_unused_levels);
        let rows = columns.first().map_or(0, Column::len);
        match columns.iter().find(|column| column.len() != rows) {
            Some(other) => {
                let columns =
                    [other, &columns[0]].map(|column| (column.name.clone(), column.len()));
                Err(Error::UnequalColumns { columns })
            }
            None => Ok(Frame { columns, rows, notes: Vec::new() }),
        }
    }

    /// Returns the number of rows and a hash of names and values.
    pub fn fingerprint(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for column in &self.columns {
            column.name.hash(&mut hasher);
            match &column.values {
                Values::Continuous(values) => {
                    values.iter().for_each(|value| value.to_bits().hash(&mut hasher));
                }
                Values::Discrete { codes, labels } => (codes, labels).hash(&mut hasher),
            }
        }
        format!("{} rows, {:016x}", self.rows, hasher.finish())
    }
}

impl Column {
    fn make_printable(&mut self) {
        let texts = match &mut self.values {
            Values::Continuous(_) => &mut [][..],
            Values::Discrete { labels, .. } => labels,
        };
        for text in texts.iter_mut().chain([&mut self.name]) {
            if let Cow::Owned(escaped) = printable(text) {
                *text = escaped;
            }
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the row has no value; rows beyond the end have none.
    pub fn is_missing(&self, row: usize) -> bool {
        self.values.is_missing(row)
    }

    /// Returns the column of these rows, with the categories that occur in them.
    pub fn at(&self, rows: &[usize]) -> Column {
        let values = match &self.values {
            Values::Continuous(values) => {
                Values::Continuous(rows.iter().map(|row| values[*row]).collect())
            }
            Values::Discrete { codes, labels } => {
                let mut categories = Categories::default();
                for row in rows {
                    categories.push(labels.get(codes[*row] as usize).map(String::as_str));
                }
                categories.finish()
            }
        };
        Column { name: self.name.clone(), values }
    }

    /// Removes categories that do not occur, as a filtered column may have.
    pub(super) fn drop_unused_levels(&mut self) {
        let Values::Discrete { codes, labels } = &mut self.values else { return };
        let mut is_used = vec![false; labels.len()];
        for code in codes.iter() {
            if let Some(used) = is_used.get_mut(*code as usize) {
                *used = true;
            }
        }
        if is_used.iter().all(|used| *used) {
            return;
        }
        let mut count = 0;
        let new_codes: Vec<u32> = is_used
            .iter()
            .map(|used| {
                count += u32::from(*used);
                count.saturating_sub(1)
            })
            .collect();
        for code in codes.iter_mut() {
            *code = new_codes.get(*code as usize).copied().unwrap_or(MISSING);
        }
        let mut is_used = is_used.into_iter();
        labels.retain(|_| is_used.next().unwrap_or(false));
    }

    /// Returns whether all present values are whole numbers, at most `max` of them different.
    pub fn is_few_whole_numbers(&self, max: usize) -> bool {
        let Values::Continuous(values) = &self.values else { return false };
        let mut seen: Vec<f64> = Vec::new();
        for value in values.iter().filter(|value| !value.is_nan()) {
            if value.fract() != 0.0 {
                return false;
            }
            if !seen.contains(value) {
                seen.push(*value);
            }
            if seen.len() > max {
                return false;
            }
        }
        true
    }

    /// Returns whether all present values are equal.
    pub fn is_constant(&self) -> bool {
        match &self.values {
            Values::Continuous(values) => {
                let mut present = values.iter().filter(|value| !value.is_nan());
                let first = present.next();
                present.all(|value| Some(value) == first)
            }
            Values::Discrete { labels, .. } => labels.len() <= 1,
        }
    }
}

impl Values {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Continuous(values) => values.len(),
            Values::Discrete { codes, .. } => codes.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the row has no value; rows beyond the end have none.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Values::Continuous(values) => values.get(row).is_none_or(|value| value.is_nan()),
            Values::Discrete { codes, .. } => codes.get(row).is_none_or(|code| *code == MISSING),
        }
    }
}

/// Missing values are equal to one another.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Values::Continuous(left), Values::Continuous(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|(l, r)| l == r || (l.is_nan() && r.is_nan()))
            }
            (
                Values::Discrete { codes: left, labels: left_labels },
                Values::Discrete { codes: right, labels: right_labels },
            ) => left == right && left_labels == right_labels,
            _ => false,
        }
    }
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.values == other.values
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.columns == other.columns
    }
}

/// Numbers the categories of a column while it is read.
#[derive(Default)]
pub(super) struct Categories {
    codes: Vec<u32>,
    labels: Vec<String>,
    known: HashMap<String, u32>,
}

impl Categories {
    /// Returns the code of a label, a new one if the label is new.
    pub(super) fn code(&mut self, label: &str) -> u32 {
        if let Some(code) = self.known.get(label) {
            return *code;
        }
        let code = self.labels.len() as u32;
        self.labels.push(label.to_string());
        self.known.insert(label.to_string(), code);
        code
    }

    /// Appends a row by its code.
    pub(super) fn push_code(&mut self, code: u32) {
        self.codes.push(code);
    }

    /// Appends a row by its label.
    pub(super) fn push(&mut self, label: Option<&str>) {
        let code = label.map_or(MISSING, |label| self.code(label));
        self.codes.push(code);
    }

    /// Returns the values.
    pub(super) fn finish(self) -> Values {
        Values::Discrete { codes: self.codes, labels: self.labels }
    }
}

/// Returns the label of a truth value, the same in all formats.
pub(super) fn truth_label(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_numbered_in_order_of_appearance() {
        let mut categories = Categories::default();
        for label in [Some("b"), None, Some("a"), Some("b")] {
            categories.push(label);
        }
        let values = categories.finish();
        assert!(values.is_missing(1) && values.is_missing(4) && !values.is_missing(0));
        let labels = vec!["b".to_string(), "a".to_string()];
        assert_eq!(values, Values::Discrete { codes: vec![0, MISSING, 1, 0], labels });
    }
}
