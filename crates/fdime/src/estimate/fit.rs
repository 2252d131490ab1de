//! Training one critic on one fold.

use super::inputs::Inputs;
use super::recipe::Recipe;
use crate::critic::{Batch, CriticKind, CriticPlan, PairScorer, Reference};
use crate::engine::Workers;
use crate::error::Result;
use crate::nn::{Adam, AdamPlan};
use crate::objective::Estimator;
use crate::pairing::Pairing;
use crate::random::{Purpose, stream};
use crate::scores::ScoreBlock;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// How often the validation rows are looked at.
const CHECKS: usize = 12;

/// The share of the steps over which the learning rate rises from 0.
const WARM_UP: f64 = 0.05;

/// Marginal pairs for every validation row: more of them make the comparison of steps less noisy.
const VALIDATION_SHIFTS: usize = 8;

/// Rows that an all-pairs objective sees at once. It takes all their pairs, so they are few.
const ALL_PAIRS_BATCH: usize = 64;

/// A point on the learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Training steps made.
    pub step: usize,
    /// The objective's mean over the training batches since the last point; nothing at the first.
    pub train: Option<f64>,
    /// The objective on the validation rows.
    pub validation: f64,
}

/// A trained critic: the parameters that were best on the validation rows.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The parameters.
    pub parameters: Vec<f32>,
    /// The step that they are from.
    pub step: usize,
    /// The objective on the validation rows, there.
    pub validation: f64,
    /// The learning curve.
    pub curve: Vec<CurvePoint>,
}

/// Pairing and critic for an estimator: those that need all pairs get the joint critic. Both have
/// the same parameters, so one [`PairScorer`] serves.
pub(super) fn critic_plan(estimator: &Estimator, recipe: &Recipe) -> (CriticPlan, Pairing) {
    let row_wise = estimator.check_pairing(Pairing::Derangement).is_err();
    let (kind, pairing) = if row_wise {
        (CriticKind::Joint, Pairing::AllPairs)
    } else {
        (CriticKind::Deranged, Pairing::Derangement)
    };
    let mut plan = CriticPlan::new(kind, &recipe.hidden);
    plan.activation = recipe.activation;
    plan.initial_scale = recipe.initial_scale;
    if !row_wise {
        plan.dropout = recipe.dropout;
    }
    (plan, pairing)
}

/// Trains a critic on the first `train` rows of the inputs, and stops it by the others. `tick` is called once for each step and ends the training with an error.
/// Nothing comes back if the objective was never finite.
pub(super) fn fit(
    inputs: &Inputs,
    train: usize,
    recipe: &Recipe,
    estimator: &Estimator,
    seed: u64,
    tick: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Option<Fitted>> {
    let (plan, pairing) = critic_plan(estimator, recipe);
    let most = if pairing == Pairing::AllPairs { ALL_PAIRS_BATCH } else { recipe.batch };
    let rows: Vec<u32> = (0..(inputs.x.len() / inputs.dims.0) as u32).collect();
    let (train, validation) = rows.split_at(train);
    let n = most.min(train.len());
    let mut critic = plan.build(inputs.dims, n, pairing, seed, 1)?;
    let outputs = recipe.hidden.last().map_or(0, |width| width + 1);
    // Whatever the link, a zero score is where it begins; with a reference, l begins as that.
    let (parameters, _) = critic.parameters_and_gradient();
    let from = parameters.len() - outputs;
    parameters[from..].fill(0.0);
    let mut optimizer = Adam::new(
        AdamPlan {
            learning_rate: recipe.learning_rate,
            decay: recipe.decay,
            // A shorter memory than usual: there are only a few hundred steps.
            beta2: 0.99,
            ..AdamPlan::default()
        },
        critic.parameters().len(),
    );
    let mut objective = estimator.objective(pairing.counts(n))?;
    let mut batches = Batches::new(inputs, train, n, pairing, seed);
    let mut scorer = PairScorer::new(&plan, inputs.dims);
    let mut workers = Workers::new(1);
    let mut validate = |parameters: &[f32]| {
        validation_value(inputs, validation, estimator, pairing, parameters, &mut scorer)
    };
    let first = validate(critic.parameters())?;
    let mut best = Fitted {
        parameters: critic.parameters().to_vec(),
        step: 0,
        validation: first,
        curve: vec![CurvePoint { step: 0, train: None, validation: first }],
    };
    let (mut sum, mut since) = (0.0, 0);
    for step in 1..=recipe.steps {
        tick()?;
        let share = learning_rate_share(step as f64 / recipe.steps as f64);
        optimizer.set_learning_rate(recipe.learning_rate * share);
        let value = critic.pass(batches.next()?, &mut *objective, &mut workers);
        if !value.is_finite() {
            break;
        }
        let (parameters, gradient) = critic.parameters_and_gradient();
        optimizer.ascend(parameters, gradient.0, &mut workers);
        (sum, since) = (sum + value, since + 1);
        if step * CHECKS / recipe.steps > (step - 1) * CHECKS / recipe.steps || step == recipe.steps
        {
            let validation = validate(critic.parameters())?;
            best.curve.push(CurvePoint { step, train: Some(sum / f64::from(since)), validation });
            (sum, since) = (0.0, 0);
            if validation.is_finite()
                && (validation > best.validation || !best.validation.is_finite())
            {
                best.validation = validation;
                best.step = step;
                best.parameters.copy_from_slice(critic.parameters());
            }
        }
    }
    Ok(best.validation.is_finite().then_some(best))
}

/// A straight rise, then a half cosine down to 0.
fn learning_rate_share(progress: f64) -> f64 {
    if progress < WARM_UP {
        return progress / WARM_UP;
    }
    let falling = (progress - WARM_UP) / (1.0 - WARM_UP);
    0.5 * (1.0 + (std::f64::consts::PI * falling).cos())
}

/// Batches of training rows: every row once in an epoch, in random order.
struct Batches<'a> {
    inputs: &'a Inputs,
    rows: Vec<u32>,
    at: usize,
    pairing: Pairing,
    seed: u64,
    count: u64,
    batch: Batch,
}

impl<'a> Batches<'a> {
    fn new(inputs: &'a Inputs, rows: &[u32], n: usize, pairing: Pairing, seed: u64) -> Self {
        let batch = Batch {
            n,
            dims: inputs.dims,
            x: vec![0.0; n * inputs.dims.0],
            y: vec![0.0; n * inputs.dims.1],
            partner: Vec::with_capacity(n),
            reference: Reference { width: inputs.reference.width, ..Reference::default() },
        };
        Batches { inputs, rows: rows.to_vec(), at: rows.len(), pairing, seed, count: 0, batch }
    }

    fn next(&mut self) -> Result<&Batch> {
        let n = self.batch.n;
        if self.at + n > self.rows.len() {
            self.rows.shuffle(&mut stream(self.seed, Purpose::Rows, self.count, 0));
            self.at = 0;
        }
        let rows = &self.rows[self.at..self.at + n];
        self.at += n;
        let inputs = self.inputs;
        gather(&inputs.x, inputs.dims.0, rows, &mut self.batch.x);
        gather(&inputs.y, inputs.dims.1, rows, &mut self.batch.y);
        let width = inputs.reference.width;
        if width > 0 {
            self.batch.reference.x.resize(n * width, 0.0);
            self.batch.reference.y.resize(n * width, 0.0);
            gather(&inputs.reference.x, width, rows, &mut self.batch.reference.x);
            gather(&inputs.reference.y, width, rows, &mut self.batch.reference.y);
        }
        let mut rng = stream(self.seed, Purpose::Pairing, self.count, 0);
        self.count += 1;
        self.pairing.fill(n, &mut rng, &mut self.batch.partner)?;
        Ok(&self.batch)
    }
}

/// Copies rows of `width` numbers.
fn gather(from: &[f32], width: usize, rows: &[u32], to: &mut [f32]) {
    for (to, &row) in to.chunks_exact_mut(width).zip(rows) {
        to.copy_from_slice(&from[row as usize * width..][..width]);
    }
}

/// The validation rows' own pairs, then pairs of them that were put together: several for each.
fn validation_pairs(rows: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let n = rows.len();
    let shifts = VALIDATION_SHIFTS.min(n - 1);
    (0..=shifts).flat_map(move |k| {
        let shift = n * k / (shifts + 1);
        (0..n).map(move |i| (rows[i], rows[(i + shift) % n]))
    })
}

/// The estimator's objective on the validation rows.
fn validation_value(
    inputs: &Inputs,
    rows: &[u32],
    estimator: &Estimator,
    pairing: Pairing,
    parameters: &[f32],
    scorer: &mut PairScorer,
) -> Result<f64> {
    if pairing == Pairing::AllPairs {
        let blocks = rows.chunks(ALL_PAIRS_BATCH).filter(|block| block.len() > 1);
        let (mut sum, mut count) = (0.0, 0);
        for block in blocks {
            let pairs = block.iter().flat_map(|&i| block.iter().map(move |&j| (i, j)));
            let matrix = scorer.scores(parameters, inputs, pairs);
            let n = block.len();
            let block = ScoreBlock::AllPairs { first: 0, n, matrix };
            sum += estimator.value_and_gradient(&block)?.0 * n as f64;
            count += n;
        }
        return Ok(sum / count as f64);
    }
    let mut joint = scorer.scores(parameters, inputs, validation_pairs(rows));
    let marginal = joint.split_off(rows.len());
    Ok(estimator.value_and_gradient(&ScoreBlock::Paired { first: 0, joint, marginal })?.0)
}
