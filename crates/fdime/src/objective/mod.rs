//! Training costs of critics, and the estimators built on them.
//!
//! An estimator combines three independent choices: a [`Cost`] that training maximises, a [`Link`]
//! from scores to log density ratios, and a [`Readout`]. [`Estimator::from_str`] defines the named
//! estimators: NWJ, for example, is the KL cost with NWJ's readout, and SMILE is the GAN cost with
//! a readout that clips the partition function.

mod f_dime;
mod info_nce;
mod mine;
mod readout;
mod smile;
mod symmetric_info_nce;

pub use readout::Readout;

use crate::divergence::Divergence;
use crate::error::{Error, Result, invalid, unknown_name};
use crate::link::Link;
use crate::message::Parameter;
use crate::nats::Nats;
use crate::numerics::Real;
use crate::pairing::Pairing;
use crate::scores::{PairCounts, ScoreBlock, Scores};
use multiversion::multiversion;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The value J of a cost, which is maximised, and its gradient with respect to the scores of a
/// batch.
///
/// A batch is processed in runs of scores, so that a critic can do its forward and backward pass
/// while a few rows are in cache. A cost with a partition function needs all scores of the batch
/// before it can compute a gradient: [`needs_whole_batch`](Self::needs_whole_batch) is then true
/// and [`observe`](Self::observe) is called first.
pub trait Objective: Send + Sync {
    /// Returns whether [`observe`](Self::observe) must be called before any gradient is computed.
    fn needs_whole_batch(&self) -> bool {
        false
    }

    /// Reads the scores of the whole batch.
    fn observe(&mut self, scores: Scores<'_>) {
        let _ = scores;
    }

    /// Writes dJ/ds for a run of joint scores that starts at `row`, and returns their part of J.
    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64;

    /// Writes dJ/ds for a run of marginal scores, and returns their part of J. With all pairs, the
    /// run belongs to `row` and starts at `column`; with one partner for each row, it starts at
    /// `row`, and `column` has no meaning.
    fn marginal(&self, row: usize, column: usize, scores: &[f32], gradient: &mut [f32]) -> f64;

    /// Returns the part of J that no single score contributes.
    fn constant(&self) -> f64 {
        0.0
    }
}

/// The cost that training maximises.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// f-DIME's value function, `E_joint[a(l)] - E_marginal[b(l)]`.
    FDivergence(Divergence),
    /// Donsker-Varadhan, `E_joint[l] - ln E_marginal[e^l]`, with a moving average of the partition
    /// function in the gradient (MINE).
    MovingAverage,
    /// Donsker-Varadhan with e^l clipped to [e^-tau, e^tau] (SMILE's own cost).
    Clipped {
        /// The clipping threshold; an infinite `tau` is no clipping.
        tau: f64,
    },
    /// InfoNCE, the mean over i of ln(e^{l_ii} / mean_j e^{l_ij}) (CPC).
    InfoNce,
    /// The mean of InfoNCE over rows and InfoNCE over columns. InfoNCE alone leaves any function
    /// of x undetermined; this leaves only a constant.
    SymmetricInfoNce,
}

/// An estimator of mutual information: a cost, a link and a readout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EstimatorSpec", into = "EstimatorSpec")]
pub struct Estimator {
    name: String,
    cost: Cost,
    link: Link,
    readout: Readout,
}

/// The serialised form of an estimator. The name determines the cost and the default link and
/// readout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EstimatorSpec {
    name: String,
    link: Option<Link>,
    readout: Option<Readout>,
}

impl Estimator {
    /// The name and description of every kind of estimator.
    pub const NAMES: [(&'static str, &'static str); 10] = [
        ("<divergence>-dime", "f-DIME: kl-dime, gan-dime, hd-dime, ..., alpha-0.5-dime"),
        ("f:EXPRESSION", "f-DIME for any convex f(u), e.g. f:u*ln(u)"),
        ("mine", "Donsker-Varadhan, moving-average partition function"),
        ("nwj", "KL cost, identity link, NWJ readout"),
        ("smile-TAU", "GAN cost, readout clipped at TAU, e.g. smile-1"),
        ("smile-inf", "GAN cost, Donsker-Varadhan readout"),
        ("smile-own-TAU", "SMILE's own clipped cost (it tends to diverge)"),
        ("cpc", "InfoNCE; never above ln N; needs all pairs"),
        ("symmetric-cpc", "InfoNCE over rows and columns, as in CLIP"),
        ("njee", "difference of entropies by 2d-1 classifiers; uses no critic"),
    ];

    /// Creates f-DIME with the paper's link for the divergence: softplus outputs for KL and
    /// Hellinger, the identity for all others.
    pub fn f_dime(divergence: Divergence) -> Self {
        let name = match &divergence {
            Divergence::Custom(_) => divergence.to_string(),
            _ => format!("{divergence}-dime"),
        };
        let link = match divergence {
            Divergence::Kl => Link::LogSoftplus,
            Divergence::Hellinger => Link::InverseSquareSoftplus,
            _ => Link::Identity,
        };
        Estimator { name, cost: Cost::FDivergence(divergence), link, readout: Readout::Plain }
    }

    /// Creates InfoNCE over rows and columns.
    pub fn symmetric_cpc() -> Self {
        let (name, link) = ("symmetric-cpc".to_string(), Link::Identity);
        Estimator { name, cost: Cost::SymmetricInfoNce, link, readout: Readout::InfoNce }
    }

    /// Replaces the link.
    pub fn with_link(mut self, link: Link) -> Self {
        self.link = link;
        self
    }

    /// Replaces the readout.
    pub fn with_readout(mut self, readout: Readout) -> Self {
        self.readout = readout;
        self
    }

    /// Returns the name, without changes of link or readout.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the cost that training maximises.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns the link from scores to log density ratios.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns the readout.
    pub fn readout(&self) -> Readout {
        self.readout
    }

    /// Returns a message about this choice for the user, or `None`.
    pub fn notice(&self) -> Option<String> {
        match &self.cost {
            Cost::FDivergence(Divergence::Custom(custom)) => custom.notice(),
            _ => None,
        }
    }

    /// Checks that the estimator can be used with this pairing.
    pub fn check_pairing(&self, pairing: Pairing) -> Result<()> {
        let row_wise = matches!(self.cost, Cost::InfoNce | Cost::SymmetricInfoNce)
            || self.readout == Readout::InfoNce;
        if row_wise && pairing != Pairing::AllPairs {
            return Err(Error::Incompatible {
                parameter: Parameter::Estimator,
                value: self.name.clone(),
                other: format!("pairing {pairing}").into(),
                reason: "InfoNCE compares every x with every y; use critic joint or separable with all-pairs".into(),
            });
        }
        Ok(())
    }

    /// A fresh objective for batches of this many pairs.
    pub fn objective(&self, counts: PairCounts) -> Box<dyn Objective> {
        match &self.cost {
            Cost::FDivergence(divergence) => {
                Box::new(f_dime::FDime::new(divergence.clone(), self.link, counts))
            }
            Cost::MovingAverage => Box::new(mine::Mine::new(self.link, counts)),
            Cost::Clipped { tau } => Box::new(smile::Smile::new(*tau, self.link, counts)),
            Cost::InfoNce => Box::new(info_nce::InfoNce::new(self.link, counts)),
            Cost::SymmetricInfoNce => {
                Box::new(symmetric_info_nce::SymmetricInfoNce::new(self.link, counts))
            }
        }
    }

    /// Returns the value of a new objective on the scores of one batch, and its gradient in the
    /// same shape.
    pub fn value_and_gradient(&self, scores: &ScoreBlock) -> (f64, ScoreBlock) {
        let counts = Scores(std::slice::from_ref(scores)).counts();
        value_and_gradient(&mut *self.objective(counts), scores)
    }

    /// Returns the estimate of mutual information from the scores of a batch.
    pub fn mutual_information(&self, scores: Scores<'_>) -> Nats {
        self.readout.read(self.link, scores)
    }
}

impl fmt::Display for Estimator {
    /// Writes the name, followed by the changes of link and readout in parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Ok(named) = self.name.parse::<Estimator>() else { return Ok(()) };
        let mut changes = Vec::new();
        if self.link != named.link {
            changes.push(self.link.to_string());
        }
        if self.readout != named.readout {
            changes.push(self.readout.to_string());
        }
        if changes.is_empty() { Ok(()) } else { write!(f, " ({})", changes.join(", ")) }
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let estimator = |cost, readout| {
            Ok(Estimator { name: name.to_string(), cost, link: Link::Identity, readout })
        };
        match name {
            "mine" => return estimator(Cost::MovingAverage, Readout::DonskerVaradhan),
            "nwj" => return estimator(Cost::FDivergence(Divergence::Kl), Readout::Nwj),
            "cpc" => return estimator(Cost::InfoNce, Readout::InfoNce),
            "symmetric-cpc" => return Ok(Estimator::symmetric_cpc()),
            _ => {}
        }
        if name.starts_with("f:") {
            return name.parse().map(Estimator::f_dime);
        }
        if let Some(tau) = name.strip_prefix("smile-own-") {
            let tau = parse_tau(name, tau)?;
            return estimator(Cost::Clipped { tau }, Readout::clipped(tau));
        }
        if let Some(tau) = name.strip_prefix("smile-") {
            return estimator(
                Cost::FDivergence(Divergence::Gan),
                Readout::clipped(parse_tau(name, tau)?),
            );
        }
        let divergence = name.strip_suffix("-dime").map(Divergence::from_str);
        match divergence {
            Some(Ok(divergence)) => Ok(Estimator::f_dime(divergence)),
            Some(Err(error @ Error::InvalidParameter { .. })) => Err(error),
            _ => {
                let mut known: Vec<String> =
                    Divergence::TABLE.iter().map(|d| format!("{d}-dime")).collect();
                let others = ["mine", "nwj", "cpc", "symmetric-cpc", "smile-1", "smile-inf"];
                known.extend(others.map(String::from));
                Err(unknown_name(Parameter::Estimator, name, known.iter().map(String::as_str)))
            }
        }
    }
}

/// Returns the value of an objective on the scores of one batch, and its gradient in the same
/// shape.
pub fn value_and_gradient(objective: &mut dyn Objective, scores: &ScoreBlock) -> (f64, ScoreBlock) {
    if objective.needs_whole_batch() {
        objective.observe(Scores(std::slice::from_ref(scores)));
    }
    let mut value = objective.constant();
    let mut gradient = scores.clone();
    match (scores, &mut gradient) {
        (
            ScoreBlock::Paired { first, joint, marginal },
            ScoreBlock::Paired { joint: joint_gradient, marginal: marginal_gradient, .. },
        ) => {
            value += objective.joint(*first, joint, joint_gradient);
            value += objective.marginal(*first, 0, marginal, marginal_gradient);
        }
        (
            ScoreBlock::AllPairs { first, n, matrix },
            ScoreBlock::AllPairs { matrix: gradients, .. },
        ) => {
            let rows = matrix.chunks_exact(*n).zip(gradients.chunks_exact_mut(*n));
            for (row, (scores, gradient)) in (*first..).zip(rows) {
                let (left, right) = (..row, row + 1..);
                value += objective.joint(row, &scores[row..=row], &mut gradient[row..=row]);
                value += objective.marginal(row, 0, &scores[left], &mut gradient[left]);
                let gradient = &mut gradient[right.clone()];
                value += objective.marginal(row, row + 1, &scores[right], gradient);
            }
        }
        _ => unreachable!("a clone has the shape of the original"),
    }
    (value, gradient)
}

/// Returns the part of `E_joint[l]` that a run of joint scores contributes, and writes its
/// gradient.
fn mean_log_ratio_part(link: Link, joint: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
    let weight = 1.0 / joint as f64;
    let mut value = 0.0;
    for (&s, g) in scores.iter().zip(gradient) {
        value += weight * link.log_ratio(f64::from(s));
        *g = weight as f32 * link.slope(s);
    }
    value
}

/// Writes the gradient of -ln Z for marginal scores, with Z a partition function:
/// `weight e^(l - ln Z) dl/ds`, and 0 where |l| > tau.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn partition_gradient(
    link: Link,
    tau: f32,
    log_partition: f32,
    weight: f32,
    scores: &[f32],
    gradient: &mut [f32],
) {
    for (&s, g) in scores.iter().zip(gradient) {
        let l = link.log_ratio(s);
        let inside = weight * Real::exp(l - log_partition) * link.slope(s);
        *g = if l.abs() > tau { 0.0 } else { inside };
    }
}

/// Parses a positive number or "inf".
fn parse_tau(name: &str, tau: &str) -> Result<f64> {
    match tau.parse::<f64>() {
        Ok(tau) if tau > 0.0 => Ok(tau),
        _ => Err(invalid(
            Parameter::Estimator,
            name,
            "TAU is a positive number or inf, as in smile-1",
        )),
    }
}

impl TryFrom<EstimatorSpec> for Estimator {
    type Error = Error;

    fn try_from(spec: EstimatorSpec) -> Result<Self> {
        let mut estimator: Estimator = spec.name.parse()?;
        estimator.link = spec.link.unwrap_or(estimator.link);
        estimator.readout = spec.readout.unwrap_or(estimator.readout);
        Ok(estimator)
    }
}

impl From<Estimator> for EstimatorSpec {
    fn from(estimator: Estimator) -> Self {
        EstimatorSpec {
            name: estimator.name,
            link: Some(estimator.link),
            readout: Some(estimator.readout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_estimator() -> Vec<Estimator> {
        let mut all: Vec<Estimator> =
            Divergence::TABLE.into_iter().map(Estimator::f_dime).collect();
        for name in [
            "mine",
            "nwj",
            "smile-1",
            "smile-inf",
            "smile-own-0.7",
            "smile-own-inf",
            "cpc",
            "symmetric-cpc",
            "f:u*ln(u)",
        ] {
            all.push(name.parse().unwrap());
        }
        all
    }

    #[test]
    fn names_and_plans_round_trip() {
        for estimator in every_estimator() {
            assert_eq!(estimator.name().parse::<Estimator>().unwrap(), estimator);
            let estimator = estimator.with_readout(Readout::Nwj);
            let json = serde_json::to_string(&estimator).unwrap();
            assert_eq!(serde_json::from_str::<Estimator>(&json).unwrap(), estimator, "{json}");
        }
    }

    #[test]
    fn changes_of_link_or_readout_are_displayed() {
        let estimator: Estimator = "kl-dime".parse().unwrap();
        assert_eq!(estimator.to_string(), "kl-dime");
        let changed = estimator.with_readout(Readout::Nwj).with_link(Link::Identity);
        assert_eq!(
            (changed.to_string().as_str(), changed.name()),
            ("kl-dime (identity, nwj)", "kl-dime")
        );
    }

    #[test]
    fn errors_about_unknown_names_suggest_one() {
        let error = |name: &str| name.parse::<Estimator>().unwrap_err().to_string();
        assert_eq!(error("kl-dmie"), "unknown estimator 'kl-dmie'; did you mean 'kl-dime'?");
        assert_eq!(error("gan"), "unknown estimator 'gan'; did you mean 'gan-dime'?");
        assert!(error("smile-x").contains("positive number or inf"));
        assert!(error("alpha-x-dime").contains("alpha-0.5"));
    }
}
