//! What comes out of an estimate.

use super::independence::IndependenceTest;
use super::model::FoldModel;
use super::verdict::Verdict;
use crate::nats::Nats;
use crate::train::CurvePoint;
use serde::{Deserialize, Serialize};

/// A mutual information with its uncertainty and everything that speaks for and against it.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The estimate: not negative, and no more than the entropy of a discrete side.
    pub mi: Nats,
    /// What the readout gave: below 0 by chance when there is no dependence, or above the entropy.
    pub unclipped: Nats,
    /// The 95% interval.
    pub interval: (Nats, Nats),
    /// The test of independence, where the method has one.
    pub independence: Option<IndependenceTest>,
    /// The log ratio of every row, by a critic that never saw it.
    pub pointwise: Vec<f64>,
    /// Figures of the folds.
    pub folds: Vec<FoldFigures>,
    /// How the recipes did in the race, the best first.
    pub race: Vec<RaceEntry>,
    /// The Donsker-Varadhan readout of the same critics.
    pub lower_bound: Option<Nats>,
    /// What classical estimators say.
    pub baselines: Baselines,
    /// Whether to believe it.
    pub verdict: Verdict,
    /// The critics, one model for every fold.
    pub models: Vec<FoldModel>,
}

/// One fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldFigures {
    /// Rows that critics were fitted to, stopped by, and scored on.
    pub rows: FoldRows,
    /// The mean log ratio of the test rows.
    pub mi_nats: f64,
    /// Its standard error, from the scatter of those log ratios.
    pub standard_error: f64,
    /// The mean log ratio of training rows: far above `mi_nats` means overfitting.
    pub train_mi_nats: f64,
    /// The critics.
    pub members: Vec<MemberFigures>,
}

/// The sizes of a fold's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldRows {
    /// Fitted to.
    pub train: usize,
    /// Stopped by.
    pub validation: usize,
    /// Scored.
    pub test: usize,
}

/// One critic of a fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberFigures {
    /// The recipe's name.
    pub recipe: String,
    /// Its share in the fold's log ratio.
    pub weight: f64,
    /// The mean of its own log ratio over the test rows; nothing for one without weight.
    pub mi_nats: Option<f64>,
    /// The step that its parameters are from.
    pub step: usize,
    /// The objective on the validation rows, there.
    pub validation: f64,
    /// The learning curve.
    pub curve: Vec<CurvePoint>,
}

/// A recipe in the race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceEntry {
    /// The recipe's name.
    pub recipe: String,
    /// The objective on validation rows, averaged over the folds it ran on.
    pub validation: f64,
    /// Whether it was among those trained on every fold.
    pub chosen: bool,
}

/// Classical estimates of the same data, for comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// Canonical correlations of normal scores; nothing without continuous columns on both sides.
    pub gaussian_copula_nats: Option<f64>,
    /// Nearest neighbours of normal scores; nothing unless all columns are continuous and few, since
    /// it breaks down in many dimensions.
    pub ksg_nats: Option<f64>,
}
