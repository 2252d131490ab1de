use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The code of a missing value in a discrete column.
pub const MISSING: u32 = u32::MAX;

/// Columns as they are read from a file.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// In the order they were asked for.
    pub columns: Vec<Column>,
    /// The length of every column.
    pub rows: usize,
}

/// One variable.
#[derive(Clone, Debug)]
pub struct Column {
    /// As the file has it, or the position when the file has no names.
    pub name: String,
    /// One value for every row.
    pub values: Values,
}

/// The values of a column. What can be compared only for equality is discrete.
#[derive(Clone, Debug)]
pub enum Values {
    /// Numbers, all finite; NaN is a missing one.
    Continuous(Vec<f64>),
    /// Categories, numbered in the order in which they first appear.
    Discrete {
        /// An index into `labels`, or [`MISSING`].
        codes: Vec<u32>,
        /// What the categories are called.
        labels: Vec<String>,
    },
}

impl Frame {
    /// Columns of one length.
    pub fn new(columns: Vec<Column>) -> Result<Self, String> {
        let rows = columns.first().map_or(0, Column::len);
        match columns.iter().find(|column| column.len() != rows) {
            Some(other) => Err(format!(
                "column '{}' has {} rows, but '{}' has {rows}",
                other.name,
                other.len(),
                columns[0].name
            )),
            None => Ok(Frame { columns, rows }),
        }
    }

    /// Another table, or the same read in another way, has another fingerprint.
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
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the row has no value; rows past the end have none.
    pub fn is_missing(&self, row: usize) -> bool {
        self.values.is_missing(row)
    }

    /// Whether it has whole numbers, at most `most` different ones, in the rows that have a value.
    pub fn is_few_whole_numbers(&self, most: usize) -> bool {
        let Values::Continuous(values) = &self.values else { return false };
        let mut seen: Vec<f64> = Vec::new();
        for value in values.iter().filter(|value| !value.is_nan()) {
            if value.fract() != 0.0 {
                return false;
            }
            if !seen.contains(value) {
                seen.push(*value);
            }
            if seen.len() > most {
                return false;
            }
        }
        true
    }

    /// Whether all rows that have a value have the same.
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
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Continuous(values) => values.len(),
            Values::Discrete { codes, .. } => codes.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the row has no value; rows past the end have none.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Values::Continuous(values) => values.get(row).is_none_or(|value| value.is_nan()),
            Values::Discrete { codes, .. } => codes.get(row).is_none_or(|code| *code == MISSING),
        }
    }
}

/// Missing values are equal to one another: two columns are equal when they say the same.
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
    /// The code of a label, new or not.
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

    /// The column's values.
    pub(super) fn finish(self) -> Values {
        Values::Discrete { codes: self.codes, labels: self.labels }
    }
}

/// How yes-or-no values are called, whatever the format.
pub(super) fn truth_label(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// Whether a cell of a format without missing values means one.
pub(super) fn means_missing(cell: &[u8]) -> bool {
    const MARKERS: [&[u8]; 6] = [b"NA", b"N/A", b"NaN", b"null", b"None", b"?"];
    cell.is_empty() || MARKERS.iter().any(|marker| cell.eq_ignore_ascii_case(marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_numbered_as_they_appear() {
        let mut categories = Categories::default();
        for label in [Some("b"), None, Some("a"), Some("b")] {
            categories.push(label);
        }
        let values = categories.finish();
        assert!(values.is_missing(1) && values.is_missing(4) && !values.is_missing(0));
        let labels = vec!["b".to_string(), "a".to_string()];
        assert_eq!(values, Values::Discrete { codes: vec![0, MISSING, 1, 0], labels });
    }

    #[test]
    fn markers_of_missing_values() {
        for cell in ["", "na", "N/A", "nan", "NULL", "none", "?"] {
            assert!(means_missing(cell.as_bytes()), "{cell}");
        }
        for cell in ["0", "inf", "-", "no"] {
            assert!(!means_missing(cell.as_bytes()), "{cell}");
        }
    }
}
