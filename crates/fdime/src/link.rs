//! Links from the output of a network to a log density ratio.

use crate::error::{Result, unknown_name};
use crate::message::Parameter;
use crate::numerics::{Real, ln_softplus, ln_softplus_slope};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A map from a score s to a log density ratio l. All links but the identity are the paper's output
/// activations, rewritten for l.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// l = s (GAN-DIME's sigmoid output, up to the sign of s).
    Identity,
    /// l = ln softplus(s): the ratio itself is a softplus, as in KL-DIME.
    LogSoftplus,
    /// l = -2 ln softplus(s): D = softplus(s) is the inverse root of the ratio, as in HD-DIME.
    InverseSquareSoftplus,
}

impl Link {
    /// All links.
    pub const ALL: [Link; 3] = [Link::Identity, Link::LogSoftplus, Link::InverseSquareSoftplus];

    /// Returns the name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Link::Identity => "identity",
            Link::LogSoftplus => "log-softplus",
            Link::InverseSquareSoftplus => "inverse-square-softplus",
        }
    }

    /// Returns l(s).
    #[inline(always)]
    pub fn log_ratio<R: Real>(self, score: R) -> R {
        match self {
            Link::Identity => score,
            Link::LogSoftplus => ln_softplus(score),
            Link::InverseSquareSoftplus => R::from_f64(-2.0) * ln_softplus(score),
        }
    }

    /// Returns dl/ds.
    #[inline(always)]
    pub fn slope<R: Real>(self, score: R) -> R {
        match self {
            Link::Identity => R::from_f64(1.0),
            Link::LogSoftplus => ln_softplus_slope(score),
            Link::InverseSquareSoftplus => R::from_f64(-2.0) * ln_softplus_slope(score),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Link {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        Link::ALL
            .into_iter()
            .find(|link| link.name() == name)
            .ok_or_else(|| unknown_name(Parameter::Link, name, Link::ALL.map(Link::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_match_finite_differences_and_stay_finite() {
        for link in Link::ALL {
            for k in -160..=160 {
                let s = f64::from(k) * 0.5;
                let h = 1e-5;
                let difference = (link.log_ratio(s + h) - link.log_ratio(s - h)) / (2.0 * h);
                assert!((difference - link.slope(s)).abs() < 1e-6, "{link} at {s}");
                assert!(link.log_ratio(s as f32).is_finite() && link.slope(s as f32).is_finite());
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for link in Link::ALL {
            assert_eq!(link.name().parse::<Link>().unwrap(), link);
        }
        assert!("identiti".parse::<Link>().unwrap_err().to_string().contains("identity"));
    }
}
