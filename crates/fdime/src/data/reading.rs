//! Options for reading tables.

use super::source::Checked;
use crate::memory;
use crate::message::{Message, Parameter};

/// The treatment of rows with a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRows {
    /// Drop them.
    Drop,
    /// Return an error.
    Refuse,
}

/// The treatment of columns that were named and have the same value in every row. Those that were
/// not named are always dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantColumns {
    /// Drop them.
    Drop,
    /// Return an error.
    Refuse,
}

/// Options for reading a table. Selectors are those of [`select`](super::select()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Selects columns whose numbers are categories.
    pub discrete: Option<&'a str>,
    /// Selects columns that have to be numbers.
    pub numeric: Option<&'a str>,
    /// The treatment of rows with a missing value.
    pub missing: MissingRows,
    /// The treatment of constant columns.
    pub constant: ConstantColumns,
    /// The notation of tables that are text.
    pub text: TextFormat<'a>,
    /// The number of rows to use, drawn at random and kept in order; `None` means all.
    pub sample_rows: Option<usize>,
    /// The memory in bytes that a table may take; `None` means most of what is free.
    pub max_memory: Option<u64>,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Reading {
            discrete: None,
            numeric: None,
            missing: MissingRows::Drop,
            constant: ConstantColumns::Refuse,
            text: TextFormat::default(),
            sample_rows: None,
            max_memory: None,
        }
    }
}

impl Reading<'_> {
    /// Returns the limit of the memory for a table.
    pub(super) fn memory(&self) -> MemoryLimit {
        match self.max_memory {
            Some(bytes) => MemoryLimit { bytes, is_chosen: true },
            // An estimate needs room for more than the table itself.
            None => MemoryLimit { bytes: memory::free() / 4 * 3, is_chosen: false },
        }
    }
}

/// The notation of tables that are text. `None` means that it is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextFormat<'a> {
    /// Words that stand for a missing value, in addition to the usual ones.
    pub na: &'a [String],
    /// The decimal point, `.` or `,`.
    pub decimal: Option<char>,
    /// What separates fields.
    pub delimiter: Option<Delimiter>,
    /// Whether the first line has the names of the columns.
    pub header: Option<bool>,
    /// The character that starts lines to be skipped.
    pub comment: Option<u8>,
    /// The number of lines before the table.
    pub skip_lines: usize,
}

/// What separates the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// One character.
    Character(u8),
    /// Any number of spaces and tabs.
    Whitespace,
}

/// A limit of the memory that a table takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryLimit {
    pub(super) bytes: u64,
    is_chosen: bool,
}

impl MemoryLimit {
    /// Returns an error if this many bytes are too many.
    pub(super) fn check(self, bytes: u64) -> Checked<()> {
        if bytes <= self.bytes { Ok(()) } else { Err(self.exceeded()) }
    }

    /// Returns an error if this many columns of this many rows are too many.
    pub(super) fn check_values(self, rows: usize, columns: usize) -> Checked<()> {
        self.check((rows as u64).saturating_mul(columns as u64).saturating_mul(8))
    }

    /// Returns what is said of a table that takes more.
    pub(super) fn exceeded(self) -> Message {
        let limit = megabytes(self.bytes);
        let limit = match self.is_chosen {
            true => format!("it takes more than the {limit} that are allowed; "),
            false => format!("it takes more than {limit}, most of the memory that is free; "),
        };
        Message::from(limit)
            .text("choose fewer columns or rows, or allow more with ")
            .parameter(Parameter::MaxMemory)
    }
}

fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_where_it_comes_from() {
        let chosen = Reading { max_memory: Some(2_000_000), ..Reading::default() }.memory();
        assert!(chosen.check(2_000_000).is_ok() && chosen.check_values(250_000, 1).is_ok());
        assert_eq!(
            chosen.check_values(250_001, 1).unwrap_err().to_string(),
            "it takes more than the 2 MB that are allowed; choose fewer columns or rows, or allow \
             more with max_memory"
        );
        assert!(chosen.check_values(usize::MAX, usize::MAX).is_err());
        let free = Reading::default().memory();
        assert!(free.exceeded().to_string().contains("memory that is free"));
    }
}
