//! How a critic is made, and the portfolios that `auto` chooses from.

use super::plan::Effort;
use super::scaling::Scaling;
use crate::nn::Activation;
use serde::{Deserialize, Serialize};

/// Everything about a critic on finite data but its estimator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A short name.
    pub name: String,
    /// How continuous columns are scaled.
    pub scaling: Scaling,
    /// The log ratio that the network starts from.
    pub reference: ReferenceKind,
    /// Whether the radii of x and y are inputs.
    pub radial: bool,
    /// The widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Their activation.
    pub activation: Activation,
    /// The share of hidden activations dropped while training.
    pub dropout: f64,
    /// Decoupled weight decay.
    pub decay: f64,
    /// The learning rate at the beginning; it falls to 0 along a cosine.
    pub learning_rate: f64,
    /// Rows in a training step.
    pub batch: usize,
    /// Training steps.
    pub steps: usize,
}

/// A log ratio to start from: the network learns what it leaves over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceKind {
    /// None: the network learns everything.
    None,
    /// The Gaussian with the canonical correlations of the normal scores.
    GaussianCopula,
    /// The Gaussian with the canonical correlations of the values.
    Gaussian,
}

impl Recipe {
    /// The recipe that the others are variations of.
    fn base() -> Self {
        Recipe {
            name: "copula".into(),
            scaling: Scaling::Gaussian,
            reference: ReferenceKind::GaussianCopula,
            radial: true,
            hidden: vec![256, 256, 256],
            activation: Activation::Relu,
            dropout: 0.1,
            decay: 0.05,
            learning_rate: 1e-3,
            batch: 512,
            steps: 300,
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// No training at all: the Gaussian copula itself.
    pub fn gaussian_copula() -> Self {
        Recipe { steps: 0, hidden: vec![1], radial: false, ..Recipe::base() }.named("gaussian copula")
    }

    /// No training at all: the Gaussian with the values' canonical correlations.
    pub fn cca() -> Self {
        let reference = ReferenceKind::Gaussian;
        Recipe { reference, ..Recipe::gaussian_copula() }.named("canonical correlations")
    }
}

/// Recipes, and how they are chosen from: all of them run on the first `race_folds` folds, and the
/// `finalists` best by held-out loss on the other folds as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portfolio {
    /// The candidates.
    pub recipes: Vec<Recipe>,
    /// Folds that all candidates run on.
    pub race_folds: usize,
    /// Candidates that run on all folds.
    pub finalists: usize,
    /// Critics of each recipe and fold, which differ in their seed.
    pub seeds: usize,
}

impl Portfolio {
    /// One recipe and nothing to choose.
    pub fn single(recipe: Recipe) -> Self {
        Portfolio { recipes: vec![recipe], race_folds: 0, finalists: 1, seeds: 1 }
    }

    /// The portfolio for an effort.
    pub fn new(_effort: Effort) -> Self {
        let base = Recipe::base();
        let small = Recipe { hidden: vec![128; 3], ..base.clone() }.named("small copula");
        let free = Recipe {
            reference: ReferenceKind::None,
            scaling: Scaling::Asinh,
            ..base.clone()
        }
        .named("asinh");
        Portfolio { recipes: vec![base, small, free], race_folds: 2, finalists: 1, seeds: 1 }
    }
}
