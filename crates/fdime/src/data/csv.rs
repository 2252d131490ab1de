//! Delimited text: values separated by commas, semicolons, tabs, bars or whitespace.

use super::frame::{Categories, Column, Values};
use super::integers::is_rounded;
use super::reading::{Delimiter, TextFormat};
use super::source::Source;
use super::text::{means_missing, number};
use super::{Table, write_whole};
use crate::error::{Result, quote};
use crate::message::{Message, Parameter};
use csv::{ByteRecord, ReaderBuilder};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};
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

/// Delimited text whose notation is known.
pub(super) struct TextTable<'a> {
    source: Source,
    format: TextFormat<'a>,
    delimiter: Delimiter,
    decimal: char,
    has_header: bool,
    /// The number of bytes before the first row.
    start: usize,
    columns: usize,
    encoding: Encoding,
    notes: Vec<Message>,
}

impl<'a> TextTable<'a> {
    /// Finds out what `format` leaves open; returns the names of the columns and the table.
    pub(super) fn open(source: Source, format: TextFormat<'a>) -> Result<(Vec<String>, Self)> {
        let sample = sample(&source)?;
        if sample.contains(&0) {
            return Err(source.fault(
                "it holds zero bytes: it is not text, or UTF-16 without its mark; save it as UTF-8",
            ));
        }
        let mut notes = Vec::new();
        let (mut start, declared) = declared_delimiter(&sample);
        start += length_of_lines(&sample[start..], format.skip_lines);
        let marked = match format.comment {
            None => marked_lines(&sample[start..]),
            Some(_) => 0,
        };
        let (heading, sample) = sample[start..].split_at(marked);
        start += marked;
        let delimiter = format.delimiter.or(declared);
        let delimiter = delimiter.unwrap_or_else(|| find_delimiter(sample, format.comment));
        let mut records = first_records(sample, delimiter, format.comment);
        let commented_names = heading_names(heading, delimiter, &records, &format);
        if marked > 0 && commented_names.is_none() {
            notes.push("lines at the beginning that start with # were skipped".into());
        }
        let is_commented = commented_names.is_some();
        if let Some(names) = commented_names {
            records.insert(0, names);
        }
        let Some((first, rest)) = records.split_first() else {
            return Err(source.fault("it has no rows"));
        };
        // R's write.table has no name for the column of row names.
        let has_row_names = format.header != Some(false)
            && rest.first().is_some_and(|row| row.len() == first.len() + 1);
        let mut first = first.clone();
        if has_row_names {
            first = std::iter::once(&b"row name"[..]).chain(first.iter()).collect();
        }
        let decimal = format.decimal.unwrap_or_else(|| find_decimal(rest, delimiter));
        let has_names = is_commented
            || has_row_names
            || format.header.unwrap_or_else(|| is_header(&first, rest, decimal));
        if format.decimal.is_none() && decimal == ',' {
            notes.push(
                Message::from("numbers were read with decimal commas; if these are not, set ")
                    .setting(Parameter::Decimal, "."),
            );
        }
        let mut encoding = Encoding::default();
        let names = first.iter().enumerate().map(|(index, cell)| {
            let name = encoding.text(cell.trim_ascii());
            let named = has_names && !name.is_empty();
            if named { name.into_owned() } else { (index + 1).to_string() }
        });
        let names: Vec<String> = names.collect();
        let table = Self {
            source,
            format,
            delimiter,
            decimal,
            has_header: has_names && !is_commented,
            start,
            columns: names.len(),
            encoding,
            notes,
        };
        Ok((names, table))
    }

    /// Returns the format with the decimal comma, if one was found.
    pub(super) fn notation(&self) -> TextFormat<'a> {
        let comma = Some(self.decimal).filter(|decimal| *decimal == ',');
        TextFormat { decimal: self.format.decimal.or(comma), ..self.format }
    }

    /// Reads the wanted columns as numbers, then those that contain text once more as text. Also
    /// returns remarks on what was read.
    pub(super) fn read(
        self,
        wanted: &[usize],
        names: &[&str],
    ) -> Result<(Vec<Column>, Vec<Message>)> {
        let mut columns: Vec<Numbers> = wanted.iter().map(|_| Numbers::default()).collect();
        let memory = self.source.memory;
        self.for_each_row(|row, record| {
            for (column, index) in columns.iter_mut().zip(wanted) {
                column.push(row, record[*index].trim_ascii(), &self.format, self.decimal);
            }
            memory.check_values(row, wanted.len()).map_err(|problem| self.source.fault(problem))
        })?;
        let mut texts: Vec<Option<Categories>> =
            columns.iter().map(|column| column.is_text.then(Categories::default)).collect();
        let mut encoding = self.encoding;
        if texts.iter().any(Option::is_some) {
            self.for_each_row(|_, record| {
                for (text, index) in texts.iter_mut().zip(wanted) {
                    let Some(text) = text else { continue };
                    let cell = record[*index].trim_ascii();
                    match self.format.is_missing(cell) {
                        true => text.push(None),
                        false => text.push(Some(&encoding.text(cell))),
                    }
                }
                Ok(())
            })?;
        }
        let is_decimal_given = self.format.decimal.is_some();
        let mut notes = self.notes;
        notes.extend(encoding.note());
        let columns = columns.into_iter().zip(texts).zip(names);
        let columns = columns
            .map(|((numbers, text), name)| {
                let values = match text {
                    Some(text) => text.finish(),
                    None => numbers
                        .finish(name, is_decimal_given, &mut notes)
                        .map_err(|problem| self.source.fault(problem))?,
                };
                Ok(Column { name: name.to_string(), values })
            })
            .collect::<Result<Vec<Column>>>()?;
        Ok((columns, notes))
    }

    /// Visits the rows of data; the first is row 1.
    fn for_each_row(&self, mut visit: impl FnMut(usize, &ByteRecord) -> Result<()>) -> Result<()> {
        // A line after the last one: within a quote that was not closed, it is part of a field.
        let end = Cursor::new(b"\n\x01\n");
        let mut body = self.source.body.reader();
        let start = body.seek(SeekFrom::Start(self.start as u64));
        start.map_err(|error| self.source.read_error(error))?;
        let body = BufReader::with_capacity(1 << 16, body).chain(end);
        let mut reader = options(self.delimiter, self.format.comment)
            .has_headers(self.has_header)
            .from_reader(fields(body, self.delimiter));
        let (mut record, mut row) = (ByteRecord::new(), 0);
        while reader
            .read_byte_record(&mut record)
            .map_err(|error| self.source.fault(error.to_string()))?
        {
            if record.len() == 1 && &record[0] == b"\x01" {
                break;
            }
            // The reader skips empty lines, but not those of spaces.
            if record.len() == 1 && self.columns > 1 && record[0].trim_ascii().is_empty() {
                continue;
            }
            row += 1;
            self.check_quotes(row, &record)?;
            if record.len() != self.columns {
                return Err(self.source.fault(self.wrong_length(row, record.len())));
            }
            visit(row, &record)?;
        }
        Ok(())
    }

    fn wrong_length(&self, row: usize, fields: usize) -> Message {
        let problem = Message::from(format!(
            "row {row} has {fields} instead of {} {}; correct it, quote fields that contain {}, or \
             say how fields are separated with ",
            self.columns,
            if self.columns == 1 { "field" } else { "fields" },
            delimiter_name(self.delimiter)
        ));
        problem.parameter(Parameter::Delimiter)
    }

    /// Returns an error if a field of the row holds whole rows, because its quote was not closed.
    fn check_quotes(&self, row: usize, record: &ByteRecord) -> Result<()> {
        if !record.as_slice().contains(&b'\n') {
            return Ok(());
        }
        let field = record.iter().find(|field| field.contains(&b'\n')).unwrap_or_default();
        let is_last = field.ends_with(b"\x01\n");
        // Rows between two quotes that were both not closed: whole lines with as many fields. Two
        // fields are too few to tell such a row from a sentence with a comma.
        let lines = field.split(|byte| *byte == b'\n');
        let is_row = |line: &[u8]| {
            let mut reader = options(self.delimiter, None).has_headers(false).from_reader(line);
            let fields = reader.byte_records().next().and_then(|record| record.ok());
            fields.is_some_and(|fields| fields.len() == self.columns)
        };
        let swallowed = || lines.skip(1).take(3).filter(|line| is_row(line)).count() >= 2;
        match is_last || (self.columns > 2 && swallowed()) {
            true => Err(self.source.fault(format!(
                "a quote that is opened in row {row} is not closed in its line, and the rows after \
                 it would be read as one field; close or remove it"
            ))),
            false => Ok(()),
        }
    }
}

/// Text in UTF-8, or in Windows-1252 where it is not valid UTF-8.
#[derive(Clone, Copy, Default)]
struct Encoding {
    is_western: bool,
}

impl Encoding {
    fn text<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        std::str::from_utf8(bytes).map(Cow::Borrowed).unwrap_or_else(|_| {
            self.is_western = true;
            encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0
        })
    }

    fn note(&self) -> Option<Message> {
        let note = "text that is not UTF-8 was read as Latin-1 (Windows-1252)";
        self.is_western.then(|| note.into())
    }
}

/// A column of numbers; its values are discarded when a cell turns out to be text.
#[derive(Default)]
struct Numbers {
    values: Vec<f64>,
    /// The first row with an infinite value.
    infinite: Option<usize>,
    /// The first cell such as `1.234`, in which the point can separate thousands, and the numbers
    /// of cells with such a point, with another point, and without one.
    thousands: Option<String>,
    points: [usize; 3],
    /// The first cell such as `02139`.
    code: Option<String>,
    is_text: bool,
}

impl Numbers {
    fn push(&mut self, row: usize, cell: &[u8], format: &TextFormat, decimal: char) {
        if self.is_text {
            return;
        }
        match number(cell, decimal) {
            // Words such as "nan" are numbers to Rust.
            Some(value) if !value.is_nan() && format.na.is_empty() => {
                self.push_number(row, cell, value);
            }
            _ if format.is_missing(cell) => self.values.push(f64::NAN),
            Some(value) => self.push_number(row, cell, value),
            None => {
                self.is_text = true;
                self.values = Vec::new();
            }
        }
    }

    fn push_number(&mut self, row: usize, cell: &[u8], value: f64) {
        let text = std::str::from_utf8(cell).unwrap_or_default();
        if is_rounded(text, value) {
            // An integer of so many digits is exact as text.
            self.is_text = true;
            self.values = Vec::new();
            return;
        }
        if value.is_infinite() {
            self.infinite.get_or_insert(row);
        }
        match cell.iter().position(|byte| *byte == b'.') {
            None => self.points[2] += 1,
            Some(point) if separates_thousands(cell, point) => {
                self.points[0] += 1;
                self.thousands.get_or_insert_with(|| text.to_string());
            }
            Some(_) => self.points[1] += 1,
        }
        if self.code.is_none() && matches!(cell, [b'0', b'0'..=b'9', ..]) && !cell.contains(&b'.') {
            self.code = Some(text.to_string());
        }
        self.values.push(value);
    }

    /// Returns the values, or what is wrong with the column `name`. If `decimal` was not given,
    /// numbers in which all points can separate thousands are ambiguous.
    fn finish(
        self,
        name: &str,
        is_decimal_given: bool,
        notes: &mut Vec<Message>,
    ) -> std::result::Result<Values, Message> {
        const MIN_THOUSANDS: usize = 5;
        let name = quote(name);
        if let Some(row) = self.infinite {
            let problem =
                format!("column {name} has an infinite value in row {row}; remove it, or ");
            return Err(Message::from(problem).text("set ").setting(Parameter::Na, "inf,-inf"));
        }
        let [thousands, others, whole] = self.points;
        // A program that writes three decimals writes them in all rows, or not always three.
        if let Some(example) = &self.thousands
            && (thousands >= MIN_THOUSANDS && others == 0 && whole > 0 && !is_decimal_given)
        {
            let number = example.replace('.', "");
            return Err(Message::from(format!(
                "column {name} has values such as '{example}', which can be {example} or {number}; \
                 say which with "
            ))
            .setting(Parameter::Decimal, ".")
            .text(" or ")
            .setting(Parameter::Decimal, ","));
        }
        if let Some(code) = self.code {
            notes.push(
                Message::from(format!(
                    "column {name} has numbers such as '{code}' and is treated as numbers; if they \
                     are codes, name it in "
                ))
                .parameter(Parameter::Discrete),
            );
        }
        Ok(Values::Continuous(self.values))
    }
}

/// Returns whether a point or comma at this position can separate thousands, as in `1.234`.
fn separates_thousands(cell: &[u8], point: usize) -> bool {
    let whole = cell[..point].trim_ascii_start();
    let whole = whole.strip_prefix(b"-").unwrap_or(whole);
    let rest = &cell[point + 1..];
    rest.len() == 3
        && rest.iter().all(u8::is_ascii_digit)
        && (1..=3).contains(&whole.len())
        && whole[0] != b'0'
}

/// Returns the options of the reader. It accepts rows of any length: `for_each_row` checks them,
/// because the number of the row is known there.
fn options(delimiter: Delimiter, comment: Option<u8>) -> ReaderBuilder {
    let mut options = ReaderBuilder::new();
    let delimiter = match delimiter {
        Delimiter::Character(character) => character,
        Delimiter::Whitespace => b' ',
    };
    options.delimiter(delimiter).comment(comment).flexible(true).buffer_capacity(1 << 16);
    options
}

/// Returns the text as the reader of fields needs it: with single spaces between fields that are
/// separated by whitespace.
fn fields<'b>(text: impl BufRead + 'b, delimiter: Delimiter) -> Box<dyn Read + 'b> {
    match delimiter {
        Delimiter::Character(_) => Box::new(text),
        Delimiter::Whitespace => Box::new(SingleSpaces { text, line: Vec::new(), position: 0 }),
    }
}

/// Replaces spaces and tabs within lines by single spaces, and removes those at the ends. Quoted
/// fields stay as they are.
struct SingleSpaces<R> {
    text: R,
    line: Vec<u8>,
    position: usize,
}

impl<R: BufRead> Read for SingleSpaces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.position == self.line.len() {
            let mut line = Vec::new();
            self.text.read_until(b'\n', &mut line)?;
            self.position = 0;
            self.line.clear();
            let (mut quoted, mut space) = (false, false);
            for byte in line.trim_ascii() {
                quoted ^= *byte == b'"';
                let is_space = !quoted && matches!(byte, b' ' | b'\t');
                if !is_space {
                    self.line.extend(space.then_some(b' '));
                    self.line.push(*byte);
                }
                space = is_space;
            }
            self.line.extend(line.ends_with(b"\n").then_some(b'\n'));
        }
        let count = (&self.line[self.position..]).read(buffer)?;
        self.position += count;
        Ok(count)
    }
}

/// Returns the first lines: at least the first two, which can be long.
fn sample(source: &Source) -> Result<Vec<u8>> {
    const USUAL_BYTES: usize = 1 << 18;
    let mut reader = source.body.buffered();
    let (mut sample, mut lines) = (Vec::new(), 0);
    while lines < 2 || sample.len() < USUAL_BYTES {
        let count =
            reader.read_until(b'\n', &mut sample).map_err(|error| source.read_error(error))?;
        if count == 0 {
            break;
        }
        lines += 1;
        let memory = source.memory.check(sample.len() as u64);
        memory.map_err(|problem| source.fault(problem))?;
    }
    Ok(sample)
}

/// Returns the number of bytes of this many lines.
fn length_of_lines(text: &[u8], lines: usize) -> usize {
    text.split_inclusive(|byte| *byte == b'\n').take(lines).map(<[u8]>::len).sum()
}

/// Returns the number of bytes of the lines at the beginning that start with `#`.
fn marked_lines(text: &[u8]) -> usize {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.take_while(|line| line.starts_with(b"#"));
    let length = lines.map(<[u8]>::len).sum();
    // A table must follow.
    if length < text.len() { length } else { 0 }
}

/// Returns the names of the columns if the last line of the heading, after `#`, has one for each
/// field of the rows.
fn heading_names(
    heading: &[u8],
    delimiter: Delimiter,
    records: &[ByteRecord],
    format: &TextFormat,
) -> Option<ByteRecord> {
    let line = heading.split_inclusive(|byte| *byte == b'\n').next_back()?;
    let line = line.trim_ascii_start().strip_prefix(b"#")?;
    let names = first_records(line, delimiter, None).into_iter().next()?;
    let fits = records.first().is_some_and(|row| row.len() == names.len() && row.len() > 1);
    let rows_are_data = || !is_header(&records[0], &records[1..], format.decimal.unwrap_or('.'));
    (fits && format.header != Some(false) && rows_are_data()).then_some(names)
}

/// Returns the length of a first line such as `sep=;`, which Excel reads, and what it declares.
fn declared_delimiter(sample: &[u8]) -> (usize, Option<Delimiter>) {
    let text = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    match text[..end].trim_ascii_end().strip_prefix(b"sep=") {
        Some([delimiter]) => {
            let length = (sample.len() - text.len() + end + 1).min(sample.len());
            (length, Some(Delimiter::Character(*delimiter)))
        }
        _ => (0, None),
    }
}

fn first_records(sample: &[u8], delimiter: Delimiter, comment: Option<u8>) -> Vec<ByteRecord> {
    let mut reader =
        options(delimiter, comment).has_headers(false).from_reader(fields(sample, delimiter));
    reader.byte_records().map_while(std::result::Result::ok).take(100).collect()
}

/// Returns the delimiter that splits all rows into the same number of fields; among several the one
/// that leaves the most numbers, then the most fields. If there is none, the delimiter that splits the
/// first row into the most fields. Whitespace is one only if no character is.
fn find_delimiter(sample: &[u8], comment: Option<u8>) -> Delimiter {
    let fit = |delimiter: &Delimiter| {
        let records = first_records(sample, *delimiter, comment);
        let first = records.first().map_or(0, ByteRecord::len);
        let rows = records.get(1..).unwrap_or_default();
        let fields = rows.first().map_or(first, ByteRecord::len);
        // The first row of R's write.table has no name for the row names.
        let even = fields > 1
            && (first == fields || first + 1 == fields)
            && rows.iter().all(|record| record.len() == fields);
        let is_number = |cell: &&[u8]| {
            let cell = cell.trim_ascii();
            number(cell, '.').is_some() || number(cell, ',').is_some() || means_missing(cell)
        };
        let cells = || rows.iter().flat_map(ByteRecord::iter);
        // In hundredths, because fractions have no order.
        let numbers = 100 * cells().filter(is_number).count() / cells().count().max(1);
        (even, if even { numbers } else { 0 }, first)
    };
    // Among equals `max_by_key` returns the last.
    let characters = [b'|', b';', b'\t', b','].map(Delimiter::Character);
    let best = characters.into_iter().max_by_key(fit).unwrap_or(Delimiter::Character(b','));
    let whitespace = Delimiter::Whitespace;
    if !fit(&best).0 && fit(&whitespace).0 { whitespace } else { best }
}

fn delimiter_name(delimiter: Delimiter) -> String {
    match delimiter {
        Delimiter::Character(b'\t') => "tabs".into(),
        Delimiter::Character(b';') => "semicolons".into(),
        Delimiter::Character(b'|') => "bars".into(),
        Delimiter::Character(b',') => "commas".into(),
        Delimiter::Character(other) => format!("'{}'", char::from(other)),
        Delimiter::Whitespace => "spaces".into(),
    }
}

/// Returns the decimal point: a comma if it does not separate fields, there are numbers such as
/// `1,5`, which no separator of thousands explains, and none such as `1.5`.
fn find_decimal(records: &[ByteRecord], delimiter: Delimiter) -> char {
    if delimiter == Delimiter::Character(b',') {
        return '.';
    }
    let cells = || records.iter().flat_map(|record| record.iter().map(<[u8]>::trim_ascii));
    let has_comma = |cell: &[u8]| {
        let Some(comma) = cell.iter().position(|byte| *byte == b',') else { return false };
        !separates_thousands(cell, comma) && number(cell, ',').is_some()
    };
    let has_point = |cell: &[u8]| cell.contains(&b'.') && number(cell, '.').is_some();
    if cells().any(has_comma) && !cells().any(has_point) { ',' } else { '.' }
}

/// Returns whether the first row has the names of the columns: it has a word and no number, a word
/// above numbers, or numbers that count on (2019, 2020, ...) above others. Empty cells are ignored,
/// because some programs leave the name of a first column of row numbers empty.
fn is_header(first: &ByteRecord, rest: &[ByteRecord], decimal: char) -> bool {
    // "inf" and "nan" are words here.
    let finite = |cell: &[u8]| number(cell.trim_ascii(), decimal).filter(|n| n.is_finite());
    let is_word = |cell: &[u8]| !cell.is_empty() && finite(cell).is_none();
    let cells: Vec<&[u8]> = first.iter().map(<[u8]>::trim_ascii).collect();
    let is_name = |cell: &[u8]| is_word(cell) && !means_missing(cell);
    let numbers: Vec<f64> = cells.iter().filter_map(|cell| finite(cell)).collect();
    if numbers.is_empty() {
        return cells.iter().any(|cell| is_name(cell));
    }
    let column = |index: usize| {
        rest.iter().filter_map(move |record| record.get(index)).map(<[u8]>::trim_ascii)
    };
    let is_numeric = |index: usize| {
        let mut present = column(index).filter(|cell| !means_missing(cell)).peekable();
        present.peek().is_some() && present.all(|cell| finite(cell).is_some())
    };
    if cells.iter().enumerate().any(|(index, cell)| is_name(cell) && is_numeric(index)) {
        return true;
    }
    let counts_on = |numbers: &[f64]| {
        numbers.len() > 1
            && numbers[0].fract() == 0.0
            && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0)
    };
    let rows = || rest.iter().map(|record| record.iter().filter_map(finite).collect::<Vec<f64>>());
    let is_year = |number: &f64| (1900.0..2100.0).contains(number);
    let has_fractions = || rows().flatten().any(|number| number.fract() != 0.0);
    let has_years = || rows().flatten().any(|number| is_year(&number));
    counts_on(&numbers)
        && rows().all(|row| !counts_on(&row))
        && (has_fractions() || (numbers.iter().all(is_year) && !has_years()))
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
        Ok(read_as(text, TextFormat::default())?.0)
    }

    fn read_as(
        text: impl Into<bytes::Bytes>,
        format: TextFormat,
    ) -> Result<(Vec<Column>, Vec<Message>)> {
        let (names, table) = TextTable::open(Source::from_bytes(text)?, format)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<usize> = (0..names.len()).collect();
        table.read(&all, &names)
    }

    fn names(text: &str) -> Vec<String> {
        let source = Source::from_bytes(text.to_string()).unwrap();
        TextTable::open(source, TextFormat::default()).unwrap().0
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
            (b"a,b\n1,x\n2,\0\n", "it holds zero bytes"),
            (b"a,b,c\n1,2,3\n4,\"5,6\n7,8,9\n7,8,9\n", "a quote that is opened in row 2"),
            (
                b"a,b,c\n1,\"2,3\n4,5,6\n7,8,9\n1,2\",3\n4,5,6\n",
                "a quote that is opened in row 1 is not closed in its line",
            ),
            (b"\n\n", "it has no rows"),
            (b"sep=;", "it has no rows"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
        assert!(read("a,b\ninf,1\nx,2").is_ok(), "a word among words");
        let long = read("a,b\n1,2\n4611686018427387905,3\n").unwrap();
        assert_eq!(long[0], categories("a", &[Some("1"), Some("4611686018427387905")]));
    }

    #[test]
    fn headers_of_numbers_and_of_odd_words() {
        for (text, expected) in [
            ("2019,2020\n5,3\n4,4\n", ["2019", "2020"]),
            ("0,1\n.5,3\n4,4\n", ["0", "1"]),
            ("inf,x\n1,2\n3,4\n", ["inf", "x"]),
            ("Na,K\n1,2\n3,4\n", ["Na", "K"]),
            ("gene,2019\n1,2\n", ["gene", "2019"]),
            ("3,4\n5,3\n4,4\n", ["1", "2"]),
            ("1,2\n3,4\n", ["1", "2"]),
            ("2019,2020\n2021,2019\n", ["1", "2"]),
            ("NA,?\n1,2\n", ["1", "2"]),
            ("a,1\nb,2\n", ["1", "2"]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn the_notation_is_recognised_or_given() {
        let expected = [numbers("a", &[1.5, 2.0]), numbers("b", &[3.0, 4.25])];
        let automatic = TextFormat::default();
        for (text, format) in [
            ("a;b\n1,5;3\n2;4,25\n", automatic),
            ("  a \t b\n1.5   3 \n 2\t\t4.25\n", automatic),
            ("#c\na,b\n1.5,3\n#,\n2,4.25", TextFormat { comment: Some(b'#'), ..automatic }),
            (
                "a:b\n1.5:3\n2:4.25\n",
                TextFormat { delimiter: Some(Delimiter::Character(b':')), ..automatic },
            ),
        ] {
            assert_eq!(read_as(text, format).unwrap().0, expected, "{text}");
        }
        let without = TextFormat { header: Some(false), ..automatic };
        assert_eq!(read_as("a,b\nc,d\n", without).unwrap().0[0].len(), 2);
        let na = ["-9".to_string()];
        let columns = read_as("a,b\n-9,1\n2,3\n", TextFormat { na: &na, ..automatic }).unwrap().0;
        assert_eq!(columns[0], numbers("a", &[f64::NAN, 2.0]));
        assert_eq!(read("a,b\n1.5,3\n  \n2,4.25\n \n").unwrap(), expected);
        let quoted = read("a b\n\"x  y\" 1\nz 2\n").unwrap();
        assert_eq!(quoted[0], categories("a", &[Some("x  y"), Some("z")]));
    }

    #[test]
    fn text_that_is_not_utf8_is_latin_1() {
        let german = b"a;b\n1,5;caf\xe9\n2;x\n".as_slice();
        let (_, notes) = read_as(german, TextFormat::default()).unwrap();
        assert_eq!(notes.len(), 2, "decimal commas and Latin-1: {notes:?}");
        let text = b"\xfc,b\n1,caf\xe9\n2,x\n".as_slice();
        let (columns, notes) = read_as(text, TextFormat::default()).unwrap();
        assert_eq!(columns[0].name, "ü");
        assert_eq!(columns[1], categories("b", &[Some("café"), Some("x")]));
        assert_eq!((notes.len(), notes[0].to_string().contains("Latin-1")), (1, true));
    }

    #[test]
    fn points_that_separate_thousands_are_told() {
        let rows: String = (0..9).map(|k| format!("{},{}.318\n", 352 + k, k + 1)).collect();
        let mixed = format!("a,b\n{rows}2.105,950\n");
        let error = read(mixed.clone()).unwrap_err().to_string();
        assert!(
            error.contains("column 'b' has values such as '1.318', which can be 1.318 or 1318")
        );
        let point = TextFormat { decimal: Some('.'), ..TextFormat::default() };
        assert_eq!(read_as(mixed, point).unwrap().0[1].len(), 10);
        assert!(read(format!("a,b\n{rows}")).is_ok(), "three decimals in all rows");
    }

    #[test]
    fn headings_of_other_programs() {
        let expected = [numbers("a", &[1.5, 2.0]), numbers("b", &[3.0, 4.25])];
        for text in ["# a b\n1.5 3\n2 4.25\n", "##x\n#a,b\n1.5,3\n2,4.25\n"] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        let (columns, notes) =
            read_as("# made by\na,b\n1.5,3\n2,4.25\n", TextFormat::default()).unwrap();
        assert_eq!((&columns[..], notes.len()), (&expected[..], 1));
        let skipping = TextFormat { skip_lines: 1, ..TextFormat::default() };
        assert_eq!(read_as("Measurements\na,b\n1.5,3\n2,4.25\n", skipping).unwrap().0, expected);
        let columns = read("\"a\" \"b\"\n\"r1\" 1.5 3\n\"r2\" 2 4.25\n").unwrap();
        assert_eq!((&columns[1..], columns[0].name.as_str()), (&expected[..], "row name"));
        let header = read("Length, cm;Weight, kg\n173,46;63,43\n170,5;61,2\n").unwrap();
        assert_eq!(header[1], numbers("Weight, kg", &[63.43, 61.2]));
        let (_, notes) = read_as("zip,b\n02139,1\n10001,2\n", TextFormat::default()).unwrap();
        assert!(notes[0].to_string().contains("such as '02139'"), "{notes:?}");
    }

    #[test]
    fn long_headers_are_whole() {
        let header: Vec<String> = (0..60_000).map(|k| format!("gene{k}")).collect();
        let row = vec!["1"; header.len()].join(",");
        let read = names(&format!("{}\n{row}\n", header.join(",")));
        assert_eq!(read, header);
    }

    #[test]
    fn quoted_lines_are_text() {
        let columns = read("a,b\n\"one, two\nthree, four\nfive\",1\nx,2\n").unwrap();
        assert_eq!(columns[0].len(), 2);
    }
}
