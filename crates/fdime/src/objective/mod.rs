//! What a critic is trained to maximise, and how a mutual information is read off it.
//!
//! An estimator is three independent choices: a [`Cost`] to train with, a [`Link`] from scores to
//! log density ratios, and a [`Readout`]. The named estimators are the table in
//! [`Estimator::from_str`]: NWJ, for example, is the KL cost with NWJ's readout, and SMILE the GAN
//! cost with a clipped partition function.

mod f_dime;
mod info_nce;
mod mine;
mod readout;
mod smile;

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

/// Value and gradient of a cost with respect to the scores of a batch. Costs are maximised.
///
/// A batch is processed in runs of scores, so that a critic can go forward, ask for gradients and
/// go backward while a few rows are in cache. A cost whose gradients need the whole batch first
/// (a partition function) says so, and is shown all scores by [`observe`](Self::observe) before.
pub trait Objective: Send + Sync {
    /// Whether [`observe`](Self::observe) must see the batch before any gradient is asked for.
    fn needs_whole_batch(&self) -> bool {
        false
    }

    /// Takes in the scores of the whole batch.
    fn observe(&mut self, scores: Scores<'_>) {
        let _ = scores;
    }

    /// Writes dJ/ds for a run of joint scores that starts at `row`; returns their part of J.
    fn joint(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64;

    /// Writes dJ/ds for a run of marginal scores that belongs to `row` (all pairs) or starts at
    /// it (one partner each); returns their part of J.
    fn marginal(&self, row: usize, scores: &[f32], gradient: &mut [f32]) -> f64;

    /// The part of J that belongs to no single score.
    fn constant(&self) -> f64 {
        0.0
    }
}

/// What is maximised during training.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// f-DIME's value function, `E_joint[a(l)] - E_marginal[b(l)]`.
    FDivergence(Divergence),
    /// Donsker-Varadhan, `E_joint[l] - ln E_marginal[e^l]`, its gradient with the partition function
    /// replaced by a moving average (MINE).
    MovingAverage,
    /// Donsker-Varadhan with e^l clipped to [e^-tau, e^tau] (SMILE's own cost).
    Clipped {
        /// The clipping point; infinity clips nothing.
        tau: f64,
    },
    /// InfoNCE: the mean of ln(e^{l_ii} / mean_j e^{l_ij}) (CPC).
    InfoNce,
}

/// A way to estimate mutual information: cost, link and readout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EstimatorSpec", into = "EstimatorSpec")]
pub struct Estimator {
    name: String,
    cost: Cost,
    link: Link,
    readout: Readout,
}

/// An estimator as plans hold it: its name, which stands for cost and defaults, and the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EstimatorSpec {
    name: String,
    link: Option<Link>,
    readout: Option<Readout>,
}

impl Estimator {
    /// Name and description of every kind of estimator.
    pub const NAMES: [(&'static str, &'static str); 9] = [
        ("<divergence>-dime", "f-DIME: kl-dime, gan-dime, hd-dime, ..., alpha-0.5-dime"),
        ("f:EXPRESSION", "f-DIME for any convex f(u), e.g. f:u*ln(u)"),
        ("mine", "Donsker-Varadhan, moving-average partition function"),
        ("nwj", "KL cost, identity link, NWJ readout"),
        ("smile-TAU", "GAN cost, readout clipped at TAU, e.g. smile-1"),
        ("smile-inf", "GAN cost, Donsker-Varadhan readout"),
        ("smile-own-TAU", "SMILE's own clipped cost (it tends to diverge)"),
        ("cpc", "InfoNCE; never above ln N; needs all pairs"),
        ("njee", "difference of entropies by 2d-1 classifiers; uses no critic"),
    ];

    /// f-DIME with the paper's link for that divergence: softplus outputs for KL and Hellinger,
    /// the identity for all others.
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

    /// Another link in place of the default one.
    pub fn with_link(mut self, link: Link) -> Self {
        self.link = link;
        self
    }

    /// Another readout in place of the default one.
    pub fn with_readout(mut self, readout: Readout) -> Self {
        self.readout = readout;
        self
    }

    /// The name it was made from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is trained with.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// How scores become log density ratios.
    pub fn link(&self) -> Link {
        self.link
    }

    /// How the estimate is read off.
    pub fn readout(&self) -> Readout {
        self.readout
    }

    /// Something to tell the user about this choice, if there is.
    pub fn notice(&self) -> Option<String> {
        match &self.cost {
            Cost::FDivergence(Divergence::Custom(custom)) => custom.notice(),
            _ => None,
        }
    }

    /// Refuses a pairing that this estimator cannot work with.
    pub fn check_pairing(&self, pairing: Pairing) -> Result<()> {
        let row_wise = self.cost == Cost::InfoNce || self.readout == Readout::InfoNce;
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
        }
    }

    /// A fresh objective's value on the scores of one batch, and its gradient in the same shape.
    pub fn value_and_gradient(&self, scores: &ScoreBlock) -> (f64, ScoreBlock) {
        let counts = Scores(std::slice::from_ref(scores)).counts();
        value_and_gradient(&mut *self.objective(counts), scores)
    }

    /// The estimate of the mutual information from a batch's scores.
    pub fn mutual_information(&self, scores: Scores<'_>) -> Nats {
        self.readout.read(self.link, scores)
    }
}

impl fmt::Display for Estimator {
    /// The name, and in brackets what differs from what the name stands for.
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
        let made = |cost, readout| {
            Ok(Estimator { name: name.to_string(), cost, link: Link::Identity, readout })
        };
        match name {
            "mine" => return made(Cost::MovingAverage, Readout::DonskerVaradhan),
            "nwj" => return made(Cost::FDivergence(Divergence::Kl), Readout::Nwj),
            "cpc" => return made(Cost::InfoNce, Readout::InfoNce),
            _ => {}
        }
        if name.starts_with("f:") {
            return name.parse().map(Estimator::f_dime);
        }
        if let Some(tau) = name.strip_prefix("smile-own-") {
            let tau = parse_tau(name, tau)?;
            return made(Cost::Clipped { tau }, Readout::clipped(tau));
        }
        if let Some(tau) = name.strip_prefix("smile-") {
            return made(
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
                known.extend(
                    ["mine", "nwj", "cpc", "njee", "smile-1", "smile-inf"].map(String::from),
                );
                Err(unknown_name(Parameter::Estimator, name, known.iter().map(String::as_str)))
            }
        }
    }
}

/// The value of an objective on the scores of one batch, and its gradient in the same shape.
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
            value += objective.marginal(*first, marginal, marginal_gradient);
        }
        (
            ScoreBlock::AllPairs { first, n, matrix },
            ScoreBlock::AllPairs { matrix: gradients, .. },
        ) => {
            let rows = matrix.chunks_exact(*n).zip(gradients.chunks_exact_mut(*n));
            for (row, (scores, gradient)) in (*first..).zip(rows) {
                let (left, right) = (..row, row + 1..);
                value += objective.joint(row, &scores[row..=row], &mut gradient[row..=row]);
                value += objective.marginal(row, &scores[left], &mut gradient[left]);
                value += objective.marginal(row, &scores[right.clone()], &mut gradient[right]);
            }
        }
        _ => unreachable!("a clone has the shape of what it was cloned from"),
    }
    (value, gradient)
}

/// The part `E_joint[l]` of a value, for a run of joint scores.
fn mean_log_ratio_part(link: Link, joint: usize, scores: &[f32], gradient: &mut [f32]) -> f64 {
    let weight = 1.0 / joint as f64;
    let mut value = 0.0;
    for (&s, g) in scores.iter().zip(gradient) {
        value += weight * link.log_ratio(f64::from(s));
        *g = weight as f32 * link.slope(s);
    }
    value
}

/// What every cost with a partition function Z asks of its marginal scores: the gradient of
/// -ln Z, `gradient = weight e^(l - ln Z) dl/ds`, and 0 where |l| > tau.
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

/// "inf" or a positive number.
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
    fn a_changed_link_or_readout_shows() {
        let estimator: Estimator = "kl-dime".parse().unwrap();
        assert_eq!(estimator.to_string(), "kl-dime");
        let changed = estimator.with_readout(Readout::Nwj).with_link(Link::Identity);
        assert_eq!(
            (changed.to_string().as_str(), changed.name()),
            ("kl-dime (identity, nwj)", "kl-dime")
        );
    }

    #[test]
    fn unknown_names_are_explained() {
        let error = |name: &str| name.parse::<Estimator>().unwrap_err().to_string();
        assert_eq!(error("kl-dmie"), "unknown estimator 'kl-dmie'; did you mean 'kl-dime'?");
        assert_eq!(error("gan"), "unknown estimator 'gan'; did you mean 'gan-dime'?");
        assert!(error("smile-x").contains("positive number or inf"));
        assert!(error("alpha-x-dime").contains("alpha-0.5"));
    }
}
