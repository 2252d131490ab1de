//! Delimited text: comma-, semicolon-, tab- or bar-separated values.

use super::frame::{Categories, Column, Values, means_missing};
use super::integers::{is_rounded, rounded_in_row};
use super::source::{BodyReader, Source};
use super::{Table, write_whole};
use crate::error::{Result, quote};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::io::{Read, Write};
use std::path::Path;

/// Writes a table as comma-separated values with a header. Numbers are written so that reading
/// them gives the same bits; column names must not need quoting.
pub fn write_csv(path: &Path, table: &Table) -> Result<()> {
    write_whole(path, |file| write_rows(file, table))
}

fn write_rows(file: &mut impl Write, table: &Table) -> std::io::Result<()> {
    writeln!(file, "{}", table.columns.join(","))?;
    for row in table.values.chunks_exact(table.columns.len().max(1)) {
        for (index, value) in row.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(file, "{separator}{value}")?;
        }
        writeln!(file)?;
    }
    Ok(())
}

/// Delimited text whose delimiter and header are known.
pub(super) struct TextTable {
    source: Source,
    delimiter: u8,
    has_header: bool,
    columns: usize,
}

impl TextTable {
    /// Finds delimiter and header; returns the names of the columns and the table.
    pub(super) fn open(source: Source) -> Result<(Vec<String>, Self)> {
        let sample = sample(&source)?;
        let delimiter = find_delimiter(&sample);
        let first = first_records(&sample, delimiter).into_iter().next();
        let first = first.ok_or_else(|| source.fault("it has no rows"))?;
        let has_header = is_header(&first);
        let mut names = Vec::with_capacity(first.len());
        for (index, cell) in first.iter().enumerate() {
            let position = index + 1;
            let name = std::str::from_utf8(cell.trim_ascii()).map_err(|_| {
                source.fault(format!("field {position} of line 1 is not UTF-8; save it as UTF-8"))
            })?;
            let named = has_header && !name.is_empty();
            names.push(if named { name.to_string() } else { position.to_string() });
        }
        let columns = names.len();
        Ok((names, Self { source, delimiter, has_header, columns }))
    }

    /// Reads the wanted columns as numbers, then those that contain text once more as text.
    pub(super) fn read(self, wanted: &[usize], names: &[&str]) -> Result<Vec<Column>> {
        let mut columns: Vec<Numbers> = wanted.iter().map(|_| Numbers::default()).collect();
        self.for_each_row(|row, record| {
            for (column, index) in columns.iter_mut().zip(wanted) {
                column.push(row, record[*index].trim_ascii());
            }
            Ok(())
        })?;
        let mut texts: Vec<Option<Categories>> =
            columns.iter().map(|column| column.is_text.then(Categories::default)).collect();
        if texts.iter().any(Option::is_some) {
            self.for_each_row(|row, record| {
                for ((text, index), name) in texts.iter_mut().zip(wanted).zip(names) {
                    let Some(text) = text else { continue };
                    let cell = record[*index].trim_ascii();
                    let label = std::str::from_utf8(cell).map_err(|_| {
                        let name = quote(name);
                        self.source.fault(format!(
                            "column {name}, row {row} is not valid UTF-8; save the file as UTF-8"
                        ))
                    })?;
                    text.push((!means_missing(cell)).then_some(label));
                }
                Ok(())
            })?;
        }
        let columns = columns.into_iter().zip(texts).zip(names);
        columns
            .map(|((numbers, text), name)| {
                let values = match text {
                    Some(text) => text.finish(),
                    None => numbers.finish().map_err(|problem| {
                        self.source.fault(format!("column {} {problem}", quote(name)))
                    })?,
                };
                Ok(Column { name: name.to_string(), values })
            })
            .collect()
    }

    /// Visits the rows of data; the first is row 1.
    fn for_each_row(&self, mut visit: impl FnMut(usize, &ByteRecord) -> Result<()>) -> Result<()> {
        let mut reader: Reader<BodyReader> = options(self.delimiter)
            .has_headers(self.has_header)
            .from_reader(self.source.body.reader());
        let (mut record, mut row) = (ByteRecord::new(), 0);
        while reader
            .read_byte_record(&mut record)
            .map_err(|error| self.source.fault(error.to_string()))?
        {
            row += 1;
            if record.len() != self.columns {
                return Err(self.source.fault(format!(
                    "row {row} has {} instead of {} fields; correct it, or quote fields that \
                     contain {}",
                    record.len(),
                    self.columns,
                    delimiter_name(self.delimiter)
                )));
            }
            visit(row, &record)?;
        }
        Ok(())
    }
}

/// A column of numbers; its values are discarded when a cell turns out to be text.
#[derive(Default)]
struct Numbers {
    values: Vec<f64>,
    /// The first row with an infinite value, and with an integer that was rounded.
    infinite: Option<usize>,
    rounded: Option<usize>,
    is_text: bool,
}

impl Numbers {
    fn push(&mut self, row: usize, cell: &[u8]) {
        if self.is_text {
            return;
        }
        match number(cell) {
            _ if means_missing(cell) => self.values.push(f64::NAN),
            Some(value) => {
                if value.is_infinite() {
                    self.infinite.get_or_insert(row);
                }
                if std::str::from_utf8(cell).is_ok_and(|cell| is_rounded(cell, value)) {
                    self.rounded.get_or_insert(row);
                }
                self.values.push(value);
            }
            None => {
                self.is_text = true;
                self.values = Vec::new();
            }
        }
    }

    /// Returns the values, or what is wrong with the column.
    fn finish(self) -> std::result::Result<Values, String> {
        match (self.infinite, self.rounded) {
            (Some(row), _) => Err(format!("has an infinite value in row {row}; remove it")),
            (None, Some(row)) => Err(rounded_in_row(row)),
            (None, None) => Ok(Values::Continuous(self.values)),
        }
    }
}

fn number(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

/// Returns the options of the reader. It accepts rows of any length: `for_each_row` checks them,
/// because the number of the row is known there.
fn options(delimiter: u8) -> ReaderBuilder {
    let mut options = ReaderBuilder::new();
    options.delimiter(delimiter).flexible(true).buffer_capacity(1 << 16);
    options
}

/// Returns the first lines.
fn sample(source: &Source) -> Result<Vec<u8>> {
    const MAX_BYTES: u64 = 1 << 18;
    let mut sample = Vec::new();
    let read = source.body.reader().take(MAX_BYTES).read_to_end(&mut sample);
    read.map_err(|error| source.read_error(error))?;
    if source.body.length() > MAX_BYTES {
        // The last line may be incomplete.
        let end = sample.iter().rposition(|byte| *byte == b'\n').unwrap_or(sample.len());
        sample.truncate(end);
    }
    Ok(sample)
}

fn first_records(sample: &[u8], delimiter: u8) -> Vec<ByteRecord> {
    let mut reader = options(delimiter).has_headers(false).from_reader(sample);
    reader.byte_records().map_while(std::result::Result::ok).take(100).collect()
}

/// Returns the delimiter that splits all rows into the same number of fields, the largest if there
/// are several; if there is none, the delimiter that splits the first row into the most fields.
fn find_delimiter(sample: &[u8]) -> u8 {
    let fit = |delimiter: &u8| {
        let records = first_records(sample, *delimiter);
        let fields = records.first().map_or(0, ByteRecord::len);
        let even = fields > 1 && records.iter().all(|record| record.len() == fields);
        (even, fields)
    };
    // Among equals `max_by_key` returns the last.
    [b'|', b';', b'\t', b','].into_iter().max_by_key(fit).unwrap_or(b',')
}

fn delimiter_name(delimiter: u8) -> &'static str {
    match delimiter {
        b'\t' => "tabs",
        b';' => "semicolons",
        b'|' => "bars",
        _ => "commas",
    }
}

/// Returns whether no cell of the first row is a number or a missing value. Empty cells are
/// ignored, because some programs leave the name of a first column of row numbers empty.
fn is_header(first: &ByteRecord) -> bool {
    let cells = || first.iter().map(<[u8]>::trim_ascii).filter(|cell| !cell.is_empty());
    cells().next().is_some() && cells().all(|cell| number(cell).is_none() && !means_missing(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_exactly() {
        let columns = vec!["x".to_string(), "y".to_string()];
        let values = vec![0.1, -1.0 / 3.0, 1e-300, 2.0];
        let mut text = Vec::new();
        write_rows(&mut text, &Table { columns, values: values.clone() }).unwrap();
        let text = String::from_utf8(text).unwrap();
        let read: Vec<f64> = text
            .lines()
            .skip(1)
            .flat_map(|line| line.split(','))
            .map(|cell| cell.parse().unwrap())
            .collect();
        assert_eq!(read, values);
        assert!(text.starts_with("x,y\n"));
    }

    fn read(text: impl Into<bytes::Bytes>) -> Result<Vec<Column>> {
        let (names, table) = TextTable::open(Source::from_bytes(text)?)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<usize> = (0..names.len()).collect();
        table.read(&all, &names)
    }

    fn numbers(name: &str, values: &[f64]) -> Column {
        Column { name: name.into(), values: Values::Continuous(values.to_vec()) }
    }

    fn categories(name: &str, cells: &[Option<&str>]) -> Column {
        let mut categories = Categories::default();
        cells.iter().for_each(|cell| categories.push(*cell));
        Column { name: name.into(), values: categories.finish() }
    }

    #[test]
    fn delimiters_line_ends_and_quotes() {
        let expected =
            [numbers("a", &[1.5, -2e3]), categories("b", &[Some("x, y"), Some("z \"q\"")])];
        for delimiter in [",", ";", "\t", "|"] {
            for line_end in ["\n", "\r\n"] {
                for mark in ["", "\u{feff}"] {
                    let lines = ["a,b", "1.5,\"x, y\"", " -2e3 ,\"z \"\"q\"\"\""];
                    let lines = lines.map(|line| line.replacen(',', delimiter, 1));
                    let text = format!("{mark}{}{line_end}", lines.join(line_end));
                    assert_eq!(read(text.clone()).unwrap(), expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn without_a_header_columns_are_numbered() {
        let expected = [numbers("1", &[1.0, 3.0]), numbers("2", &[2.0, 4.0])];
        assert_eq!(read("1,2\n3,4").unwrap(), expected);
        let expected =
            [numbers("1", &[1.0, 2.0]), numbers("x", &[0.1, 0.2]), numbers("y", &[0.0, 1.0])];
        assert_eq!(read(",x,y\n1,.1,0\n2,.2,1\n").unwrap(), expected);
    }

    #[test]
    fn missing_cells_do_not_make_a_column_text() {
        let expected = [
            numbers("a", &[1.0, f64::NAN, f64::NAN, f64::NAN]),
            categories("b", &[Some("u"), None, None, Some("5")]),
        ];
        assert_eq!(read("a,b\n1,u\nNA,?\nnull,none\n,5\n").unwrap(), expected);
    }

    #[test]
    fn errors_name_the_place() {
        for (text, expected) in [
            (b"a,b\n1,2\n3\n".as_slice(), "row 2 has 1 instead of 2 fields"),
            (b"a,b\n1,2\n3,1e999\n", "column 'b' has an infinite value in row 2"),
            (b"a,b\n1,-inf\n", "column 'b' has an infinite value in row 1"),
            (
                b"a,b\n1,2\n4611686018427387905,3\n",
                "column 'a' has an integer above 2^53, which would be rounded, in row 2; subtract",
            ),
            (b"a,b\n1,x\n2,\xe9t\xe9\n", "column 'b', row 2 is not valid UTF-8"),
            (b"a,\xe9\n1,2\n", "field 2 of line 1 is not UTF-8"),
            (b"\n\n", "it has no rows"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
        assert!(read("a,b\ninf,1\nx,2").is_ok(), "a word among words");
        assert!(read("a,b\n4611686018427387905,1\nx,2").is_ok(), "a long name among names");
    }
}
