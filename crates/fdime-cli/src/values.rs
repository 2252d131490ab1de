//! The values of flags: from text to types, with messages that name the flag.

use crate::failure::Failure;
use clap::builder::{PossibleValue, TypedValueParser};
use fdime::data::{ConstantColumns, MissingRows};
use fdime::{AnyEstimator, CriticPlan, Level, parse_levels};
use std::ffi::OsStr;
use std::fmt;
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
    text.parse().map_err(|_| {
        Refusal(format!("--level '{text}': write a number (nats), or KIND=VALUE such as rho=.5"))
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
