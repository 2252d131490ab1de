//! Recipes for critics, and the portfolios of recipes that `auto` chooses from.

use super::plan::Effort;
use super::scaling::{Features, Scaling};
use crate::critic::{CriticKind, CriticPlan};
use crate::nn::{Activation, AdamPlan};
use crate::objective::{Estimator, Readout};
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
    /// The kind of critic: `Deranged`, one network over pairs, trained with the estimator of the
    /// plan; or `Separable`, a network of x and a network of y, trained with symmetric InfoNCE on
    /// all pairs of a batch.
    pub critic: CriticKind,
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
    /// The activation of all recipes.
    pub const ACTIVATION: Activation = Activation::Elu;

    /// Returns the recipe that the others are variations of.
    fn base() -> Self {
        CriticRecipe {
            name: "copula".into(),
            features: Features { scalings: vec![Scaling::Gaussian], radial: true, waves: 0 },
            reference: ReferenceKind::GaussianCopula,
            critic: CriticKind::Deranged,
            hidden: vec![128, 128, 128],
            activation: CriticRecipe::ACTIVATION,
            dropout: 0.1,
            decay: 0.05,
            learning_rate: 8e-3,
            initial_scale: 1.0,
            batch: 512,
            steps: USUAL_STEPS,
        }
    }

    /// Returns the recipe for this many training rows: smaller batches if rows are few, so that an
    /// epoch has several, and more steps if there are many rows. The separable critic needs more
    /// dropout if rows are few.
    pub(super) fn sized_for(&self, rows: usize) -> Self {
        const MAX_DROPOUT: f64 = 0.4;
        let dropout = match self.critic {
            CriticKind::Separable => {
                let more = (USUAL_ROWS / rows.max(1) as f64).sqrt().max(1.0);
                (self.dropout * more).min(MAX_DROPOUT)
            }
            _ => self.dropout,
        };
        CriticRecipe {
            batch: self.batch.min((rows / 4).max(32)),
            steps: (self.steps as f64 * length(rows)) as usize,
            dropout,
            ..self.clone()
        }
    }

    /// Returns the training of this recipe on `rows` training rows.
    pub(super) fn training(&self, estimator: &Estimator, rows: usize, seed: u64) -> Training {
        let learner = self.learner(estimator);
        let max_batch = match learner.critic.kind {
            CriticKind::Joint => ALL_PAIRS_BATCH,
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
        let (kind, estimator) = match self.critic {
            // InfoNCE's own readout would cost as much as its gradient, in every step, for nothing.
            CriticKind::Separable => {
                (CriticKind::Separable, Estimator::symmetric_cpc().with_readout(Readout::Plain))
            }
            _ if all_pairs => (CriticKind::Joint, estimator.clone()),
            _ => (CriticKind::Deranged, estimator.clone()),
        };
        CriticLearner {
            estimator,
            critic: CriticPlan {
                activation: self.activation,
                initial_scale: self.initial_scale,
                dropout: if kind == CriticKind::Joint { 0.0 } else { self.dropout },
                zero_output: true,
                ..CriticPlan::new(kind, &self.hidden)
            },
            pairing: kind.default_pairing(),
        }
    }

    /// Returns the number of parameters of the critic for these numbers of inputs, `None` if it is
    /// too large.
    pub(super) fn parameter_count(&self, (x_dim, y_dim): (usize, usize)) -> Option<usize> {
        let network = |inputs: usize, outputs: usize| {
            let hidden = self.hidden.iter().copied();
            let layers: Vec<usize> = [inputs].into_iter().chain(hidden).chain([outputs]).collect();
            let sizes = layers.windows(2).map(|pair| pair[0].checked_add(1)?.checked_mul(pair[1]));
            sizes.sum::<Option<usize>>()
        };
        match self.critic {
            CriticKind::Separable => {
                let embedding = CriticPlan::EMBEDDING;
                network(x_dim, embedding)?.checked_add(network(y_dim, embedding)?)
            }
            _ => network(x_dim.checked_add(y_dim)?, 1),
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

/// The usual number of steps of a training.
const USUAL_STEPS: usize = 600;

/// The number of training rows that the lengths of recipes are meant for.
const USUAL_ROWS: f64 = 7_000.0;

/// Returns the length of trainings on this many rows, relative to the usual length. With few rows,
/// critics overfit before long trainings end.
fn length(rows: usize) -> f64 {
    let relative = rows as f64 / USUAL_ROWS;
    if relative < 1.0 { relative.powf(0.35).max(0.45) } else { relative.sqrt().min(3.0) }
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

    /// Returns how much shorter the longest training is than usual; 1 for none.
    pub(super) fn shortness(&self) -> f64 {
        let steps = self.recipes.iter().map(|recipe| recipe.steps).max().unwrap_or(0);
        if steps == 0 { 1.0 } else { (USUAL_STEPS as f64 / steps as f64).max(1.0) }
    }

    /// Returns the number of recipes that run on all of `folds` folds of this many training rows.
    /// Where trainings are short because rows are few, the time that is saved goes to more
    /// finalists: the race is then decided by few validation rows.
    pub(super) fn finalists_for(&self, folds: usize, rows: usize) -> usize {
        let (recipes, race_folds) = (self.recipes.len(), self.race_folds.clamp(1, folds));
        if self.finalists >= recipes || race_folds == folds {
            return recipes.min(self.finalists.max(1));
        }
        let (race, later) = ((race_folds * recipes) as f64, (folds - race_folds) as f64);
        let usual = race + self.finalists.max(1) as f64 * later;
        let affordable = (usual / length(rows).min(1.0) - race) / later;
        (affordable.round() as usize).clamp(1, recipes)
    }

    /// Returns the portfolio for an effort.
    pub fn new(effort: Effort) -> Self {
        let base = CriticRecipe::base();
        // What each is good at. large-steps: dependence that is close to that of a Gaussian copula;
        // no-reference: dependence unlike that; waves: dependence that changes its sign along a
        // column; separable: dependence between functions of many columns, from few rows.
        let large_steps = base.clone().named("large-steps");
        let without_reference = |recipe: &CriticRecipe| CriticRecipe {
            reference: ReferenceKind::None,
            ..recipe.clone()
        };
        let no_reference = without_reference(&base).named("no-reference");
        let waves = CriticRecipe {
            features: Features { waves: 3, ..base.features.clone() },
            initial_scale: HE_SCALE,
            learning_rate: 4e-3,
            ..base.clone()
        }
        .named("waves");
        // Smaller batches, because all pairs of a batch are used.
        let separable =
            CriticRecipe { critic: CriticKind::Separable, batch: 384, ..base }.named("separable");
        let separable_no_reference = without_reference(&separable).named("separable-no-reference");
        match effort {
            Effort::Quick => {
                let quick = |recipe: &CriticRecipe, hidden: &[usize]| CriticRecipe {
                    hidden: hidden.to_vec(),
                    batch: 256,
                    steps: USUAL_STEPS / 2,
                    ..recipe.clone()
                };
                // Without a reference there is more to learn.
                let recipes = vec![
                    quick(&large_steps, &[96, 96]),
                    quick(&waves, &[96, 96]),
                    quick(&no_reference, &[96, 96, 96]),
                ];
                Portfolio { recipes, race_folds: 1, finalists: 1 }
            }
            Effort::Default => {
                let recipes =
                    vec![no_reference, waves, large_steps, separable, separable_no_reference];
                Portfolio { recipes, race_folds: 1, finalists: 2 }
            }
            Effort::Max => {
                let scales = [(1.0, "gentle"), (HE_SCALE, "steep")];
                let mut recipes: Vec<CriticRecipe> = [no_reference, waves, large_steps]
                    .iter()
                    .flat_map(|recipe| {
                        scales.map(|(initial_scale, start)| {
                            CriticRecipe { initial_scale, ..recipe.clone() }
                                .named(&format!("{} {start}", recipe.name))
                        })
                    })
                    .collect();
                recipes.extend([separable, separable_no_reference]);
                Portfolio { finalists: recipes.len(), recipes, race_folds: 0 }
            }
        }
    }
}
