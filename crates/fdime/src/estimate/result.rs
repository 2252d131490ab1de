//! The results of an estimate.

use super::independence::IndependenceTest;
use super::model::FoldModel;
use super::verdict::Verdict;
use crate::data::Column;
use crate::nats::Nats;
use crate::train::CurvePoint;
use serde::{Deserialize, Serialize};

/// An estimate of mutual information, its uncertainty and the evidence behind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimate: not negative, and no more than the entropy of a discrete side.
    pub mi: Nats,
    /// The estimate before clipping: it may be below 0 by chance, or above the entropy.
    pub unclipped: Nats,
    /// The 95% interval.
    pub interval: (Nats, Nats),
    /// The test of independence; `None` if the method has none.
    pub independence: Option<IndependenceTest>,
    /// The log ratio of every row, from critics that were not trained on it, or from counts.
    pub pointwise: Vec<f64>,
    /// The results of each fold.
    pub folds: Vec<FoldFigures>,
    /// The result of the race between recipes, best first.
    pub race: Vec<RaceEntry>,
    /// The mean of normalised log ratios, which is a lower bound for every critic. The estimate of
    /// `auto` is this and half of the gap to the training rows. With a chain: that of the added terms,
    /// less the subtracted ones and what their critics may have missed.
    pub lower_bound: Option<Nats>,
    /// Classical estimates of the same data.
    pub baselines: Baselines,
    /// The reliability of the estimate, and the reasons for it.
    pub verdict: Verdict,
    /// The critics of the direct estimate: one model for each fold; none for nearest neighbours and
    /// for counts.
    pub models: Vec<FoldModel>,
    /// The terms of the chain rule, if the estimate is their sum.
    pub chain: Option<ChainFigures>,
    /// The columns that are held fixed, if the estimate is conditional, and what they tell.
    pub given: Option<GivenFigures>,
    /// The residuals of x and y, if the estimate is conditional.
    pub residuals: Option<Residuals>,
}

/// The columns of x and y without what the given columns predict of them, in units of their standard
/// deviations. Every row is predicted by regressions on other rows. Categories, and numbers with few
/// different values, are unchanged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Residuals {
    /// The columns of x.
    pub x: Vec<Column>,
    /// The columns of y.
    pub y: Vec<Column>,
}

/// What the columns that are held fixed in a conditional estimate explain of x and y.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GivenFigures {
    /// The names of these columns.
    pub columns: Vec<String>,
    /// The estimate of I(x; y) without them.
    pub unconditional_nats: Nats,
    /// The share of the variance of x that they predict in held-out rows, averaged over the columns of
    /// x that are numbers; `None` if there is none.
    pub explained_x: Option<f64>,
    /// The same for y.
    pub explained_y: Option<f64>,
    /// The estimate of the mutual information of these columns and the residual of x.
    pub remaining_nats: f64,
    /// The p-value of a test of whether this residual is independent of them within the neighbourhoods of the
    /// test of conditional independence. If it is small, that test may reject too often.
    pub neighbourhood_p_value: f64,
}

/// The terms of an estimate by the chain rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChainFigures {
    /// The side that was split, `x` or `y`.
    pub side: String,
    /// The names of each block's columns, in the order of the chain.
    pub blocks: Vec<Vec<String>>,
    /// The terms.
    pub terms: Vec<TermFigures>,
    /// The estimate without a chain.
    pub direct_nats: Nats,
}

impl ChainFigures {
    /// Returns the sum of the terms that are subtracted: what the blocks share with each other.
    pub fn shared_nats(&self) -> f64 {
        self.terms.iter().filter(|term| !term.is_added).map(|term| term.mi_nats).sum()
    }

    /// Returns the names of the columns of a term's block.
    pub fn columns_of(&self, term: &TermFigures) -> &[String] {
        let block = term.block.checked_sub(1).and_then(|index| self.blocks.get(index));
        block.map_or(&[], Vec::as_slice)
    }
}

/// The estimate of one term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TermFigures {
    /// The term as a formula, such as `I(X, Y_1; Y_2)`.
    pub term: String,
    /// The number of its block, from 1.
    pub block: usize,
    /// Whether it is added or subtracted.
    pub is_added: bool,
    /// Its estimate.
    pub mi_nats: f64,
    /// Its mean of normalised log ratios.
    pub lower_bound_nats: f64,
    /// The difference between the training rows' mean log ratio and that of held-out rows.
    pub gap_nats: f64,
}

/// The results of one fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FoldFigures {
    /// The number of rows for training, validation and testing.
    pub rows: FoldRows,
    /// The mean log ratio of the test rows.
    pub mi_nats: f64,
    /// The standard error of that mean.
    pub standard_error: f64,
    /// The mean log ratio of training rows: far above `mi_nats` means overfitting.
    pub train_mi_nats: f64,
    /// The critics.
    pub members: Vec<MemberFigures>,
}

/// The numbers of rows of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FoldRows {
    /// Training rows.
    pub train: usize,
    /// Rows that decide which parameters are kept.
    pub validation: usize,
    /// Test rows.
    pub test: usize,
}

/// The results of one critic of a fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemberFigures {
    /// The recipe's name.
    pub recipe: String,
    /// Its share in the fold's log ratio.
    pub weight: f64,
    /// The mean of its own log ratio over the test rows; `None` if its weight is 0.
    pub mi_nats: Option<f64>,
    /// The step that its parameters are from.
    pub step: usize,
    /// The objective on the validation rows at that step.
    pub validation: f64,
    /// The learning curve.
    pub curve: Vec<CurvePoint>,
}

/// The share of the objective that critics may gain late in training. If it is more, they would
/// learn more with more steps.
pub(super) const MAX_LATE_GAIN: f64 = 0.03;

/// Returns how much of the best objective on validation rows was gained in the last third of the
/// steps, where the learning rate has fallen to a quarter.
pub(super) fn late_gain(curve: &[CurvePoint], best: f64) -> f64 {
    let last = curve.last().map_or(0, |point| point.step);
    let early = curve.iter().filter(|point| 3 * point.step <= 2 * last);
    let before = early.map(|point| point.validation).fold(f64::NEG_INFINITY, f64::max);
    if before.is_finite() { (best - before).max(0.0) } else { 0.0 }
}

/// The result of a recipe in the race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RaceEntry {
    /// The recipe's name.
    pub recipe: String,
    /// The mean lower bound of the mutual information on validation rows over the folds of the
    /// race, in nats; `None` if it diverged.
    pub validation: Option<f64>,
    /// Whether it was trained on every fold.
    pub chosen: bool,
}

/// Classical estimates of the same data, for comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Baselines {
    /// Canonical correlations of normal scores; `None` unless both sides have a column of numbers
    /// with many values.
    pub gaussian_copula_nats: Option<f64>,
    /// Nearest neighbours of normal scores; `None` unless all columns are continuous and few,
    /// because it breaks down in many dimensions.
    pub ksg_nats: Option<f64>,
}
