//! Readouts: formulas that turn the scores of a critic into an estimate.

use crate::error::{Result, invalid, unknown_name};
use crate::link::Link;
use crate::message::Parameter;
use crate::nats::Nats;
use crate::numerics::{Real, log_add_exp};
use crate::scores::{PairKind, Scores};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A formula for the estimate as a function of the log ratios l. The paper's "Lower Bound
/// Adaptation" is f-DIME with one of the three readouts that have a partition term.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Readout {
    /// `E_joint[l]`. It has low variance because it has no partition term.
    Plain,
    /// `E_joint[l] - E_marginal[e^l] + 1`, a lower bound in expectation.
    Nwj,
    /// `E_joint[l] - ln E_marginal[e^l]`, a lower bound if the partition function is exact.
    DonskerVaradhan,
    /// `E_joint[l] - ln E_marginal[clip(e^l, e^-tau, e^tau)]`.
    Clipped {
        /// The clipping threshold.
        tau: f64,
    },
    /// The mean over rows of l_ii - ln mean_j e^{l_ij}; at most ln N.
    InfoNce,
}

impl Readout {
    /// The name and description of every readout.
    pub const NAMES: [(&'static str, &'static str); 5] = [
        ("plain", "E_joint[l]"),
        ("nwj", "E_joint[l] - E_marginal[e^l] + 1, a lower bound"),
        ("dv", "E_joint[l] - ln E_marginal[e^l], a lower bound"),
        ("clipped-TAU", "as dv, with e^l clipped to [e^-TAU, e^TAU]"),
        ("info-nce", "mean over rows of l_ii - ln mean_j e^l_ij; needs all pairs"),
    ];

    /// Returns the readout clipped at `tau`; an infinite `tau` is no clipping.
    pub fn clipped(tau: f64) -> Self {
        if tau.is_infinite() { Readout::DonskerVaradhan } else { Readout::Clipped { tau } }
    }

    /// Returns the estimate.
    pub fn read(self, link: Link, scores: Scores<'_>) -> Nats {
        let joint = mean_joint(link, scores);
        Nats(match self {
            Readout::Plain => joint,
            Readout::Nwj => joint - log_partition(link, f64::INFINITY, scores).exp() + 1.0,
            Readout::DonskerVaradhan => joint - log_partition(link, f64::INFINITY, scores),
            Readout::Clipped { tau } => joint - log_partition(link, tau, scores),
            Readout::InfoNce => {
                let n = scores.counts().joint;
                joint - row_log_sums(link, scores, n).iter().sum::<f64>() / n as f64
                    + (n as f64).ln()
            }
        })
    }
}

/// Returns `E_joint[l]`.
fn mean_joint(link: Link, scores: Scores<'_>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    scores.visit_kind(PairKind::Joint, |run| {
        count += run.len();
        sum += run.iter().map(|&s| link.log_ratio(f64::from(s))).sum::<f64>();
    });
    sum / count as f64
}

/// Returns `ln E_marginal[clip(e^l, e^-tau, e^tau)]`, the largest exponent factored out.
pub(super) fn log_partition(link: Link, tau: f64, scores: Scores<'_>) -> f64 {
    let mut largest = f32::NEG_INFINITY;
    scores.visit_kind(PairKind::Marginal, |run| largest = largest_log_ratio(link, run, largest));
    let largest = largest.clamp(-tau as f32, tau as f32);
    let (mut sum, mut count) = (0.0, 0);
    scores.visit_kind(PairKind::Marginal, |run| {
        count += run.len();
        sum += sum_exp(link, run, tau as f32, largest);
    });
    f64::from(largest) + (sum / count as f64).ln()
}

/// Returns ln sum_j e^{l_ij} for every row i; the sum includes the joint pair.
pub(super) fn row_log_sums(link: Link, scores: Scores<'_>, n: usize) -> Vec<f64> {
    let mut sums = vec![f64::NEG_INFINITY; n];
    scores.visit(|_, row, run| {
        if !run.is_empty() {
            let largest = largest_log_ratio(link, run, f32::NEG_INFINITY);
            let sum = f64::from(largest) + sum_exp(link, run, f32::INFINITY, largest).ln();
            sums[row] = log_add_exp(sums[row], sum);
        }
    });
    sums
}

/// Returns the maximum of `so_far` and the log ratios, or NaN if any of them is NaN.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn largest_log_ratio(link: Link, scores: &[f32], so_far: f32) -> f32 {
    let mut largest = so_far;
    let mut nan = false;
    for &s in scores {
        let l = link.log_ratio(s);
        nan |= l.is_nan();
        largest = if l > largest { l } else { largest };
    }
    // A NaN in `so_far` is kept, because comparisons with it are false.
    if nan { f32::NAN } else { largest }
}

/// Returns the sum of e^{clip(l, -tau, tau) - shift}.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn sum_exp(link: Link, scores: &[f32], tau: f32, shift: f32) -> f64 {
    let mut total = 0.0;
    for run in scores.chunks(1024) {
        let mut lanes = [0f32; 16];
        let (full, rest) = run.as_chunks::<16>();
        for s in full {
            for lane in 0..16 {
                lanes[lane] += Real::exp(clip(link.log_ratio(s[lane]), tau) - shift);
            }
        }
        for &s in rest {
            lanes[0] += Real::exp(clip(link.log_ratio(s), tau) - shift);
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    total
}

#[inline(always)]
fn clip(l: f32, tau: f32) -> f32 {
    l.clamp(-tau, tau)
}

impl fmt::Display for Readout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Readout::Plain => "plain",
            Readout::Nwj => "nwj",
            Readout::DonskerVaradhan => "dv",
            Readout::Clipped { tau } => return write!(f, "clipped-{tau}"),
            Readout::InfoNce => "info-nce",
        })
    }
}

impl FromStr for Readout {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(tau) = name.strip_prefix("clipped-") {
            return match tau.parse::<f64>() {
                Ok(tau) if tau > 0.0 => Ok(Readout::clipped(tau)),
                _ => Err(invalid(
                    Parameter::Readout,
                    name,
                    "TAU is a positive number, as in clipped-1",
                )),
            };
        }
        match name {
            "plain" => Ok(Readout::Plain),
            "nwj" => Ok(Readout::Nwj),
            "dv" => Ok(Readout::DonskerVaradhan),
            "info-nce" => Ok(Readout::InfoNce),
            _ => Err(unknown_name(Parameter::Readout, name, Readout::NAMES.map(|(name, _)| name))),
        }
    }
}

impl TryFrom<String> for Readout {
    type Error = crate::Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<Readout> for String {
    fn from(readout: Readout) -> Self {
        readout.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::ScoreBlock;
    use proptest::prelude::*;

    fn paired(joint: &[f32], marginal: &[f32]) -> [ScoreBlock; 1] {
        [ScoreBlock::Paired { first: 0, joint: joint.to_vec(), marginal: marginal.to_vec() }]
    }

    #[test]
    fn readouts_follow_their_formulas() {
        let block = paired(&[1.0, 3.0], &[-2.0, 0.5]);
        let read = |readout: Readout| readout.read(Link::Identity, Scores(&block)).0;
        let z = ((-2f64).exp() + 0.5f64.exp()) / 2.0;
        let clipped = ((-1f64).exp() + 0.5f64.exp()) / 2.0;
        assert!((read(Readout::Plain) - 2.0).abs() < 1e-12);
        assert!((read(Readout::Nwj) - (2.0 - z + 1.0)).abs() < 1e-6);
        assert!((read(Readout::DonskerVaradhan) - (2.0 - z.ln())).abs() < 1e-6);
        assert!((read(Readout::Clipped { tau: 1.0 }) - (2.0 - clipped.ln())).abs() < 1e-6);
    }

    #[test]
    fn huge_scores_do_not_overflow() {
        let block = paired(&[300.0, 310.0], &[290.0, -400.0]);
        let dv = Readout::DonskerVaradhan.read(Link::Identity, Scores(&block)).0;
        assert!((dv - (305.0 - 290.0 + 2f64.ln())).abs() < 1e-3, "{dv}");
    }

    #[test]
    fn nan_scores_give_a_nan_estimate() {
        let block = paired(&[1.0, 2.0], &[0.0, f32::NAN]);
        for readout in [Readout::Nwj, Readout::DonskerVaradhan, Readout::Clipped { tau: 1.0 }] {
            assert!(!readout.read(Link::Identity, Scores(&block)).is_finite(), "{readout}");
        }
    }

    proptest! {
        /// For a fixed critic Donsker-Varadhan is at least NWJ, and InfoNCE is at most ln N.
        #[test]
        fn bounds_are_ordered(matrix in proptest::collection::vec(-8f32..8.0, 36)) {
            let block = [ScoreBlock::AllPairs { first: 0, n: 6, matrix }];
            let read = |readout: Readout| readout.read(Link::Identity, Scores(&block)).0;
            prop_assert!(read(Readout::Nwj) <= read(Readout::DonskerVaradhan) + 1e-4);
            prop_assert!(read(Readout::InfoNce) <= 6f64.ln() + 1e-6);
        }
    }
}
