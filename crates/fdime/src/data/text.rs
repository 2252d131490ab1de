//! The meaning of cells that are text: missing values, numbers, dates.

use super::dates::{Dates, dates};
use super::frame::{Column, Values};
use super::integers::is_rounded;
use super::reading::TextFormat;
use super::source::Checked;
use crate::error::quote;
use crate::message::{Message, Parameter};

/// Returns whether a cell stands for a missing value by the customs of R, pandas, SQL and Excel.
pub(super) fn means_missing(cell: &[u8]) -> bool {
    const WORDS: [&[u8]; 17] = [
        b"NA", b"N/A", b"NaN", b"-NaN", b"null", b"None", b"NaT", b"<NA>", b"?", b"#N/A", b"#NA",
        b"#VALUE!", b"#REF!", b"#DIV/0!", b"#NUM!", b"#NULL!", b"#NAME?",
    ];
    cell.is_empty() || WORDS.iter().any(|word| cell.eq_ignore_ascii_case(word))
}

impl TextFormat<'_> {
    /// Returns whether a cell stands for a missing value.
    pub(super) fn is_missing(&self, cell: &[u8]) -> bool {
        means_missing(cell) || self.na.iter().any(|word| cell.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// Returns the number that a cell is in the notation of programs, with this decimal point.
pub(super) fn number(cell: &[u8], decimal: char) -> Option<f64> {
    let text = std::str::from_utf8(cell).ok()?;
    if decimal == '.' {
        return text.parse().ok().or_else(|| fortran_number(text));
    }
    if text.contains('.') {
        return None;
    }
    text.replacen(decimal, ".", 1).parse().ok()
}

/// Returns a number with the exponent of Fortran's double precision, such as 1.5D+03.
fn fortran_number(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['D', 'd'])?;
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b));
    let is_valid = is_number(mantissa) && is_number(exponent);
    is_valid.then(|| format!("{mantissa}e{exponent}").parse().ok()).flatten()
}

/// The most numbers of a column with a few other texts for which its values may be categories, such
/// as the chromosomes 1, 2, ..., 22, X and Y.
const MAX_NUMBERED_CATEGORIES: usize = 30;

/// Turns a column of texts into numbers if all of them are amounts (`$1,234.50`, `12.3%`) or dates.
/// A column that is numbers in most rows, but not in all, is an error or remarked in `notes`.
pub(super) fn interpret(
    column: &mut Column,
    format: &TextFormat,
    notes: &mut Vec<Message>,
) -> Checked<()> {
    let Values::Discrete { codes, labels } = &column.values else { return Ok(()) };
    let name = quote(&column.name);
    let numbers = match amounts(labels, format.decimal) {
        Amounts::Numbers(numbers) => {
            let example =
                labels.iter().zip(&numbers).find(|(label, _)| label.parse::<f64>().is_err());
            if let Some((label, number)) = example {
                let label = quote(label);
                notes.push(format!("column {name}: {label} was read as {number}").into());
            }
            Some(numbers)
        }
        Amounts::Ambiguous(label, numbers) => {
            return Err(Message::from(format!(
                "column {name} has values such as {}, which can be {} or {}; say which with ",
                quote(label),
                numbers[0],
                numbers[1]
            ))
            .setting(Parameter::Decimal, ".")
            .text(" or ")
            .setting(Parameter::Decimal, ","));
        }
        Amounts::None => match dates(labels) {
            Dates::Times(times, example) => {
                notes.extend(example.map(|(label, date)| {
                    let label = quote(label);
                    Message::from(format!("column {name}: {label} was read as the date {date}"))
                }));
                Some(times)
            }
            Dates::Ambiguous(label, dates) => {
                notes.push(
                    format!(
                        "column {name} has values such as {}, which can be the date {} or {}, so they \
                         are treated as text; write dates like 2024-01-31",
                        quote(label),
                        dates[0],
                        dates[1]
                    )
                    .into(),
                );
                None
            }
            Dates::None => None,
        },
    };
    if let Some(numbers) = numbers {
        let value = |code: &u32| numbers.get(*code as usize).copied().unwrap_or(f64::NAN);
        column.values = Values::Continuous(codes.iter().map(value).collect());
        return Ok(());
    }
    let decimal = format.decimal.unwrap_or('.');
    let is_number: Vec<bool> =
        labels.iter().map(|label| number(label.as_bytes(), decimal).is_some()).collect();
    let present = codes.iter().filter_map(|code| is_number.get(*code as usize));
    let (mut rows, mut numeric_rows) = (0, 0);
    present.for_each(|is_number| {
        rows += 1;
        numeric_rows += usize::from(*is_number);
    });
    let strays: Vec<usize> = (0..labels.len()).filter(|label| !is_number[*label]).collect();
    let Some(first) = strays.first() else { return Ok(()) };
    if numeric_rows * 2 <= rows {
        return Ok(());
    }
    let words: Vec<String> = strays.iter().take(5).map(|label| quote(&labels[*label])).collect();
    let more = if strays.len() > words.len() { ", ..." } else { "" };
    let words = words.join(", ") + more;
    if strays.iter().all(|label| stands_for_nothing(&labels[*label])) {
        notes.push(format!("column {name}: {words} was read as a missing value").into());
        let value = |code: &u32| {
            let label = labels.get(*code as usize);
            label.and_then(|label| number(label.as_bytes(), decimal)).unwrap_or(f64::NAN)
        };
        column.values = Values::Continuous(codes.iter().map(value).collect());
        return Ok(());
    }
    let row = codes.iter().position(|code| *code as usize == *first).map_or(0, |row| row + 1);
    let problem = Message::from(format!(
        "column {name} has numbers in {numeric_rows} of {rows} rows, but {words} from row {row} on"
    ));
    let setting: Vec<&str> = strays.iter().take(5).map(|label| labels[*label].as_str()).collect();
    let missing = |message: Message| {
        let meaning = if strays.len() == 1 { "it means" } else { "they mean" };
        message
            .text(format!("if {meaning} a missing value, set "))
            .setting(Parameter::Na, setting.join(","))
    };
    if labels.len() - strays.len() > MAX_NUMBERED_CATEGORIES {
        return Err(missing(problem.text("; correct it; "))
            .text("; if the numbers are categories, name the column in ")
            .parameter(Parameter::Discrete));
    }
    notes.push(missing(problem.text("; it is treated as categories; ")));
    Ok(())
}

/// Returns whether a word among numbers can only mean a missing value.
fn stands_for_nothing(word: &str) -> bool {
    const WORDS: [&str; 10] =
        ["-", "--", ".", "..", "*", "\\N", "(null)", "n.a.", "missing", "unknown"];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

enum Amounts<'a> {
    Numbers(Vec<f64>),
    /// A label that means one or the other number.
    Ambiguous(&'a str, [f64; 2]),
    None,
}

/// Returns the numbers that all labels are, with currencies, percent signs and separators of
/// thousands. All labels must have the same currency or percent sign.
fn amounts<'a>(labels: &'a [String], decimal: Option<char>) -> Amounts<'a> {
    let read = |decimal: char| -> Option<Vec<f64>> {
        let mut unit = None;
        let amount = |label: &String| {
            let (number, found) = amount(label, decimal)?;
            (*unit.get_or_insert(found) == found).then_some(number)
        };
        labels.iter().map(amount).collect()
    };
    let (point, comma) = match decimal {
        Some(decimal) => (read(decimal), None),
        None => (read('.'), read(',')),
    };
    match (point, comma) {
        (Some(point), Some(comma)) => match (0..labels.len()).find(|k| point[*k] != comma[*k]) {
            Some(k) => Amounts::Ambiguous(&labels[k], [point[k], comma[k]]),
            None => Amounts::Numbers(point),
        },
        (Some(numbers), None) | (None, Some(numbers)) => Amounts::Numbers(numbers),
        (None, None) => Amounts::None,
    }
}

/// Returns the number and the unit of an amount such as `-$1,234.50`, `CHF 20` or `12,5 %`.
fn amount(text: &str, decimal: char) -> Option<(f64, Option<&'static str>)> {
    const UNITS: [&str; 26] = [
        "$", "€", "£", "¥", "₹", "%", "USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "CAD",
        "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "BRL", "MXN", "ZAR", "KRW",
    ];
    let text = text.trim();
    // Bookkeepers write negative amounts in parentheses, typesetters with a minus sign.
    let in_parentheses = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (sign, rest) = match in_parentheses.or_else(|| text.strip_prefix(['-', '\u{2212}'])) {
        Some(rest) => ("-", rest.trim_start()),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let unit = UNITS.into_iter().find(|unit| rest.contains(unit));
    let digits = match unit {
        Some("%") => rest.strip_suffix('%')?,
        Some(unit) => rest.strip_prefix(unit).or_else(|| rest.strip_suffix(unit))?,
        None => rest,
    };
    let (whole, fraction) = match digits.trim().split_once(decimal) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits.trim(), None),
    };
    let thousands = if decimal == '.' { ',' } else { '.' };
    let separator = whole.chars().find(|character| !character.is_ascii_digit());
    let allowed = [thousands, ' ', '\'', '\u{a0}', '\u{202f}'];
    let whole = match separator {
        None => whole.to_string(),
        Some(separator) if allowed.contains(&separator) => {
            let groups: Vec<&str> = whole.split(separator).collect();
            let even = groups[1..].iter().all(|group| group.len() == 3);
            let first = groups[0];
            let starts = (1..=3).contains(&first.len()) && !first.starts_with('0');
            (even && starts).then(|| groups.concat())?
        }
        Some(_) => return None,
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_empty = whole.is_empty() && fraction.is_none_or(str::is_empty);
    if is_empty || !digits(&whole) || !fraction.is_none_or(digits) {
        return None;
    }
    let number: f64 = format!("{sign}{whole}.{}", fraction.unwrap_or("0")).parse().ok()?;
    (!is_rounded(&whole, number)).then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::frame::Categories;

    fn column(cells: &[&str]) -> Column {
        let mut categories = Categories::default();
        cells.iter().for_each(|cell| categories.push(Some(cell)));
        Column { name: "c".into(), values: categories.finish() }
    }

    fn read(cells: &[&str]) -> Checked<(Values, String)> {
        let (mut column, mut notes) = (column(cells), Vec::new());
        interpret(&mut column, &TextFormat::default(), &mut notes)?;
        let notes: Vec<String> = notes.iter().map(Message::to_string).collect();
        Ok((column.values, notes.join("; ")))
    }

    #[test]
    fn words_of_missing_values() {
        for cell in ["", "na", "N/A", "nan", "NULL", "none", "?", "#N/A", "#DIV/0!", "#NAME?"] {
            assert!(means_missing(cell.as_bytes()), "{cell}");
        }
        for cell in ["0", "inf", "-", "no", "unknown"] {
            assert!(!means_missing(cell.as_bytes()), "{cell}");
        }
        let na = ["Not said".to_string()];
        assert!(TextFormat { na: &na, ..TextFormat::default() }.is_missing(b"not said"));
    }

    #[test]
    fn amounts_are_numbers() {
        for (cells, expected) in [
            (vec!["$1.23", "-$4", "$1,234.50"], vec![1.23, -4.0, 1234.5]),
            (vec!["12.3%", "5 %", "-.5%"], vec![12.3, 5.0, -0.5]),
            (vec!["CHF 91.44", "-CHF 1'234.50", "3 CHF"], vec![91.44, -1234.5, 3.0]),
            (vec!["1,234", "5", "2,000,000.5"], vec![1234.0, 5.0, 2_000_000.5]),
            (vec!["1,5", "12,25"], vec![1.5, 12.25]),
            (vec!["0,125", "1,250"], vec![0.125, 1.25]),
            (vec!["1.234,5 €", "7 €"], vec![1234.5, 7.0]),
            (vec!["1 234,5", "1'234"], vec![1234.5, 1234.0]),
            (vec!["(1,234.5)", "\u{2212}2.5"], vec![-1234.5, -2.5]),
        ] {
            let (values, note) = read(&cells).unwrap();
            assert_eq!(values, Values::Continuous(expected), "{cells:?}");
            assert!(note.starts_with("column 'c': '"), "{note}");
        }
        for cells in [
            ["$1", "5%"],
            ["CHF 1", "EUR 2"],
            ["1,23,4", "5"],
            ["1.2.3", "4"],
            ["$", "1"],
            ["A1", "B2"],
            ["-", "1"],
        ] {
            assert!(matches!(read(&cells), Ok((Values::Discrete { .. }, _))), "{cells:?}");
        }
        let long = ["9000000000000000345", "9000000000000000346"];
        assert!(matches!(read(&long), Ok((Values::Discrete { .. }, _))), "rounded in silence");
        let error = read(&["1,234", "5,678"]).unwrap_err().to_string();
        assert!(
            error.contains("such as '1,234', which can be 1234 or 1.234; say which"),
            "{error}"
        );
    }

    #[test]
    fn numbers_of_programs() {
        assert_eq!(number(b"1.5D+03", '.'), Some(1500.0));
        assert_eq!(number(b"-2d-1", '.'), Some(-0.2));
        assert_eq!(number(b"1,5", ','), Some(1.5));
        for word in ["D", "ID", "3D printer", "0xFF", "1,5"] {
            assert_eq!(number(word.as_bytes(), '.'), None, "{word}");
        }
    }

    #[test]
    fn dates_are_times() {
        let (values, note) = read(&["1970-01-02", "2000-03-01"]).unwrap();
        assert_eq!((values, note.as_str()), (Values::Continuous(vec![1.0, 11_017.0]), ""));
        let (values, note) = read(&["01/02/1970", "01/31/1970"]).unwrap();
        assert_eq!(values, Values::Continuous(vec![1.0, 30.0]));
        assert_eq!(note, "column 'c': '01/02/1970' was read as the date 1970-01-02");
        let (values, note) = read(&["01/02/1970", "03/04/1970"]).unwrap();
        assert!(matches!(values, Values::Discrete { .. }));
        assert!(note.contains("the date 1970-01-02 or 1970-02-01, so they are treated"), "{note}");
    }

    #[test]
    fn a_stray_word_among_numbers_is_told() {
        let numbers: Vec<String> = (0..99).map(|k| format!("{}", f64::from(k) / 8.0)).collect();
        let mut cells: Vec<&str> = numbers.iter().map(String::as_str).collect();
        cells.insert(7, "off scale");
        let error = read(&cells).unwrap_err().to_string();
        assert_eq!(
            error,
            "column 'c' has numbers in 99 of 100 rows, but 'off scale' from row 8 on; correct it; \
             if it means a missing value, set na = off scale; if the numbers are categories, name \
             the column in discrete"
        );
        let chromosomes = ["1", "2", "X", "3", "22", "1", "Y"];
        let (values, note) = read(&chromosomes).unwrap();
        assert!(matches!(values, Values::Discrete { .. }));
        assert!(note.contains("but 'X', 'Y' from row 3 on; it is treated"), "{note}");
        assert!(note.ends_with("if they mean a missing value, set na = X,Y"), "{note}");
        cells[7] = "unknown";
        let (values, note) = read(&cells).unwrap();
        assert!(values.is_missing(7) && matches!(values, Values::Continuous(_)));
        assert_eq!(note, "column 'c': 'unknown' was read as a missing value");
        let (_, note) = read(&["a", "b", "1"]).unwrap();
        assert_eq!(note, "");
    }
}
