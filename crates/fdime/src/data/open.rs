#[cfg(feature = "arrow")]
use super::arrow_ipc::ArrowTable;
use super::csv::TextTable;
use super::frame::Frame;
use super::npy::NumpyTable;
#[cfg(feature = "parquet")]
use super::parquet::ParquetTable;
use super::source::{Format, Source};
use crate::error::{Result, data_error};
use std::path::Path;

/// A table whose column names are read, but not its values.
pub struct Opened {
    file: String,
    names: Vec<String>,
    table: Table,
}

enum Table {
    Text(TextTable),
    #[cfg(feature = "parquet")]
    Parquet(ParquetTable),
    #[cfg(feature = "arrow")]
    Arrow(ArrowTable),
    Numpy(NumpyTable),
}

/// Opens a table: CSV, TSV, Parquet, Arrow (file or stream), NPY or NPZ, gzipped or not. The path
/// "-" is standard input. The format is recognised by the content, not by the name.
pub fn open(path: &Path) -> Result<Opened> {
    Opened::new(Source::open(path)?)
}

impl Opened {
    pub(super) fn new(source: Source) -> Result<Self> {
        let file = source.name.clone();
        let (names, table) = match source.format()? {
            Format::Text => {
                let (names, table) = TextTable::open(source)?;
                (names, Table::Text(table))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let (names, table) = ParquetTable::open(source)?;
                (names, Table::Parquet(table))
            }
            #[cfg(feature = "arrow")]
            Format::ArrowFile => {
                let (names, table) = ArrowTable::open_file(source)?;
                (names, Table::Arrow(table))
            }
            #[cfg(feature = "arrow")]
            Format::ArrowStream => {
                let (names, table) = ArrowTable::open_stream(source)?;
                (names, Table::Arrow(table))
            }
            Format::Npy => {
                let (names, table) = NumpyTable::open_array(source)?;
                (names, Table::Numpy(table))
            }
            #[cfg(feature = "npz")]
            Format::Npz => {
                let (names, table) = NumpyTable::open_archive(source)?;
                (names, Table::Numpy(table))
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(source.not_compiled_in("Parquet", "parquet")),
            #[cfg(not(feature = "arrow"))]
            Format::ArrowFile | Format::ArrowStream => {
                return Err(source.not_compiled_in("Arrow", "arrow"));
            }
            #[cfg(not(feature = "npz"))]
            Format::Npz => return Err(source.not_compiled_in("NPZ", "npz")),
        };
        if names.is_empty() {
            return Err(data_error(&file, "it has no columns"));
        }
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

    /// Reads the columns at these positions (from 0), in this order, and no others.
    pub fn read(self, wanted: &[usize]) -> Result<Frame> {
        if let Some(beyond) = wanted.iter().find(|index| **index >= self.names.len()) {
            return Err(data_error(&self.file, format!("there is no column {}", beyond + 1)));
        }
        let names: Vec<&str> = wanted.iter().map(|index| self.names[*index].as_str()).collect();
        let columns = match self.table {
            Table::Text(table) => table.read(wanted, &names),
            #[cfg(feature = "parquet")]
            Table::Parquet(table) => table.read(wanted, &names),
            #[cfg(feature = "arrow")]
            Table::Arrow(table) => table.read(wanted, &names),
            Table::Numpy(table) => table.read(wanted, &names),
        }?;
        Frame::new(columns).map_err(|error| data_error(&self.file, error))
    }
}
