//! How a critic is made, and the portfolios that `auto` chooses from.

use super::plan::Effort;
use super::scaling::{Features, Scaling};
use crate::nn::Activation;
use serde::{Deserialize, Serialize};

/// Initial weights after He et al., sqrt(6) times PyTorch's: a steep start that finds fine structure.
const HE_SCALE: f64 = 2.449_489_743;

/// Everything about a critic on finite data but its estimator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A short name.
    pub name: String,
    /// What columns become.
    pub features: Features,
    /// The log ratio that the network starts from.
    pub reference: ReferenceKind,
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
    /// How large weights start: see [`CriticPlan::initial_scale`](crate::CriticPlan::initial_scale).
    pub initial_scale: f64,
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
            features: Features { scalings: vec![Scaling::Gaussian], radial: true, waves: 0 },
            reference: ReferenceKind::GaussianCopula,
            hidden: vec![128, 128, 128],
            activation: Activation::Elu,
            dropout: 0.1,
            decay: 0.05,
            learning_rate: 4e-3,
            initial_scale: 1.0,
            batch: 512,
            steps: 600,
        }
    }

    /// The same for this many training rows: smaller batches when rows are few, so that an epoch
    /// has several, and more steps when there are many to learn from.
    pub(super) fn sized_for(&self, rows: usize) -> Self {
        const USUAL_ROWS: f64 = 7_000.0;
        let longer = (rows as f64 / USUAL_ROWS).sqrt().clamp(1.0, 3.0);
        Recipe {
            batch: self.batch.min((rows / 4).max(32)),
            steps: (self.steps as f64 * longer) as usize,
            ..self.clone()
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// No training at all: the Gaussian copula itself.
    pub fn gaussian_copula() -> Self {
        let features = Features { scalings: vec![Scaling::Gaussian], radial: false, waves: 0 };
        Recipe { steps: 0, hidden: vec![1], features, ..Recipe::base() }.named("gaussian copula")
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
}

impl Portfolio {
    /// One recipe and nothing to choose.
    pub fn single(recipe: Recipe) -> Self {
        Portfolio { recipes: vec![recipe], race_folds: 0, finalists: 1 }
    }

    /// The portfolio for an effort.
    pub fn new(effort: Effort) -> Self {
        let base = Recipe::base();
        // What each is for. free: a dependence that no Gaussian resembles; waves: one that changes
        // sign along a column; fast: one that small steps do not find in time; twofold: tails, which
        // ranks hide.
        let features = |scalings: &[Scaling], waves: usize| Features {
            scalings: scalings.to_vec(),
            radial: true,
            waves,
        };
        let free = Recipe { reference: ReferenceKind::None, ..base.clone() }.named("free");
        let waves = Recipe {
            features: features(&[Scaling::Gaussian], 3),
            initial_scale: HE_SCALE,
            ..base.clone()
        }
        .named("waves");
        let fast = Recipe { learning_rate: 8e-3, ..base.clone() }.named("fast");
        let twofold =
            Recipe { features: features(&[Scaling::Gaussian, Scaling::Asinh], 0), ..base }
                .named("twofold");
        match effort {
            Effort::Quick => {
                let quick = |recipe: &Recipe| Recipe {
                    hidden: vec![96, 96],
                    batch: 256,
                    steps: 300,
                    ..recipe.clone()
                };
                let recipes = vec![quick(&fast), quick(&waves)];
                Portfolio { recipes, race_folds: 1, finalists: 1 }
            }
            Effort::Default => {
                Portfolio { recipes: vec![free, waves, fast, twofold], race_folds: 1, finalists: 2 }
            }
            Effort::Max => {
                let scales = [(1.0, "gentle"), (HE_SCALE, "steep")];
                let recipes: Vec<Recipe> = [free, waves, fast, twofold]
                    .iter()
                    .flat_map(|recipe| {
                        scales.map(|(initial_scale, start)| {
                            Recipe { initial_scale, ..recipe.clone() }
                                .named(&format!("{} {start}", recipe.name))
                        })
                    })
                    .collect();
                Portfolio { finalists: recipes.len(), recipes, race_folds: 0 }
            }
        }
    }
}
