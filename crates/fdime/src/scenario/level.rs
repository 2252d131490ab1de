//! Levels: the strength of dependence between x and y.

use crate::error::{Error, Result, invalid, unknown_name};
use crate::message::Parameter;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The strength of dependence, as a parameter that the scenario supports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Level {
    /// The mutual information itself, in nats.
    Mi(f64),
    /// The correlation of each pair of components (Gaussians).
    Rho(f64),
    /// The half-width of the noise (uniform).
    Epsilon(f64),
    /// The degrees of freedom (Student).
    Df(f64),
    /// The number of components (mixtures).
    Components(f64),
    /// The distance of the components (mixtures).
    Distance(f64),
    /// The fraction of samples whose x and y are independent (mixtures).
    Inliers(f64),
}

/// The names of the kinds of levels.
const KINDS: [&str; 7] = ["mi", "rho", "eps", "df", "components", "distance", "inliers"];

impl Level {
    fn kind(self) -> &'static str {
        match self {
            Level::Mi(_) => "mi",
            Level::Rho(_) => "rho",
            Level::Epsilon(_) => "eps",
            Level::Df(_) => "df",
            Level::Components(_) => "components",
            Level::Distance(_) => "distance",
            Level::Inliers(_) => "inliers",
        }
    }

    fn new(kind: &str, value: f64) -> Result<Self> {
        match kind {
            "mi" => Ok(Level::Mi(value)),
            "rho" => Ok(Level::Rho(value)),
            "eps" => Ok(Level::Epsilon(value)),
            "df" => Ok(Level::Df(value)),
            "components" => Ok(Level::Components(value)),
            "distance" => Ok(Level::Distance(value)),
            "inliers" => Ok(Level::Inliers(value)),
            _ => Err(unknown_name(Parameter::LevelKind, kind, KINDS)),
        }
    }

    fn value(self) -> f64 {
        match self {
            Level::Mi(v)
            | Level::Rho(v)
            | Level::Epsilon(v)
            | Level::Df(v)
            | Level::Components(v)
            | Level::Distance(v)
            | Level::Inliers(v) => v,
        }
    }

    /// Returns the error for a scenario that does not support this kind of level.
    pub(super) fn unsupported(self, scenario: &str, kinds: &str) -> Error {
        Error::Incompatible {
            parameter: Parameter::Levels,
            value: self.to_string(),
            other: format!("scenario {scenario}").into(),
            reason: format!("its levels are given as {kinds}").into(),
        }
    }

    /// Returns the error for a value out of range.
    pub(super) fn out_of_range(self, expected: &str) -> Error {
        invalid(Parameter::Levels, self, expected)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind(), self.value())
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_one(text, "mi")
    }
}

fn parse_one(text: &str, default_kind: &str) -> Result<Level> {
    let (kind, number) = text.trim().split_once('=').unwrap_or((default_kind, text));
    match number.trim().parse() {
        Ok(value) => Level::new(kind.trim(), value),
        Err(_) => Err(invalid(
            Parameter::Levels,
            text,
            "write numbers separated by commas, such as 2,4,6 (nats), rho=.5,.9, eps=1,.1 or df=3,1",
        )),
    }
}

/// Parses levels separated by commas. A kind applies until the next one, as in `df=3,2,1`; numbers
/// before the first kind are mutual information in nats.
pub fn parse_levels(text: &str) -> Result<Vec<Level>> {
    let mut levels: Vec<Level> = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let kind = levels.last().map_or("mi", |level| level.kind());
        levels.push(parse_one(part, kind)?);
    }
    if levels.is_empty() {
        return Err(invalid(
            Parameter::Levels,
            "",
            "at least one level is needed, such as 2,4,6,8,10",
        ));
    }
    Ok(levels)
}

impl TryFrom<String> for Level {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Level> for String {
    fn from(level: Level) -> Self {
        level.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_applies_until_the_next() {
        assert_eq!(parse_levels("2,4").unwrap(), [Level::Mi(2.0), Level::Mi(4.0)]);
        assert_eq!(
            parse_levels("df=3,2,mi=1").unwrap(),
            [Level::Df(3.0), Level::Df(2.0), Level::Mi(1.0)]
        );
        for bad in ["", ",", "two", "foo=1", "rho="] {
            assert!(parse_levels(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_round_trips() {
        for kind in KINDS {
            let level = Level::new(kind, -0.05).unwrap();
            assert_eq!(level.to_string(), format!("{kind}=-0.05"));
            assert_eq!(level.to_string().parse::<Level>().unwrap(), level);
        }
    }
}
