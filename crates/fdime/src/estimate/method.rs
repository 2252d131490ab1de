//! Methods of estimation from finite data.

use crate::divergence::Divergence;
use crate::error::{Error, Result, invalid, unknown_name};
use crate::link::Link;
use crate::message::Parameter;
use crate::objective::Estimator;
use crate::train::AnyEstimator;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A method of estimating mutual information from finite data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Method {
    /// GAN-DIME critics from a portfolio of recipes, chosen by the held-out objective; counts if all
    /// columns are discrete.
    Auto,
    /// The same portfolio, trained with another estimator.
    Critic(FiniteDataEstimator),
    /// Canonical correlations of normal scores: exact for Gaussian copulas.
    GaussianCopula,
    /// Canonical correlations of the values: exact for Gaussians.
    Cca,
    /// Nearest neighbours, maximum norm.
    Ksg,
}

/// An estimator with the identity link, so that a critic can start from a reference log ratio and
/// learn the difference. Its name alone determines it.
#[derive(Clone, Debug, PartialEq)]
pub struct FiniteDataEstimator(Estimator);

impl TryFrom<Estimator> for FiniteDataEstimator {
    type Error = Error;

    /// Takes an estimator with any link, which is replaced. The readout must be the one that its
    /// name stands for.
    fn try_from(estimator: Estimator) -> Result<Self> {
        let named: Estimator = estimator.name().parse()?;
        if estimator.readout() != named.readout() {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: estimator.to_string(),
                other: "finite data".into(),
                reason: "the readout must be the one that its name stands for".into(),
            });
        }
        Ok(FiniteDataEstimator(estimator.with_link(Link::Identity)))
    }
}

impl Method {
    /// Name and description of the methods that are not estimators of the library.
    pub const NAMES: [(&'static str, &'static str); 4] = [
        ("auto", "critics of several recipes, weighted by held-out rows"),
        ("copula", "Gaussian copula: canonical correlations of normal scores"),
        ("cca", "canonical correlations of the values"),
        ("ksg", "nearest neighbours (KSG), maximum norm"),
    ];

    /// Returns whether the method uses only numbers and ignores categories.
    pub(super) fn needs_numbers(&self) -> bool {
        matches!(self, Method::GaussianCopula | Method::Cca | Method::Ksg)
    }

    /// Returns the estimator that critics are trained with.
    pub fn estimator(&self) -> Estimator {
        match self {
            Method::Critic(estimator) => estimator.0.clone(),
            _ => Estimator::f_dime(Divergence::Gan),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Auto => f.write_str("auto"),
            Method::Critic(estimator) => f.write_str(estimator.0.name()),
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
            AnyEstimator::NJEE => {
                let expected = "it needs fresh samples at every step; for tables there are auto, \
                                ksg, gan-dime and more";
                Err(invalid(Parameter::Estimator, name, expected))
            }
            _ => match name.parse::<Estimator>() {
                Ok(estimator) => estimator.try_into().map(Method::Critic),
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
    use crate::objective::Readout;

    #[test]
    fn names_round_trip() {
        for name in ["auto", "copula", "cca", "ksg", "gan-dime", "kl-dime", "mine", "f:u*ln(u)"] {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
        let error = |name: &str| name.parse::<Method>().unwrap_err().to_string();
        assert_eq!(error("kssg"), "unknown estimator 'kssg'; did you mean 'ksg'?");
        assert!(error("gan-dmie").contains("gan-dime"));
    }

    #[test]
    fn names_determine_methods() {
        let kl: Estimator = "kl-dime".parse().unwrap();
        let method = Method::Critic(kl.clone().try_into().unwrap());
        assert_eq!(method, "kl-dime".parse().unwrap());
        assert_eq!(method.estimator().link(), Link::Identity);
        assert!(FiniteDataEstimator::try_from(kl.with_readout(Readout::Nwj)).is_err());
    }
}
