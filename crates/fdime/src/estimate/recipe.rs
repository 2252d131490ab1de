//! Recipes for critics, and the portfolios of recipes that `auto` chooses from.

use super::plan::Effort;
use super::scaling::{Features, Scaling};
use crate::critic::{CriticKind, CriticPlan};
use crate::nn::{Activation, AdamPlan};
use crate::objective::Estimator;
use crate::pairing::Pairing;
use crate::train::{CriticLearner, LearnerPlan, LearningRateSchedule, Training};
use serde::{Deserialize, Serialize};

/// The scale of initial weights by He et al., sqrt(6) times PyTorch's. Larger initial weights help
/// a critic to learn fine structure.
const HE_SCALE: f64 = 2.449_489_743;

/// The number of rows in a step of an all-pairs objective. It is small, because all pairs of these
/// rows are used.
const ALL_PAIRS_BATCH: usize = 64;

/// The settings with which a critic is trained on finite data, except for its estimator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticRecipe {
    /// A short name that identifies it in results.
    pub name: String,
    /// The inputs of the network, computed from the columns.
    pub features: Features,
    /// The log ratio that the network starts from.
    pub reference: ReferenceKind,
    /// The widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The activation of the hidden layers.
    pub activation: Activation,
    /// The share of hidden activations dropped during training.
    pub dropout: f64,
    /// Decoupled weight decay.
    pub decay: f64,
    /// The highest learning rate; it rises over the first steps and then falls to 0 along a cosine.
    pub learning_rate: f64,
    /// The scale of initial weights: see
    /// [`CriticPlan::initial_scale`](crate::CriticPlan::initial_scale).
    pub initial_scale: f64,
    /// The number of rows in a training step.
    pub batch: usize,
    /// The number of training steps.
    pub steps: usize,
}

/// A log ratio to start from. The network learns the difference from it.
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

impl CriticRecipe {
    /// Returns the recipe that the others are variations of.
    fn base() -> Self {
        CriticRecipe {
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

    /// Returns the recipe for this many training rows: smaller batches if rows are few, so that an
    /// epoch has several, and more steps if there are many rows.
    pub(super) fn sized_for(&self, rows: usize) -> Self {
        const USUAL_ROWS: f64 = 7_000.0;
        let longer = (rows as f64 / USUAL_ROWS).sqrt().clamp(1.0, 3.0);
        CriticRecipe {
            batch: self.batch.min((rows / 4).max(32)),
            steps: (self.steps as f64 * longer) as usize,
            ..self.clone()
        }
    }

    /// Returns the training of this recipe on `rows` training rows.
    pub(super) fn training(&self, estimator: &Estimator, rows: usize, seed: u64) -> Training {
        let learner = self.learner(estimator);
        let max_batch = match learner.pairing {
            Pairing::AllPairs => ALL_PAIRS_BATCH,
            _ => self.batch,
        };
        Training {
            learner: LearnerPlan::Critic(learner),
            batch: max_batch.min(rows),
            optimizer: AdamPlan {
                learning_rate: self.learning_rate,
                decay: self.decay,
                // A shorter memory than usual, because there are only a few hundred steps.
                beta2: 0.99,
                ..AdamPlan::default()
            },
            learning_rate_schedule: LearningRateSchedule::WarmUpAndCosine,
            seed,
        }
    }

    /// Returns the critic of an estimator. Estimators that compare all pairs get the joint critic;
    /// it has the same parameters as the deranged one.
    pub(super) fn learner(&self, estimator: &Estimator) -> CriticLearner {
        let all_pairs = estimator.check_pairing(Pairing::Derangement).is_err();
        let kind = if all_pairs { CriticKind::Joint } else { CriticKind::Deranged };
        CriticLearner {
            estimator: estimator.clone(),
            critic: CriticPlan {
                activation: self.activation,
                initial_scale: self.initial_scale,
                dropout: if all_pairs { 0.0 } else { self.dropout },
                zero_output: true,
                ..CriticPlan::new(kind, &self.hidden)
            },
            pairing: kind.default_pairing(),
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the Gaussian copula alone, without any training.
    pub fn gaussian_copula() -> Self {
        let features = Features { scalings: vec![Scaling::Gaussian], radial: false, waves: 0 };
        CriticRecipe { steps: 0, hidden: vec![1], features, ..CriticRecipe::base() }
            .named("gaussian copula")
    }

    /// Returns the Gaussian with the values' canonical correlations, without any training.
    pub fn cca() -> Self {
        let reference = ReferenceKind::Gaussian;
        CriticRecipe { reference, ..CriticRecipe::gaussian_copula() }
            .named("canonical correlations")
    }
}

/// Recipes and the race between them: all run on the first `race_folds` folds, and the `finalists`
/// best by the held-out objective also run on the other folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portfolio {
    /// The candidates.
    pub recipes: Vec<CriticRecipe>,
    /// The number of folds that all candidates run on.
    pub race_folds: usize,
    /// The number of candidates that run on all folds.
    pub finalists: usize,
}

impl Portfolio {
    /// Returns a portfolio of one recipe.
    pub fn single(recipe: CriticRecipe) -> Self {
        Portfolio { recipes: vec![recipe], race_folds: 0, finalists: 1 }
    }

    /// Returns the portfolio for an effort.
    pub fn new(effort: Effort) -> Self {
        let base = CriticRecipe::base();
        // What each is good at. no-reference: dependence unlike that of any Gaussian; waves:
        // dependence that changes its sign along a column; large-steps: dependence that small steps
        // do not find in time; ranks-and-asinh: tails, which ranks hide.
        let features = |scalings: &[Scaling], waves: usize| Features {
            scalings: scalings.to_vec(),
            radial: true,
            waves,
        };
        let no_reference =
            CriticRecipe { reference: ReferenceKind::None, ..base.clone() }.named("no-reference");
        let waves = CriticRecipe {
            features: features(&[Scaling::Gaussian], 3),
            initial_scale: HE_SCALE,
            ..base.clone()
        }
        .named("waves");
        let large_steps = CriticRecipe { learning_rate: 8e-3, ..base.clone() }.named("large-steps");
        let ranks_and_asinh =
            CriticRecipe { features: features(&[Scaling::Gaussian, Scaling::Asinh], 0), ..base }
                .named("ranks-and-asinh");
        match effort {
            Effort::Quick => {
                let quick = |recipe: &CriticRecipe| CriticRecipe {
                    hidden: vec![96, 96],
                    batch: 256,
                    steps: 300,
                    ..recipe.clone()
                };
                let recipes = vec![quick(&large_steps), quick(&waves)];
                Portfolio { recipes, race_folds: 1, finalists: 1 }
            }
            Effort::Default => {
                let recipes = vec![no_reference, waves, large_steps, ranks_and_asinh];
                Portfolio { recipes, race_folds: 1, finalists: 2 }
            }
            Effort::Max => {
                let scales = [(1.0, "gentle"), (HE_SCALE, "steep")];
                let recipes: Vec<CriticRecipe> =
                    [no_reference, waves, large_steps, ranks_and_asinh]
                        .iter()
                        .flat_map(|recipe| {
                            scales.map(|(initial_scale, start)| {
                                CriticRecipe { initial_scale, ..recipe.clone() }
                                    .named(&format!("{} {start}", recipe.name))
                            })
                        })
                        .collect();
                Portfolio { finalists: recipes.len(), recipes, race_folds: 0 }
            }
        }
    }
}
