use super::frame::{Categories, Column, Frame, Values};
use super::integers::{is_rounded, rounded_in_row};
use super::open::{Opened, open};
use super::select::{pair_columns, select};
use super::source::Checked;
use crate::error::{Error, Result, data_error, quote};
use crate::message::{Message, Parameter};
use std::collections::HashSet;
use std::path::Path;

/// The minimum number of complete rows of an estimate.
const MIN_ROWS: usize = 20;

/// The maximum number of categories of a column.
const MAX_CATEGORIES: usize = 1000;

/// A text column with more categories than this that differ in more than half of the rows is an
/// identifier of the rows.
const MAX_CATEGORIES_OF_IDENTIFIERS: usize = 200;

/// The complete rows of the columns of x and y.
#[derive(Clone, Debug, PartialEq)]
pub struct PairTable {
    /// The columns of x, without missing values.
    pub x: Vec<Column>,
    /// The columns of y, without missing values.
    pub y: Vec<Column>,
    /// The row of the input (from 0) that each row comes from.
    pub kept: Vec<usize>,
    /// The number of rows of the input.
    pub input_rows: usize,
}

impl PairTable {
    /// Returns the number of rows that were dropped because a value was missing.
    pub fn n_dropped(&self) -> usize {
        self.input_rows - self.kept.len()
    }
}

/// The treatment of rows with a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRows {
    /// Drop them.
    Drop,
    /// Return an error.
    Refuse,
}

/// The treatment of columns that have the same value in every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantColumns {
    /// Drop them.
    Drop,
    /// Return an error.
    Refuse,
}

/// Options for reading a table. Selectors are those of [`select`].
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
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Reading {
            discrete: None,
            numeric: None,
            missing: MissingRows::Drop,
            constant: ConstantColumns::Refuse,
        }
    }
}

/// Reads the pairs of a table, with selectors for x and y as for [`pair_columns`]. The path "-" is
/// standard input. A table that does not allow an estimate is an error.
pub fn load_pairs(
    path: &Path,
    x: Option<&str>,
    y: Option<&str>,
    reading: &Reading,
) -> Result<PairTable> {
    let opened = open(path)?;
    let file = opened.file().to_string();
    let fail = |problem: Message| data_error(&file, problem);
    let (x, y) = pair_columns(opened.names(), x, y).map_err(|error| fail(error.into()))?;
    let wanted: Vec<usize> = x.iter().chain(&y).copied().collect();
    let Frame { columns, rows } = read_typed(opened, &wanted, reading)?;
    complete(columns, x.len(), rows, reading).map_err(fail)
}

/// Reads all rows of the columns that the selectors choose, or of all columns if there is no
/// selector. Also returns for each selector which columns of the frame it chose. Errors name
/// `parameter`, which holds the selectors.
pub fn load_frame(
    path: &Path,
    selectors: &[&str],
    parameter: Parameter,
    reading: &Reading,
) -> Result<(Frame, Vec<Vec<usize>>)> {
    let opened = open(path)?;
    let file = opened.file().to_string();
    let chosen = selectors
        .iter()
        .map(|selector| select(opened.names(), selector, parameter))
        .collect::<Result<Vec<Vec<usize>>>>()
        .map_err(|error| data_error(&file, error))?;
    let mut wanted: Vec<usize> = match selectors {
        [] => (0..opened.names().len()).collect(),
        _ => chosen.concat(),
    };
    let mut seen = HashSet::new();
    wanted.retain(|index| seen.insert(*index));
    let mut frame = read_typed(opened, &wanted, reading)?;
    if reading.constant == ConstantColumns::Drop {
        let varies: Vec<bool> = frame.columns.iter().map(|column| !column.is_constant()).collect();
        let keep = |place: usize| varies[place];
        wanted = (0..wanted.len()).filter(|place| keep(*place)).map(|p| wanted[p]).collect();
        let mut place = 0..varies.len();
        frame.columns.retain(|_| place.next().is_some_and(keep));
    }
    let fail = |problem: Message| data_error(&file, problem);
    for column in &frame.columns {
        check(column, frame.rows).map_err(fail)?;
    }
    if reading.missing == MissingRows::Refuse {
        complete_rows(&frame.columns, frame.rows, reading.missing).map_err(fail)?;
    }
    let place = |index: &usize| wanted.iter().position(|wanted| wanted == index);
    Ok((frame, chosen.iter().map(|indices| indices.iter().filter_map(place).collect()).collect()))
}

/// Returns the pairs of two sets of columns of a frame.
pub fn pairs_of(frame: &Frame, x: &[usize], y: &[usize], reading: &Reading) -> Result<PairTable> {
    let columns = x.iter().chain(y).map(|index| frame.columns[*index].clone()).collect();
    let names = |side: &[usize]| {
        side.first().map(|index| frame.columns[*index].name.clone()).unwrap_or_default()
    };
    complete(columns, x.len(), frame.rows, reading)
        .map_err(|problem| data_error(&format!("{} and {}", names(x), names(y)), problem))
}

/// Reads the columns that critics were trained on by their exact names, each with whether it holds
/// categories. There is no minimum number of rows.
pub fn load_named(
    path: &Path,
    x: &[(String, bool)],
    y: &[(String, bool)],
    missing: MissingRows,
) -> Result<PairTable> {
    let opened = open(path)?;
    let file = opened.file().to_string();
    let wanted: Vec<usize> = x
        .iter()
        .chain(y)
        .map(|(name, _)| {
            opened.names().iter().position(|other| other == name).ok_or_else(|| {
                let problem = format!(
                    "there is no column {}, which the saved critics need; name it so, or use \
                     the table they were trained on",
                    quote(name)
                );
                data_error(&file, problem)
            })
        })
        .collect::<Result<_>>()?;
    scoring_pairs(opened.read(&wanted)?, x, y, missing, &file)
}

/// Converts the columns that critics were trained on, those of x and then those of y, to numbers or
/// to categories and returns their complete rows. `name` names the table in errors.
pub fn scoring_pairs(
    frame: Frame,
    x: &[(String, bool)],
    y: &[(String, bool)],
    missing: MissingRows,
    name: &str,
) -> Result<PairTable> {
    let Frame { mut columns, rows } = frame;
    for (column, (_, discrete)) in columns.iter_mut().zip(x.iter().chain(y)) {
        let typed = if *discrete { to_categories(column) } else { to_numbers(column) };
        typed.map_err(|problem| data_error(name, problem))?;
    }
    let kept =
        complete_rows(&columns, rows, missing).map_err(|problem| data_error(name, problem))?;
    if kept.is_empty() {
        return Err(data_error(name, "it has no complete row to score"));
    }
    columns.iter_mut().for_each(|column| keep_rows(column, &kept));
    let y = columns.split_off(x.len());
    Ok(PairTable { x: columns, y, kept, input_rows: rows })
}

/// Reads columns and converts them to numbers or categories as `reading` specifies.
fn read_typed(opened: Opened, wanted: &[usize], reading: &Reading) -> Result<Frame> {
    let file = opened.file().to_string();
    let kinds = Kinds::new(opened.names(), reading.discrete.as_slice(), reading.numeric.as_slice());
    let kinds = kinds.map_err(|error| data_error(&file, error))?;
    let mut frame = opened.read(wanted)?;
    for (column, index) in frame.columns.iter_mut().zip(wanted) {
        kinds.apply(*index, column).map_err(|problem| data_error(&file, problem))?;
    }
    Ok(frame)
}

/// The columns that have to be numbers, and those that have to be categories.
struct Kinds {
    discrete: Vec<usize>,
    numeric: Vec<usize>,
}

impl Kinds {
    fn new(names: &[String], discrete: &[&str], numeric: &[&str]) -> Result<Self> {
        let choose = |selectors: &[&str], parameter: Parameter| -> Result<Vec<usize>> {
            let chosen = selectors.iter().map(|selector| select(names, selector, parameter));
            Ok(chosen.collect::<Result<Vec<_>>>()?.concat())
        };
        let discrete = choose(discrete, Parameter::Discrete)?;
        let numeric = choose(numeric, Parameter::Numeric)?;
        match numeric.iter().find(|index| discrete.contains(index)) {
            Some(both) => Err(Error::Selection {
                choice: Message::new()
                    .parameter(Parameter::Discrete)
                    .text(" and ")
                    .parameter(Parameter::Numeric),
                problem: format!("column {} is in both; choose one", quote(&names[*both])).into(),
            }),
            None => Ok(Kinds { discrete, numeric }),
        }
    }

    fn apply(&self, index: usize, column: &mut Column) -> Checked<()> {
        if self.numeric.contains(&index) {
            to_numbers(column)?;
        }
        if self.discrete.contains(&index) {
            to_categories(column)?;
        }
        Ok(())
    }
}

impl Frame {
    /// Converts the columns of these selectors to categories or to numbers; `name` names the table
    /// in errors.
    pub fn typed(mut self, discrete: &[&str], numeric: &[&str], name: &str) -> Result<Self> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let kinds =
            Kinds::new(&names, discrete, numeric).map_err(|error| data_error(name, error))?;
        for (index, column) in self.columns.iter_mut().enumerate() {
            kinds.apply(index, column).map_err(|problem| data_error(name, problem))?;
        }
        Ok(self)
    }

    /// Returns an error if a value is missing.
    pub fn check_complete(&self, name: &str) -> Result<()> {
        let rows = complete_rows(&self.columns, self.rows, MissingRows::Refuse);
        rows.map(|_| ()).map_err(|problem| data_error(name, problem))
    }

    /// Returns the pairs of the first `x` columns and all others.
    pub fn into_pairs(self, x: usize, reading: &Reading, name: &str) -> Result<PairTable> {
        complete(self.columns, x, self.rows, reading).map_err(|problem| data_error(name, problem))
    }
}

/// Returns the complete rows of the columns, the first `x` of which are those of x.
fn complete(
    mut columns: Vec<Column>,
    x: usize,
    rows: usize,
    reading: &Reading,
) -> Checked<PairTable> {
    let kept = complete_rows(&columns, rows, reading.missing)?;
    enough_rows(&columns, rows, kept.len())?;
    columns.iter_mut().for_each(|column| keep_rows(column, &kept));
    let mut y = columns.split_off(x);
    if reading.constant == ConstantColumns::Drop {
        for (side, name) in [(&mut columns, "x"), (&mut y, "y")] {
            side.retain(|column| !column.is_constant());
            if side.is_empty() {
                return Err(
                    format!("every column of {name} has the same value in every row used").into()
                );
            }
        }
    }
    for column in columns.iter().chain(&y) {
        check(column, kept.len())?;
    }
    Ok(PairTable { x: columns, y, kept, input_rows: rows })
}

/// Returns the rows in which every column has a value.
fn complete_rows(columns: &[Column], rows: usize, missing: MissingRows) -> Checked<Vec<usize>> {
    let incomplete = |row: &usize| columns.iter().find(|column| column.is_missing(*row));
    if missing == MissingRows::Refuse
        && let Some((row, column)) = (0..rows).find_map(|row| Some((row, incomplete(&row)?)))
    {
        return Err(Message::from(format!("column {} has ", quote(&column.name)))
            .missing_value()
            .text(format!(" in row {}; fill it in, or leave such rows out with ", row + 1))
            .setting(Parameter::Missing, "drop"));
    }
    Ok((0..rows).filter(|row| incomplete(row).is_none()).collect())
}

/// Returns an error if there are too few complete rows. It names the column with the most missing
/// values.
fn enough_rows(columns: &[Column], rows: usize, count: usize) -> Checked<()> {
    if count >= MIN_ROWS {
        return Ok(());
    }
    let most_incomplete = columns
        .iter()
        .map(|column| ((0..rows).filter(|row| column.is_missing(*row)).count(), column))
        .max_by_key(|(gaps, _)| *gaps)
        .filter(|(gaps, _)| *gaps > 0);
    Err(match most_incomplete {
        None => format!("it has {count} rows; at least {MIN_ROWS} are needed").into(),
        Some((gaps, column)) => format!(
            "{count} of {rows} rows are complete, and at least {MIN_ROWS} are needed; column {} \
             lacks {gaps} values and could be left out",
            quote(&column.name)
        )
        .into(),
    })
}

/// Keeps the given rows and the categories that occur in them.
fn keep_rows(column: &mut Column, kept: &[usize]) {
    if kept.len() == column.len() {
        return;
    }
    match &mut column.values {
        Values::Continuous(values) => {
            // Rows only move towards the front, so none is overwritten before it is read.
            for (to, from) in kept.iter().enumerate() {
                values[to] = values[*from];
            }
            values.truncate(kept.len());
        }
        Values::Discrete { codes, labels } => {
            let mut categories = Categories::default();
            for row in kept {
                categories.push(labels.get(codes[*row] as usize).map(String::as_str));
            }
            column.values = categories.finish();
        }
    }
}

/// Returns an error if a column is constant or an identifier of the rows.
fn check(column: &Column, rows: usize) -> Checked<()> {
    let name = quote(&column.name);
    if column.is_constant() {
        return Err(Message::from(format!("column {name} has the same value in every row used; "))
            .leave_out(&column.name)
            .text(", or all such columns with ")
            .setting(Parameter::Constant, "drop"));
    }
    match &column.values {
        Values::Discrete { labels, .. }
            if labels.len() > MAX_CATEGORIES
                || (labels.len() > MAX_CATEGORIES_OF_IDENTIFIERS && labels.len() * 2 > rows) =>
        {
            let count = labels.len();
            Err(Message::from(format!(
                "column {name} has {count} different texts in {rows} rows, too many for categories; "
            ))
            .leave_out(&column.name)
            .text(", or give numbers"))
        }
        _ => Ok(()),
    }
}

/// Converts text to numbers. Text that is not a number is an error.
fn to_numbers(column: &mut Column) -> Checked<()> {
    let Values::Discrete { codes, labels } = &column.values else { return Ok(()) };
    let numbers: Vec<Option<f64>> = labels
        .iter()
        .map(|label| label.trim().parse().ok().filter(|number: &f64| number.is_finite()))
        .collect();
    let row_of =
        |label: usize| codes.iter().position(|code| *code as usize == label).map_or(0, |r| r + 1);
    let rounded = |(label, number): (&String, &Option<f64>)| {
        number.is_some_and(|number| is_rounded(label.trim(), number))
    };
    if let Some(bad) = labels.iter().zip(&numbers).position(rounded) {
        return Err(
            format!("column {} {}", quote(&column.name), rounded_in_row(row_of(bad))).into()
        );
    }
    if let Some(bad) = numbers.iter().position(Option::is_none) {
        let row = row_of(bad);
        return Err(format!(
            "column {} has to be numbers, but row {row} is {}; correct it, or leave it empty",
            quote(&column.name),
            quote(&labels[bad])
        )
        .into());
    }
    let value = |code: &u32| numbers.get(*code as usize).copied().flatten().unwrap_or(f64::NAN);
    column.values = Values::Continuous(codes.iter().map(value).collect());
    Ok(())
}

/// Converts numbers to categories. Too many different numbers are an error.
fn to_categories(column: &mut Column) -> Checked<()> {
    let Values::Continuous(values) = &column.values else { return Ok(()) };
    // 0 and -0 are one category.
    let bits = |value: &f64| (value + 0.0).to_bits();
    let distinct =
        values.iter().filter(|value| !value.is_nan()).map(bits).collect::<HashSet<u64>>().len();
    if distinct > MAX_CATEGORIES {
        return Err(Message::from(format!(
            "column {} has {distinct} different numbers, too many for categories (at most \
             {MAX_CATEGORIES}); take it out of ",
            quote(&column.name)
        ))
        .parameter(Parameter::Discrete));
    }
    let mut categories = Categories::default();
    for value in values {
        let label = (!value.is_nan()).then(|| (value + 0.0).to_string());
        categories.push(label.as_deref());
    }
    column.values = categories.finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        folder: tempfile::TempDir,
    }

    impl Case {
        fn new(rows: impl IntoIterator<Item = String>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let rows: Vec<String> = rows.into_iter().collect();
            std::fs::write(folder.path().join("t.csv"), rows.join("\n")).unwrap();
            Self { folder }
        }

        fn load(&self, x: &str, y: &str) -> Result<PairTable> {
            self.load_as(x, y, None, None, MissingRows::Drop)
        }

        fn load_as(
            &self,
            x: &str,
            y: &str,
            discrete: Option<&str>,
            numeric: Option<&str>,
            missing: MissingRows,
        ) -> Result<PairTable> {
            let path = self.folder.path().join("t.csv");
            let constant = ConstantColumns::Refuse;
            let reading = Reading { discrete, numeric, missing, constant };
            load_pairs(&path, Some(x), Some(y), &reading)
        }
    }

    fn refusal(outcome: Result<PairTable>) -> String {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Data { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("t.csv: ") && text.lines().count() == 1, "{text}");
        text
    }

    fn mixed() -> Case {
        let header = "id,a,b,c,k,w".to_string();
        let rows = (0..300).map(|row| {
            let a = if row == 6 { "NA".into() } else { (row as f64 / 3.0).to_string() };
            let b = if row == 9 { "u9" } else { ["u", "v"][row % 2] };
            let w = if row == 4 { "four".into() } else { row.to_string() };
            format!("name{row},{a},{b},{},{},{w}", row % 3, 7)
        });
        Case::new(std::iter::once(header).chain(rows))
    }

    #[test]
    fn incomplete_rows_are_dropped_or_refused() {
        let table = mixed().load("a", "b").unwrap();
        assert_eq!((table.input_rows, table.n_dropped(), table.kept.len()), (300, 1, 299));
        assert_eq!((table.kept[5], table.kept[6]), (5, 7));
        assert_eq!(table.x[0].len(), 299);
        let Values::Continuous(values) = &table.x[0].values else { panic!() };
        assert_eq!(values[6], 7.0 / 3.0);
        let Values::Discrete { codes, labels } = &table.y[0].values else { panic!() };
        assert_eq!((labels.len(), codes[5], codes[6]), (3, 1, 1));
        let refused = mixed().load_as("b", "a", None, None, MissingRows::Refuse);
        assert!(refusal(refused).contains("column 'a' has no value in row 7"));
    }

    #[test]
    fn numbers_become_categories_on_request() {
        let table = mixed().load_as("c", "b", Some("c"), None, MissingRows::Drop).unwrap();
        let Values::Discrete { labels, .. } = &table.x[0].values else { panic!() };
        assert_eq!(labels, &["0", "1", "2"]);
        let rows = (0..2000).map(|row| format!("{row},{}", row % 7));
        let many = Case::new(rows).load_as("1", "2", Some("1"), None, MissingRows::Drop);
        assert!(refusal(many).contains("2000 different numbers, too many for categories"));
    }

    #[test]
    fn useless_columns_and_tables_are_refused() {
        for (x, y, expected) in [
            ("k", "a", "column 'k' has the same value in every row used; leave it out"),
            ("id", "a", "column 'id' has 299 different texts in 299 rows"),
            ("q", "a", "x = q: there is no column 'q'"),
            ("a,b", "b", "column 'b' is in x too"),
        ] {
            let refused = refusal(mixed().load(x, y));
            assert!(refused.contains(expected), "{refused}");
        }
        let few = Case::new((0..19).map(|row| format!("{row},{}", row % 2)));
        assert!(refusal(few.load("1", "2")).contains("it has 19 rows; at least 20 are needed"));
        let gaps =
            Case::new((0..30).map(|row| format!("{row},{}", if row < 15 { "1" } else { "" })));
        let refused = refusal(gaps.load("1", "2"));
        assert!(refused.contains("15 of 30 rows are complete"), "{refused}");
        assert!(refused.contains("column '2' lacks 15 values"), "{refused}");
    }

    #[test]
    fn constant_columns_are_dropped_on_request() {
        let case = mixed();
        let path = case.folder.path().join("t.csv");
        let reading = Reading { constant: ConstantColumns::Drop, ..Reading::default() };
        let table = load_pairs(&path, Some("a,k"), Some("b"), &reading).unwrap();
        assert_eq!(table.x.len(), 1);
        let refused = refusal(load_pairs(&path, Some("k"), Some("b"), &reading));
        assert!(refused.contains("every column of x"), "{refused}");
    }

    #[test]
    fn text_in_a_numeric_column_is_refused() {
        let refused = mixed().load_as("w", "a", None, Some("w"), MissingRows::Drop);
        assert!(refusal(refused).contains("column 'w' has to be numbers, but row 5 is 'four'"));
        let both = mixed().load_as("w", "a", Some("w"), Some("w"), MissingRows::Drop);
        assert!(refusal(both).contains("discrete and numeric: column"));
        let table = mixed().load_as("a", "c", None, Some("a,c"), MissingRows::Drop).unwrap();
        assert!(matches!(table.y[0].values, Values::Continuous(_)));
    }
}
