//! The values of flags: from text to types, with messages that name the flag.

use crate::failure::Failure;
use clap::builder::{PossibleValue, TypedValueParser};
use fdime::data::{ConstantColumns, Delimiter, MissingRows};
use fdime::{AnyEstimator, CriticPlan, Level, parse_levels};
use std::ffi::OsStr;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// A value that is not accepted, with the whole message for the user.
#[derive(Debug)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(message) | Failure::Run(message) => Refusal(message),
            other => Refusal(format!("{other:?}")),
        }
    }
}

impl From<fdime::Error> for Refusal {
    fn from(error: fdime::Error) -> Self {
        Failure::from(error).into()
    }
}

/// Returns a number of things, or a seed.
pub fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "this number is too large",
        _ => "write a whole number, 0 or larger",
    })
}

/// Returns the library's value of that name.
pub fn named<T: FromStr<Err = fdime::Error>>(text: &str) -> Result<T, Refusal> {
    Ok(text.parse()?)
}

/// Parses one of a fixed set of names, which help and completions list.
#[derive(Clone)]
pub struct OneOf<T> {
    names: Vec<&'static str>,
    parse: fn(&str) -> Result<T, Refusal>,
}

impl<T> OneOf<T> {
    fn new<const N: usize>(
        names: [&'static str; N],
        parse: fn(&str) -> Result<T, Refusal>,
    ) -> Self {
        OneOf { names: names.into(), parse }
    }
}

impl<T: FromStr<Err = fdime::Error>> OneOf<T> {
    /// Returns a parser of a type of the library, from all its values and their names.
    pub fn named<const N: usize>(values: [T; N], name: fn(T) -> &'static str) -> Self {
        OneOf::new(values.map(name), named)
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// Values separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct CommaSeparated<T>(pub Vec<T>);

/// Returns estimators. A comma inside parentheses belongs to a formula.
pub fn estimators(text: &str) -> Result<CommaSeparated<AnyEstimator>, Refusal> {
    let mut depth = 0i32;
    let names = text.split(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == ',' && depth == 0
    });
    names.map(|name| named(name.trim())).collect::<Result<_, _>>().map(CommaSeparated)
}

/// Returns the levels of a staircase.
pub fn levels(text: &str) -> Result<CommaSeparated<Level>, Refusal> {
    Ok(CommaSeparated(parse_levels(text)?))
}

/// Returns the level of a sample.
pub fn level(text: &str) -> Result<Level, Refusal> {
    level_of("--level", text)
}

/// Returns the level of simulated tables.
pub fn mi(text: &str) -> Result<Level, Refusal> {
    level_of("--mi", text)
}

fn level_of(flag: &str, text: &str) -> Result<Level, Refusal> {
    text.parse().map_err(|_| {
        Refusal(format!("{flag} '{text}': write a number (nats), or KIND=VALUE such as rho=.5"))
    })
}

/// Returns the numbers of columns of x and of y, from `5+3`, or `5` for both.
pub fn dims(text: &str) -> Result<(usize, usize), Refusal> {
    let (x, y) = text.split_once('+').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse().ok().filter(|number| *number > 0);
    number(x).zip(number(y)).ok_or_else(|| {
        Refusal(format!("--dim '{text}': write the numbers of columns of x and y, as in 5+5"))
    })
}

/// Returns hidden widths, from `256,256` or the name of a preset.
pub fn hidden(text: &str) -> Result<CommaSeparated<usize>, Refusal> {
    if let Some((_, widths)) = CriticPlan::PRESETS.iter().find(|(name, _)| *name == text) {
        return Ok(CommaSeparated(widths.to_vec()));
    }
    let width = |width: &str| width.trim().parse().ok().filter(|width| *width > 0);
    text.split(',').map(width).collect::<Option<_>>().map(CommaSeparated).ok_or_else(|| {
        let presets = CriticPlan::PRESETS.map(|(name, _)| name).join(" or ");
        Refusal(format!(
            "--hidden {text}: write positive widths such as 256,256, or a preset: {presets}"
        ))
    })
}

/// Returns a number of seconds to measure for.
pub fn seconds(text: &str) -> Result<f64, Refusal> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 3600.0);
    seconds.ok_or_else(|| Refusal(format!("--seconds {text}: between 0 and 3600")))
}

/// A part of the work, for one of several processes.
#[derive(Clone, Copy)]
pub struct Part {
    /// From 1 to `of`.
    pub number: usize,
    pub of: usize,
}

impl Part {
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (number, of) = text.split_once('/').unwrap_or_default();
        match (number.parse(), of.parse()) {
            (Ok(number), Ok(of)) if (1..=of).contains(&number) && of <= MAX_PARTS => {
                Ok(Part { number, of })
            }
            _ => Err(Refusal(format!("--part {text}: write 1/4 for the first of four parts"))),
        }
    }

    /// Returns all parts.
    pub fn all(self) -> impl Iterator<Item = Part> {
        (1..=self.of).map(move |number| Part { number, ..self })
    }

    /// Returns whether the item of this index belongs to this part.
    pub fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

const MAX_PARTS: usize = 10_000;

/// Returns a parser of what to do with rows that have missing values.
pub fn missing() -> OneOf<MissingRows> {
    OneOf::new(["drop", "error"], |text| match text {
        "drop" => Ok(MissingRows::Drop),
        "error" => Ok(MissingRows::Refuse),
        _ => Err(Refusal(format!("--missing {text}: write drop or error"))),
    })
}

/// Returns a parser of what to do with constant columns.
pub fn constant() -> OneOf<ConstantColumns> {
    OneOf::new(["drop", "error"], |text| match text {
        "drop" => Ok(ConstantColumns::Drop),
        "error" => Ok(ConstantColumns::Refuse),
        _ => Err(Refusal(format!("--constant {text}: write drop or error"))),
    })
}

/// Returns a parser of yes and no.
pub fn yes_or_no() -> OneOf<bool> {
    OneOf::new(["yes", "no"], |text| match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Refusal(format!("--header {text}: write yes or no"))),
    })
}

/// Returns the decimal point.
pub fn decimal(text: &str) -> Result<char, Refusal> {
    match text {
        "." => Ok('.'),
        "," => Ok(','),
        _ => Err(Refusal(format!("--decimal '{text}': write . or ,"))),
    }
}

/// Returns what separates fields.
pub fn delimiter(text: &str) -> Result<Delimiter, Refusal> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(Delimiter::Character(b'\t')),
        ("space" | "whitespace" | " ", _) => Ok(Delimiter::Whitespace),
        (_, [character]) if !character.is_ascii_alphanumeric() && *character != b'"' => {
            Ok(Delimiter::Character(*character))
        }
        _ => Err(Refusal(format!(
            "--delimiter '{text}': write one character such as ';', or tab or space"
        ))),
    }
}

/// Returns the character that starts comments.
pub fn comment(text: &str) -> Result<u8, Refusal> {
    match text.as_bytes() {
        [character] if !character.is_ascii_alphanumeric() => Ok(*character),
        _ => Err(Refusal(format!("--comment '{text}': write one character such as '#'"))),
    }
}

/// Returns a number of bytes, from `8GB`, `500 MB` or `1e9`.
pub fn memory(text: &str) -> Result<u64, Refusal> {
    let upper = text.trim().to_ascii_uppercase();
    let units = [("GIB", 1u64 << 30), ("MIB", 1 << 20), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let units = units.into_iter().chain([("G", 1_000_000_000), ("M", 1_000_000), ("", 1)]);
    let mut sizes = units.filter_map(|(unit, size)| {
        let number: f64 = upper.strip_suffix(unit)?.trim().parse().ok()?;
        (number > 0.0 && number.is_finite()).then_some((number * size as f64) as u64)
    });
    sizes.next().ok_or_else(|| Refusal(format!("--max-memory {text}: write a size such as 8GB")))
}

/// Returns the gap between blocks.
pub fn gap(text: &str) -> Result<usize, Refusal> {
    text.parse().map_err(|_| {
        Refusal(format!(
            "--blocks {text}: write a number of rows, as in --blocks=50; put --blocks without a \
             number after the file"
        ))
    })
}

/// The maximum number of lags.
const MAX_LAGS: i64 = 100_000;

/// Returns lags, from a range such as `-20..20`, which includes both ends, or a list of lags and
/// ranges.
pub fn lags(text: &str) -> Result<CommaSeparated<i64>, Refusal> {
    let refuse = |problem: &str| Refusal(format!("--lags {text}: {problem}"));
    let expected = "write a range such as -20..20, or lags such as 0,1,7";
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| refuse(expected));
    if text.trim().is_empty() {
        return Err(Refusal(format!("--lags '': {expected}")));
    }
    let mut lags = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            let problem = format!("a range begins with its smallest lag, as in {last}..{first}");
            return Err(refuse(&problem));
        }
        if last.saturating_sub(first).saturating_add(lags.len() as i64) >= MAX_LAGS {
            return Err(refuse(&format!("there are at most {MAX_LAGS} lags")));
        }
        lags.extend(first..=last);
    }
    Ok(CommaSeparated(lags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_memory() {
        for (text, bytes) in [("8GB", 8_000_000_000), ("1.5 MB", 1_500_000), ("2GiB", 2 << 30)] {
            assert_eq!(memory(text).unwrap(), bytes, "{text}");
        }
        assert_eq!(memory("1e9").unwrap(), 1_000_000_000);
        for text in ["", "GB", "-1GB", "8 kB", "nan"] {
            assert!(memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lags_are_ranges_and_lists() {
        assert_eq!(lags("-2..1").unwrap().0, [-2, -1, 0, 1]);
        assert_eq!(lags("7, 0..1").unwrap().0, [7, 0, 1]);
        for text in ["", " ", "a", "1..", "..", "5..-5", "1,,2", "0.5", "0..99999999999"] {
            let Err(Refusal(message)) = lags(text) else { panic!("{text}") };
            assert!(message.starts_with("--lags "), "{message}");
        }
    }

    #[test]
    fn dimensions_are_one_or_two_numbers() {
        assert_eq!((dims("5+3").unwrap(), dims("4").unwrap()), ((5, 3), (4, 4)));
        for text in ["", "+", "5+", "0+1", "5x5", "1+2+3", "-1"] {
            assert!(dims(text).is_err(), "{text}");
        }
    }

    #[test]
    fn characters_of_text_tables() {
        assert_eq!(delimiter("tab").unwrap(), Delimiter::Character(b'\t'));
        assert_eq!(delimiter(" ").unwrap(), Delimiter::Whitespace);
        assert!(delimiter("ab").is_err() && delimiter("x").is_err() && delimiter("\"").is_err());
        assert!(comment("//").is_err() && decimal("'").is_err());
    }
}
