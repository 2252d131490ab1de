//! Workbooks of Excel and of LibreOffice: the first sheet that is not empty.

use super::frame::{Categories, Column, Values, truth_label};
use super::guard::without_panic;
use super::reading::TextFormat;
use super::source::Source;
use crate::error::Result;
use crate::message::Message;
use calamine::{Data, Range, Reader, open_workbook_auto_from_rs};
use std::io::Cursor;

/// Returns whether a zip archive is a workbook.
pub(super) fn is_workbook(source: &Source) -> bool {
    let archive = zip::ZipArchive::new(source.body.buffered());
    let parts = ["xl/workbook.xml", "xl/workbook.bin", "content.xml"];
    archive.is_ok_and(|archive| parts.iter().any(|part| archive.index_for_name(part).is_some()))
}

/// A sheet of a workbook.
pub(super) struct Sheet<'a> {
    source: Source,
    pub(super) format: TextFormat<'a>,
    cells: Range<Data>,
    has_header: bool,
    notes: Vec<Message>,
}

impl<'a> Sheet<'a> {
    /// Reads the first sheet that is not empty; returns the names of its columns and the sheet.
    pub(super) fn open(source: Source, format: TextFormat<'a>) -> Result<(Vec<String>, Self)> {
        let bytes = source.body.part(0, source.body.length());
        let bytes = bytes.map_err(|error| source.read_error(error))?;
        let found = without_panic(|| first_sheet(bytes))
            .map_err(|reason| reason.to_string())
            .flatten()
            .map_err(|reason| source.damaged("workbook", reason))?;
        let Some((name, cells, sheets)) = found else {
            return Err(source.fault("it is a workbook without a sheet that holds a table"));
        };
        let first: &[Data] = cells.rows().nth(format.skip_lines).unwrap_or_default();
        let is_name = |cell: &Data| matches!(cell, Data::String(_) | Data::Empty);
        let has_header = format.header.unwrap_or_else(|| first.iter().all(is_name));
        let names = first.iter().enumerate().map(|(index, cell)| match cell {
            Data::Empty => (index + 1).to_string(),
            _ if !has_header => (index + 1).to_string(),
            cell => cell.to_string().trim().to_string(),
        });
        let names = names.collect();
        let note =
            || format!("the sheet '{name}' was read, one of {sheets} in the workbook").into();
        let notes = (sheets > 1).then(note).into_iter().collect();
        Ok((names, Self { source, format, cells, has_header, notes }))
    }

    /// Returns the wanted columns, and remarks.
    pub(super) fn read(
        self,
        wanted: &[usize],
        names: &[&str],
    ) -> Result<(Vec<Column>, Vec<Message>)> {
        let skipped = self.format.skip_lines + usize::from(self.has_header);
        let rows = self.cells.height().saturating_sub(skipped);
        let memory = self.source.memory.check_values(rows, wanted.len());
        memory.map_err(|problem| self.source.fault(problem))?;
        let columns = wanted.iter().zip(names).map(|(index, name)| {
            let cells = self.cells.rows().skip(skipped);
            let cells: Vec<&Data> =
                cells.map(|row| row.get(*index).unwrap_or(&Data::Empty)).collect();
            Column { name: name.to_string(), values: values(&cells, &self.format) }
        });
        Ok((columns.collect(), self.notes))
    }
}

/// The name and the cells of a sheet, and the number of sheets.
type Found = Option<(String, Range<Data>, usize)>;

fn first_sheet(bytes: bytes::Bytes) -> std::result::Result<Found, String> {
    let workbook = open_workbook_auto_from_rs(Cursor::new(bytes));
    let mut workbook = workbook.map_err(|error| error.to_string())?;
    let names = workbook.sheet_names();
    for name in &names {
        let cells = workbook.worksheet_range(name).map_err(|error| error.to_string())?;
        if cells.height() > 1 {
            return Ok(Some((name.clone(), cells, names.len())));
        }
    }
    Ok(None)
}

/// Returns numbers if no cell is text; dates are days, as Excel counts them.
fn values(cells: &[&Data], format: &TextFormat) -> Values {
    let number = |cell: &Data| match cell {
        Data::Int(value) => Some(*value as f64),
        Data::Float(value) => Some(*value),
        Data::DateTime(time) => Some(time.as_f64()),
        cell => is_missing(cell, format).then_some(f64::NAN),
    };
    if let Some(numbers) = cells.iter().map(|cell| number(cell)).collect() {
        return Values::Continuous(numbers);
    }
    let mut categories = Categories::default();
    for cell in cells {
        match cell {
            cell if is_missing(cell, format) => categories.push(None),
            Data::Bool(truth) => categories.push(Some(truth_label(*truth))),
            cell => categories.push(Some(cell.to_string().trim())),
        }
    }
    categories.finish()
}

fn is_missing(cell: &Data, format: &TextFormat) -> bool {
    match cell {
        Data::Empty | Data::Error(_) => true,
        Data::String(text) => format.is_missing(text.trim().as_bytes()),
        _ => false,
    }
}
