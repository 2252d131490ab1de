//! JSON lines: one object for each row.

use super::frame::{Categories, Column, Values, truth_label};
use super::integers::{is_rounded, rounded_in_row};
use super::reading::TextFormat;
use super::source::{Checked, Source};
use crate::error::{Result, quote};
use crate::message::Message;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::io::BufRead;

/// JSON lines whose keys are known.
pub(super) struct JsonLines<'a> {
    source: Source,
    pub(super) format: TextFormat<'a>,
    /// The keys that hold lists or objects.
    nested: HashSet<String>,
}

impl<'a> JsonLines<'a> {
    /// Reads the keys of all rows; returns them in the order in which they appear, and the table.
    pub(super) fn open(source: Source, format: TextFormat<'a>) -> Result<(Vec<String>, Self)> {
        let mut table = Self { source, format, nested: HashSet::new() };
        let (mut names, mut known, mut nested) = (Vec::new(), HashSet::new(), HashSet::new());
        table.for_each_row(|_, object| {
            for (key, value) in object {
                if known.insert(key.clone()) {
                    names.push(key.clone());
                }
                if value.is_array() || value.is_object() {
                    nested.insert(key.clone());
                }
            }
            Ok(())
        })?;
        table.nested = nested;
        Ok((names, table))
    }

    /// Returns what a column holds that is neither number nor text.
    pub(super) fn unreadable(&self, name: &str) -> Option<String> {
        self.nested.contains(name).then(|| "list or object".into())
    }

    /// Reads the wanted columns.
    pub(super) fn read(self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        let mut columns: Vec<Growing> =
            wanted.iter().map(|_| Growing::Numbers(Vec::new())).collect();
        let memory = self.source.memory;
        self.for_each_row(|row, object| {
            for (column, name) in columns.iter_mut().zip(names) {
                let value = object.get(*name).unwrap_or(&Value::Null);
                column.push(row, value, &self.format).map_err(|problem| {
                    Message::from(format!("column {} ", quote(name))).then(problem)
                })?;
            }
            memory.check_values(row, wanted.len())
        })?;
        let named = columns.into_iter().zip(names);
        Ok(named.map(|(c, name)| Column { name: name.to_string(), values: c.finish() }).collect())
    }

    /// Visits the rows; the first is row 1. Empty lines are skipped.
    fn for_each_row(
        &self,
        mut visit: impl FnMut(usize, &Map<String, Value>) -> Checked<()>,
    ) -> Result<()> {
        let mut reader = self.source.body.buffered();
        let (mut line, mut row) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut line).map_err(|error| self.source.read_error(error))?
            > 0
        {
            if !line.trim_ascii().is_empty() {
                row += 1;
                let object = parse(&line).map_err(|error| {
                    self.source.fault(format!("row {row} is not a JSON object: {error}"))
                })?;
                visit(row, &object).map_err(|problem| self.source.fault(problem))?;
            }
            line.clear();
        }
        Ok(())
    }
}

/// Parses an object. Python writes NaN, which is not JSON, for missing numbers.
pub(super) fn parse(line: &[u8]) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_slice(line).or_else(|error| {
        let text = String::from_utf8_lossy(line);
        match text.contains(": NaN") {
            true => serde_json::from_str(&text.replace(": NaN", ": null")),
            false => Err(error),
        }
    })
}

enum Growing {
    Numbers(Vec<f64>),
    Text(Categories),
}

impl Growing {
    fn push(&mut self, row: usize, value: &Value, format: &TextFormat) -> Checked<()> {
        let text = match value {
            Value::Null => None,
            Value::Bool(truth) => Some(truth_label(*truth).to_string()),
            Value::String(text) => {
                let text = text.trim();
                (!format.is_missing(text.as_bytes())).then(|| text.to_string())
            }
            Value::Number(number) => {
                let digits = number.to_string();
                let value = number.as_f64().filter(|value| value.is_finite());
                let value = value.ok_or_else(|| format!("has {digits} in row {row}; remove it"))?;
                if is_rounded(&digits, value) {
                    return Err(rounded_in_row(row).into());
                }
                match self {
                    Growing::Numbers(values) => {
                        values.push(value);
                        return Ok(());
                    }
                    Growing::Text(_) => Some(digits),
                }
            }
            Value::Array(_) | Value::Object(_) => {
                let problem = "has a list or an object in row";
                return Err(format!("{problem} {row}; leave it out, or write plain values").into());
            }
        };
        match (&mut *self, text) {
            (Growing::Numbers(values), None) => values.push(f64::NAN),
            (Growing::Numbers(values), Some(text)) => {
                // The first text turns the numbers before it into labels.
                let mut categories = Categories::default();
                for value in values.iter() {
                    let label = (!value.is_nan()).then(|| value.to_string());
                    categories.push(label.as_deref());
                }
                categories.push(Some(&text));
                *self = Growing::Text(categories);
            }
            (Growing::Text(categories), text) => categories.push(text.as_deref()),
        }
        Ok(())
    }

    fn finish(self) -> Values {
        match self {
            Growing::Numbers(values) => Values::Continuous(values),
            Growing::Text(categories) => categories.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::frame::MISSING;

    fn read(text: &str) -> Result<Vec<Column>> {
        let source = Source::from_bytes(text.to_string())?;
        let (names, table) = JsonLines::open(source, TextFormat::default())?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<usize> = (0..names.len()).collect();
        table.read(&all, &names)
    }

    #[test]
    fn keys_are_columns() {
        let columns = read(
            "{\"a\": 1, \"b\": \"u\"}\n\n{\"b\": null, \"c\": true}\n{\"a\": \"NA\", \"b\": 2}\n",
        );
        let columns = columns.unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let expected = Values::Continuous(vec![1.0, f64::NAN, f64::NAN]);
        assert_eq!(columns[0].values, expected);
        let labels = vec!["u".to_string(), "2".to_string()];
        assert_eq!(columns[1].values, Values::Discrete { codes: vec![0, MISSING, 1], labels });
        assert!(read("{\"a\": NaN, \"b\": 1}\n").unwrap()[0].is_missing(0));
        assert!(columns[2].is_missing(0) && !columns[2].is_missing(1));
    }

    #[test]
    fn errors_name_row_and_column() {
        for (text, expected) in [
            ("{\"a\": 1}\n{\"a\": [1]}\n", "column 'a' has a list or an object in row 2"),
            ("{\"a\": 1}\n[2]\n", "row 2 is not a JSON object"),
            ("{\"a\": 9007199254740993}\n", "column 'a' has an integer above 2^53"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
