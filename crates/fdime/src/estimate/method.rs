//! The ways to estimate from finite data.

use crate::error::{Error, Result, invalid, unknown_name};
use crate::link::Link;
use crate::message::Parameter;
use crate::objective::Estimator;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A way to estimate mutual information from finite data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    /// GAN-DIME critics from a portfolio of recipes, chosen by held-out loss.
    Auto,
    /// The same portfolio, trained with another estimator of the library.
    Critic(Estimator),
    /// Canonical correlations of normal scores: exact for Gaussian copulas.
    GaussianCopula,
    /// Canonical correlations of the values themselves: exact for Gaussians.
    Cca,
    /// Nearest neighbours, maximum norm.
    Ksg,
}

impl Method {
    /// Name and description of the methods that are no estimators of the library.
    pub const NAMES: [(&'static str, &'static str); 4] = [
        ("auto", "GAN-DIME, recipe chosen per data set by held-out loss"),
        ("copula", "Gaussian copula: canonical correlations of normal scores"),
        ("cca", "canonical correlations of the values"),
        ("ksg", "nearest neighbours (KSG), maximum norm"),
    ];

    /// Whether it looks at numbers alone and passes over categories.
    pub(super) fn needs_numbers(&self) -> bool {
        matches!(self, Method::GaussianCopula | Method::Cca | Method::Ksg)
    }

    /// The estimator that critics are trained with. On finite data its link is the identity, so that
    /// a critic can start from a reference log ratio and learn what is left.
    pub fn estimator(&self) -> Result<Estimator> {
        match self {
            Method::Critic(estimator) => Ok(estimator.clone()),
            _ => "gan-dime".parse(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Auto => f.write_str("auto"),
            Method::Critic(estimator) => f.write_str(estimator.name()),
            Method::GaussianCopula => f.write_str("copula"),
            Method::Cca => f.write_str("cca"),
            Method::Ksg => f.write_str("ksg"),
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Method::Auto),
            "copula" => Ok(Method::GaussianCopula),
            "cca" => Ok(Method::Cca),
            "ksg" => Ok(Method::Ksg),
            _ => match name.parse::<Estimator>() {
                Ok(estimator) if !estimator.has_critic() => {
                    let expected = "it needs fresh samples at every step; for tables there are auto, \
                                    ksg, gan-dime and more";
                    Err(invalid(Parameter::Estimator, name, expected))
                }
                Ok(estimator) => Ok(Method::Critic(estimator.with_link(Link::Identity))),
                Err(Error::UnknownName { suggestion: None, .. }) => {
                    let known = Method::NAMES.map(|(name, _)| name);
                    Err(unknown_name(Parameter::Estimator, name, known))
                }
                Err(error) => Err(error),
            },
        }
    }
}

impl TryFrom<String> for Method {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["auto", "copula", "cca", "ksg", "gan-dime", "kl-dime", "mine", "f:u*ln(u)"] {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
        let error = |name: &str| name.parse::<Method>().unwrap_err().to_string();
        assert_eq!(error("kssg"), "unknown estimator 'kssg'; did you mean 'ksg'?");
        assert!(error("gan-dmie").contains("gan-dime"));
    }
}
