//! A trained model: what gives every pair of rows a log density ratio.

use super::inputs::InputMap;
use super::recipe::CriticRecipe;
use crate::critic::{Inputs, PairScorer};
use crate::data::Column;
use crate::objective::Estimator;

/// A trained critic with the maps that make its inputs.
#[derive(Clone, Debug)]
pub struct Member {
    /// How it was made.
    pub recipe: CriticRecipe,
    /// From columns to inputs.
    pub map: InputMap,
    /// The network's parameters.
    pub parameters: Vec<f32>,
    /// Its share in the model's log ratio.
    pub weight: f64,
}

/// The critics of one fold: l = sum of weight * l of each, less an offset.
#[derive(Clone, Debug)]
pub struct FoldModel {
    /// The critics.
    pub members: Vec<Member>,
    /// What makes the mean log ratio of the fold's test rows the estimator's readout of them: 0 for
    /// f-DIME. MINE, SMILE and CPC know the log ratio only up to a constant, which differs from fold
    /// to fold; this takes it out.
    pub offset: f64,
}

impl Member {
    /// Log ratios of pairs of the inputs' rows.
    pub fn log_ratios(
        &self,
        estimator: &Estimator,
        inputs: &Inputs,
        pairs: impl Iterator<Item = (u32, u32)>,
    ) -> Vec<f32> {
        let plan = self.recipe.learner(estimator).critic;
        let mut scores =
            PairScorer::new(&plan, inputs.dims).scores(&self.parameters, inputs, pairs);
        scores.iter_mut().for_each(|score| *score = estimator.link().log_ratio(*score));
        scores
    }
}

impl FoldModel {
    /// Log ratios of these rows of a table, each with itself.
    pub fn log_ratios(
        &self,
        estimator: &Estimator,
        x: &[Column],
        y: &[Column],
        rows: &[u32],
    ) -> Vec<f32> {
        let mut sums = vec![-self.offset as f32; rows.len()];
        for member in &self.members {
            let inputs = member.map.apply(x, y, rows);
            let itself = (0..rows.len() as u32).map(|place| (place, place));
            let ratios = member.log_ratios(estimator, &inputs, itself);
            for (sum, ratio) in sums.iter_mut().zip(ratios) {
                *sum += member.weight as f32 * ratio;
            }
        }
        sums
    }
}
