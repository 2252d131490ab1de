//! NumPy's formats: NPY (one array) and NPZ (a zip archive of them).

use super::frame::{Categories, Column, Values, truth_label};
use super::integers::{ADVICE, ROUNDED, exact};
#[cfg(feature = "npz")]
use super::source::BodyReader;
use super::source::Source;
use super::text::means_missing;
use super::write_whole;
use crate::error::Result;
#[cfg(feature = "npz")]
use crate::error::quote;
use crate::message::Message;
#[cfg(feature = "npz")]
use std::io::{BufReader, Cursor};
use std::io::{Read, Write};
use std::path::Path;
#[cfg(feature = "npz")]
use zip::ZipArchive;

/// Writes a row-major matrix with this many columns as NPY version 1.0.
pub fn write_npy(path: &Path, values: &[f64], columns: usize) -> Result<()> {
    write_whole(path, |file| write_array(file, values, columns))
}

/// Writes named arrays, each with its number of columns, as NPZ.
#[cfg(feature = "npz")]
pub fn write_npz(path: &Path, arrays: &[(&str, &[f64], usize)]) -> Result<()> {
    write_whole(path, |file| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        for (name, values, columns) in arrays {
            archive.start_file(format!("{name}.npy"), options).map_err(std::io::Error::other)?;
            write_array(&mut archive, values, *columns)?;
        }
        let bytes = archive.finish().map_err(std::io::Error::other)?.into_inner();
        file.write_all(&bytes)
    })
}

/// Fails: this build cannot write NPZ files.
#[cfg(not(feature = "npz"))]
pub fn write_npz(path: &Path, _arrays: &[(&str, &[f64], usize)]) -> Result<()> {
    let reason = "this build cannot write NPZ files; build it with the feature `npz`";
    Err(crate::error::not_writable(path, reason))
}

fn write_array(file: &mut impl Write, values: &[f64], columns: usize) -> std::io::Result<()> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    let mut header =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Magic, version and length take 10 bytes; the data starts at a multiple of 64.
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in values {
        file.write_all(&value.to_le_bytes())?;
    }
    Ok(())
}

/// The arrays of an NPY or NPZ file whose headers have been read.
pub(super) struct NumpyTable {
    source: Source,
    arrays: Vec<NamedArray>,
    notes: Vec<Message>,
}

struct NamedArray {
    /// The entry in the archive, `None` for an NPY file.
    #[cfg(feature = "npz")]
    entry: Option<usize>,
    header: Header,
}

impl NumpyTable {
    /// Opens an NPY file; its columns are named by their position, or by the fields of a structured
    /// array.
    pub(super) fn open_array(source: Source) -> Result<(Vec<String>, Self)> {
        let header = Header::read(&mut source.body.buffered(), source.body.length())
            .map_err(|problem| problem.in_file(&source, "NPY"))?;
        let names = header.column_names("");
        let arrays = vec![NamedArray {
            #[cfg(feature = "npz")]
            entry: None,
            header,
        }];
        Ok((names, Self { source, arrays, notes: Vec::new() }))
    }

    /// Opens an NPZ file. The columns of a matrix `x` are `x1`, `x2`, ...; a vector `y` is a column
    /// `y`. Arrays that are no columns, or of another length than most, are left out.
    #[cfg(feature = "npz")]
    pub(super) fn open_archive(source: Source) -> Result<(Vec<String>, Self)> {
        let mut archive = open_zip(&source)?;
        let mut found: Vec<(String, NamedArray)> = Vec::new();
        let (mut notes, mut unsuitable) = (Vec::new(), None);
        for entry in 0..archive.len() {
            let damaged = |error| source.damaged("NPZ", error);
            let mut file = archive.by_index(entry).map_err(damaged)?;
            let path = file.name().map_err(damaged)?.into_owned();
            let Some(name) = path.strip_suffix(".npy") else { continue };
            // Deflate compresses at most 1032 to 1; the size that an entry claims may be wrong.
            let max = file.compressed_size().min(source.body.length()).saturating_mul(1032);
            let max = max.min(file.size());
            match Header::read(&mut file, max) {
                Ok(header) => {
                    found.push((name.to_string(), NamedArray { entry: Some(entry), header }));
                }
                Err(problem) if problem.damage => return Err(problem.in_array(&source, name)),
                Err(problem) => {
                    notes.push(format!("array {} {} and was left out", quote(name), problem.text));
                    unsuitable.get_or_insert_with(|| problem.in_array(&source, name));
                }
            }
        }
        let columns_of_length = |rows: usize| -> usize {
            let arrays = found.iter().filter(|(_, array)| array.header.rows == rows);
            arrays.map(|(_, array)| array.header.columns()).sum()
        };
        let lengths = found.iter().map(|(_, array)| array.header.rows);
        let Some(rows) = lengths.max_by_key(|rows| (columns_of_length(*rows), *rows)) else {
            let empty = || {
                source.fault("it is a zip archive without NumPy arrays or a workbook; extract the table first")
            };
            return Err(unsuitable.unwrap_or_else(empty));
        };
        let (mut names, mut arrays) = (Vec::new(), Vec::new());
        for (name, array) in found {
            if array.header.rows == rows {
                names.extend(array.header.column_names(&name));
                arrays.push(array);
                continue;
            }
            let shown = quote(&name);
            let problem =
                format!("array {shown} has {} rows, but others have {rows}", array.header.rows);
            if ["x", "y"].iter().any(|side| name.eq_ignore_ascii_case(side)) {
                return Err(source.fault(problem));
            }
            notes.push(format!("{problem}; it was left out"));
        }
        Ok((names, Self { source, arrays, notes: notes.into_iter().map(Message::from).collect() }))
    }

    /// Reads the wanted columns; arrays without wanted columns are not decompressed.
    pub(super) fn read(
        self,
        wanted: &[usize],
        names: &[&str],
    ) -> Result<(Vec<Column>, Vec<Message>)> {
        let rows = self.arrays.first().map_or(0, |array| array.header.rows);
        let memory = self.source.memory.check_values(rows, wanted.len());
        memory.map_err(|problem| self.source.fault(problem))?;
        let mut values: Vec<Option<Values>> = wanted.iter().map(|_| None).collect();
        let mut first = 0;
        for array in &self.arrays {
            let last = first + array.header.columns();
            let slots: Vec<usize> =
                (0..wanted.len()).filter(|slot| (first..last).contains(&wanted[*slot])).collect();
            let columns: Vec<usize> = slots.iter().map(|slot| wanted[*slot] - first).collect();
            first = last;
            if slots.is_empty() {
                continue;
            }
            let found = self.read_array(array, &columns).map_err(|problem| {
                let slot = problem.column.and_then(|column| slots.get(column));
                problem.in_column(&self.source, slot.map(|slot| names[*slot]))
            })?;
            for (slot, column) in slots.into_iter().zip(found) {
                values[slot] = Some(column);
            }
        }
        let columns = values.into_iter().flatten().zip(names);
        let columns = columns.map(|(values, name)| Column { name: name.to_string(), values });
        Ok((columns.collect(), self.notes))
    }

    fn read_array(
        &self,
        array: &NamedArray,
        columns: &[usize],
    ) -> std::result::Result<Vec<Values>, Problem> {
        #[cfg(feature = "npz")]
        if let Some(entry) = array.entry {
            return self.read_entry(entry, &array.header, columns);
        }
        let mut reader = self.source.body.buffered();
        skip(&mut reader, array.header.length)?;
        array.header.decode(&mut reader, columns)
    }

    #[cfg(feature = "npz")]
    fn read_entry(
        &self,
        entry: usize,
        header: &Header,
        columns: &[usize],
    ) -> std::result::Result<Vec<Values>, Problem> {
        let mut archive = open_zip(&self.source).map_err(Problem::damage)?;
        let file = archive.by_index(entry).map_err(Problem::damage)?;
        let mut reader = BufReader::new(file);
        skip(&mut reader, header.length)?;
        let values = header.decode(&mut reader, columns)?;
        // The archive's checksum is compared at the end of the entry.
        std::io::copy(&mut reader, &mut std::io::sink()).map_err(Problem::damage)?;
        Ok(values)
    }
}

#[cfg(feature = "npz")]
fn open_zip(source: &Source) -> Result<ZipArchive<BufReader<BodyReader>>> {
    ZipArchive::new(source.body.buffered()).map_err(|error| source.damaged("NPZ", error))
}

fn skip(reader: &mut impl Read, count: u64) -> std::result::Result<(), Problem> {
    let skipped = std::io::copy(&mut reader.by_ref().take(count), &mut std::io::sink());
    match skipped.map_err(Problem::damage)? {
        skipped if skipped == count => Ok(()),
        _ => Err(Problem::damage("it ends too early")),
    }
}

/// A problem with an array: damage, or a kind of array that is not supported.
struct Problem {
    text: String,
    damage: bool,
    /// The wanted column that has the problem.
    column: Option<usize>,
}

impl Problem {
    fn damage(reason: impl std::fmt::Display) -> Self {
        Self { text: reason.to_string(), damage: true, column: None }
    }

    fn unsuitable(text: impl Into<String>) -> Self {
        Self { text: text.into(), damage: false, column: None }
    }

    fn in_row(column: usize, row: usize, element: BadElement) -> Self {
        let text = format!("has {} in row {}; {}", element.what, row + 1, element.advice);
        Self { text, damage: false, column: Some(column) }
    }

    fn in_file(self, source: &Source, format: &str) -> crate::Error {
        match self.damage {
            true => source.damaged(format, self.text),
            false => source.fault(format!("the array {}", self.text)),
        }
    }

    fn in_array(self, source: &Source, name: &str) -> crate::Error {
        match self.damage {
            true => source.damaged("NPZ", format!("array '{name}': {}", self.text)),
            false => source.fault(format!("array '{name}' {}", self.text)),
        }
    }

    fn in_column(self, source: &Source, column: Option<&str>) -> crate::Error {
        match column {
            Some(name) => {
                source.fault(format!("column {} {}", crate::error::quote(name), self.text))
            }
            None => self.in_file(source, "NumPy"),
        }
    }
}

/// The header of an array, checked against the number of bytes that follow it.
struct Header {
    /// The columns of a row, and the names of those of a structured array.
    fields: Vec<Field>,
    names: Option<Vec<String>>,
    is_vector: bool,
    fortran_order: bool,
    rows: usize,
    /// The number of bytes of a row, and of all before the first.
    row_width: usize,
    length: u64,
}

/// An element of a row.
#[derive(Clone, Copy)]
struct Field {
    item: Item,
    /// The number of bytes before it in the row.
    start: usize,
}

/// The type of an array's elements.
#[derive(Clone, Copy)]
struct Item {
    kind: Kind,
    width: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Float,
    Signed,
    Unsigned,
    /// Signed integers, of which the smallest means a missing value.
    Time,
    Truth,
    /// Characters of 4 bytes.
    Unicode,
    Bytes,
}

impl Header {
    /// Reads the header of an array; header and data have at most `available` bytes.
    fn read(reader: &mut impl Read, available: u64) -> std::result::Result<Self, Problem> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(Problem::damage)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err(Problem::damage("it does not start like a NumPy array"));
        }
        let mut size = [0; 4];
        let size_width = match start[6] {
            1 => 2,
            2 | 3 => 4,
            other => return Err(Problem::unsuitable(format!("has the unknown version {other}"))),
        };
        reader.read_exact(&mut size[..size_width]).map_err(Problem::damage)?;
        let size = u64::from(u32::from_le_bytes(size));
        let length = 8 + size_width as u64 + size;
        let data = available.checked_sub(length);
        let data = data.ok_or_else(|| Problem::damage("it ends within its header"))?;
        let mut text = Vec::new();
        reader.by_ref().take(size).read_to_end(&mut text).map_err(Problem::damage)?;
        let text = String::from_utf8_lossy(&text);
        let unclear = || Problem::damage("its header cannot be read");

        let descr = value_of(&text, "descr").ok_or_else(unclear)?;
        let order = value_of(&text, "fortran_order").ok_or_else(unclear)?;
        let shape = value_of(&text, "shape").and_then(shape_of).ok_or_else(unclear)?;
        let (rows, columns) = match shape[..] {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            _ => {
                let axes = shape.len();
                return Err(Problem::unsuitable(format!(
                    "has {axes} dimensions; only rows (1) or rows and columns (2) can be read"
                )));
            }
        };
        if rows == 0 || columns == 0 {
            return Err(Problem::unsuitable(format!("is empty: {rows} rows, {columns} columns")));
        }
        let does_not_fit = |width: usize| {
            Problem::damage(format!(
                "{rows} x {columns} values of {width} bytes do not fit into {data} bytes"
            ))
        };
        let fits = |width: usize| {
            let total = rows.checked_mul(columns).and_then(|count| count.checked_mul(width));
            total.is_some_and(|total| total as u64 <= data)
        };
        let mut structured_width = None;
        let (fields, names) = match descr.starts_with('[') {
            true if columns > 1 => {
                return Err(Problem::unsuitable(
                    "is a structured array of 2 dimensions; flatten it",
                ));
            }
            true => {
                let (fields, names, width) = structured(descr)?;
                structured_width = Some(width);
                (fields, Some(names))
            }
            false => {
                let item = Item::parse(descr)?;
                if !fits(item.width) {
                    return Err(does_not_fit(item.width));
                }
                let field = |column: usize| Field { item, start: column * item.width };
                ((0..columns).map(field).collect(), None)
            }
        };
        let plain_width = fields.iter().map(|field| field.item.width).sum();
        let row_width = structured_width.unwrap_or(plain_width);
        if names.is_some() && !fits(row_width) {
            return Err(does_not_fit(row_width));
        }
        let (is_vector, fortran_order) = (shape.len() == 1, order.starts_with("True"));
        Ok(Self { fields, names, is_vector, fortran_order, rows, row_width, length })
    }

    fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Returns the names of the columns of an array with this name.
    fn column_names(&self, array: &str) -> Vec<String> {
        match &self.names {
            Some(names) => names.clone(),
            None if self.is_vector && !array.is_empty() => vec![array.to_string()],
            None => (1..=self.columns()).map(|position| format!("{array}{position}")).collect(),
        }
    }

    /// Reads the data and returns the wanted columns.
    fn decode(
        &self,
        reader: &mut impl Read,
        wanted: &[usize],
    ) -> std::result::Result<Vec<Values>, Problem> {
        let item = |column: usize| self.fields[column].item;
        let mut columns: Vec<Growing> =
            wanted.iter().map(|column| Growing::new(item(*column), self.rows)).collect();
        if self.fortran_order && self.names.is_none() {
            for column in 0..self.columns() {
                let width = item(column).width;
                let slots: Vec<usize> =
                    (0..wanted.len()).filter(|slot| wanted[*slot] == column).collect();
                if slots.is_empty() {
                    skip(reader, (self.rows * width) as u64)?;
                    continue;
                }
                let mut bytes = vec![0; width];
                for row in 0..self.rows {
                    reader.read_exact(&mut bytes).map_err(Problem::damage)?;
                    for slot in &slots {
                        item(column)
                            .append(&bytes, &mut columns[*slot])
                            .map_err(|bad| Problem::in_row(*slot, row, bad))?;
                    }
                }
            }
        } else {
            let mut bytes = vec![0; self.row_width];
            for row in 0..self.rows {
                reader.read_exact(&mut bytes).map_err(Problem::damage)?;
                for (slot, (column, index)) in columns.iter_mut().zip(wanted).enumerate() {
                    let Field { item, start } = self.fields[*index];
                    item.append(&bytes[start..start + item.width], column)
                        .map_err(|bad| Problem::in_row(slot, row, bad))?;
                }
            }
        }
        Ok(columns.into_iter().map(Growing::finish).collect())
    }
}

/// Parses the fields of a structured array, such as `[('a', '<f8'), ('b', '|S3')]`. Returns them,
/// their names and the number of bytes of a row.
fn structured(descr: &str) -> std::result::Result<(Vec<Field>, Vec<String>, usize), Problem> {
    let unsuitable =
        || Problem::unsuitable("has fields that are not single values; save them as plain columns");
    let (mut fields, mut names, mut start) = (Vec::new(), Vec::new(), 0usize);
    let mut rest = descr.trim_start_matches('[').trim_start();
    while let Some(inside) = rest.strip_prefix('(') {
        let (field, after) = inside.split_once(')').ok_or_else(unsuitable)?;
        let mut quoted = field.split(['\'', '"']);
        // Before, name, comma, type, after.
        let (name, kind) = (quoted.nth(1), quoted.nth(1));
        let (Some(name), Some(kind), Some(tail)) = (name, kind, quoted.next()) else {
            return Err(unsuitable());
        };
        if !tail.trim().is_empty() || quoted.next().is_some() {
            return Err(unsuitable());
        }
        // A type V is padding between fields.
        let padding = kind.trim_start_matches('|').strip_prefix('V').and_then(|w| w.parse().ok());
        let width = match padding {
            Some(width) => width,
            None => {
                let item = Item::parse(&format!("'{kind}'"))?;
                fields.push(Field { item, start });
                names.push(name.to_string());
                item.width
            }
        };
        start = start.checked_add(width).ok_or_else(unsuitable)?;
        rest = after.trim_start_matches(',').trim_start();
    }
    match fields.is_empty() || !rest.starts_with(']') {
        true => Err(unsuitable()),
        false => Ok((fields, names, start)),
    }
}

/// An element that is not supported, and what to do about it.
struct BadElement {
    what: &'static str,
    advice: &'static str,
}

enum Growing {
    Continuous(Vec<f64>),
    Discrete(Categories),
}

impl Growing {
    fn new(item: Item, rows: usize) -> Self {
        match item.kind {
            Kind::Float | Kind::Signed | Kind::Unsigned | Kind::Time => {
                Growing::Continuous(Vec::with_capacity(rows))
            }
            Kind::Truth | Kind::Unicode | Kind::Bytes => Growing::Discrete(Categories::default()),
        }
    }

    fn finish(self) -> Values {
        match self {
            Growing::Continuous(values) => Values::Continuous(values),
            Growing::Discrete(categories) => categories.finish(),
        }
    }
}

impl Item {
    /// Parses NumPy's notation, such as '<f8'.
    fn parse(text: &str) -> std::result::Result<Self, Problem> {
        let quote = text.chars().next().filter(|quote| ['\'', '"'].contains(quote));
        let code = quote.and_then(|quote| text[1..].split(quote).next());
        let code = code.ok_or_else(|| Problem::damage("its header cannot be read"))?;
        let (big_endian, code) = match code.as_bytes().first() {
            Some(b'>') => (true, &code[1..]),
            Some(b'<' | b'|') => (false, &code[1..]),
            Some(b'=') => (cfg!(target_endian = "big"), &code[1..]),
            _ => (false, code),
        };
        let width = code.get(1..).and_then(|digits| digits.parse::<usize>().ok());
        let (kind, width) = match (code.as_bytes().first(), width) {
            (Some(b'O'), _) => {
                return Err(Problem::unsuitable(
                    "holds Python objects, and loading those can run any code; save it with a \
                     numeric or text dtype, e.g. array.astype(float)",
                ));
            }
            (Some(b'f'), Some(width @ (2 | 4 | 8))) => (Kind::Float, width),
            (Some(b'i'), Some(width @ (1 | 2 | 4 | 8))) => (Kind::Signed, width),
            (Some(b'u'), Some(width @ (1 | 2 | 4 | 8))) => (Kind::Unsigned, width),
            // Dates and durations, such as M8[ns].
            (Some(b'M' | b'm'), _) if code.get(1..2) == Some("8") => (Kind::Time, 8),
            (Some(b'b'), Some(1)) => (Kind::Truth, 1),
            (Some(b'U'), Some(width @ 1..)) => (Kind::Unicode, width.saturating_mul(4)),
            (Some(b'S' | b'a'), Some(width @ 1..)) => (Kind::Bytes, width),
            _ => {
                let code = crate::error::quote(code);
                return Err(Problem::unsuitable(format!(
                    "has the dtype {code}; save it as floats, integers, booleans or text"
                )));
            }
        };
        Ok(Self { kind, width, big_endian })
    }

    /// Appends an element, unless it is not supported.
    fn append(self, bytes: &[u8], column: &mut Growing) -> std::result::Result<(), BadElement> {
        let remove = |what| BadElement { what, advice: "remove it" };
        match column {
            Growing::Continuous(values) => {
                let rounded = BadElement { what: ROUNDED, advice: ADVICE };
                let value = self.number(bytes).ok_or(rounded)?;
                if value.is_infinite() {
                    return Err(remove("an infinite value"));
                }
                values.push(value);
            }
            Growing::Discrete(categories) if self.kind == Kind::Truth => {
                categories.push(Some(truth_label(bytes != [0])));
            }
            Growing::Discrete(categories) => {
                let text = self.text(bytes);
                let text = text.ok_or_else(|| remove("text that is not valid Unicode"))?;
                let text = text.trim();
                categories.push((!means_missing(text.as_bytes())).then_some(text));
            }
        }
        Ok(())
    }

    /// Decodes a number; returns `None` for an integer that would be rounded.
    fn number(self, bytes: &[u8]) -> Option<f64> {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        if self.big_endian {
            eight[..bytes.len()].reverse();
        }
        let [a, b, c, d, ..] = eight;
        let unused = 64 - 8 * bytes.len() as u32;
        match (self.kind, bytes.len()) {
            (Kind::Float, 2) => Some(half::f16::from_le_bytes([a, b]).to_f64()),
            (Kind::Float, 4) => Some(f32::from_le_bytes([a, b, c, d]).into()),
            (Kind::Float, _) => Some(f64::from_le_bytes(eight)),
            (Kind::Signed, _) => exact((i64::from_le_bytes(eight) << unused) >> unused),
            // As in other formats, times are rounded to 53 bits.
            (Kind::Time, _) => match i64::from_le_bytes(eight) {
                i64::MIN => Some(f64::NAN),
                time => Some(time as f64),
            },
            _ => exact(u64::from_le_bytes(eight)),
        }
    }

    /// Decodes text, which is padded with zeros; returns `None` if it is not valid Unicode.
    fn text(self, bytes: &[u8]) -> Option<String> {
        if self.kind == Kind::Bytes {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            return std::str::from_utf8(&bytes[..end]).ok().map(str::to_string);
        }
        let characters = bytes.chunks_exact(4).map(|four| {
            let mut code = [0; 4];
            code.copy_from_slice(four);
            let read = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
            char::from_u32(read(code))
        });
        let text = characters.collect::<Option<String>>()?;
        Some(text.trim_end_matches('\0').to_string())
    }
}

/// Returns the text after a key of a Python dictionary.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let after = quoted.iter().find_map(|quoted| text.split_once(quoted.as_str()))?.1;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

/// Returns the numbers of a Python tuple, which Python 2 wrote with a trailing L.
fn shape_of(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let items = inside.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.trim_end_matches('L').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_aligned_and_the_data_follows() {
        let mut bytes = Vec::new();
        write_array(&mut bytes, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3).unwrap();
        let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        assert_eq!((10 + length) % 64, 0);
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(header.contains("'shape': (2, 3)") && header.ends_with('\n'));
        assert_eq!(bytes[10 + length..].len(), 48);
        assert_eq!(bytes[10 + length + 8..10 + length + 16], 2f64.to_le_bytes());
    }

    #[cfg(feature = "npz")]
    #[test]
    fn an_archive_holds_its_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        write_npz(&path, &[("x", &[1.0, 2.0], 1), ("y", &[3.0], 1)]).unwrap();
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        archive.by_name("y.npy").unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[bytes.len() - 8..], 3f64.to_le_bytes());
        assert_eq!(archive.len(), 2);
    }

    fn array(descr: &str, order: &str, shape: &str, data: &[u8], version: u8) -> Vec<u8> {
        let header =
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<Column>> {
        let (names, table) = NumpyTable::open_array(Source::from_bytes(bytes)?)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<usize> = (0..names.len()).collect();
        Ok(table.read(&all, &names)?.0)
    }

    fn numbers(column: &Column) -> &[f64] {
        match &column.values {
            Values::Continuous(values) => values,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_types_of_numbers_in_both_byte_orders() {
        let cases: [(&str, Vec<u8>, f64); 10] = [
            ("f2", half::f16::from_f64(-1.5).to_le_bytes().to_vec(), -1.5),
            ("f4", (-0.5f32).to_le_bytes().to_vec(), -0.5),
            ("f8", 0.1f64.to_le_bytes().to_vec(), 0.1),
            ("i1", (-5i8).to_le_bytes().to_vec(), -5.0),
            ("i2", (-500i16).to_le_bytes().to_vec(), -500.0),
            ("i4", (-70_000i32).to_le_bytes().to_vec(), -70_000.0),
            ("i8", (-(1i64 << 40)).to_le_bytes().to_vec(), -(2f64.powi(40))),
            ("u1", vec![200], 200.0),
            ("u2", 60_000u16.to_le_bytes().to_vec(), 60_000.0),
            ("u8", (1u64 << 63).to_le_bytes().to_vec(), 2f64.powi(63)),
        ];
        for (code, data, expected) in cases {
            for version in 1..=3 {
                let little = array(&format!("'<{code}'"), "False", "(1,)", &data, version);
                assert_eq!(numbers(&read(little).unwrap()[0]), [expected], "{code}");
                let reversed: Vec<u8> = data.iter().rev().copied().collect();
                let big = array(&format!("'>{code}'"), "False", "(1, 1)", &reversed, version);
                assert_eq!(numbers(&read(big).unwrap()[0]), [expected], "{code}");
            }
        }
    }

    #[test]
    fn both_orders_of_a_matrix() {
        let row_after_row =
            read(array("'|u1'", "False", "(2, 3)", &[1, 2, 3, 4, 5, 6], 1)).unwrap();
        let column_after_column =
            read(array("'|u1'", "True", "(2L, 3L)", &[1, 4, 2, 5, 3, 6], 1)).unwrap();
        assert_eq!(row_after_row, column_after_column);
        assert_eq!(row_after_row[2].name, "3");
        assert_eq!(numbers(&row_after_row[2]), [3.0, 6.0]);
    }

    #[test]
    fn text_and_truth_are_discrete() {
        let unicode: Vec<u8> = ['b', '\0', 'a', 'e', '\0', '\0']
            .iter()
            .flat_map(|c| (*c as u32).to_le_bytes())
            .collect();
        let columns = read(array("'<U2'", "False", "(3,)", &unicode, 1)).unwrap();
        assert!(columns[0].is_missing(2));
        let Values::Discrete { labels, .. } = &columns[0].values else { panic!() };
        assert_eq!(labels, &["b", "ae"]);
        let columns = read(array("'|S2'", "False", "(2,)", b"b\0ae", 1)).unwrap();
        let Values::Discrete { labels, .. } = &columns[0].values else { panic!() };
        assert_eq!(labels, &["b", "ae"]);
        let columns = read(array("'|b1'", "False", "(2,)", &[1, 0], 1)).unwrap();
        let Values::Discrete { labels, .. } = &columns[0].values else { panic!() };
        assert_eq!(labels, &["true", "false"]);
    }

    #[test]
    fn written_arrays_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        write_npz(&path, &[("x", &[1.0, 2.0, 3.0, 4.0], 2), ("y", &[5.0, 6.0], 1)]).unwrap();
        let opened = crate::data::open(&path, &Default::default()).unwrap();
        assert_eq!(opened.names(), ["x1", "x2", "y1"]);
        let frame = opened.read(&[2, 1]).unwrap();
        assert_eq!((frame.rows, frame.columns.len()), (2, 2));
        assert_eq!(numbers(&frame.columns[0]), [5.0, 6.0]);
        assert_eq!(numbers(&frame.columns[1]), [2.0, 4.0]);
    }

    #[test]
    fn unsuitable_and_damaged_arrays_are_refused() {
        let inf = f64::INFINITY.to_le_bytes();
        for (bytes, expected) in [
            (array("'|O'", "False", "(2,)", &[0; 16], 1), "holds Python objects"),
            (array("[('a', '<f8', (2,))]", "False", "(1,)", &[0; 16], 1), "not single values"),
            (array("[('a', [('b', '<f8')])]", "False", "(2,)", &[0; 16], 1), "not single values"),
            (array("[('a', '<f8')]", "False", "(3,)", &[0; 16], 1), "do not fit into 16 bytes"),
            (array("'<c16'", "False", "(1,)", &[0; 16], 1), "dtype 'c16'"),
            (array("'<f8'", "False", "(1, 1, 1)", &[0; 8], 1), "has 3 dimensions"),
            (array("'<f8'", "False", "()", &[0; 8], 1), "has 0 dimensions"),
            (array("'<f8'", "False", "(0, 5)", &[], 1), "is empty"),
            (array("'<f8'", "False", "(3,)", &[0; 16], 1), "do not fit into 16 bytes"),
            (array("'<f8'", "False", "(99999999999, 99999999999)", &[], 1), "do not fit"),
            (array("'<f8'", "False", "(1,)", &inf, 1), "column '1' has an infinite value in row 1"),
            (
                array("'<i8'", "False", "(1,)", &((1i64 << 62) + 1).to_le_bytes(), 1),
                "column '1' has an integer above 2^53, which would be rounded, in row 1; subtract",
            ),
            (array("'<u8'", "False", "(1,)", &[255; 8], 1), "an integer above 2^53"),
            (array("'<U1'", "False", "(1,)", &[255; 4], 1), "not valid Unicode"),
            (b"\x93NUMPY\x01\0\xff\xff{".to_vec(), "ends within its header"),
            (b"\x93NUMPY\x09\0\x01\0{".to_vec(), "unknown version 9"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn structured_arrays_and_times() {
        let mut data = Vec::new();
        for row in 0..3i64 {
            data.extend((row as f64 / 2.0).to_le_bytes());
            data.extend([b'k', b'0' + row as u8, 0]);
            data.extend([0; 2]);
            data.extend(if row == 1 { i64::MIN } else { row }.to_le_bytes());
        }
        let descr = "[('a', '<f8'), ('b', '|S2'), ('', '|V3'), ('t', '<M8[ns]')]";
        let columns = read(array(descr, "False", "(3,)", &data, 1)).unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "t"]);
        assert_eq!(numbers(&columns[0]), [0.0, 0.5, 1.0]);
        assert!(columns[2].is_missing(1));
        assert_eq!(numbers(&columns[2])[2], 2.0);
    }

    #[test]
    fn arrays_of_an_archive_must_have_equal_lengths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        write_npz(&path, &[("x", &[1.0, 2.0], 1), ("y", &[3.0], 1)]).unwrap();
        let error = crate::data::open(&path, &Default::default()).err().unwrap().to_string();
        assert!(error.contains("array 'y' has 1 rows, but others have 2"), "{error}");
        write_npz(&path, &[]).unwrap();
        let error = crate::data::open(&path, &Default::default()).err().unwrap().to_string();
        assert!(error.contains("without NumPy arrays"), "{error}");
    }

    #[cfg(feature = "npz")]
    #[test]
    fn vectors_are_columns_and_other_arrays_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, bytes) in [
            ("X", array("'|u1'", "False", "(3, 2)", &[1, 2, 3, 4, 5, 6], 1)),
            ("y", array("'|u1'", "False", "(3,)", &[7, 8, 9], 1)),
            ("classes", array("'|u1'", "False", "(2,)", &[0, 1], 1)),
            ("cube", array("'|u1'", "False", "(1, 1, 1)", &[0], 1)),
        ] {
            archive.start_file(format!("{name}.npy"), options).unwrap();
            archive.write_all(&bytes).unwrap();
        }
        archive.finish().unwrap();
        let opened = crate::data::open(&path, &Default::default()).unwrap();
        assert_eq!(opened.names(), ["X1", "X2", "y"]);
        let frame = opened.read(&[1, 2]).unwrap();
        assert_eq!(numbers(&frame.columns[1]), [7.0, 8.0, 9.0]);
        let notes: Vec<String> = frame.notes.iter().map(Message::to_string).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[1].contains("array 'classes' has 2 rows, but others have 3"), "{notes:?}");
    }
}
