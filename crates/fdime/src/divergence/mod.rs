//! f-divergences, each one row of a table.
//!
//! With l = ln p(x,y) / (p(x) p(y)), the f-DIME value function of every f-divergence is
//!
//! ```text
//! J(l) = E_joint[a(l)] - E_marginal[b(l)],
//! a(l) = f'(e^l),   b(l) = f*(f'(e^l)) = e^l a(l) - f(e^l),   hence   b'(l) = e^l a'(l).
//! ```
//!
//! A row states f, a, b and their slopes; the property tests below check every row.

mod custom;
mod expression;
pub(crate) mod rows;

pub use custom::CustomDivergence;
pub(crate) use rows::Row;

use crate::error::{Error, Result, invalid, unknown_name};
use crate::message::Parameter;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An f-divergence, named by its generator f.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Divergence {
    /// Kullback-Leibler: f(u) = u ln u
    Kl,
    /// The GAN divergence: f(u) = u ln u - (u+1) ln(u+1) + ln 4
    Gan,
    /// Squared Hellinger distance: f(u) = (sqrt u - 1)^2
    Hellinger,
    /// Reverse Kullback-Leibler: f(u) = -ln u
    ReverseKl,
    /// Jensen-Shannon: f(u) = (u ln u - (u+1) ln((u+1)/2)) / 2
    JensenShannon,
    /// Pearson chi-squared: f(u) = (u-1)^2
    Pearson,
    /// Neyman chi-squared: f(u) = (u-1)^2 / u
    Neyman,
    /// Jeffreys: f(u) = (u-1) ln u
    Jeffreys,
    /// The alpha family: f(u) = (u^alpha - alpha u - (1-alpha)) / (alpha (alpha-1)), with
    /// Kullback-Leibler (alpha = 1) and its reverse (alpha = 0) as limits
    Alpha(f64),
    /// Shifted log: f(u) = ln 2 - ln(1+u)
    ShiftedLog,
    /// A generator f given by the user
    Custom(CustomDivergence),
}

/// Runs `$body` with `$row` bound to the table row of a divergence.
macro_rules! with_row {
    ($divergence:expr, $row:ident => $body:expr) => {{
        use $crate::divergence::{Divergence, rows};
        match $divergence {
            Divergence::Kl => {
                let $row = &rows::Kl;
                $body
            }
            Divergence::Gan => {
                let $row = &rows::Gan;
                $body
            }
            Divergence::Hellinger => {
                let $row = &rows::Hellinger;
                $body
            }
            Divergence::ReverseKl => {
                let $row = &rows::ReverseKl;
                $body
            }
            Divergence::JensenShannon => {
                let $row = &rows::JensenShannon;
                $body
            }
            Divergence::Pearson => {
                let $row = &rows::Pearson;
                $body
            }
            Divergence::Neyman => {
                let $row = &rows::Neyman;
                $body
            }
            Divergence::Jeffreys => {
                let $row = &rows::Jeffreys;
                $body
            }
            Divergence::Alpha(alpha) => {
                let $row = &rows::Alpha(*alpha);
                $body
            }
            Divergence::ShiftedLog => {
                let $row = &rows::ShiftedLog;
                $body
            }
            Divergence::Custom(custom) => {
                let $row = custom;
                $body
            }
        }
    }};
}
pub(crate) use with_row;

impl Divergence {
    /// All divergences of the table, with one member of the alpha family.
    pub const TABLE: [Divergence; 10] = [
        Divergence::Kl,
        Divergence::Gan,
        Divergence::Hellinger,
        Divergence::ReverseKl,
        Divergence::JensenShannon,
        Divergence::Pearson,
        Divergence::Neyman,
        Divergence::Jeffreys,
        Divergence::Alpha(0.5),
        Divergence::ShiftedLog,
    ];

    /// Creates the alpha-divergence; alpha must be finite.
    pub fn alpha(alpha: f64) -> Result<Self> {
        if alpha.is_finite() {
            Ok(Divergence::Alpha(alpha))
        } else {
            Err(invalid(
                Parameter::Divergence,
                format!("alpha-{alpha}"),
                "alpha must be a finite number",
            ))
        }
    }

    /// Creates a divergence from an expression in u, such as `u*ln(u)`; see [`CustomDivergence`].
    pub fn from_expression(expression: &str) -> Result<Self> {
        CustomDivergence::from_expression(expression).map(Divergence::Custom)
    }

    /// Returns the full name.
    pub fn title(&self) -> &'static str {
        match self {
            Divergence::Kl => "Kullback-Leibler",
            Divergence::Gan => "GAN",
            Divergence::Hellinger => "squared Hellinger",
            Divergence::ReverseKl => "reverse Kullback-Leibler",
            Divergence::JensenShannon => "Jensen-Shannon",
            Divergence::Pearson => "Pearson chi-squared",
            Divergence::Neyman => "Neyman chi-squared",
            Divergence::Jeffreys => "Jeffreys",
            Divergence::Alpha(_) => "alpha family",
            Divergence::ShiftedLog => "shifted log",
            Divergence::Custom(_) => "custom",
        }
    }

    /// Returns the generator as a formula in u.
    pub fn formula(&self) -> String {
        match self {
            Divergence::Kl => "u ln u".into(),
            Divergence::Gan => "u ln u - (u+1) ln(u+1) + ln 4".into(),
            Divergence::Hellinger => "(sqrt u - 1)^2".into(),
            Divergence::ReverseKl => "-ln u".into(),
            Divergence::JensenShannon => "(u ln u - (u+1) ln((u+1)/2)) / 2".into(),
            Divergence::Pearson => "(u-1)^2".into(),
            Divergence::Neyman => "(u-1)^2 / u".into(),
            Divergence::Jeffreys => "(u-1) ln u".into(),
            Divergence::Alpha(_) => "(u^A - A u - (1-A)) / (A (A-1))".into(),
            Divergence::ShiftedLog => "ln 2 - ln(1+u)".into(),
            Divergence::Custom(custom) => custom.formula().to_string(),
        }
    }

    /// Returns f(u) for u > 0.
    pub fn f(&self, u: f64) -> f64 {
        with_row!(self, row => row.f(u))
    }

    /// Returns a(l) = f'(e^l), the term of a joint pair in the value function.
    pub fn a(&self, log_ratio: f64) -> f64 {
        with_row!(self, row => row.a(log_ratio))
    }

    /// Returns b(l) = e^l a(l) - f(e^l), which the value function subtracts for a marginal pair.
    pub fn b(&self, log_ratio: f64) -> f64 {
        with_row!(self, row => row.b(log_ratio))
    }

    /// Returns a'(l).
    pub fn a_slope(&self, log_ratio: f64) -> f64 {
        with_row!(self, row => row.a_slope(log_ratio))
    }

    /// Returns b'(l) = e^l a'(l).
    pub fn b_slope(&self, log_ratio: f64) -> f64 {
        with_row!(self, row => row.b_slope(log_ratio))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Divergence::Kl => "kl",
            Divergence::Gan => "gan",
            Divergence::Hellinger => "hd",
            Divergence::ReverseKl => "reverse-kl",
            Divergence::JensenShannon => "js",
            Divergence::Pearson => "pearson",
            Divergence::Neyman => "neyman",
            Divergence::Jeffreys => "jeffreys",
            Divergence::Alpha(alpha) => return write!(f, "alpha-{alpha}"),
            Divergence::ShiftedLog => "shifted-log",
            Divergence::Custom(custom) => return f.write_str(&custom.name()),
        };
        f.write_str(name)
    }
}

impl FromStr for Divergence {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(expression) = name.strip_prefix("f:") {
            return Divergence::from_expression(expression);
        }
        if name.starts_with("functions:") {
            let expected = "functions cannot be stored in a plan; write f:EXPRESSION";
            return Err(invalid(Parameter::Divergence, name, expected));
        }
        if let Some(alpha) = name.strip_prefix("alpha-") {
            return match alpha.parse() {
                Ok(alpha) => Divergence::alpha(alpha),
                Err(_) => Err(invalid(
                    Parameter::Divergence,
                    name,
                    "write a number, as in alpha-0.5 or alpha-0.5-dime",
                )),
            };
        }
        let short = match name {
            "hellinger" => "hd",
            "jensen-shannon" => "js",
            name => name,
        };
        Divergence::TABLE.into_iter().find(|row| row.to_string() == short).ok_or_else(|| {
            let known: Vec<String> = Divergence::TABLE.iter().map(ToString::to_string).collect();
            unknown_name(Parameter::Divergence, name, known.iter().map(String::as_str))
        })
    }
}

impl TryFrom<String> for Divergence {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<Divergence> for String {
    fn from(divergence: Divergence) -> Self {
        divergence.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the table, more members of the alpha family, and both kinds of custom divergences.
    fn every_divergence() -> Vec<Divergence> {
        let mut all = Divergence::TABLE.to_vec();
        all.extend([-1.0, 0.0, 1.0, 1.5, 2.0].map(Divergence::Alpha));
        all.push(Divergence::from_expression("u*ln(u)").unwrap());
        all.push(Divergence::from_expression("(sqrt(u)-1)^2").unwrap());
        all.push(Divergence::Custom(
            CustomDivergence::from_functions(
                "total square",
                |u| (u - 1.0).powi(2),
                |u| 2.0 * (u - 1.0),
                |_| 2.0,
            )
            .unwrap(),
        ));
        all
    }

    fn close(left: f64, right: f64, scale: f64) -> bool {
        (left - right).abs() <= 1e-9 * (1.0 + scale.abs())
    }

    #[test]
    fn f_vanishes_at_one() {
        for d in every_divergence() {
            assert!(d.f(1.0).abs() < 1e-14, "{d}");
        }
    }

    #[test]
    fn a_is_the_derivative_of_f() {
        for d in every_divergence() {
            for k in -20..=20 {
                let l = f64::from(k) * 0.2;
                let (u, h) = (l.exp(), 1e-5 * l.exp());
                let derivative = (d.f(u + h) - d.f(u - h)) / (2.0 * h);
                assert!((d.a(l) - derivative).abs() < 1e-5 * (1.0 + d.a(l).abs()), "{d} at l={l}");
            }
        }
    }

    #[test]
    fn b_is_the_conjugate() {
        for d in every_divergence() {
            for k in -20..=20 {
                let l = f64::from(k) * 0.2;
                let (u, f) = (l.exp(), d.f(l.exp()));
                assert!(close(d.b(l), u * d.a(l) - f, u * d.a(l)), "{d} at l={l}");
            }
        }
    }

    #[test]
    fn slopes_match_finite_differences() {
        for d in every_divergence() {
            for k in -40..=40 {
                let (l, h) = (f64::from(k) * 0.2, 1e-5);
                let a = (d.a(l + h) - d.a(l - h)) / (2.0 * h);
                let b = (d.b(l + h) - d.b(l - h)) / (2.0 * h);
                // The differences lose digits where a and b are much larger than their slopes.
                let noise = 1e-10 * (d.a(l).abs() + d.b(l).abs() + 1.0);
                assert!((d.a_slope(l) - a).abs() < 1e-6 * a.abs() + noise, "{d} a' at l={l}");
                assert!((d.b_slope(l) - b).abs() < 1e-6 * b.abs() + noise, "{d} b' at l={l}");
            }
        }
    }

    #[test]
    fn slope_of_b_is_ratio_times_slope_of_a() {
        for d in every_divergence() {
            for k in -40..=40 {
                let l = f64::from(k) * 0.5;
                let expected = l.exp() * d.a_slope(l);
                assert!((d.b_slope(l) - expected).abs() <= 1e-12 * expected.abs(), "{d} at l={l}");
            }
        }
    }

    #[test]
    fn rows_are_finite_at_extreme_log_ratios() {
        for d in Divergence::TABLE {
            for l in [-80.0, -40.0, 40.0, 80.0] {
                for value in [d.a(l), d.b(l), d.a_slope(l), d.b_slope(l)] {
                    assert!(value.is_finite(), "{d} at l={l}: {value}");
                }
            }
        }
    }

    #[test]
    fn the_alpha_family_contains_other_rows() {
        // Equal up to a factor and a term c (u-1) in f, which changes neither a' nor b'.
        let pairs = [
            (1.0, Divergence::Kl, 1.0),
            (0.0, Divergence::ReverseKl, 1.0),
            (2.0, Divergence::Pearson, 0.5),
            (-1.0, Divergence::Neyman, 0.5),
            (0.5, Divergence::Hellinger, 2.0),
        ];
        for (alpha, row, factor) in pairs {
            for l in [-3.0, -0.5, 0.0, 0.5, 3.0] {
                let expected = factor * row.a_slope(l);
                assert!(close(Divergence::Alpha(alpha).a_slope(l), expected, expected), "{row}");
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for d in every_divergence() {
            if matches!(&d, Divergence::Custom(custom) if custom.formula() == "total square") {
                let error = d.to_string().parse::<Divergence>().unwrap_err();
                assert!(error.to_string().contains("cannot be stored in a plan"));
                continue;
            }
            assert_eq!(d.to_string().parse::<Divergence>().unwrap(), d);
        }
        assert!("jefreys".parse::<Divergence>().unwrap_err().to_string().contains("jeffreys"));
        assert_eq!("hellinger".parse::<Divergence>().unwrap(), Divergence::Hellinger);
        assert!("alpha-x".parse::<Divergence>().is_err());
        assert!("alpha-inf".parse::<Divergence>().is_err());
    }
}
