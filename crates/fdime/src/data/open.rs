#[cfg(feature = "arrow")]
use super::arrow_ipc::ArrowTable;
use super::csv::TextTable;
use super::frame::Frame;
use super::json_lines::JsonLines;
use super::npy::NumpyTable;
#[cfg(feature = "parquet")]
use super::parquet::ParquetTable;
use super::reading::{Reading, TextFormat};
use super::source::{Format, Source};
#[cfg(feature = "excel")]
use super::workbook::Sheet;
use crate::error::{Result, data_error};
use crate::message::printable;
use std::path::Path;

/// A table whose column names are read, but not its values.
pub struct Opened<'a> {
    file: String,
    names: Vec<String>,
    table: Table<'a>,
}

enum Table<'a> {
    Text(TextTable<'a>),
    JsonLines(JsonLines<'a>),
    #[cfg(feature = "excel")]
    Sheet(Sheet<'a>),
    #[cfg(feature = "parquet")]
    Parquet(ParquetTable),
    #[cfg(feature = "arrow")]
    Arrow(ArrowTable),
    Numpy(NumpyTable),
}

/// Opens a table: CSV, TSV, JSON lines, Excel, Parquet, Arrow (file or stream), NPY or NPZ,
/// compressed or not. The path "-" is standard input. The format is recognised by the content, not
/// by the name.
pub fn open<'a>(path: &Path, reading: &Reading<'a>) -> Result<Opened<'a>> {
    Opened::new(Source::open(path, reading.memory())?, reading)
}

impl<'a> Opened<'a> {
    pub(super) fn new(source: Source, reading: &Reading<'a>) -> Result<Self> {
        fn with<T, U>((names, table): (Vec<String>, T), wrap: fn(T) -> U) -> (Vec<String>, U) {
            (names, wrap(table))
        }
        let file = source.name.clone();
        let (mut names, table) = match source.format()? {
            Format::Text => with(TextTable::open(source, reading.text)?, Table::Text),
            Format::JsonLines => with(JsonLines::open(source, reading.text)?, Table::JsonLines),
            #[cfg(feature = "parquet")]
            Format::Parquet => with(ParquetTable::open(source)?, Table::Parquet),
            #[cfg(feature = "arrow")]
            Format::ArrowFile => with(ArrowTable::open_file(source)?, Table::Arrow),
            #[cfg(feature = "arrow")]
            Format::ArrowStream => with(ArrowTable::open_stream(source)?, Table::Arrow),
            Format::Npy => with(NumpyTable::open_array(source)?, Table::Numpy),
            #[cfg(feature = "excel")]
            Format::Zip if super::workbook::is_workbook(&source) => {
                with(Sheet::open(source, reading.text)?, Table::Sheet)
            }
            #[cfg(feature = "excel")]
            Format::OldExcel => with(Sheet::open(source, reading.text)?, Table::Sheet),
            #[cfg(feature = "npz")]
            Format::Zip => with(NumpyTable::open_archive(source)?, Table::Numpy),
            #[cfg(not(feature = "excel"))]
            Format::OldExcel => return Err(source.not_compiled_in("Excel", "excel")),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(source.not_compiled_in("Parquet", "parquet")),
            #[cfg(not(feature = "arrow"))]
            Format::ArrowFile | Format::ArrowStream => {
                return Err(source.not_compiled_in("Arrow", "arrow"));
            }
            #[cfg(not(feature = "npz"))]
            Format::Zip => return Err(source.not_compiled_in("NPZ", "npz")),
        };
        if names.is_empty() {
            return Err(data_error(&file, "it has no columns"));
        }
        names.iter_mut().for_each(|name| *name = printable(name).into_owned());
        Ok(Self { file, names, table })
    }

    /// Returns the path, or "standard input".
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the names of all columns, which may repeat.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the notation of a file of text without types, whose texts can be numbers or dates;
    /// `None` for other files.
    pub(super) fn notation(&self) -> Option<TextFormat<'a>> {
        match &self.table {
            Table::Text(table) => Some(table.notation()),
            Table::JsonLines(table) => Some(table.format),
            #[cfg(feature = "excel")]
            Table::Sheet(table) => Some(table.format),
            _ => None,
        }
    }

    /// Returns the type of a column that is neither number nor text; `None` for one that can be read.
    pub(super) fn unreadable(&self, index: usize) -> Option<String> {
        match &self.table {
            Table::JsonLines(table) => table.unreadable(&self.names[index]),
            #[cfg(feature = "parquet")]
            Table::Parquet(table) => table.unreadable(index),
            #[cfg(feature = "arrow")]
            Table::Arrow(table) => table.unreadable(index),
            _ => None,
        }
    }

    /// Reads the columns at these positions (from 0), in this order, and no others.
    pub fn read(self, wanted: &[usize]) -> Result<Frame> {
        if let Some(beyond) = wanted.iter().find(|index| **index >= self.names.len()) {
            return Err(data_error(&self.file, format!("there is no column {}", beyond + 1)));
        }
        let names: Vec<&str> = wanted.iter().map(|index| self.names[*index].as_str()).collect();
        let (columns, notes) = match self.table {
            Table::Text(table) => table.read(wanted, &names)?,
            Table::JsonLines(table) => (table.read(wanted, &names)?, Vec::new()),
            #[cfg(feature = "excel")]
            Table::Sheet(table) => table.read(wanted, &names)?,
            #[cfg(feature = "parquet")]
            Table::Parquet(table) => (table.read(wanted, &names)?, Vec::new()),
            #[cfg(feature = "arrow")]
            Table::Arrow(table) => (table.read(wanted, &names)?, Vec::new()),
            Table::Numpy(table) => table.read(wanted, &names)?,
        };
        let frame = Frame::new(columns).map_err(|error| data_error(&self.file, error))?;
        Ok(Frame { notes, ..frame })
    }
}
